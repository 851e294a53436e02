"""Tests without a server: jobs in memory.

`with app.testing() as jobs:` keeps what is put; `jobs.run()` runs it, `jobs.advance(60)` lets time
pass. `with app.testing(inline=True):` runs each job within its put. The queue is a plain model of
the server's: priorities, delays, keys, attempts, backoff and results, no leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple

from . import protocol, requests
from .context import Context
from .errors import DuplicateKey, JobcentreError, JobFailed, JobGone, RequestTimeout
from .processes import call_function
from .protocol import Answer
from .retry import Retry, failure_of
from .server import Server

if TYPE_CHECKING:
    from .app import App


@dataclass
class MemoryJob:
    """A job in memory. `state` is as the server names it; a job without a kept result stays, too,
    so that a test sees it. `args` and `kwargs` are what the task gets."""

    id: int
    queue: str
    task: str
    args: List[Any]
    kwargs: Dict[str, Any]
    request: Dict[str, Any]
    available: float
    state: str = "ready"
    attempts: int = 0
    result: Any = None
    last_error: Optional[Tuple[str, str]] = None
    progress: List[Tuple[float, Optional[str]]] = field(default_factory=list)

    @property
    def pri(self) -> int:
        return int(self.request["pri"])

    @property
    def is_unfinished(self) -> bool:
        return self.state not in ("completed", "cancelled")


class MemoryQueue:
    """What `with app.testing()` gives."""

    def __init__(self, app: App, inline: bool) -> None:
        self._app, self._inline = app, inline
        self._now = 0.0
        #: All that were put, the oldest first.
        self.all: List[MemoryJob] = []

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[MemoryJob]:
        return iter(self.all)

    def __getitem__(self, index: int) -> MemoryJob:
        return self.all[index]

    def of(self, task: str) -> List[MemoryJob]:
        """Those of a task, by its name."""
        return [job for job in self.all if job.task == task]

    def run(self, limit: int = 10_000) -> int:
        """Runs what is ready, and what that puts. Returns the number of runs."""
        for number in range(limit):
            ready = [job for job in self.all if job.state in ("ready", "scheduled")]
            ready = [job for job in ready if job.available <= self._now]
            if not ready:
                return number
            self._run(min(ready, key=lambda job: (-job.pri, job.id)))
        raise RuntimeError(f"there are jobs after {limit} runs: does a task put itself?")

    def advance(self, seconds: float) -> int:
        """Lets time pass, from one job that becomes ready to the next, and runs them."""
        end, runs = self._now + seconds, self.run()
        while True:
            times = [job.available for job in self.all if job.state == "scheduled"]
            if not times or min(times) > end:
                self._now = end
                return runs
            self._now = max(self._now, min(times))
            runs += self.run()

    def _run(self, job: MemoryJob) -> None:
        task = self._app.tasks.get(job.task)
        if task is None:
            raise LookupError(f"the app has no task {job.task!r}")
        job.attempts, job.state = job.attempts + 1, "reserved"

        def tell(part: float, message: Optional[str]) -> None:
            job.progress.append((part, message))

        context = Context(job.id, job.queue, job.task, job.attempts, tell)
        try:
            found = call_function(task, context, job.request["job"])
            if task.mode == "async":
                found = _run_coroutine(found)
            found = _as_it_arrives(found)
            if job.state == "reserved":
                job.state, job.result = "completed", found
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if isinstance(error, _NoJson):
                error, policy = error.why, Retry(on=())
            else:
                policy = task.settings.retry
            failure = failure_of(error, policy)
            job.last_error = (failure.error, failure.message)
            retry = failure.retry and job.attempts < job.request["max_attempts"]
            job.state = "scheduled" if retry else "buried"
            if retry:
                job.available = self._now + self._pause(job, failure.delay)
            if self._inline:
                raise error

    def _pause(self, job: MemoryJob, delay: Optional[float]) -> float:
        if delay is not None:
            return delay
        backoff = job.request["backoff"]
        factor = 1 if backoff["kind"] == "fixed" else 2 ** (job.attempts - 1)
        pause: float = min(backoff["first_ms"] * factor, backoff["max_ms"]) / 1000
        return pause

    # As a client.

    def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]:
        placed: List[requests.Placed] = []
        for request in puts:
            # What is no JSON fails here as it does with a server.
            protocol.encode(request)
            placed.append(self._put(request))
        return placed

    def _put(self, request: Dict[str, Any]) -> requests.Placed:
        key, queue = request.get("key"), request["queue"]
        for job in self.all:
            same = job.queue == queue and job.request.get("key") == key
            if key is not None and same and job.is_unfinished:
                if request.get("on_duplicate") == "reject":
                    raise DuplicateKey(f"the key is taken by job {job.id}", job.id)
                if request.get("on_duplicate") == "replace":
                    _take(job, request, self._now)
                return requests.Placed(job.id, True)
        job = MemoryJob(len(self.all) + 1, queue, "", [], {}, request, self._now)
        _take(job, request, self._now)
        self.all.append(job)
        if self._inline and job.state == "ready":
            self._run(job)
        return requests.Placed(job.id, False)

    def _job(self, id: int) -> Optional[MemoryJob]:
        return self.all[id - 1] if 1 <= id <= len(self.all) else None

    def result(self, id: int, timeout: float) -> Any:
        """Runs what is ready, and then has the result or has none: it does not wait."""
        self.run()
        job = self._job(id)
        if job is None or job.state == "cancelled":
            raise JobGone(f"there is no job {id} (any more)")
        if job.state == "buried":
            raise JobFailed(*(job.last_error or ("Error", "")))
        if job.state != "completed":
            raise RequestTimeout(f"job {id} has no result: it is {job.state}")
        if "keep_result" not in job.request:
            raise JobGone(f"the result of job {id} was not kept: the task has no keep_result")
        return job.result

    def peek(self, id: int) -> Optional[Answer]:
        job = self._job(id)
        if job is None or job.state == "cancelled":
            return None
        error = job.last_error
        return {
            "id": id,
            "queue": job.queue,
            "state": job.state,
            "pri": job.pri,
            "job": job.request["job"],
            "attempts": job.attempts,
            "max_attempts": job.request["max_attempts"],
            "last_error": error and {"error": error[0], "message": error[1]},
            "progress": job.progress[-1][0] if job.progress else None,
            "result": job.result,
        }

    def cancel(self, id: int) -> bool:
        job = self._job(id)
        if job is None or not job.is_unfinished:
            return False
        job.state = "cancelled"
        return True


def _take(job: MemoryJob, request: Dict[str, Any], now: float) -> None:
    """Makes the job that of the request."""
    message = request["job"]
    job.request, job.task = request, message["task"]
    job.args, job.kwargs = message["args"], message["kwargs"]
    job.available = now + request.get("delay", 0) / 1000
    job.state = "scheduled" if job.available > now else "ready"


class _NoJson(Exception):
    """The result of a task is no JSON: its job has failed for good, as with a worker."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


def _as_it_arrives(result: Any) -> Any:
    """A result after the way over the wire: tuples are lists."""
    try:
        return protocol.decode(protocol.encode({"status": "ok", "it": result}))["it"]
    except Exception as error:
        raise _NoJson(error) from None


def _run_coroutine(coroutine: Any) -> Any:
    """Runs it to its end, in a loop of its own; in a thread, because there may be a loop here."""
    outcome: Dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = asyncio.run(coroutine)
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


class _AsyncMemory:
    """The same for asyncio."""

    def __init__(self, memory: MemoryQueue) -> None:
        self._memory = memory

    async def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]:
        return self._memory.put_many(puts)

    async def result(self, id: int, timeout: float) -> Any:
        return self._memory.result(id, timeout)

    async def peek(self, id: int) -> Optional[Answer]:
        return self._memory.peek(id)

    async def cancel(self, id: int) -> bool:
        return self._memory.cancel(id)


class Testing:
    """`app.testing`: call it for a context manager; within it, `jobs` is what was put."""

    #: Not a class of tests, though its name begins so.
    __test__ = False

    def __init__(self, app: App) -> None:
        self._app = app
        self._memory: Optional[MemoryQueue] = None

    @property
    def is_on(self) -> bool:
        return self._memory is not None

    @property
    def jobs(self) -> MemoryQueue:
        if self._memory is None:
            raise JobcentreError("app.testing.jobs is there within `with app.testing():` only")
        return self._memory

    @property
    def backend(self) -> MemoryQueue:
        return self.jobs

    @property
    def async_backend(self) -> _AsyncMemory:
        return _AsyncMemory(self.jobs)

    @contextlib.contextmanager
    def __call__(self, *, inline: bool = False) -> Iterator[MemoryQueue]:
        """Jobs of the app stay in memory. `inline`: each runs within its put, and what it raises
        comes out of the put."""
        before, self._memory = self._memory, MemoryQueue(self._app, inline)
        try:
            yield self._memory
        finally:
            self._memory = before


__all__ = ["MemoryJob", "MemoryQueue", "Server", "Testing"]
