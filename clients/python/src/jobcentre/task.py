"""Tasks: functions whose calls can be put as jobs."""

from __future__ import annotations

import copy
import inspect
import sys
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

from . import requests
from .job import Call, Job
from .retry import Retry

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from .app import App

    P = ParamSpec("P")
elif sys.version_info >= (3, 10):
    from typing import ParamSpec

    P = ParamSpec("P")
else:
    # Only type checkers look at it, and they know ParamSpec by typing_extensions.
    P = TypeVar("P")

C = TypeVar("C")
R = TypeVar("R")

#: Where a task runs.
MODES = ("async", "thread", "process")


class PutOptions(TypedDict, total=False):
    """What `Task.options` may change. Times are seconds."""

    queue: str
    pri: int
    delay: float
    ttl: float
    retry: Retry
    key: str
    key_ttl: float
    on_duplicate: str
    keep_result: float
    group: str
    after: Sequence[int]
    after_group: str
    on_dependency_lost: str
    safe: bool


@dataclass(frozen=True)
class TaskOptions:
    """What `App.task` says of a task, with what `Task.options` has changed."""

    queue: str = "default"
    pri: int = 0
    ttr: float = requests.TTR
    retry: Retry = field(default_factory=Retry)
    timeout: Optional[float] = None
    unique: Optional[Callable[..., Optional[str]]] = None
    put: Mapping[str, Any] = field(default_factory=dict)


class Task(Generic[P, C, R]):
    """A function of an app. A call is a call; `put` makes a job of it. `C` is what a call returns,
    `R` what the job results in: they differ for coroutines."""

    def __init__(
        self,
        app: App,
        function: Callable[..., C],
        name: str,
        options: TaskOptions,
        *,
        mode: str,
        has_context: bool,
    ) -> None:
        self.app, self.function, self.name = app, function, name
        self.mode, self.has_context = mode, has_context
        self._options = options
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        # The context comes from the worker.
        self._signature = signature.replace(parameters=parameters[1 if has_context else 0 :])

    def __repr__(self) -> str:
        return f"<Task {self.name} of queue {self._options.queue!r}>"

    @property
    def settings(self) -> TaskOptions:
        return self._options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Calls the function, here and now. A task with a context is called by workers only."""
        if self.has_context:
            raise TypeError(f"{self.name} needs a context: call {self.name}.function, or put it")
        return self.function(*args, **kwargs)

    def options(self, **changes: Unpack[PutOptions]) -> Task[P, C, R]:
        """The same task with other options for its puts."""
        unknown = set(changes) - set(PutOptions.__annotations__)
        if unknown:
            raise TypeError(f"{self.name}.options has no {sorted(unknown)[0]!r}")
        found: Dict[str, Any] = dict(changes)
        own: Dict[str, Any] = {
            name: found.pop(name) for name in ("queue", "pri", "retry") if name in found
        }
        if "key" in found:
            own["unique"] = None
        changed = copy.copy(self)
        changed._options = replace(self._options, **own, put={**self._options.put, **found})
        return changed

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call that is not put yet: for `App.put_many`."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        message = {"task": self.name, "args": list(args), "kwargs": dict(kwargs)}
        options, fields = self._options, dict(self._options.put)
        if options.unique is not None:
            bound.apply_defaults()
            fields["key"] = options.unique(**bound.arguments)
        request = requests.put(
            options.queue,
            message,
            pri=options.pri,
            ttr=options.ttr,
            max_attempts=options.retry.attempts,
            backoff=options.retry.backoff(),
            **fields,
        )
        return Call(self.name, request)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Puts a job that calls the function with these arguments."""
        return self.app.put_many([self.call(*args, **kwargs)])[0]

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The same for asyncio."""
        return (await self.app.aput_many([self.call(*args, **kwargs)]))[0]

    def put_many(self, calls: Iterable[Union[Call[R], Tuple[Any, ...]]]) -> List[Job[R]]:
        """Puts many jobs, pipelined: calls of `call`, which type checkers look into, or tuples of
        arguments."""
        return self.app.put_many(self._calls(calls))

    async def aput_many(self, calls: Iterable[Union[Call[R], Tuple[Any, ...]]]) -> List[Job[R]]:
        """The same for asyncio."""
        return await self.app.aput_many(self._calls(calls))

    def _calls(self, calls: Iterable[Union[Call[R], Tuple[Any, ...]]]) -> List[Call[R]]:
        anyhow: Callable[..., Call[R]] = self.call
        return [call if isinstance(call, Call) else anyhow(*call) for call in calls]
