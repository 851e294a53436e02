"""Workers against the real server. Names that are in the table of scenarios are tests of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest
import worker_tasks as tasks

from jobcentre import App, Job, JobFailed, JobGone, Worker, requests
from jobcentre.pytest_plugin import running_worker
from jobcentre.server import PATIENCE, Server

APP = tasks.app


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """A server with data, to which the tasks of `worker_tasks` go."""
    server = Server(data=str(tmp_path / "data"))
    monkeypatch.setenv("JOBCENTRE_URL", server.url)
    monkeypatch.setenv("JOBCENTRE_RECORD", str(tmp_path / "record"))
    APP.close()
    APP._client = None
    yield server
    APP.close()
    APP._client = None
    server.kill()


def recorded() -> List[str]:
    path = Path(os.environ["JOBCENTRE_RECORD"])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def until(condition: Callable[[], Any], what: str = "") -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what or condition} does not come; recorded: {recorded()[-20:]}")


@contextlib.contextmanager
def worker_process(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`jobcentre-worker worker_tasks:app`; it is killed at the end, if it is there still. Its log
    goes to a file beside the record."""
    command = [sys.executable, "-m", "jobcentre.command", "worker_tasks:app", *arguments]
    with open(os.environ["JOBCENTRE_RECORD"] + ".log", "ab") as log:
        process = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def is_stopping() -> bool:
    return " stopping: " in Path(os.environ["JOBCENTRE_RECORD"] + ".log").read_text()


def counts(queue: str) -> Any:
    stats = APP.client.stats(queue)
    return stats["counts"] if stats is not None else Counter()


def test_worker_runs_tasks(server: Server) -> None:
    with running_worker(APP, ["default"]):
        jobs = [tasks.add.put(1, b=2), *tasks.add.put_many([(1,), (2, 3)])]
        assert [job.result(PATIENCE) for job in jobs] == [3, 2, 5]
        assert tasks.add_async.put(20).result(PATIENCE) == 21
        total, pid, attempt = tasks.add_elsewhere.put(4).result(PATIENCE)
        assert (total, attempt) == (5, 1) and pid != os.getpid()


def test_puts_and_results_of_asyncio(server: Server) -> None:
    async def main() -> List[int]:
        worker = Worker(APP, ["default"])
        running = asyncio.ensure_future(worker.run())
        jobs = await tasks.add_async.aput_many([(n,) for n in range(1000)])
        results = await asyncio.gather(*(job.aresult(PATIENCE) for job in jobs[:20]))
        worker.stop()
        stopped = await running
        assert stopped.failed == 0 and stopped.finished >= 20
        await APP.aclose()
        return results

    assert asyncio.run(main()) == list(range(1, 21))


def test_worker_retries_and_buries(server: Server) -> None:
    with running_worker(APP, ["fail"]) as worker:
        job = tasks.fail.put("x")
        with pytest.raises(JobFailed, match="ValueError: x"):
            job.result(PATIENCE)
        assert recorded() == ["fail x"] * 3
        info = job.info()
        assert info is not None and info["state"] == "buried" and info["attempts"] == 3
        for kind, error in (("no-retry", "NoRetry: it is of no use"), ("key", "KeyError")):
            with pytest.raises(JobFailed, match=error):
                tasks.fail_for_good.put(kind).result(PATIENCE)
        assert recorded()[3:] == ["fail_for_good no-retry", "fail_for_good key"]
        assert tasks.fail_once.put().result(PATIENCE) == 2
        assert not worker.runs or until(lambda: not worker.runs)


def test_processes_that_fail_and_die(server: Server) -> None:
    with running_worker(APP, ["fail"], processes=1):
        with pytest.raises(JobFailed, match=r"ProcessDied: its process has ended \(3\)"):
            tasks.die.put().result(PATIENCE)
        with pytest.raises(JobFailed, match="NoRetry: not here"):
            tasks.fail_elsewhere.put().result(PATIENCE)


def test_result_that_is_no_json(server: Server) -> None:
    with running_worker(APP, ["fail"]):
        with pytest.raises(JobFailed, match="TypeError"):
            tasks.no_json.put().result(PATIENCE)


def test_worker_waits_at_the_server(server: Server) -> None:
    with running_worker(APP, ["default"]):
        until(lambda: (APP.client.stats() or {})["waiting_consumers"] == 1)
        assert tasks.add.put(1).result(PATIENCE) == 2
        # An idle worker has one connection that waits, and asks again every two seconds only.
        until(lambda: (APP.client.stats() or {})["waiting_consumers"] == 1)


def test_worker_killed_in_mid_job(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "go"
    done = [tasks.count.put(number) for number in range(10)]
    with worker_process("-q", "slow", "-q", "count") as first:
        until(lambda: all(job.info() is None for job in done))
        slow: List[Job[Any]] = [tasks.wait_for_file.put(name, str(path)) for name in "ab"]
        slow.append(tasks.wait_elsewhere.put("c", str(path)))
        until(lambda: sum(line.startswith("begin") for line in recorded()) == 3)
        first.kill()
        first.wait(PATIENCE)
        child = next(int(line.split()[2]) for line in recorded() if line.startswith("begin c"))
        until(lambda: not _is_running(child), "the end of the child of a worker that is gone")
        with worker_process("-q", "slow"):
            until(lambda: sum(line.startswith("begin") for line in recorded()) == 6)
            path.touch()
            # A job may have been handed to a second connection of the worker as the first one
            # closed, before that closed, too: this is an attempt more.
            assert {job.result(PATIENCE) for job in slow[:2]} <= {2, 3}
            until(lambda: slow[2].info() is None)
    runs = Counter(recorded())
    assert all(runs[f"count {number}"] == 1 for number in range(10)), runs


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_server_killed_in_mid_job(server: Server) -> None:
    numbers = range(400)
    tasks.count.put_many([(number,) for number in numbers])
    with running_worker(APP, ["count"], concurrency=8, heartbeat=0.5):
        for share in (50, 150, 300):
            until(lambda: len(set(recorded())) >= share)
            server.kill()
            server.start()
        until(lambda: set(recorded()) == {f"count {number}" for number in numbers})
        until(lambda: not any(counts("count").values()), "the end of all jobs")
    runs = Counter(recorded())
    # Doubled is only what was held, eight jobs, each time that the server was killed.
    assert sum(runs.values()) - len(numbers) <= 3 * 8, runs


def test_graceful_stop_waits(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "go"
    job = tasks.wait_for_file.put("a", str(path))
    with worker_process("-q", "slow", "-c", "1") as process:
        until(lambda: recorded() == ["begin a"])
        process.send_signal(signal.SIGTERM)
        until(is_stopping)
        late = tasks.wait_for_file.put("b", str(path))
        path.touch()
        assert job.result(PATIENCE) == 1
        assert process.wait(PATIENCE) == 0
    assert recorded() == ["begin a", "end a"]
    info = late.info()
    assert info is not None and info["state"] == "ready" and info["attempts"] == 0


def test_graceful_stop_gives_back(server: Server, tmp_path: Path) -> None:
    path = str(tmp_path / "never")
    jobs: List[Job[Any]] = [
        tasks.wait_for_file.put("coroutine", path),
        tasks.wait_in_thread.put("thread", path),
        tasks.wait_elsewhere.put("process", path),
    ]
    with worker_process("-q", "slow", "--grace", "0.2") as process:
        until(lambda: len(recorded()) == 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    for job in jobs:
        info = job.info()
        assert info is not None and (info["state"], info["attempts"]) == ("ready", 0), info
    assert sorted(line for line in recorded() if line.startswith("cancelled"))[0] == (
        "cancelled coroutine"
    )


def test_second_signal_ends_the_grace(server: Server, tmp_path: Path) -> None:
    job = tasks.wait_for_file.put("a", str(tmp_path / "never"))
    with worker_process("-q", "slow", "-c", "1", "--grace", "3600") as process:
        until(lambda: recorded() == ["begin a"])
        process.send_signal(signal.SIGINT)
        until(is_stopping)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert recorded() == ["begin a", "cancelled a"]
    info = job.info()
    assert info is not None and info["state"] == "ready"


def test_lease_is_touched(server: Server, tmp_path: Path) -> None:
    def touches() -> int:
        return int((APP.client.stats() or {})["totals"]["touched"])

    with running_worker(APP, ["slow"], heartbeat=0.05):
        job = tasks.wait_for_file.put("a", str(tmp_path / "go"))
        until(lambda: touches() >= 3, "a touch with each heartbeat")
        (tmp_path / "go").touch()
        assert job.result(PATIENCE) == 1
    before = touches()
    with running_worker(APP, ["short-lease"], heartbeat=3600):
        tasks.wait_under_short_lease.put("b", str(tmp_path / "other"))
        until(lambda: touches() > before, "a touch after a third of the lease")
        (tmp_path / "other").touch()


def test_cancelled_while_it_runs(server: Server, tmp_path: Path) -> None:
    path = str(tmp_path / "never")
    with running_worker(APP, ["slow"], heartbeat=0.1) as worker:
        jobs: List[Job[Any]] = [
            tasks.wait_for_file.put("coroutine", path),
            tasks.wait_in_thread.put("thread", path),
            tasks.wait_elsewhere.put("process", path),
        ]
        until(lambda: len(recorded()) == 3)
        assert all(job.cancel() for job in jobs)
        until(lambda: {"cancelled coroutine", "cancelled thread"} <= set(recorded()))
        child = next(
            int(line.split()[2]) for line in recorded() if line.startswith("begin process")
        )
        until(lambda: not _is_running(child))
        until(lambda: not worker.runs)
        with pytest.raises(JobGone):
            jobs[0].result(PATIENCE)


def test_run_takes_too_long(server: Server) -> None:
    with running_worker(APP, ["timeout"]):
        for task in (tasks.too_long_async, tasks.too_long_thread, tasks.too_long_process):
            with pytest.raises(JobFailed, match="Timeout: it took longer than"):
                task.put().result(PATIENCE)
        runs = Counter(line.split()[0] for line in recorded())
        # A thread, or a process, may begin after the timeout only.
        assert runs["too_long_async"] == 2 and runs["too_long_thread"] <= 2, runs
        for line in recorded():
            if line.startswith("too_long_process"):
                child = int(line.split()[1])
                until(lambda: not _is_running(child))


def test_unknown_task_is_left_to_others(server: Server) -> None:
    job = APP.client.put(
        "default", {"task": "later"}, backoff={"kind": "fixed", "first_ms": 600_000}
    )
    strange = APP.client.put("default", {"to": "ann"})
    with running_worker(APP, ["default"]):
        for id, state, error in (
            (job.id, "scheduled", "UnknownTask"),
            (strange.id, "buried", "BadMessage"),
        ):
            info = until(lambda: (it := APP.client.peek(id)) and it["last_error"] and it)
            assert (info["state"], info["last_error"]["error"]) == (state, error)


def test_progress_is_shown(server: Server, tmp_path: Path) -> None:
    app = App()
    path = tmp_path / "go"

    @app.task(queue="progress", context=True, keep_result=60)
    async def step(ctx: Any) -> None:
        ctx.progress(0.25, "a quarter")
        while not path.exists():
            await asyncio.sleep(0.01)
        ctx.progress(1)

    async def main() -> None:
        worker = Worker(app)
        running = asyncio.ensure_future(worker.run())
        job = await step.aput()
        while True:
            info = await job.ainfo()
            assert info is not None
            if info["progress"] == 0.25 and info["progress_message"] == "a quarter":
                break
            await asyncio.sleep(0.01)
        path.touch()
        await job.aresult(PATIENCE)
        info = await job.ainfo()
        assert info is not None and info["state"] == "completed"
        worker.stop()
        await running
        await app.aclose()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_concurrency_is_bounded_and_used(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "go"
    tasks.wait_for_file.put_many([(str(n), str(path)) for n in range(12)])
    with running_worker(APP, ["slow"], concurrency=5):
        until(lambda: len(recorded()) == 5)
        until(lambda: counts("slow")["reserved"] == 5 and counts("slow")["ready"] == 7)
        path.touch()
        until(lambda: sum(line.startswith("end") for line in recorded()) == 12)


def test_one_slot_is_used_while_others_run(server: Server, tmp_path: Path) -> None:
    """A link that holds a long job does not keep the other slots from waiting."""
    never = str(tmp_path / "never")
    with running_worker(APP, ["slow", "default"], concurrency=4, grace=0) as worker:
        for name in "abc":
            tasks.wait_for_file.put(name, never)
        until(lambda: len(recorded()) == 3)
        for number in range(20):
            assert tasks.add.put(number).result(PATIENCE) == number + 1
        assert len(worker._links) <= 5


def test_wrong_token_ends_a_worker(tmp_path: Path) -> None:
    from settings import write_users

    users = [{"name": "a", "token": "right-token", "allow": ["take:*"]}]
    with Server(arguments=["--config", write_users(tmp_path, users)]) as server:
        command = [sys.executable, "-m", "jobcentre.command", "worker_tasks:app"]
        environment = {**os.environ, "JOBCENTRE_URL": server.url, "JOBCENTRE_TOKEN": "wrong"}
        done = subprocess.run(
            command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 1 and "no user of this server has this token" in done.stderr


def test_leftover_job_of_another_client(server: Server) -> None:
    """A message that was put by hand, in the documented form, runs as those of a task do."""
    placed = APP.client.put(
        "default", {"task": "add", "args": [1], "kwargs": {"b": 5}}, keep_result=60
    )
    raw = requests.put("default", {"task": "add", "args": [2]}, keep_result=60)
    other = APP.client.put_request(raw)
    with running_worker(APP, ["default"]):
        assert APP.client.result(placed.id, PATIENCE) == 6
        assert APP.client.result(other.id, PATIENCE) == 3
