"""One run of one job in a worker: from the payload to what is reported to the server."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from . import protocol, requests
from .context import Context
from .errors import ConnectionLost, JobcentreError, UnknownTask
from .processes import ProcessFailed, ProcessRun, call_function
from .protocol import Answer
from .retry import Failure, failure_of
from .task import Task

if TYPE_CHECKING:
    from .worker import Link, Worker

log = logging.getLogger("jobcentre.worker")

#: Why a run is ended before its time.
CANCELLED, LOST, TIMEOUT, STOP = "cancelled", "lost", "timeout", "stop"


class Run:
    """A job that this worker holds. Only the loop's thread uses it, but for `tell`."""

    def __init__(self, worker: Worker, link: Link, job: Answer) -> None:
        self.worker, self.link = worker, link
        self.id: int = job["id"]
        self.queue: str = job["queue"]
        self.payload: Any = job["job"]
        self.attempt: int = job["attempts"]
        self.ended: Optional[str] = None
        self.touched = worker.loop.time()
        self.ttr = requests.TTR
        #: Whether a thread still works for it, though the run is over.
        self.thread_is_busy = False
        self._future: Optional[asyncio.Task[None]] = None
        self._context: Optional[Context] = None
        self._in_call = False
        self._told: Optional[Dict[str, Any]] = None

    def start(self) -> None:
        self._future = self.worker.loop.create_task(self._run())

    def end(self, reason: str) -> None:
        """Ends the run: a coroutine is cancelled, a process is killed, a thread is told."""
        if self.ended is not None:
            return
        self.ended = reason
        if self._context is not None:
            self._context._end()
        if self._in_call and self._future is not None:
            self._future.cancel()

    async def _run(self) -> None:
        try:
            report = await self._execute()
        except ConnectionLost:
            report = None
        await self.worker.finish(self, report)

    async def _execute(self) -> Optional[Dict[str, Any]]:
        """Runs the job; returns what is to be reported, None if that is of no use any more."""
        task, message = self._task(), self.payload
        if isinstance(task, Failure):
            log.error("job %d: %s: %s", self.id, task.error, task.message)
            return self._fail(task)
        self.ttr = task.settings.ttr
        self._context = Context(self.id, self.queue, task.name, self.attempt, self.tell)
        timer = None
        if task.settings.timeout is not None:
            timer = self.worker.loop.call_later(task.settings.timeout, self.end, TIMEOUT)
        try:
            result = await self._call(task, self._context, message)
        except asyncio.CancelledError as error:
            return self._cut_short(error, task)
        except ProcessFailed as error:
            return self._failed(error.failure, task, None)
        except Exception as error:
            return self._failed(failure_of(error, task.settings.retry), task, error)
        finally:
            if timer is not None:
                timer.cancel()
        if self.ended in (CANCELLED, LOST):
            return None
        log.debug("job %d: %s is done", self.id, task.name)
        return requests.done(self.id, result)

    def _task(self) -> "Task[..., Any, Any] | Failure":
        payload = self.payload
        if not isinstance(payload, dict) or not isinstance(payload.get("task"), str):
            return Failure("BadMessage", "its payload names no task: it was put otherwise", False)
        if not isinstance(payload.get("args", []), list) or not isinstance(
            payload.get("kwargs", {}), dict
        ):
            return Failure("BadMessage", "args must be an array, kwargs an object", False)
        task = self.worker.app.tasks.get(payload["task"])
        if task is None:
            # Another worker, or the next version of this one, may have it.
            return Failure(UnknownTask.__name__, f"this worker has no task {payload['task']!r}")
        return task

    async def _call(
        self, task: Task[..., Any, Any], context: Context, message: Mapping[str, Any]
    ) -> Any:
        if self.ended is not None:
            raise asyncio.CancelledError
        self._in_call = True
        try:
            if task.mode == "thread":
                self.thread_is_busy = True
                return await self.worker.threads.submit(
                    lambda: call_function(task, context, message), self._thread_ended
                )
            if task.mode == "process":
                run = ProcessRun(
                    task.__module__,
                    task.__qualname__,
                    message,
                    self.id,
                    self.queue,
                    context.attempt,
                )
                return await self.worker.processes.run(run, self.tell)
            args = message.get("args", ())
            with self.worker.app.running(context, message):
                if task.has_context:
                    return await task.function(context, *args, **message.get("kwargs", {}))
                return await task.function(*args, **message.get("kwargs", {}))
        finally:
            self._in_call = False

    def _thread_ended(self) -> None:
        self.thread_is_busy = False
        self.worker.thread_ended(self)

    def _cut_short(
        self, error: BaseException, task: Task[..., Any, Any]
    ) -> Optional[Dict[str, Any]]:
        if self.ended == STOP:
            return requests.release(self.id)
        if self.ended in (CANCELLED, LOST):
            log.info("job %d: %s is ended: it was %s", self.id, task.name, self.ended)
            return None
        if self.ended == TIMEOUT:
            message = f"it took longer than {task.settings.timeout:g} s"
            return self._failed(Failure("Timeout", message), task, None)
        return self._failed(
            Failure(type(error).__name__, "it was cancelled from within"), task, None
        )

    def _failed(
        self, failure: Failure, task: Task[..., Any, Any], error: Optional[BaseException]
    ) -> Optional[Dict[str, Any]]:
        if self.ended in (CANCELLED, LOST):
            return None
        if self.ended == STOP:
            return requests.release(self.id)
        log.warning(
            "job %d: %s has failed: %s: %s",
            self.id,
            task.name,
            failure.error,
            failure.message,
            exc_info=error,
        )
        return self._fail(failure)

    def _fail(self, failure: Failure) -> Dict[str, Any]:
        return requests.fail(self.id, *failure)

    # Progress.

    def tell(self, part: float, message: Optional[str]) -> None:
        """Remembers the progress, to be sent in the next turn of the loop. Any thread calls it."""
        was_told = self._told is not None
        self._told = requests.progress(self.id, part, message)
        if not was_told:
            self.worker.loop.call_soon_threadsafe(self.send_progress)

    def send_progress(self) -> None:
        told, self._told = self._told, None
        if told is not None and self.ended is None and self.link.connection.lost is None:
            self.link.connection.send(told).add_done_callback(self.heard)

    def touch(self, now: float) -> None:
        self.touched = now
        self.link.connection.send(requests.touch(self.id)).add_done_callback(self.heard)

    def heard(self, answer: asyncio.Future[Answer]) -> None:
        """The answer to a touch or to progress: says whether the run is to go on."""
        if answer.cancelled() or answer.exception() is not None:
            return  # The loss of the connection ends the run.
        try:
            checked = protocol.check(answer.result())
        except JobcentreError as error:
            log.warning("job %d: %s", self.id, error)
            checked = None
        if self in self.worker.runs:
            if checked is None:
                self.end(LOST)
            elif checked.get("cancelled"):
                self.end(CANCELLED)
