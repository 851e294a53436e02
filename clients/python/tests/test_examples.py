"""The programs in `examples`, against the real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobcentre.server import PATIENCE, Server

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(server: Server, folder: Path, *words: str) -> str:
    environment = {**os.environ, "JOBCENTRE_URL": server.url}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_thumbnails(jobcentre_server: Server, tmp_path: Path) -> None:
    (tmp_path / "grey.ppm").write_bytes(b"P6 16 8 255\n" + bytes([100, 150, 200]) * 128)
    (tmp_path / "more.ppm").write_bytes(b"P6 8 8 255\n" + bytes([0, 0, 9, 0, 0, 11]) * 32)
    environment = {**os.environ, "JOBCENTRE_URL": jobcentre_server.url}
    command = [sys.executable, "-m", "jobcentre.command", "thumbnails:app", "--processes", "2"]
    worker = subprocess.Popen(command, cwd=EXAMPLES, env=environment)
    try:
        printed = run(jobcentre_server, tmp_path, str(EXAMPLES / "thumbnails.py"), ".")
    finally:
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    assert sorted(line.split(" ", 1)[1] for line in printed.splitlines()) == ["[1, 1]", "[2, 1]"]
    assert (tmp_path / "grey.ppm.small.ppm").read_bytes() == b"P6 2 1 255\n" + bytes(
        [100, 150, 200]
    ) * 2
    assert (tmp_path / "more.ppm.small.ppm").read_bytes() == b"P6 1 1 255\n" + bytes([0, 0, 10])


def test_import_orders(jobcentre_server: Server, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("ann,5\nbob,7\n")
    (tmp_path / "two.csv").write_text("ann,10\n")
    printed = run(
        jobcentre_server, tmp_path, str(EXAMPLES / "import_orders.py"), "one.csv", "two.csv"
    )
    assert printed == "ann 15\nbob 7\n"
