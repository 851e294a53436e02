"""The tutorial, docs/clients/python.md, as a reader follows it, against the real server.

`python NAME` blocks are files. Other `python` blocks are run, and the `text` block below must be
what they print. In `console` blocks a worker goes on in the background, and other commands are run;
the lines below a command must be what it prints, with `…` for any text.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

import pytest

from jobcentre.server import PATIENCE, Server

PAGE = Path(__file__).parents[3] / "docs" / "clients" / "python.md"
README = Path(__file__).parents[1] / "README.md"


class Block(NamedTuple):
    kind: str
    name: str
    text: str
    line: int


def blocks(text: str) -> List[Block]:
    found = []
    for match in re.finditer(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", text, re.M | re.S):
        line = text[: match.start()].count("\n") + 1
        found.append(Block(match[1], match[2] or "", match[3], line))
    return found


class Reader:
    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.workers: List["subprocess.Popen[bytes]"] = []
        self.printed = ""
        self.played = 0
        scripts = str(Path(sys.executable).parent)
        self.environment: Dict[str, str] = {
            **os.environ,
            "JOBCENTRE_URL": server.url,
            "PATH": scripts + os.pathsep + os.environ["PATH"],
        }

    def play(self, block: Block) -> None:
        text = block.text.replace("127.0.0.1:11400", self.server.address)
        if block.kind == "python" and block.name:
            (self.folder / block.name).write_text(text, encoding="utf-8")
        elif block.kind == "python":
            self.printed = self.run([sys.executable, "-c", text], block)
        elif block.kind == "text":
            fits(block.text, self.printed, block)
        elif block.kind == "console":
            self.play_console(block)
        else:
            raise AssertionError(f"line {block.line}: a block of kind {block.kind!r} is not played")
        self.played += 1

    def play_console(self, block: Block) -> None:
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.M):
            words = command.split()
            if words[:2] == ["jobcentre", "serve"] or "venv" in command or words[0] == "pip":
                continue  # It is there already.
            if words[0] == "jobcentre-worker":
                worker = subprocess.Popen(words, cwd=self.folder, env=self.environment)
                self.workers.append(worker)
            else:
                fits(expected, self.run(words, block), block)

    def run(self, words: List[str], block: Block) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
        )
        assert done.returncode == 0, f"line {block.line}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def finish(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(PATIENCE) for worker in self.workers] == [0] * len(self.workers)

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait(PATIENCE)


def fits(expected: str, printed: str, block: Block) -> None:
    pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
    assert re.fullmatch(pattern, printed, re.S), f"line {block.line}: it printed {printed!r}"


@pytest.mark.parametrize("page", [PAGE, README], ids=["tutorial", "readme"])
def test_page_is_as_it_says(page: Path, tmp_path: Path) -> None:
    with Server() as server:
        reader = Reader(tmp_path, server)
        try:
            for block in blocks(page.read_text(encoding="utf-8")):
                reader.play(block)
            reader.finish()
        finally:
            reader.kill()
    assert reader.played >= 5
