"""The payloads of jobs, and the texts of reports, as Python has them and as the server takes them.

A payload is JSON, or bytes: those of a beanstalkd client, or of a packet of pinpriq.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, Mapping, NamedTuple, Optional

#: Characters of the message of a report. The server keeps 64 KiB, and takes lines of 1 MiB.
MESSAGE_MAX = 32_768
#: Characters of a text in a log.
LOGGED_MAX = 2_000


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


class Payload(NamedTuple):
    """`job`: the value of the JSON. Of bytes, which `data` has, it is that of the JSON text that
    they are, or else the bytes. `packet_key`: the key of a packet."""

    job: Any
    data: Optional[bytes] = None
    packet_key: Optional[bytes] = None


def payload_of(job: Mapping[str, Any]) -> Payload:
    """The payload of a job in an answer."""
    encoded, key = job.get("payload_base64"), job.get("packet_key_base64")
    if encoded is None:
        return Payload(job.get("job"))
    data = base64.b64decode(encoded)
    value: Any = data
    try:
        value = _decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        pass
    return Payload(value, data, None if key is None else base64.b64decode(key))


def fields_of(job: Any) -> Dict[str, Any]:
    """The field of a put that has this payload."""
    if isinstance(job, (bytes, bytearray, memoryview)):
        return {"payload_base64": base64.b64encode(job).decode("ascii")}
    return {"job" if isinstance(job, (dict, Mapping)) else "payload": job}


def clean(text: object, most: int = MESSAGE_MAX) -> str:
    """A text that the server takes: not too long, and without halves of surrogate pairs."""
    try:
        found = str(text)
    except Exception as error:
        found = f"(a {type(text).__name__} whose text cannot be had: {type(error).__name__})"
    length = len(found)
    if length > most:
        end = f"... ({length} characters)"
        found = found[: max(0, most - len(end))] + end
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        # Pairs become the characters that they mean, halves U+FFFD.
        found = found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return found
