"""What becomes of a run that fails: the policy of a task, and exceptions that say more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type


class NoRetry(Exception):
    """Raised in a task: this run has failed, and another one would fail, too. The job is dead."""


class RetryIn(Exception):
    """Raised in a task: run it again in this time, whatever the backoff says."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"again in {seconds:g} s")
        self.seconds = seconds


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
        if self.attempts < 1 or self.base < 0 or self.most < self.base:
            raise ValueError("attempts must be 1 or more, and base at least 0 and at most `most`")

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
    name, message = type(error).__name__, str(error)
    if isinstance(error, RetryIn):
        return Failure(name, message, True, error.seconds)
    return Failure(name, message, isinstance(error, retry.on) and not isinstance(error, NoRetry))
