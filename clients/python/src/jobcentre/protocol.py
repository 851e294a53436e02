"""The line protocol without I/O: requests become bytes, bytes become answers, in order.

Invariants: answers come in the order of the requests of their connection, so a `Pipeline` is a
queue of what waits for them. At most `IN_FLIGHT_MAX` requests are unanswered; the server executes
up to 1,024 of a connection at a time, and stops reading when it cannot write.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import random
import re
import time
from collections import deque
from typing import Any, Deque, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar

from .errors import (
    AnswerLost,
    BadAnswer,
    Cancelled,
    ConnectionLost,
    JobcentreError,
    JobFailed,
    NotHeld,
    RequestTimeout,
    TooManyClients,
    of_answer,
)

log = logging.getLogger("jobcentre")

W = TypeVar("W")
Answer = Dict[str, Any]
Request = Mapping[str, Any]

#: Requests without an answer, of one connection.
IN_FLIGHT_MAX = 512

CONNECT_TIMEOUT = 5.0
TIMEOUT = 30.0
#: Longest wait of one request. Longer waits are several: a server that hangs is noticed.
WAIT_MAX = 20.0
#: Connections that are kept for another use.
IDLE_MAX = 16
#: Bytes of requests that are sent before an answer is read.
UNANSWERED_BYTES_MAX = 4 << 20

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_decode = json.JSONDecoder().decode


def encode(request: Request) -> bytes:
    """The line of a request. TypeError, ValueError or RecursionError if it is not JSON."""
    return _encode(request).encode("ascii") + b"\n"


def encode_value(value: Any) -> str:
    """The JSON of a value, with the same errors."""
    return _encode(value)


class Pipeline(Generic[W]):
    """The requests of one connection that have no answer yet. `W` is what waits for an answer."""

    def __init__(self) -> None:
        self._waiting: Deque[W] = deque()
        self._partial: List[bytes] = []
        self._is_fresh = True

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, waiter: W) -> None:
        self._waiting.append(waiter)

    def feed(self, data: bytes) -> List[Tuple[W, Answer]]:
        """The answers that `data` completes, each with what has waited for it."""
        end = data.rfind(b"\n")
        if end < 0:
            self._partial.append(data)
            return []
        self._partial.append(data[:end])
        lines = b"".join(self._partial).split(b"\n")
        self._partial = [data[end + 1 :]] if end + 1 < len(data) else []
        answers = []
        for line in lines:
            answer = decode(line)
            if self._is_fresh:
                self._is_fresh = False
                _check_first(answer)
            if not self._waiting:
                # The server says by itself only why it closes the connection.
                check(answer)
                raise BadAnswer("an answer without a request")
            answers.append((self._waiting.popleft(), answer))
        return answers

    def take_all(self) -> List[W]:
        """What waits, when the connection is lost. Later answers belong to nothing."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._partial = []
        return waiting


def _check_first(answer: Answer) -> None:
    """A server with too many clients says so in place of the first answer, and closes the
    connection: nothing was executed."""
    if answer["status"] == "error" and isinstance(of_answer(answer), TooManyClients):
        raise ConnectionLost(str(answer.get("error", "")))


def decode(line: bytes) -> Answer:
    try:
        answer = _decode(line.decode("utf-8"))
    except (ValueError, RecursionError):
        answer = _decode_around_jobs(line)
    if not isinstance(answer, dict) or "status" not in answer:
        shown = line[:80].decode("utf-8", "replace")
        raise BadAnswer(f"this is not a Job Centre listener: it has answered {shown!r}")
    return answer


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')


def _decode_around_jobs(line: bytes) -> Any:
    """An answer of whose jobs Python cannot read some: their JSON is nested too deep, or has an
    integer with too many digits. Such a job is the bytes of its JSON. If something else is so, it
    is an error of its request. None: it is no answer."""
    try:
        text = line.decode("utf-8")
        # Jobs are members of the answer, or of the objects in its array `jobs`.
        level = 3 if re.match(r'\{"status":"ok","jobs":\[', text) else 1
        parts: List[str] = []
        depth = copied = 0
        begin: Optional[int] = None
        for token in _TOKEN.finditer(text):
            sign = token[0]
            if begin is not None and depth == level and sign in ",}":
                parts += [text[copied:begin], _job_or_bytes(text[begin : token.start()])]
                copied, begin = token.start(), None
            if sign in "[{":
                depth += 1
            elif sign in "]}":
                depth -= 1
            elif sign == '"job"' and depth == level and text.startswith(":", token.end()):
                begin = token.end() + 1
        # Besides them such an answer to a get has priorities, of any number of digits.
        decode = _decode_any_priority if level == 3 else _decode
        return decode("".join([*parts, text[copied:]]))
    except (ValueError, RecursionError):
        if not line.startswith(b'{"status":"ok",') or not line.endswith(b"}"):
            return None
        why = "its JSON is nested too deep, or has an integer with too many digits"
        return {"status": "error", "kind": "unreadable", "error": f"unreadable answer: {why}"}


def _integer_or_infinity(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return math.inf


_decode_any_priority = json.JSONDecoder(parse_int=_integer_or_infinity).decode


def _job_or_bytes(text: str) -> str:
    try:
        _decode(text)
        return text
    except (ValueError, RecursionError):
        encoded = base64.b64encode(text.encode("utf-8")).decode("ascii")
        return f'null,"payload_base64":"{encoded}"'


def check(answer: Answer) -> Optional[Answer]:
    """The answer if it is `ok`, None if it is `no-job`; raises the error that it reports."""
    status = answer["status"]
    if status == "ok":
        return answer
    if status == "no-job":
        return None
    raise of_answer(answer)


def check_auth(answer: Answer) -> None:
    """The same for the answer to `auth`: a server without users takes everybody."""
    if answer.get("kind") != "wrong-state":
        check(answer)


def not_held(id: int, cancelled: bool) -> JobcentreError:
    """Why the report of a job did not count."""
    if cancelled:
        return Cancelled(f"job {id} was cancelled")
    return NotHeld(f"job {id} is not held any more: its lease has ended, or it is gone")


def result_of(answer: Answer) -> Any:
    """The result in an answer to `result`; raises JobFailed if the job is dead."""
    if answer["state"] == "buried":
        error = answer.get("last_error") or {}
        raise JobFailed(error.get("error", "Error"), error.get("message", "it was buried"))
    return answer.get("result")


#: Requests that may be repeated when their answer was lost: twice is as good as once, and a job
#: that was handed out goes back with its connection. Besides these, a put with a key.
REPEATABLE = frozenset(
    "get peek result queues list stats pause resume drain clients cancel change bury".split()
)


def is_repeatable(request: Request) -> bool:
    name = request["request"]
    return name in REPEATABLE or (name == "put" and "key" in request)


class Backoff:
    """Pauses between attempts to connect: they double, and are drawn between half and whole."""

    def __init__(self, first: float = 0.05, most: float = 5.0) -> None:
        self.first, self.most = first, most
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        whole = min(self.most, self.first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return whole * random.uniform(0.5, 1.0)


class Deadline:
    """A moment after which a call gives up. `None` seconds: never."""

    def __init__(self, seconds: Optional[float]) -> None:
        if seconds is not None and math.isnan(seconds):
            raise ValueError("a time must be a number of seconds: nan")
        self._end: Optional[float] = None
        if seconds is not None and seconds != math.inf:
            self._end = time.monotonic() + seconds

    def left(self) -> Optional[float]:
        """Seconds until then, at least 0."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def at_most(self, seconds: float) -> float:
        left = self.left()
        return seconds if left is None else min(seconds, left)


class Attempts:
    """What becomes of requests whose connection is lost: they are repeated, if that is safe, until
    a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self._backoff = Backoff()
        self._may_be_executed = False

    def pause_after(self, lost: ConnectionLost, unanswered: Sequence[Request]) -> float:
        """Seconds to wait before the requests are repeated; raises if they must not be."""
        self._may_be_executed |= isinstance(lost, AnswerLost)
        if not lost.temporary:
            raise lost
        if self.deadline.is_over():
            if self._may_be_executed:
                raise RequestTimeout(f"no answer in time: {lost}") from lost
            raise lost
        if isinstance(lost, AnswerLost):
            for request in unanswered:
                if not is_repeatable(request):
                    raise lost
                if request["request"] == "put":
                    _warn_of_second_job(request)
        pause = self.deadline.at_most(self._backoff.next())
        log.info("repeating %d requests in %.2f s: %s", len(unanswered), pause, lost)
        return pause


def _warn_of_second_job(request: Request) -> None:
    if "key_ttl" not in request:
        log.warning(
            "the put under the key %r is repeated, because its answer was lost; if its job is done "
            "already, a second one is made (a key_ttl prevents that)",
            request["key"],
        )
