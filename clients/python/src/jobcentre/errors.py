"""Errors by kind.

A line of the server that reports an error holds a sentence, and no name of its kind. `of_sentence`
recognises the kind by words of the sentence; the tests provoke each kind on the real server, so a
sentence that changes breaks a test and not a program.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Optional, Sequence, Union

if TYPE_CHECKING:
    from .requests import Placed


class JobcentreError(Exception):
    """What this package raises, apart from mistakes in calls (TypeError, ValueError)."""

    #: Whether the same request may succeed later without a change.
    temporary = False


class ConnectionLost(JobcentreError, ConnectionError):
    """The server could not be reached, or the connection ended. The request was not executed."""

    temporary = True


class Untrusted(ConnectionLost):
    """The certificate of the server is not one of an authority that is trusted, or not for it."""

    temporary = False


class AnswerLost(ConnectionLost):
    """The connection ended between a request and its answer: it may have been executed or not."""


class RequestTimeout(JobcentreError, TimeoutError):
    """There was no answer in time. The request may have been executed or not."""

    temporary = True


class BadAnswer(JobcentreError):
    """What came back is not an answer of the Job Centre protocol."""


class ServerError(JobcentreError):
    """The server has answered with an error; the text is its sentence."""


class BadRequest(ServerError):
    """The server cannot execute this request: a field is wrong or too large."""


class Unauthorized(ServerError):
    """The server has users, and the token is missing or unknown."""


class Forbidden(ServerError):
    """The user of the token lacks a right."""


class Draining(ServerError):
    """The server takes no new jobs until drain mode ends."""

    temporary = True


class Full(ServerError):
    """There is no space for another job, in memory or on the disk."""

    temporary = True


class TooManyClients(ServerError):
    """The server has as many clients as it permits."""

    temporary = True


class DuplicateKey(ServerError):
    """The key is taken, and the put has said that it is to be rejected then."""

    def __init__(self, sentence: str, id: Optional[int] = None) -> None:
        super().__init__(sentence)
        self.id = id


class NotHeld(JobcentreError):
    """The job is not reserved by this connection: its lease has ended, or it is gone."""


class Cancelled(JobcentreError):
    """The job was cancelled."""


class JobGone(JobcentreError):
    """There is no job with this id, or it was gone before it had a result."""


class JobFailed(JobcentreError):
    """The job is dead: its last run has failed."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}" if message else error)
        self.error, self.message = error, message


class PutManyError(JobcentreError):
    """Some puts of many were refused. `results` has, in their order, what each has come to."""

    def __init__(self, results: Sequence[Union[Placed, JobcentreError]]) -> None:
        errors = [result for result in results if isinstance(result, JobcentreError)]
        super().__init__(f"{len(errors)} of {len(results)} puts were refused, first: {errors[0]}")
        self.results = list(results)


class UnknownTask(JobcentreError):
    """The job names a task that this worker does not have."""


_KINDS = (
    (Unauthorized, re.compile(r"^authenticate first|no user of this server has this token")),
    (Forbidden, re.compile(r" lacks the right |^the rights of this user have changed")),
    (Draining, re.compile(r"^the server is being drained")),
    (Full, re.compile(r"disk is full|--max-memory|no place left for another job")),
    (TooManyClients, re.compile(r"^the server already serves ")),
)
_DUPLICATE = re.compile(r"^the key is taken by job (\d+)")
_NOT_HELD = re.compile(
    r"job \d+ is not reserved|is being worked on by another|is reserved by another client"
    r"|the lease of job \d+"
)


def of_sentence(sentence: str) -> JobcentreError:
    """The error for the sentence of an answer `{"status":"error","error":SENTENCE}`."""
    duplicate = _DUPLICATE.search(sentence)
    if duplicate:
        return DuplicateKey(sentence, int(duplicate.group(1)))
    if _NOT_HELD.search(sentence):
        return NotHeld(sentence)
    for kind, pattern in _KINDS:
        if pattern.search(sentence):
            return kind(sentence)
    return BadRequest(sentence)
