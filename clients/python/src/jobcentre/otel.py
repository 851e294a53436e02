"""OpenTelemetry: a span for each put and each run, the run as a child of the put.

Needs opentelemetry-api (`pip install jobcentre[otel]`): `jobcentre.otel.instrument(app)`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Mapping

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

from .app import App, Hook
from .context import Context


class TracingHook(Hook):
    """Writes the trace context to the headers of a message, and goes on with it in the run."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("jobcentre")

    @contextlib.contextmanager
    def put(self, queue: str, message: Dict[str, Any]) -> Iterator[None]:
        attributes = {
            "messaging.system": "jobcentre",
            "messaging.operation.type": "send",
            "messaging.destination.name": queue,
        }
        name = f"put {message['task']}"
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=attributes
        ):
            propagate.inject(message.setdefault("headers", {}))
            yield

    @contextlib.contextmanager
    def run(self, context: Context, message: Mapping[str, Any]) -> Iterator[None]:
        attributes = {
            "messaging.system": "jobcentre",
            "messaging.operation.type": "process",
            "messaging.destination.name": context.queue,
            "messaging.message.id": str(context.id),
        }
        headers = message.get("headers")
        parent = propagate.extract(headers if isinstance(headers, dict) else {})
        # An exception of the task is recorded, and makes the status an error.
        with self._tracer.start_as_current_span(
            f"run {context.task}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes
        ):
            yield


def instrument(app: App) -> None:
    """Once for each app, where its tasks are: workers and their processes import it there."""
    if not any(isinstance(hook, TracingHook) for hook in app.hooks):
        app.hooks.append(TracingHook())
