"""Spans of puts and runs, against the real server."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobcentre import App, JobFailed
from jobcentre.otel import instrument
from jobcentre.pytest_plugin import running_worker
from jobcentre.server import PATIENCE, Server


def test_run_is_a_child_of_its_put(jobcentre_server: Server) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    app = App(jobcentre_server.url)

    @app.task(queue="spans", keep_result=60)
    async def inner() -> str:
        await asyncio.sleep(0)
        return format(trace.get_current_span().get_span_context().trace_id, "x")

    @app.task(queue="spans", keep_result=60, retry=1)
    def broken() -> None:
        raise ValueError("no")

    instrument(app)
    instrument(app)
    with running_worker(app):
        with trace.get_tracer("test").start_as_current_span("request") as request:
            job = inner.put()
            failing = broken.put()
        assert job.result(PATIENCE) == format(request.get_span_context().trace_id, "x")
        with pytest.raises(JobFailed):
            failing.result(PATIENCE)
    app.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert len(exporter.get_finished_spans()) == 5
    for child, parent in (("put inner", "request"), ("run inner", "put inner")):
        context = spans[parent].get_span_context()
        found = spans[child].parent
        assert context is not None and found is not None and found.span_id == context.span_id
    assert not spans["run broken"].status.is_ok
    assert (spans["run inner"].attributes or {})["messaging.message.id"] == str(job.id)
