"""A job that was put: its result, its state, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Generic, Optional, TypeVar

from .protocol import Answer

if TYPE_CHECKING:
    from .app import App

R = TypeVar("R")


class Call(Generic[R]):
    """A call of a task that is not put yet. `request` is its put."""

    def __init__(self, task: str, request: Dict[str, Any]) -> None:
        self.task, self.request = task, request


class Job(Generic[R]):
    """A job of an app. `duplicate`: it was there already, its key was taken."""

    def __init__(self, app: App, id: int, queue: str, duplicate: bool = False) -> None:
        self._app = app
        self.id, self.queue, self.duplicate = id, queue, duplicate

    def __repr__(self) -> str:
        return f"<Job {self.id} of queue {self.queue!r}>"

    def result(self, timeout: float = 30.0) -> R:
        """Waits for the result; the task needs `keep_result`. Raises JobFailed if the job is dead,
        JobGone if it was cancelled or its result was not kept, RequestTimeout."""
        result: R = self._app.backend.result(self.id, timeout)
        return result

    async def aresult(self, timeout: float = 30.0) -> R:
        """The same for asyncio."""
        result: R = await self._app.async_backend.result(self.id, timeout)
        return result

    def info(self) -> Optional[Answer]:
        """The members of the job, `state`, `attempts`, `progress`, `last_error` and others. None:
        it is gone."""
        return self._app.backend.peek(self.id)

    async def ainfo(self) -> Optional[Answer]:
        """The same for asyncio."""
        return await self._app.async_backend.peek(self.id)

    def cancel(self) -> bool:
        """Cancels it; if it runs, its worker ends the run. False: it is gone."""
        return self._app.backend.cancel(self.id)

    async def acancel(self) -> bool:
        """The same for asyncio."""
        return await self._app.async_backend.cancel(self.id)
