"""Calls of a web API that permits 10 calls a second, and 3 at a time.

A constraint of the server holds the jobs back, however many workers there are; it is made once:

    jobcentre constraints set api-calls '{"matcher": [["name", "=", "api-calls"]],
        "max_running": 3, "rate": {"count": 10, "period_ms": 1000}}'

    jobcentre-worker api_calls:app          in this folder: makes the calls
    python examples/api_calls.py PATH...    puts a job for each path of $API_URL, prints the answers
    jobcentre constraints                   shows the limits
    jobcentre constraints delete api-calls  removes them

If the API refuses a call for now, its Retry-After says when it is made again.
"""

import email.utils
import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any, Optional

from jobcentre import App, NoRetry, Retry, RetryIn

app = App()
API_URL = os.environ.get("API_URL", "https://api.example.com")


@app.task(queue="api-calls", keep_result=600, timeout=60, retry=Retry(8, base=0.5, most=300))
def call(path: str) -> Any:
    """A job may run twice: the call is one that may be made twice."""
    try:
        with urllib.request.urlopen(API_URL + path, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sentence = f"{path}: {error.code} {error.reason}"
        if error.code in (429, 503):
            pause = seconds_of(error.headers["Retry-After"])
            if pause is not None:
                raise RetryIn(pause, sentence) from error
        if error.code < 500 and error.code not in (408, 429):
            raise NoRetry(sentence) from error
        # With the pauses of the task.
        raise


def seconds_of(retry_after: Optional[str]) -> Optional[float]:
    """The pause that the header says: seconds, or a date (RFC 9110, 10.2.3)."""
    if retry_after is None:
        return None
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (TypeError, ValueError):
        return None


def main() -> None:
    jobs = call.put_many([(path,) for path in sys.argv[1:]])
    for path, job in zip(sys.argv[1:], jobs):
        print(path, json.dumps(job.result(timeout=300)))


if __name__ == "__main__":
    main()
