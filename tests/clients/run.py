"""Runs all of it against a binary: pytest without and with --data, then schemathesis.

Everything is run even if something fails; the last line says what did. The part with --data, which
mostly waits for the disk, runs beside the others, and prints when it is done.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server import LARGE, Server

HERE = Path(__file__).resolve().parent
SEED = "6"
# Bodies of these paths are MessagePack, which schemathesis neither writes nor reads: see
# test_packed.py. An answer of the last one has no end.
EXCLUDED = "^/(job|worker|done|constraint)(/|$)|^/api/v1/stream$"
SECONDS_AT_MOST = 1200  # for each part: a hanging client is a failure too


def pytest(binary, *arguments, output=None):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE]
    return subprocess.run(
        [*command, "--binary", binary, *arguments], cwd=HERE, timeout=SECONDS_AT_MOST,
        stdout=output, stderr=output,
    ).returncode


def in_memory(binary):
    return pytest(binary, "-m", "not durable", HERE)


def durable(binary):
    """What the protocol itself does has nothing to do with the disk."""
    files = [HERE / f"test_{name}.py" for name in ("jobs", "queries", "protocols", "workers")]
    with tempfile.TemporaryFile() as output:
        # What they are about is long answers, which the disk has no part in.
        long = [] if LARGE else ["-k", "not test_long_lists and not test_many_queues"]
        try:
            return pytest(binary, "--durable", *long, *files, output=output)
        finally:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))


def against_its_description(binary):
    """Everything that /openapi.json says in JSON, by schemathesis, with whatever that makes up."""
    server = Server(binary)
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file",
               HERE / "schemathesis.toml", "run", server.http + "/openapi.json", "--no-color",
               "--seed", SEED, "--max-time", "60" if LARGE else "30",
               "--generation-database", "none", "--exclude-path-regex", EXCLUDED]
    with tempfile.TemporaryDirectory() as scratch:
        status = subprocess.run(
            command, cwd=scratch, env={**os.environ, "PYTHONPATH": str(HERE)},
            timeout=SECONDS_AT_MOST,
        ).returncode
    server.stop()
    return status


def play(part, binary):
    """Runs a part and says what is wrong with it, or nothing."""
    name, begun = part.__name__.replace("_", " "), time.monotonic()
    print(f"-- clients: {name}", flush=True)
    try:
        status = part(binary)
    except Exception as error:  # the server did not start, or did not stop well, or hangs
        status = error
    print(f"-- clients: {name}: {time.monotonic() - begun:.0f} s", flush=True)
    return f"{name} ({status})" if status != 0 else None


def main():
    binary = sys.argv[1]
    with ThreadPoolExecutor(1) as beside:
        last = beside.submit(play, durable, binary)
        outcomes = [play(part, binary) for part in (in_memory, against_its_description)]
        outcomes.append(last.result())
    failed = [outcome for outcome in outcomes if outcome]
    if failed:
        sys.exit(f"the server and its clients do not agree: {', '.join(failed)}")
    print("all clients are content")


main()
