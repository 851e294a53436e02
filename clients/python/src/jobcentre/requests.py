"""The requests of the line protocol as dictionaries, from arguments in Python's terms.

Times are seconds here, and milliseconds on the wire. What an argument leaves out is left out of
the request: the defaults of the server apply.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import protocol
from .errors import JobcentreError, PutManyError
from .payload import clean, fields_of

#: How long a key that was drawn stays taken after the job is done: longer than a put is repeated.
DRAWN_KEY_TTL = 60.0
TTR = 60.0


class Placed(NamedTuple):
    """What a put has come to: the id of the job, and whether it was there already."""

    id: int
    duplicate: bool


def milliseconds(seconds: float, name: str) -> int:
    if not (0 <= seconds and math.isfinite(seconds)):
        raise ValueError(f"{name} must be a finite number of seconds, not negative: {seconds}")
    # A short time does not become "none".
    return max(1, round(seconds * 1000)) if seconds > 0 else 0


def put(
    queue: str,
    job: Any,
    *,
    pri: int = 0,
    delay: float = 0,
    ttl: Optional[float] = None,
    ttr: Optional[float] = TTR,
    max_attempts: Optional[int] = 10,
    backoff: Optional[Mapping[str, Any]] = None,
    keep_result: float = 0,
    key: Optional[str] = None,
    key_ttl: float = 0,
    on_duplicate: Optional[str] = None,
    group: Optional[str] = None,
    after: Sequence[int] = (),
    after_group: Optional[str] = None,
    on_dependency_lost: Optional[str] = None,
    safe: bool = True,
) -> Dict[str, Any]:
    """A put. `job`: what JSON has, or bytes. With `safe` one without a key gets a random one,
    under which it can be repeated."""
    request: Dict[str, Any] = {"request": "put", "queue": queue, **fields_of(job), "pri": pri}
    if key is None and safe:
        key, key_ttl = drawn_key(), DRAWN_KEY_TTL
    times = {"delay": delay, "ttl": ttl, "ttr": ttr, "keep_result": keep_result, "key_ttl": key_ttl}
    for name, seconds in times.items():
        if seconds:
            request[name] = milliseconds(seconds, name)
    others = {
        "max_attempts": max_attempts,
        "backoff": backoff,
        "key": key,
        "on_duplicate": on_duplicate,
        "group": group,
        "after": list(after) or None,
        "after_group": after_group,
        "on_dependency_lost": on_dependency_lost,
    }
    request.update((name, value) for name, value in others.items() if value is not None)
    return request


def drawn_key() -> str:
    return "put:" + secrets.token_hex(12)


def is_drawn(request: Mapping[str, Any]) -> bool:
    """Whether the key of this put was drawn: `duplicate` then means that it was repeated."""
    return str(request.get("key", "")).startswith("put:") and "on_duplicate" not in request


def placed(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Placed:
    return Placed(answer["id"], bool(answer.get("duplicate")) and not is_drawn(request))


def all_placed(
    puts: Sequence[Mapping[str, Any]], answers: Sequence[protocol.Answer]
) -> List[Placed]:
    """What many puts have come to. Raises PutManyError if some were refused."""
    results: List[Union[Placed, JobcentreError]] = []
    done: List[Placed] = []
    for request, answer in zip(puts, answers):
        try:
            protocol.check(answer)
            done.append(placed(request, answer))
            results.append(done[-1])
        except JobcentreError as error:
            results.append(error)
    if len(done) < len(results):
        raise PutManyError(results)
    return done


def get(queues: Sequence[str], wait: float = 0, limit: int = 1) -> Dict[str, Any]:
    request: Dict[str, Any] = {"request": "get", "queues": list(queues), "limit": limit}
    request["attempts"] = True
    if wait > 0:
        request["timeout"] = milliseconds(wait, "wait")
    return request


def done(id: int, result: Any = None) -> Dict[str, Any]:
    request: Dict[str, Any] = {"request": "done", "id": id}
    if result is not None:
        request["result"] = result
    return request


def fail(
    id: int, error: str, message: str, retry: bool = True, delay: Optional[float] = None
) -> Dict[str, Any]:
    request: Dict[str, Any] = {"request": "fail", "id": id}
    request["error"], request["message"] = clean(error, 256), clean(message)
    if not retry:
        request["retry"] = False
    if delay is not None:
        request["delay"] = milliseconds(delay, "delay")
    return request


def release(id: int) -> Dict[str, Any]:
    return {"request": "abort", "id": id}


def touch(id: int, ttr: Optional[float] = None) -> Dict[str, Any]:
    request: Dict[str, Any] = {"request": "touch", "id": id}
    if ttr:
        request["ttr"] = milliseconds(ttr, "ttr")
    return request


def progress(id: int, part: float, message: Optional[str] = None) -> Dict[str, Any]:
    if not 0 <= part <= 1:
        raise ValueError(f"progress must be 0 to 1: {part}")
    # Also of a Decimal, or a number of numpy.
    request: Dict[str, Any] = {"request": "progress", "id": id, "progress": float(part)}
    if message is not None:
        request["message"] = clean(message)
    return request


def instead_of(report: Mapping[str, Any], why: object) -> Optional[Dict[str, Any]]:
    """What a worker reports in place of a report that the server refuses. None: nothing is left."""
    if report["request"] == "done":
        size = len(protocol.encode(report)) - 1
        message = f"the server refuses the result, with which the request has {size} bytes: {why}"
        return fail(report["id"], "ResultRefused", message, False)
    if report["request"] == "fail" and report["error"] != "ReportRefused":
        failed = clean(f"{report['error']}: {report['message']}", 100)
        message = f"the server refuses the report of the failure: {clean(why, 300)}; it is {failed}"
        return fail(report["id"], "ReportRefused", message, False)
    return None


def result(id: int, wait: float) -> Dict[str, Any]:
    return {"request": "result", "id": id, "timeout": milliseconds(wait, "wait")}


def of_id(name: str, id: int) -> Dict[str, Any]:
    """`peek`, `cancel`, `bury`, `kick` or `delete` of a job."""
    return {"request": name, "id": id}


def auth(token: str) -> Dict[str, Any]:
    return {"request": "auth", "token": token}
