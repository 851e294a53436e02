"""`jobcentre-worker module:app`: runs the tasks of an app."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from typing import List, Optional

from .app import App
from .errors import JobcentreError


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    # As `python -m` does: the modules of the working directory, before those that are installed.
    sys.path.insert(0, os.getcwd())
    try:
        app = load(options.app)
    except LookupError as error:
        print(f"jobcentre-worker: {error}", file=sys.stderr)
        return 2
    if options.url is not None:
        app.url = options.url
    if options.token_file is not None:
        with open(options.token_file, encoding="utf-8") as file:
            app.token = file.read().strip()
    try:
        app.run(
            options.queue,
            concurrency=options.concurrency,
            threads=options.threads,
            processes=options.processes,
            grace=options.grace,
            heartbeat=options.heartbeat,
        )
    except (JobcentreError, ValueError) as error:
        print(f"jobcentre-worker: {error}", file=sys.stderr)
        return 1
    return 0


def load(path: str) -> App:
    """The app that `module:name` names. LookupError says what is wrong."""
    module_name, separator, name = path.partition(":")
    if not separator or not module_name or not name:
        raise LookupError(f"{path!r} must be MODULE:APP, for example tasks:app")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise LookupError(f"there is no module {module_name!r} here") from None
    found = getattr(module, name, None)
    if not isinstance(found, App):
        raise LookupError(f"{name!r} in {module_name!r} is no jobcentre.App")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jobcentre-worker",
        description="Runs the tasks of an app until SIGTERM or SIGINT; a second one ends its grace",
    )
    add = parser.add_argument
    add("app", metavar="MODULE:APP", help="where the jobcentre.App is")
    add(
        "-q",
        "--queue",
        action="append",
        help="a queue to take from, may be repeated (those of the tasks)",
    )
    add("-c", "--concurrency", type=int, default=16, help="jobs at a time (16)")
    add("--threads", type=int, help="of them in threads (as many)")
    add("--processes", type=int, help="of them in processes (one for each core)")
    add(
        "--grace", type=float, default=25.0, help="seconds that a stop leaves to jobs that run (25)"
    )
    add("--heartbeat", type=float, default=5.0, help="seconds between touches of a job (5)")
    add("--url", help="the server ($JOBCENTRE_URL, or jobcentre://127.0.0.1:11400)")
    add("--token-file", help="a file with the token ($JOBCENTRE_TOKEN holds the token itself)")
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


if __name__ == "__main__":
    sys.exit(main())
