"""The app: its tasks, its clients, and how they are put and run."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Coroutine,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
    overload,
)

if TYPE_CHECKING:
    from typing_extensions import Concatenate, Literal, ParamSpec, Protocol

    P = ParamSpec("P")
else:
    from typing import Protocol

from . import requests
from .aio import AsyncClient
from .context import Context
from .errors import JobcentreError, PutManyError
from .job import Call, Job
from .protocol import TIMEOUT, Answer
from .retry import Retry
from .sync import Client
from .task import MODES, Task, TaskOptions

if TYPE_CHECKING:
    from .testing import Testing
    from .worker import Stopped

R = TypeVar("R")


class Backend(Protocol):
    """Where jobs are put: a client, or the memory of a test."""

    def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]: ...
    def result(self, id: int, timeout: float) -> Any: ...
    def peek(self, id: int) -> Optional[Answer]: ...
    def cancel(self, id: int) -> bool: ...


class AsyncBackend(Protocol):
    """The same for asyncio."""

    async def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]: ...
    async def result(self, id: int, timeout: float) -> Any: ...
    async def peek(self, id: int) -> Optional[Answer]: ...
    async def cancel(self, id: int) -> bool: ...


class Hook:
    """Called around puts and runs: derive from it, and append an instance to `App.hooks`. What a
    put writes to `message["headers"]`, a dictionary, the run finds there."""

    def put(self, queue: str, message: Dict[str, Any]) -> ContextManager[object]:
        return contextlib.nullcontext()

    def run(self, context: Context, message: Mapping[str, Any]) -> ContextManager[object]:
        """In the thread or the process of the run; of a coroutine, in its task."""
        return contextlib.nullcontext()


if TYPE_CHECKING:

    class Decorator(Protocol):
        @overload
        def __call__(
            self, function: Callable[P, Coroutine[Any, Any, R]]
        ) -> Task[P, Coroutine[Any, Any, R], R]: ...
        @overload
        def __call__(self, function: Callable[P, R]) -> Task[P, R, R]: ...

    class ContextDecorator(Protocol):
        @overload
        def __call__(
            self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
        ) -> Task[P, Coroutine[Any, Any, R], R]: ...
        @overload
        def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R, R]: ...


class App:
    """Tasks of one program, and the server that their jobs go to: `url`, or $JOBCENTRE_URL.
    Nothing is connected before the first put."""

    def __init__(
        self, url: Optional[str] = None, *, token: Optional[str] = None, timeout: float = TIMEOUT
    ) -> None:
        self.url, self.token, self.timeout = url, token, timeout
        self.tasks: Dict[str, Task[..., Any, Any]] = {}
        self.hooks: List[Hook] = []
        self._client: Optional[Client] = None
        self._async_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = (
            weakref.WeakKeyDictionary()
        )
        self._testing: Optional[Testing] = None

    @property
    def client(self) -> Client:
        """The blocking client, shared by all threads."""
        if self._client is None:
            self._client = Client(self.url, token=self.token, timeout=self.timeout)
        return self._client

    @property
    def aclient(self) -> AsyncClient:
        """The asyncio client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._async_clients.get(loop)
        if client is None:
            client = AsyncClient(self.url, token=self.token, timeout=self.timeout)
            self._async_clients[loop] = client
        return client

    def close(self) -> None:
        """Closes the connections of the blocking client."""
        if self._client is not None:
            self._client.close()

    async def aclose(self) -> None:
        """Closes the connections of the asyncio client of the running loop."""
        client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    @property
    def testing(self) -> Testing:
        """`with app.testing(): ...` keeps jobs in memory; see `jobcentre.testing`."""
        if self._testing is None:
            from .testing import Testing

            self._testing = Testing(self)
        return self._testing

    @property
    def backend(self) -> Backend:
        if self._testing is not None and self._testing.is_on:
            return self._testing.backend
        return self.client

    @property
    def async_backend(self) -> AsyncBackend:
        if self._testing is not None and self._testing.is_on:
            return self._testing.async_backend
        return self.aclient

    @overload
    def task(
        self,
        *,
        context: Literal[True],
        name: Optional[str] = None,
        queue: str = "default",
        pri: int = 0,
        ttr: float = requests.TTR,
        timeout: Optional[float] = None,
        retry: Union[Retry, int] = ...,
        unique: Optional[Callable[..., Optional[str]]] = None,
        key_ttl: float = 0,
        on_duplicate: Optional[str] = None,
        keep_result: float = 0,
        ttl: Optional[float] = None,
        safe: bool = True,
        process: bool = False,
    ) -> ContextDecorator: ...
    @overload
    def task(
        self,
        *,
        context: Literal[False] = False,
        name: Optional[str] = None,
        queue: str = "default",
        pri: int = 0,
        ttr: float = requests.TTR,
        timeout: Optional[float] = None,
        retry: Union[Retry, int] = ...,
        unique: Optional[Callable[..., Optional[str]]] = None,
        key_ttl: float = 0,
        on_duplicate: Optional[str] = None,
        keep_result: float = 0,
        ttl: Optional[float] = None,
        safe: bool = True,
        process: bool = False,
    ) -> Decorator: ...
    def task(
        self,
        *,
        context: bool = False,
        name: Optional[str] = None,
        queue: str = "default",
        pri: int = 0,
        ttr: float = requests.TTR,
        timeout: Optional[float] = None,
        retry: Union[Retry, int] = 10,
        unique: Optional[Callable[..., Optional[str]]] = None,
        key_ttl: float = 0,
        on_duplicate: Optional[str] = None,
        keep_result: float = 0,
        ttl: Optional[float] = None,
        safe: bool = True,
        process: bool = False,
    ) -> Any:
        """Makes a task of a function.

        - `name`: in the payload of its jobs; the name of the function unless given.
        - `queue`, `pri` (bigger is more urgent, from 0), `ttl` (a job that waits longer expires).
        - `ttr`: the length of the lease; it is touched as long as the job runs.
        - `timeout`: the most time for a run.
        - `retry`: a policy, or the number of attempts.
        - `unique`: from the arguments, by their names, to a key: as long as a job with this key is
          unfinished, a put makes no second one. `key_ttl`: and for this time after its completion.
          `on_duplicate`: "keep", "replace" or "reject".
        - `keep_result`: how long the result is kept.
        - `safe`: a put without a key gets a random one, so that it can be repeated.
        - `context`: the first argument is a `Context`.
        - `process`: it runs in a process of its own, not in a thread.
        """
        times = {"ttl": ttl, "timeout": timeout, "key_ttl": key_ttl, "keep_result": keep_result}
        for option, seconds in {"ttr": ttr, **times}.items():
            if seconds is not None:
                requests.milliseconds(seconds, option)
        policy = Retry(retry) if isinstance(retry, int) else retry
        given = {
            "key_ttl": key_ttl or None,
            "on_duplicate": on_duplicate,
            "keep_result": keep_result or None,
            "ttl": ttl,
            "safe": None if safe else False,
        }
        put = {key: value for key, value in given.items() if value is not None}
        options = TaskOptions(queue, pri, ttr, policy, timeout, unique, put)

        def decorate(function: Callable[..., Any]) -> Task[..., Any, Any]:
            found = name or function.__name__
            if found in self.tasks:
                raise ValueError(f"there is a task {found!r} already: give this one another name")
            is_async = asyncio.iscoroutinefunction(function)
            if is_async and process:
                raise TypeError(f"{found}: a coroutine function does not run in a process")
            mode = MODES[0 if is_async else 2 if process else 1]
            task: Task[..., Any, Any] = Task(
                self, function, found, options, mode=mode, has_context=context
            )
            self.tasks[found] = task
            return task

        return decorate

    def put_many(self, calls: Sequence[Call[R]]) -> List[Job[R]]:
        """Puts many calls, of any tasks, pipelined. Raises PutManyError if some were refused; if
        there is one only, what it was refused for."""
        with self._hooked(calls):
            lines = [call.request for call in calls]
            try:
                return self._jobs(calls, self.backend.put_many(lines))
            except PutManyError as error:
                raise _single(error) from None

    async def aput_many(self, calls: Sequence[Call[R]]) -> List[Job[R]]:
        """The same for asyncio."""
        with self._hooked(calls):
            lines = [call.request for call in calls]
            try:
                return self._jobs(calls, await self.async_backend.put_many(lines))
            except PutManyError as error:
                raise _single(error) from None

    def _jobs(self, calls: Sequence[Call[R]], placed: Sequence[requests.Placed]) -> List[Job[R]]:
        return [
            Job(self, place.id, call.request["queue"], place.duplicate)
            for call, place in zip(calls, placed)
        ]

    @contextlib.contextmanager
    def _hooked(self, calls: Sequence[Call[Any]]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for hook in self.hooks:
                for call in calls:
                    request = call.request
                    stack.enter_context(hook.put(request["queue"], request["job"]))
            yield

    @contextlib.contextmanager
    def running(self, context: Context, message: Mapping[str, Any]) -> Iterator[None]:
        """The hooks around a run."""
        with contextlib.ExitStack() as stack:
            for hook in self.hooks:
                stack.enter_context(hook.run(context, message))
            yield

    def run(
        self,
        queues: Optional[Sequence[str]] = None,
        *,
        concurrency: int = 16,
        threads: Optional[int] = None,
        processes: Optional[int] = None,
        grace: float = 25.0,
        heartbeat: float = 5.0,
    ) -> Stopped:
        """Runs a worker until SIGTERM or SIGINT; see `jobcentre.worker.Worker`."""
        from .worker import Worker

        worker = Worker(
            self,
            queues,
            concurrency=concurrency,
            threads=threads,
            processes=processes,
            grace=grace,
            heartbeat=heartbeat,
        )
        return asyncio.run(worker.run(signals=True))


def _single(error: PutManyError) -> JobcentreError:
    """What one put was refused for, without the frame for many."""
    only = error.results[0]
    return only if len(error.results) == 1 and isinstance(only, JobcentreError) else error
