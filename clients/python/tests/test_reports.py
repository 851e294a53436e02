"""Reports that the server refuses, and exceptions where none is expected: a run ends, whatever
comes, its slot is free, and its job does not stay reserved."""

from __future__ import annotations

import asyncio
import decimal
import logging
import math
import os
import signal
import sys
import time
from typing import Any, Callable, Iterator, List, Optional

import pytest
import worker_tasks as tasks

from jobcentre import (
    App,
    AsyncClient,
    Client,
    Context,
    Job,
    JobFailed,
    NotHeld,
    Retry,
    RetryIn,
    Worker,
    errors,
    requests,
)
from jobcentre.protocol import Deadline
from jobcentre.pytest_plugin import running_worker
from jobcentre.retry import failure_of
from jobcentre.server import PATIENCE, Server


@pytest.fixture
def app(jobcentre_url: str) -> Iterator[App]:
    app = App(jobcentre_url)
    yield app
    app.close()


class Odd(BaseException):
    """Neither an Exception nor one that ends the loop."""


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


class Unset(RetryIn):
    def __init__(self) -> None:
        pass


def broken(kind: str) -> Any:
    """Returns or raises what cannot be reported as it is."""
    loop: List[Any] = []
    loop.append(loop)
    results = {"large": "x" * 3_000_000, "loop": loop, "nan": math.nan, "no-json": object()}
    if kind in results:
        return results[kind]
    late = RetryIn(1)
    late.seconds = math.nan
    raise {
        "long": ValueError("y" * 3_000_000),
        "half": ValueError("\ud800\0"),
        "odd": Odd("odd"),
        "exit": SystemExit(3),
        "mute": Mute(),
        "far": RetryIn(1e12),
        "late": late,
    }[kind]


EXPECTED = {
    "large": r"ResultRefused: .* has 30000\d\d bytes: the line is longer than 1048576 bytes",
    "loop": "RecursionError",
    "nan": "ValueError",
    "no-json": "TypeError",
    "long": r"ValueError: y+\.\.\. \(3000000 characters\)",
    "half": "ValueError: \ufffd\0",
    "odd": "Odd: odd",
    "exit": "SystemExit: 3",
    "mute": "Mute: .*cannot be had",
    "far": "ReportRefused: .*'delay'.* RetryIn: again in 1e\\+12 s",
    "late": "ValueError: its worker can make no report",
}
#: Those that fail for good at once, though two attempts are permitted.
FOR_GOOD = {"large", "loop", "nan", "no-json", "odd", "exit", "far"}
FAST = Retry(2, base=0.01, most=0.05)


@pytest.mark.parametrize("mode", ["coroutine", "thread"])
def test_run_ends_whatever_it_gives(app: App, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(queue=f"broken-{mode}", retry=FAST, keep_result=60)
    async def coroutine(kind: str) -> Any:
        return broken(kind)

    @app.task(queue=f"broken-{mode}", retry=FAST, keep_result=60)
    def thread(kind: str) -> Any:
        return broken(kind)

    task: Any = coroutine if mode == "coroutine" else thread
    # One slot: the next job shows that it is free.
    with running_worker(app, [f"broken-{mode}"], concurrency=1) as worker:
        for kind, words in EXPECTED.items():
            job = task.put(kind)
            with pytest.raises(JobFailed, match=words):
                job.result(PATIENCE)
            attempts = (job.info() or {})["attempts"]
            assert attempts == (1 if kind in FOR_GOOD else 2), kind
    assert not worker.runs
    stats = app.client.stats(f"broken-{mode}")
    assert stats is not None and stats["counts"]["reserved"] == 0
    assert all(len(record.getMessage()) < 20_000 for record in caplog.records)
    for record in caplog.records:
        if record.exc_info:
            assert len(logging.Formatter().formatException(record.exc_info)) < 20_000


def test_process_gives_what_its_worker_cannot_read(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.app, "url", app.url)
    tasks.app._client = None
    with running_worker(tasks.app, ["processes"], concurrency=1, processes=1):
        job = tasks.local_class.put()
        assert job.result(PATIENCE) == {"a": [1, 2]}
        for kind, words in (("loop", "RecursionError"), ("long", r"\(3000000 characters\)")):
            with pytest.raises(JobFailed, match=words):
                tasks.broken_elsewhere.put(kind).result(PATIENCE)
        assert tasks.local_class.put().result(PATIENCE) == {"a": [1, 2]}
    tasks.app.close()
    tasks.app._client = None


def test_process_that_has_died_without_a_job_costs_no_attempt(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.app, "url", app.url)
    tasks.app._client = None
    with running_worker(tasks.app, ["default"], concurrency=1, processes=1) as worker:
        _, pid, _ = tasks.add_elsewhere.put(1).result(PATIENCE)
        os.kill(pid, signal.SIGKILL)
        worker.processes._idle[0].process.join(PATIENCE)
        total, other, attempt = tasks.add_elsewhere.put(1).result(PATIENCE)
        assert (total, attempt) == (2, 1) and other != pid
    tasks.app.close()
    tasks.app._client = None


def test_progress_of_threads_is_not_lost(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told while the loop sends what was told before is sent, too."""
    progress = requests.progress

    def slow(id: int, part: float, message: Optional[str] = None) -> Any:
        if part == 1:
            time.sleep(0.002)
        return progress(id, part, message)

    monkeypatch.setattr(requests, "progress", slow)

    @app.task(queue="told", keep_result=60, context=True)
    def tell(ctx: Context) -> bool:
        for step in range(50):
            ctx.progress(step / 50)
            ctx.progress(1)
            deadline = Deadline(PATIENCE)
            while (app.client.peek(ctx.id) or {})["progress"] != 1:
                if deadline.is_over():
                    return False
        return True

    with running_worker(app, concurrency=1):
        assert tell.put().result(PATIENCE) is True


def test_negative_time_is_at_once(app: App) -> None:
    @app.task(queue="at-once", retry=Retry(3, base=600), keep_result=60, context=True)
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise RetryIn(-5)
        return ctx.attempt

    assert RetryIn(-5).seconds == 0 and failure_of(Unset(), Retry()).delay == 0
    for seconds in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="finite"):
            RetryIn(seconds)
    with running_worker(app, concurrency=1):
        assert again.put().result(PATIENCE) == 2
    with app.testing():
        assert again.put().result() == 2


def test_thread_that_ends_with_its_timeout_frees_its_slot(app: App) -> None:
    """It ends between the report and the answer to it."""

    @app.task(queue="ends", timeout=0.01, retry=1, keep_result=60, context=True)
    def wait(ctx: Context) -> None:
        while not ctx.cancelled:
            pass

    with running_worker(app, concurrency=1):
        for _ in range(10):
            with pytest.raises(JobFailed, match="Timeout"):
                wait.put().result(PATIENCE)


def test_refused_progress_does_not_end_the_run(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = requests.progress

    def half_wrong(id: int, part: float, message: Optional[str] = None) -> Any:
        return {**progress(id, part, message), **({"no-field": 1} if part == 0.25 else {})}

    @app.task(queue="tells", keep_result=60, context=True)
    async def tell(ctx: Context) -> List[Any]:
        async def found() -> Any:
            info = await app.aclient.peek(ctx.id)
            assert info is not None
            return info["progress"], info["progress_message"]

        shown: List[Any] = []
        half: Any = decimal.Decimal("0.5")
        number: Any = 5
        ctx.progress(half, "\ud800" + "x" * 3_000_000)
        while (await found())[0] is None:
            pass
        shown.append((await found())[1][:2])
        ctx.progress(0.25)
        ctx.progress(0.75, number)
        while (await found())[0] != 0.75:
            ctx.progress(0.25)
            await asyncio.sleep(0)
            ctx.progress(0.75, number)
        shown.append((await found())[1])
        await app.aclose()
        return shown

    monkeypatch.setattr(requests, "progress", half_wrong)
    with running_worker(app, concurrency=1):
        assert tell.put().result(PATIENCE) == ["\ufffdx", "5"]


def test_report_that_is_refused_for_ever_gives_the_job_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a user whose rights were withdrawn: here the words are wrong."""
    runs: List[int] = []

    @app.task(queue="refused", keep_result=60, context=True, retry=3, ttr=600)
    async def once(ctx: Context) -> int:
        runs.append(ctx.attempt)
        return ctx.attempt

    def wrong(id: int, result: Any = None) -> Any:
        return {"request": "done", "id": id, "no-field": 1}

    def none(report: Any, why: object) -> Optional[Any]:
        return None

    with monkeypatch.context() as patch:
        patch.setattr(requests, "done", wrong)
        patch.setattr(requests, "instead_of", none)
        with running_worker(app, concurrency=1):
            with pytest.raises(JobFailed):
                once.put().result(PATIENCE)
    assert runs == [1, 2, 3]


def test_server_that_is_unavailable_is_waited_for(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {"status": "error", "error": "Redis is away", "kind": "unavailable"}
    error = errors.of_answer(away)
    assert type(error) is errors.Unavailable and error.temporary
    jobs_of, asked = Worker._jobs_of, []

    def first_away(worker: Worker, answer: Any) -> Any:
        asked.append(answer)
        return jobs_of(worker, away if len(asked) <= 2 else answer)

    @app.task(queue="away", keep_result=60)
    async def one() -> int:
        return 1

    monkeypatch.setattr(Worker, "_jobs_of", first_away)
    with running_worker(app, concurrency=1):
        deadline = Deadline(PATIENCE)
        while len(asked) < 3 and not deadline.is_over():
            time.sleep(0.01)
        assert one.put().result(PATIENCE) == 1


def test_times_that_are_no_numbers_are_refused(app: App) -> None:
    for name in ("delay", "ttl", "ttr", "keep_result", "key_ttl"):
        for seconds in (math.nan, math.inf, -1):
            with pytest.raises(ValueError, match=name):
                app.client.put("q", {}, **{name: seconds, "safe": False})
    wrong: List[Callable[[], Any]] = [
        lambda: app.client.get("q", wait=math.nan),
        lambda: app.client.result(1, math.nan),
        lambda: app.task(ttr=math.nan),
        lambda: app.task(timeout=math.nan),
        lambda: Retry(base=math.nan),
        lambda: Retry(most=math.inf),
        lambda: Retry(jitter=2),
        lambda: Worker(app, ["q"], threads=-1),
        lambda: Worker(app, ["q"], processes=0),
        lambda: Worker(app, ["q"], batch=-1),
        lambda: Worker(app, ["q"], heartbeat=math.nan),
        lambda: Worker(app, ["q"], grace=math.nan),
    ]
    for call in wrong:
        with pytest.raises(ValueError):
            call()
    listed: Any = [OSError]
    assert not failure_of(KeyError(), Retry(on=listed)).retry
    strange: Any = ["OSError"]
    with pytest.raises(TypeError, match="classes"):
        Retry(on=strange)
    assert Deadline(math.inf).left() is None

    async def main() -> None:
        async with AsyncClient(app.url) as client:
            with pytest.raises(ValueError):
                await client.put("q", {}, delay=math.nan)
            with pytest.raises(ValueError):
                await client.get("q", wait=math.nan)

    asyncio.run(main())


def test_concurrency_of_thousands(app: App) -> None:
    """More slots than one get may ask for."""

    @app.task(queue="wide", keep_result=60)
    async def one(number: int) -> int:
        return number

    jobs = one.put_many([(number,) for number in range(1500)])
    with running_worker(app, ["wide"], concurrency=5000):
        for job in jobs:
            job.result(PATIENCE)


def wrong_results() -> List[Any]:
    loop: List[Any] = []
    loop.append(loop)
    return ["x" * 3_000_000, object(), math.nan, loop]


def test_refused_report_leaves_the_job_held(jobcentre_url: str) -> None:
    options = {"max_attempts": 3, "keep_result": 60}
    with Client(jobcentre_url) as client:
        for result in wrong_results():
            id = client.put("held", {}, **options).id
            job = client.get("held") or pytest.fail("no job")
            with pytest.raises((errors.BadRequest, TypeError, ValueError, RecursionError)):
                job.done(result)
            assert job.touch()
            job.fail("\ud800" + "z" * 3_000_000, retry=False)
            with pytest.raises(NotHeld):
                job.done()
            with pytest.raises(JobFailed, match="Error: \ufffdz"):
                client.result(id, PATIENCE)
        # At the end of the block the error of the report is that of the job.
        id = client.put("held", {}, max_attempts=1).id
        with pytest.raises(errors.BadRequest):
            with client.get("held") or pytest.fail("no job") as job:
                job.done("x" * 3_000_000)
        with pytest.raises(JobFailed, match="BadRequest"):
            client.result(id, PATIENCE)
        # What is no JSON leaves the connections as they are.
        with pytest.raises(TypeError):
            client.put("held", {"it": object()})
        client.put("held", {})
        with client.get("held") or pytest.fail("no job"):
            pass


def test_refused_report_leaves_the_job_held_in_asyncio(jobcentre_url: str) -> None:
    async def main() -> None:
        async with AsyncClient(jobcentre_url) as client:
            for result in wrong_results():
                id = (await client.put("held-too", {}, max_attempts=3, keep_result=60)).id
                job = await client.get("held-too") or pytest.fail("no job")
                with pytest.raises((errors.BadRequest, TypeError, ValueError, RecursionError)):
                    await job.done(result)
                assert await job.touch()
                await job.fail("\ud800" + "z" * 3_000_000, retry=False)
                with pytest.raises(JobFailed, match="Error: \ufffdz"):
                    await client.result(id, PATIENCE)
            id = (await client.put("held-too", {}, max_attempts=1)).id
            with pytest.raises(errors.BadRequest):
                async with await client.get("held-too") or pytest.fail("no job") as job:
                    await job.done("x" * 3_000_000)
            with pytest.raises(JobFailed, match="BadRequest"):
                await client.result(id, PATIENCE)

    asyncio.run(main())


def test_memory_fails_as_a_worker_does(app: App) -> None:
    @app.task(retry=FAST, keep_result=60)
    async def coroutine(kind: str) -> Any:
        return broken(kind)

    with app.testing() as jobs:
        for kind in ("loop", "nan", "no-json", "long", "half", "odd", "exit", "mute"):
            job: Job[Any] = coroutine.put(kind)
            jobs.run()
            jobs.advance(60)
            with pytest.raises(JobFailed, match=EXPECTED[kind]):
                job.result()
            assert (job.info() or {})["attempts"] == (1 if kind in FOR_GOOD else 2), kind
    with app.testing(inline=True):
        with pytest.raises(TypeError, match="JSON"):
            coroutine.put("no-json")


def test_server_of_a_test_has_other_listeners(tmp_path: Any) -> None:
    with Server(arguments=["--beanstalkd", f"unix:{tmp_path}/b.sock"]) as server:
        assert server.address.startswith("127.0.0.1:") and sys.version_info
        with Client(server.url) as client:
            client.put("q", {})
