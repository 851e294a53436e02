"""Errors by kind.

A line of the server that reports an error has a `kind`, but for the errors of Job Centre's own
requests: `of_answer` recognises those by words of the sentence. The tests provoke each on the real
server, so a sentence that changes breaks a test and not a program.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Type, Union

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
    """The certificate of the server is not one of an authority that is trusted, or not for it; or
    the server refuses that of the client, or misses one."""

    temporary = False


class AnswerLost(ConnectionLost):
    """The connection ended between a request and its answer: it may have been executed or not."""


class RequestTimeout(JobcentreError, TimeoutError):
    """There was no answer in time. The request may have been executed or not."""

    temporary = True


class BadAnswer(JobcentreError):
    """What came back is not an answer of the Job Centre protocol, or Python cannot read it."""


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


class Unavailable(ServerError):
    """The server cannot serve now: what holds its jobs is away."""

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


_OF_KIND: Dict[str, Type[JobcentreError]] = {
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "draining": Draining,
    "storage-full": Full,
    "memory-full": Full,
    "too-many-jobs": Full,
    "unavailable": Unavailable,
    "unreadable": BadAnswer,
}
_OF_SENTENCE = (
    (Draining, re.compile(r"^the server is being drained")),
    (Full, re.compile(r"disk is full|--max-memory|no place left for another job")),
    (TooManyClients, re.compile(r"^the server already serves ")),
    (
        NotHeld,
        re.compile(r"job \d+ is (not reserved|(being worked on|reserved) by another)|the lease of"),
    ),
)

_REFUSED_CERTIFICATE = re.compile(r"_ALERT_(.*CERTIFICATE|UNKNOWN_CA)")


def of_certificate(server: object, error: Optional[BaseException]) -> Optional[Untrusted]:
    """The error of a connection that failed because of a certificate; None: of another cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(f"{server} has no certificate that is trusted: {error}")
    # With TLS 1.3 this arrives after the handshake, in place of the first answer.
    if isinstance(error, ssl.SSLError) and _REFUSED_CERTIFICATE.search(error.reason or ""):
        return Untrusted(f"{server} refuses the certificate of this client: {error}")
    return None


def of_answer(answer: Mapping[str, Any]) -> JobcentreError:
    """The error of an answer whose status is `error`."""
    sentence = str(answer.get("error", answer.get("status", "")))
    kind = answer.get("kind")
    if kind == "duplicate":
        return DuplicateKey(sentence, answer.get("id"))
    # A job in another state: of a report it means that the job is not held.
    if kind is None or kind == "wrong-state":
        for error, pattern in _OF_SENTENCE:
            if pattern.search(sentence):
                return error(sentence)
    return _OF_KIND.get(str(kind), BadRequest)(sentence)
