"""Runs all of it against a binary: pytest without and with --data, then schemathesis.

Everything is run even if something fails; the last line says what did.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server import Server

HERE = Path(__file__).resolve().parent
SEED = "6"
# Bodies of these paths are MessagePack, which schemathesis neither writes nor reads: see
# test_packed.py. An answer of the last one has no end.
EXCLUDED = "^/(job|worker|done|constraint)(/|$)|^/api/v1/stream$"
SECONDS_AT_MOST = 1200  # for each part: a hanging client is a failure too


def pytest(binary, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE]
    return subprocess.run(
        [*command, "--binary", binary, *arguments], cwd=HERE, timeout=SECONDS_AT_MOST
    ).returncode


def in_memory(binary):
    return pytest(binary, "-m", "not durable", HERE)


def durable(binary):
    """What the protocol itself does has nothing to do with the disk."""
    files = [HERE / f"test_{name}.py" for name in ("jobs", "queries", "protocols", "workers")]
    return pytest(binary, "--durable", *files)


def against_its_description(binary):
    """Everything that /openapi.json says in JSON, by schemathesis, with whatever that makes up."""
    server = Server(binary)
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file",
               HERE / "schemathesis.toml", "run", server.http + "/openapi.json", "--no-color",
               "--seed", SEED, "--max-time", "60", "--generation-database", "none",
               "--exclude-path-regex", EXCLUDED]
    with tempfile.TemporaryDirectory() as scratch:
        status = subprocess.run(
            command, cwd=scratch, env={**os.environ, "PYTHONPATH": str(HERE)},
            timeout=SECONDS_AT_MOST,
        ).returncode
    server.stop()
    return status


def main():
    binary, failed = sys.argv[1], []
    for part in [in_memory, durable, against_its_description]:
        name, begun = part.__name__.replace("_", " "), time.monotonic()
        print(f"-- clients: {name}", flush=True)
        try:
            status = part(binary)
        except Exception as error:  # the server did not start, or did not stop well, or hangs
            status = error
        print(f"-- clients: {name}: {time.monotonic() - begun:.0f} s", flush=True)
        if status != 0:
            failed.append(f"{name} ({status})")
    if failed:
        sys.exit(f"the server and its clients do not agree: {', '.join(failed)}")
    print("all clients are content")


main()
