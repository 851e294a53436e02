"""The programs in `examples`, against the real server."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping

import pytest
from settings import write_users
from web_server import Answer, WebServer

from jobcentre import Client
from jobcentre.server import PATIENCE, Server

EXAMPLES = Path(__file__).parents[1] / "examples"


class Shell:
    """The environment and the folder in which the commands of an example are run."""

    def __init__(self, server: Server, folder: Path, variables: Mapping[str, str] = {}) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir()
        (programs / "jobcentre").symlink_to(os.path.abspath(server.binary))
        self.environment: Dict[str, str] = {
            **os.environ,
            "JOBCENTRE_URL": server.url,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            **variables,
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def example(self, name: str, *words: str) -> str:
        return self.run(sys.executable, str(EXAMPLES / name), *words)

    @contextlib.contextmanager
    def worker(self, *words: str) -> Iterator[None]:
        command = [sys.executable, "-m", "jobcentre.command", *words]
        worker = subprocess.Popen(command, cwd=EXAMPLES, env=self.environment)
        try:
            yield
        except BaseException:
            worker.kill()
            worker.wait(PATIENCE)
            raise
        worker.terminate()
        assert worker.wait(PATIENCE) == 0


def test_thumbnails(jobcentre_server: Server, tmp_path: Path) -> None:
    pictures = {
        "/grey.ppm": b"P6 16 8 255\n" + bytes([100, 150, 200]) * 128,
        "/rows.ppm": b"P6 8 16 255\n" + bytes([7]) * 192 + bytes([0, 0, 9, 0, 0, 11]) * 32,
    }
    thumbnails = {
        "/grey.ppm": b"P6 2 1 255\n" + bytes([100, 150, 200]) * 2,
        "/rows.ppm": b"P6 1 2 255\n" + bytes([7, 7, 7, 0, 0, 10]),
    }

    def answer(path: str, count: int) -> Answer:
        # The site is out of order for a moment.
        return Answer(503) if count == 0 else Answer(200, pictures[path])

    shell = Shell(jobcentre_server, tmp_path)
    with WebServer(answer) as site, shell.worker("thumbnails:app", "--processes", "2"):
        printed = shell.example("thumbnails.py", ".", *(site.url + path for path in pictures))
        paths = dict(line.split() for line in printed.splitlines())
        assert {path: Path(paths[site.url + path]).read_bytes() for path in pictures} == thumbnails
    assert {Path(path).parent for path in paths.values()} == {tmp_path.resolve()}
    assert len(list(tmp_path.glob("*.ppm*"))) == 2


def test_import_orders(jobcentre_server: Server, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("ann,5\nbob,7\n")
    (tmp_path / "two.csv").write_text("ann,10\n")
    shell = Shell(jobcentre_server, tmp_path)
    printed = shell.example("import_orders.py", "one.csv", "two.csv")
    assert printed == "ann 15\nbob 7\n"
    # A report that did not wait for the files would have the figures of before.
    (tmp_path / "one.csv").write_text("ann,6\n" * 50_000)
    printed = shell.example("import_orders.py", "one.csv", "two.csv")
    assert printed == "ann 300010\n"


def test_api_calls(tmp_path: Path) -> None:
    def answer(path: str, count: int) -> Answer:
        if path == "/busy" and count == 0:
            return Answer(429, headers={"Retry-After": str(40 * 24 * 3600)})
        return Answer(200, json.dumps(path).encode())

    paths = ["/busy", *(f"/{number}" for number in range(40))]
    with Server(http=True) as server, WebServer(answer, seconds=0.05) as api:
        shell = Shell(server, tmp_path, {"API_URL": api.url})
        text = (EXAMPLES / "api_calls.py").read_text(encoding="utf-8")
        command = re.search(r"^    (jobcentre constraints set (?:.+\n)+)", text, re.M)
        assert command is not None
        shell.run("sh", "-c", command[1])
        with contextlib.ExitStack() as stack:
            stack.enter_context(shell.worker("api_calls:app"))
            pool = stack.enter_context(ThreadPoolExecutor())
            client = stack.enter_context(Client(server.url))
            client.request({"request": "pause", "queue": "api-calls"})
            calling = pool.submit(shell.example, "api_calls.py", *paths)
            until(lambda: waiting(client, "api-calls") == len(paths))
            begin = time.monotonic()
            client.request({"request": "resume", "queue": "api-calls"})
            # The call that was refused is due in forty days; it is not waited for.
            until(lambda: (client.peek(1) or {})["state"] == "scheduled")
            refused = client.peek(1)
            assert refused is not None and refused["available_at"][:7] > refused["created_at"][:7]
            assert client.kick(1)
            printed = calling.result()
        assert printed == "".join(f'{path} "{path}"\n' for path in paths)
        assert api.most_at_a_time <= 3
        # Ten at once, then ten a second: a busy machine makes calls later, never earlier. The
        # clocks of server and test may differ by a part of a millisecond a second.
        late = [asked.at - begin for asked in sorted(api.asked, key=lambda asked: asked.at)]
        assert len(late) == len(paths) + 1
        early = [(n, at) for n, at in enumerate(late) if at < (n - 9) / 10 - 0.01]
        assert not early, early
        assert shell.run("jobcentre", "constraints").startswith("api-calls\t3\t")
        shell.run("jobcentre", "constraints", "delete", "api-calls")
        assert shell.run("jobcentre", "constraints") == ""


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        ("120", 120, 120),
        ("0", 0, 0),
        ("Mon, 31 Dec 2046 23:59:59 GMT", 86400, 3e9),
        ("Sat, 01 Jan 2000 00:00:00 GMT", -3e9, -1),
    ],
)
def test_retry_after(
    retry_after: str, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from api_calls import seconds_of

    seconds = seconds_of(retry_after)
    assert seconds is not None and least <= seconds <= most
    assert seconds_of("soon") is None and seconds_of(None) is None


def test_cron(tmp_path: Path) -> None:
    source = sqlite3.connect(tmp_path / "shop.sqlite")
    source.executescript("create table orders (amount); insert into orders values (17)")
    source.close()
    folder = tmp_path / "copies"
    folder.mkdir()
    rights = ["put:cron", "take:cron", "peek:*", "manage:*", "observe"]
    users = [{"name": "ops", "token": "a-token-of-ops", "allow": rights}]
    arguments = ["--config", write_users(tmp_path, users)]
    with Server(http=True, arguments=arguments) as server:
        variables = {"JOBCENTRE_HTTP_URL": server.http_url, "JOBCENTRE_TOKEN": "a-token-of-ops"}
        shell = Shell(server, tmp_path, variables)
        with shell.worker("cron:app"):
            shell.example("cron.py", "set", "shop.sqlite", "copies", "0.2")
            printed = shell.example("cron.py", "list")
            names, moments = zip(*(line.split() for line in printed.splitlines()))
            assert names == ("backup", "measure")
            # The clock of Berlin is one or two hours ahead.
            assert re.fullmatch(r"....-..-..T0[01]:30:00.000Z", moments[0])
            until(lambda: lines_of(folder / "disk.csv") >= 3)
            days = [datetime.date.today().isoformat()]
            shell.run("jobcentre", "schedules", "run", "backup")
            until(lambda: amounts_of(folder) == [17])
            days.append(datetime.date.today().isoformat())
            # The next deployment changes the interval, and removes the schedules in the end.
            shell.example("cron.py", "set", "shop.sqlite", "copies", "3600")
            listed = shell.run("jobcentre", "schedules", "--columns", "name,cron,every_ms")
            assert listed == "backup\t30 2 * * *\t\nmeasure\t\t3600000\n"
            assert shell.example("cron.py", "remove") == ""
        assert shell.run("jobcentre", "schedules") == ""
    (copy,) = folder.glob("*.sqlite")
    assert copy.stem in days


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def waiting(client: Client, queue: str) -> int:
    counts = (client.stats(queue) or {"counts": {"ready": 0, "blocked": 0}})["counts"]
    return int(counts["ready"] + counts["blocked"])


def lines_of(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def amounts_of(folder: Path) -> List[int]:
    for copy in folder.glob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(copy)) as copied:
            with contextlib.suppress(sqlite3.OperationalError):
                return [amount for (amount,) in copied.execute("select amount from orders")]
    return []
