"""Tasks: what a call becomes, and apps in memory."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, List, Tuple

import pytest

from jobcentre import (
    App,
    Context,
    DuplicateKey,
    JobcentreError,
    JobFailed,
    JobGone,
    NoRetry,
    RequestTimeout,
    Retry,
)
from jobcentre.pytest_plugin import running_worker
from jobcentre.server import PATIENCE, Server

app = App()
seen: List[Tuple[Any, ...]] = []


@app.task(queue="mail", pri=5, ttr=30, retry=Retry(3, base=10), unique=lambda to, **_: f"mail:{to}")
def send(to: str, body: str = "") -> str:
    """Sends."""
    seen.append((to, body))
    if body == "fail":
        raise OSError("no")
    if body == "never":
        raise NoRetry("never")
    return f"sent to {to}"


@app.task(keep_result=60, context=True)
async def double(ctx: Context, number: int) -> Tuple[int, int]:
    ctx.progress(0.5)
    await asyncio.sleep(0)
    return number, 2 * number


@app.task()
async def put_another(number: int) -> None:
    if number:
        await put_another.aput(number - 1)


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()


def test_call_is_a_call() -> None:
    assert send("ann", body="hi") == "sent to ann"
    assert (send.__name__, send.__doc__, send.name) == ("send", "Sends.", "send")
    assert asyncio.run(put_another(0)) is None
    with pytest.raises(TypeError, match="context"):
        _ = double(1)


def test_put_says_what_the_task_says() -> None:
    request = send.call("ann", body="hi").request
    assert request == {
        "request": "put",
        "queue": "mail",
        "pri": 5,
        "ttr": 30_000,
        "max_attempts": 3,
        "key": "mail:ann",
        "backoff": {"kind": "exponential", "first_ms": 10_000, "max_ms": 3_600_000, "jitter": 0.2},
        "job": {"task": "send", "args": ["ann"], "kwargs": {"body": "hi"}},
    }


def test_options_change_a_copy() -> None:
    later = send.options(delay=60, pri=9, queue="other", retry=Retry(1), key="own", key_ttl=5)
    request = later.call("ann").request
    found = [request[name] for name in ("delay", "pri", "queue", "max_attempts", "key", "key_ttl")]
    assert found == [60_000, 9, "other", 1, "own", 5000]
    assert send.call("ann").request["queue"] == "mail"
    with pytest.raises(TypeError, match="prio"):
        send.options(prio=1)  # type: ignore[call-arg]  # pyright: ignore


def test_wrong_arguments_are_refused_at_the_put() -> None:
    with pytest.raises(TypeError, match="send: "):
        send.put("ann", "hi", "more")  # type: ignore[call-arg]  # pyright: ignore
    with pytest.raises(TypeError):
        send.put_many([("ann", "hi", "more")])
    with app.testing(), pytest.raises(TypeError):
        send.put(object())  # type: ignore[arg-type]  # pyright: ignore


def test_names_are_unique_and_coroutines_run_in_no_process() -> None:
    other = App()

    @other.task()
    def one() -> None: ...

    with pytest.raises(ValueError, match="'one'"):

        @other.task(name="one")
        def two() -> None: ...

    with pytest.raises(TypeError, match="process"):

        @other.task(process=True)
        async def three() -> None: ...


def test_memory_keeps_and_runs() -> None:
    with app.testing() as jobs:
        job = send.put("ann", "hi")
        assert job.queue == "mail" and not job.duplicate
        assert send.put("ann", "again").duplicate
        assert [(it.task, it.args) for it in jobs] == [("send", ["ann", "hi"])]
        assert app.testing.jobs is jobs and len(jobs) == 1 and not seen
        assert jobs.run() == 1 and seen == [("ann", "hi")]
        assert jobs[0].state == "completed"
        assert not send.put("ann").duplicate
        with pytest.raises(JobGone, match="keep_result"):
            job.result()
    with pytest.raises(JobcentreError):
        app.testing.jobs


def test_memory_orders_delays_and_retries() -> None:
    with app.testing() as jobs:
        send.options(delay=5).put("later")
        send.options(pri=1).put("last")
        send.put("first")
        job = send.put("bob", "fail")
        jobs.run()
        assert seen == [("first", ""), ("bob", "fail"), ("last", "")]
        assert jobs.advance(9.9) == 1 and seen[-1] == ("later", "")
        assert jobs.advance(0.1) == 1 and seen[-1] == ("bob", "fail")
        assert jobs.advance(3600) == 1
        with pytest.raises(JobFailed, match="OSError: no"):
            job.result()
        assert (job.info() or {})["attempts"] == 3
        never = send.put("eve", "never")
        with pytest.raises(JobFailed, match="NoRetry"):
            never.result()


def test_memory_cancels_rejects_and_replaces() -> None:
    with app.testing() as jobs:
        job = send.put("ann")
        with pytest.raises(DuplicateKey):
            send.options(on_duplicate="reject").put("ann")
        send.options(on_duplicate="replace").put("ann", "new")
        assert jobs[0].args == ["ann", "new"]
        assert job.cancel() and not job.cancel() and job.info() is None
        with pytest.raises(JobGone):
            job.result()
        with pytest.raises(RequestTimeout):
            send.options(delay=5, keep_result=1).put("bob").result()
        assert not seen


def test_memory_of_coroutines() -> None:
    with app.testing() as jobs:
        # As it arrives: JSON has no tuples.
        result: object = double.put(4).result()
        assert result == [4, 8]
        assert jobs[0].progress == [(0.5, None)]
        put_another.put(3)
        assert jobs.run() == 4

    async def main() -> Any:
        with app.testing():
            return await (await double.aput(1)).aresult()

    assert asyncio.run(main()) == [1, 2]


def test_inline_runs_at_once_and_raises() -> None:
    with app.testing(inline=True) as jobs:
        send.put("ann", "hi")
        assert seen == [("ann", "hi")] and jobs[0].state == "completed"
        with pytest.raises(OSError, match="no"):
            send.put("bob", "fail")
        send.options(delay=60).put("later")
        assert len(seen) == 2


def test_duplicate_of_one_put_is_its_own_error(jobcentre_url: str) -> None:
    fresh = App()

    @fresh.task(unique=lambda: "k", on_duplicate="reject", queue="duplicates")
    def once() -> None: ...

    job = once.put()
    with pytest.raises(DuplicateKey) as caught:
        once.put()
    assert caught.value.id == job.id
    fresh.close()


def test_logs_name_the_job(jobcentre_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    fresh = App(jobcentre_server.url)

    @fresh.task(queue="logs", retry=1, keep_result=60)
    def broken() -> None:
        raise ValueError("why")

    caplog.set_level(logging.INFO, "jobcentre")
    with running_worker(fresh):
        job = broken.put()
        with pytest.raises(JobFailed):
            job.result(PATIENCE)
    fresh.close()
    texts = [record.getMessage() for record in caplog.records]
    assert f"job {job.id}: broken has failed: ValueError: why" in texts
    assert any(text.startswith("stopped: 0 finished, 1 failed") for text in texts)
