"""One run of one job in a worker: from the payload to what is reported to the server."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from . import protocol, requests
from .context import Context
from .errors import JobcentreError, NotHeld, UnknownTask
from .payload import LOGGED_MAX, clean, payload_of
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
        found = payload_of(job)
        self.payload, self.data = found.job, found.data
        self.attempt: int = job["attempts"]
        self.ended: Optional[str] = None
        self.touched = worker.loop.time()
        self.ttr = requests.TTR
        #: Whether a thread still works for it, though the run is over.
        self.thread_is_busy = False
        #: Whether its slot is free only when its thread has ended.
        self.keeps_slot = False
        #: Whether its link does not hold its job any more, and its slot is free or kept.
        self.is_left = False
        self._future: Optional[asyncio.Task[None]] = None
        self._context: Optional[Context] = None
        self._in_call = False
        self._told: Optional[Dict[str, Any]] = None
        self._lock = threading.Lock()

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
            try:
                report = await self._execute()
            except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
                # The loop ends. If it does not, the job goes back with the link.
                self.link.is_spoiled = True
                raise
            except BaseException as error:
                log.error("job %d: no report can be made", self.id, exc_info=error)
                name, message = type(error).__name__, f"its worker can make no report: {error}"
                report = requests.fail(self.id, name, message)
            await self.worker.finish(self, report)
        finally:
            self.worker.forget(self)

    async def _execute(self) -> Optional[Dict[str, Any]]:
        """Runs the job; returns what is to be reported, None if that is of no use any more."""
        task, message = self._task(), self.payload
        if isinstance(task, Failure):
            log.error("job %d: %s: %s", self.id, task.error, task.message)
            return self._fail(task)
        self.ttr = task.settings.ttr or requests.TTR
        if self.data is not None and self.link.connection.lost is None:
            # A producer of another protocol has said how long its lease is.
            request = requests.touch(self.id, self.ttr)
            self.link.connection.send(request).add_done_callback(self.heard)
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
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, too, is a failure of the job.
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
        if isinstance(payload, bytes):
            size, begin = len(payload), payload[:40]
            message = f"its payload, {size} bytes, is no JSON that can be read: it begins {begin!r}"
            return Failure("BadMessage", message, False)
        if not isinstance(payload, dict) or not isinstance(payload.get("task"), str):
            return Failure("BadMessage", "its payload names no task: it was put otherwise", False)
        if not isinstance(payload.get("args", []), list) or not isinstance(
            payload.get("kwargs", {}), dict
        ):
            return Failure("BadMessage", "args must be an array, kwargs an object", False)
        task = self.worker.app.tasks.get(payload["task"])
        if task is None:
            # Another worker, or the next version of this one, may have it.
            name = clean(payload["task"], LOGGED_MAX)
            return Failure(UnknownTask.__name__, f"this worker has no task {name!r}")
        return task

    async def _call(
        self, task: Task[..., Any, Any], context: Context, message: Mapping[str, Any]
    ) -> Any:
        if self.ended is not None:
            raise asyncio.CancelledError
        self._in_call = True
        try:
            if task.mode == "thread":
                future = self.worker.threads.submit(
                    lambda: call_function(task, context, message), self._thread_ended
                )
                self.thread_is_busy = True
                return await future
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
        if self.data is not None and self.attempt >= task.settings.retry.attempts:
            # Its put knew nothing of the policy, and the server runs it for ever.
            failure = failure._replace(retry=False)
        trace = error
        if error is not None and not _has_short_texts(error):
            trace = None
        message = clean(failure.message, LOGGED_MAX)
        log.warning(
            "job %d: %s has failed: %s: %s%s",
            self.id,
            task.name,
            failure.error,
            message,
            "" if error is trace or error is None else _calls_of(error),
            exc_info=trace,
        )
        return self._fail(failure)

    def _fail(self, failure: Failure) -> Dict[str, Any]:
        return requests.fail(self.id, *failure)

    # Progress.

    def tell(self, part: float, message: Optional[str]) -> None:
        """Remembers the progress, to be sent in the next turn of the loop. Any thread calls it."""
        request = requests.progress(self.id, part, message)
        with self._lock:
            was_told, self._told = self._told is not None, request
        if not was_told:
            self.worker.loop.call_soon_threadsafe(self.send_progress)

    def send_progress(self) -> None:
        with self._lock:
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
        except NotHeld as error:
            log.warning("job %d: %s", self.id, error)
            checked = None
        except JobcentreError as error:
            # The job is held all the same.
            log.warning("job %d: its progress, or its touch, was refused: %s", self.id, error)
            return
        if self in self.worker.runs:
            if checked is None:
                self.end(LOST)
            elif checked.get("cancelled"):
                self.end(CANCELLED)


def _has_short_texts(error: BaseException) -> bool:
    """Whether a traceback with this exception, and those that it names, is fit for a log."""
    found: Optional[BaseException] = error
    for _ in range(20):
        if found is None:
            return True
        try:
            text = str(found)
        except Exception:
            return False
        if text != clean(text, LOGGED_MAX):
            return False
        found = found.__cause__ or found.__context__
    return False


def _calls_of(error: BaseException) -> str:
    """The calls that led to an exception, without its text."""
    return "\n" + "".join(traceback.format_tb(error.__traceback__, 50)).rstrip("\n")
