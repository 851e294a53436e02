"""Processes for blocking functions: they use other cores, and can be ended.

Each child runs one job at a time. It gets the module and the name of a task, imports it, and calls
it. A child whose run is to end is killed, and another one is started for the next job.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import protocol
from .context import Context
from .payload import clean
from .retry import Failure, Retry, failure_of
from .task import Task


@dataclass(frozen=True)
class ProcessRun:
    """What a child needs for a run."""

    module: str
    qualname: str
    message: Mapping[str, Any]
    id: int
    queue: str
    attempt: int


class ProcessFailed(Exception):
    """The run has failed in the child, as `failure` says."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Child:
    def __init__(self) -> None:
        # Not forked: the worker has threads and a loop.
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def kill(self) -> None:
        self.process.kill()
        self.pipe.close()


class ProcessPool:
    """At most `size` processes, started when there is work for them."""

    def __init__(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = asyncio.Semaphore(size)
        self._idle: List[_Child] = []

    async def run(self, run: ProcessRun, tell: Callable[[float, Optional[str]], None]) -> Any:
        """Runs it in a child. Raises ProcessFailed; kills the child if this is cancelled."""
        async with self._free:
            child = self._idle_child()
            if child is None:
                # A spawn takes tens of milliseconds.
                child = await self._loop.run_in_executor(None, _Child)
            try:
                return await self._exchange(child, run, tell)
            except ProcessFailed:
                raise
            except BaseException:
                child.kill()
                raise

    def _idle_child(self) -> Optional[_Child]:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
            child.kill()
        return None

    async def _exchange(
        self, child: _Child, run: ProcessRun, tell: Callable[[float, Optional[str]], None]
    ) -> Any:
        outcome: asyncio.Future[Tuple[str, Any]] = self._loop.create_future()

        def read() -> None:
            try:
                while not outcome.done() and child.pipe.poll():
                    kind, value = child.pipe.recv()
                    if kind == "done":
                        value = json.loads(value)
                    if kind == "progress":
                        tell(*value)
                    else:
                        outcome.set_result((kind, value))
            except Exception as error:
                # The end of the child, or bytes that are none of ours.
                if not outcome.done():
                    is_end = isinstance(error, (EOFError, OSError))
                    outcome.set_result(("died", None if is_end else repr(error)))

        fd = child.pipe.fileno()
        self._loop.add_reader(fd, read)
        try:
            try:
                child.pipe.send(run)
            except OSError:
                outcome.set_result(("died", None))
            kind, value = await outcome
        finally:
            self._loop.remove_reader(fd)
        if kind == "died":
            child.process.join(1)
            code = child.process.exitcode
            child.kill()
            why = f"its process has ended ({code})"
            if value is not None:
                why = clean(f"its process has sent what cannot be read, and was ended: {value}")
            raise ProcessFailed(Failure("ProcessDied", why))
        self._idle.append(child)
        if kind == "failed":
            raise ProcessFailed(Failure(*value))
        return value

    def close(self) -> None:
        for child in self._idle:
            child.kill()


def _serve(pipe: Connection) -> None:
    """The main loop of a child."""
    # Ctrl-C reaches the whole group: the worker decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    runs: queue.SimpleQueue[ProcessRun] = queue.SimpleQueue()

    def read() -> None:
        while True:
            try:
                runs.put(pipe.recv())
            except (EOFError, OSError):
                # The worker is gone, and so is the lease.
                os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    lock = threading.Lock()

    def send(kind: str, value: Any) -> None:
        with lock:
            pipe.send((kind, value))

    while True:
        run = runs.get()
        try:
            send(*_call(run, send))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


def _call(run: ProcessRun, send: Callable[[str, Any], None]) -> Tuple[str, Any]:
    task: Optional[Task[..., Any, Any]] = None
    try:
        task = _find(run.module, run.qualname)

        def tell(part: float, message: Optional[str]) -> None:
            send("progress", (part, message))

        context = Context(run.id, run.queue, task.name, run.attempt, tell)
        result = call_function(task, context, run.message)
    except BaseException as error:
        retry = task.settings.retry if task is not None else Retry()
        return "failed", tuple(failure_of(error, retry))
    try:
        # As JSON: its classes may be such as the worker does not have.
        return "done", protocol.encode_value(result)
    except Exception as error:
        # What is no JSON fails for good, as in the other modes.
        return "failed", tuple(failure_of(error, Retry(on=())))


def _find(module: str, qualname: str) -> Task[..., Any, Any]:
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    if not isinstance(found, Task):
        raise LookupError(f"{module}.{qualname} is no task: a task for processes is a global one")
    return found


def call_function(task: Task[..., Any, Any], context: Context, message: Mapping[str, Any]) -> Any:
    """Calls the function of a task with the arguments of a message, within the hooks."""
    args: List[Any] = list(message.get("args", ()))
    kwargs: Dict[str, Any] = dict(message.get("kwargs", {}))
    if task.has_context:
        args.insert(0, context)
    with task.app.running(context, message):
        return task.function(*args, **kwargs)
