"""What becomes of a run that fails: the policy of a task, and exceptions that say more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type

from .payload import clean


class NoRetry(Exception):
    """Raised in a task: this run has failed, and another one would fail, too. The job is dead."""


class RetryIn(Exception):
    """Raised in a task: run it again in this time, whatever the backoff says. A negative one is a
    moment that is over: at once."""

    seconds = 0.0

    def __init__(self, seconds: float, message: str = "") -> None:
        if not math.isfinite(seconds):
            raise ValueError(f"the time until the next run must be a finite number: {seconds}")
        self.seconds = max(0.0, float(seconds))
        super().__init__(message or f"again in {self.seconds:g} s")


@dataclass(frozen=True)
class Retry:
    """Runs a job `attempts` times at most. The pause before the n-th retry is `base` * 2^(n-1)
    seconds, or always `base` if `fixed`, at most `most`, and up to the part `jitter` shorter or
    longer. Exceptions that are not of the classes `on` are not retried."""

    attempts: int = 10
    base: float = 1.0
    most: float = 3600.0
    fixed: bool = False
    jitter: float = 0.2
    on: Tuple[Type[BaseException], ...] = (Exception,)

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 <= self.base <= self.most < math.inf:
            raise ValueError(
                "attempts must be 1 or more, base at least 0 and at most `most`, which is finite"
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be 0 to 1: {self.jitter}")
        on: Any = self.on
        classes = (on,) if isinstance(on, type) else tuple(on)
        for found in classes:
            if not (isinstance(found, type) and issubclass(found, BaseException)):
                raise TypeError(f"`on` must have classes of exceptions: {found!r}")
        object.__setattr__(self, "on", classes)

    def backoff(self) -> Dict[str, Any]:
        """The field `backoff` of a put."""
        return {
            "kind": "fixed" if self.fixed else "exponential",
            "first_ms": round(self.base * 1000),
            "max_ms": round(self.most * 1000),
            "jitter": self.jitter,
        }


class Failure(NamedTuple):
    """How a run has failed: the fields of the request `fail`."""

    error: str
    message: str
    retry: bool = True
    delay: Optional[float] = None


def failure_of(error: BaseException, retry: Retry) -> Failure:
    name, message = clean(type(error).__name__, 256), clean(error)
    if isinstance(error, RetryIn):
        return Failure(name, message, True, error.seconds)
    return Failure(name, message, isinstance(error, retry.on) and not isinstance(error, NoRetry))
