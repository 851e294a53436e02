"""What a running task knows of its job."""

from __future__ import annotations

from typing import Callable, Optional

from .errors import Cancelled
from .payload import clean

Tell = Callable[[float, Optional[str]], None]


class Context:
    """The first argument of a task with `context=True`. Its methods may be called in any thread.

    `attempt` counts runs from 1.
    """

    def __init__(self, id: int, queue: str, task: str, attempt: int, tell: Tell) -> None:
        self.id, self.queue, self.task, self.attempt = id, queue, task, attempt
        self._tell = tell
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether the run is to end: the job was cancelled, its lease is lost, its time is over,
        or the worker stops. A coroutine is cancelled besides, and a process is ended."""
        return self._cancelled

    def check(self) -> None:
        """Raises Cancelled if the run is to end: for loops in threads."""
        if self._cancelled:
            raise Cancelled(f"the run of job {self.id} is to end")

    def progress(self, part: float, message: Optional[str] = None) -> None:
        """Says how far the job is, from 0 to 1. It does not wait; of several in a short time the
        last one is sent."""
        if not 0 <= part <= 1:
            raise ValueError(f"progress must be 0 to 1: {part}")
        self._tell(float(part), None if message is None else clean(message))

    def _end(self) -> None:
        self._cancelled = True
