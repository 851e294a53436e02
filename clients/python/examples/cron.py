"""Jobs by the clock. The server has the schedules: one job a moment, however many workers wait.

    python examples/cron.py set DATABASE FOLDER [SECONDS]    makes the schedules, or changes them
    python examples/cron.py list                             says when each puts its next job
    python examples/cron.py remove                           removes them
    jobcentre-worker cron:app                                in this folder: runs the jobs

`jobcentre schedules` lists them all, too, `jobcentre schedules run backup` puts the job of one now.

Schedules are made over the HTTP listener of the server, http://127.0.0.1:11480 unless
$JOBCENTRE_HTTP_URL names another one, with the token in $JOBCENTRE_TOKEN, if it is set;
$SSL_CERT_FILE has the authority of an https:// address.
"""

import json
import os
import shutil
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, Optional

from jobcentre import App, Call

app = App()


@app.task(queue="cron", retry=3)
def backup(database: str, folder: str) -> None:
    """A copy of the day. A job may run twice: the second copy takes the place of the first."""
    path = Path(folder, time.strftime("%Y-%m-%d") + ".sqlite")
    source, copy = sqlite3.connect(database), sqlite3.connect(path)
    with copy:
        source.backup(copy)
    source.close()
    copy.close()


@app.task(queue="cron", retry=1)
def measure(folder: str) -> None:
    with open(Path(folder, "disk.csv"), "a", encoding="utf-8") as file:
        file.write(f"{time.time():.0f},{shutil.disk_usage(folder).free}\n")


def schedules(database: str, folder: str, seconds: float) -> Dict[str, Dict[str, Any]]:
    nightly = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    # While the last job is unfinished, no other one is put.
    often = {"every_ms": round(seconds * 1000), "overlap": "skip", "missed": "skip"}
    return {
        "backup": {**nightly, **job_of(backup.call(database, folder))},
        "measure": {**often, **job_of(measure.call(folder))},
    }


def job_of(call: Call[Any]) -> Dict[str, Any]:
    """What a put of this call would say, in the terms of a schedule."""
    put = call.request
    fields = {"payload": put["job"], "ttr_ms": put["ttr"]}
    fields.update((name, put[name]) for name in ("pri", "max_attempts", "backoff"))
    return {"queue": put["queue"], "job": fields}


def request(method: str, name: str, body: Optional[Dict[str, Any]] = None) -> Any:
    server = os.environ.get("JOBCENTRE_HTTP_URL", "http://127.0.0.1:11480")
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("JOBCENTRE_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    url = f"{server}/api/v1/schedules/{name}"
    asked = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        # The server says what is wrong.
        sys.exit(f"schedule {name}: {json.load(error)['detail']}")
    return json.loads(text) if text else None


def main() -> None:
    action, *arguments = sys.argv[1:]
    if action == "set":
        database, folder = map(os.path.abspath, arguments[:2])
        seconds = float(arguments[2]) if arguments[2:] else 60.0
        # Each deployment may do this: a schedule whose times stay keeps its next moment.
        for name, schedule in schedules(database, folder, seconds).items():
            request("PUT", name, schedule)
    for name in ("backup", "measure"):
        if action == "remove":
            request("DELETE", name)
        else:
            print(name, request("GET", name)["next_runs"][0])


if __name__ == "__main__":
    main()
