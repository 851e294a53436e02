"""Payloads that are bytes, of other clients and of Python, and JSON that Python cannot read."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from jobcentre import App, AsyncClient, Client, Context, JobFailed, errors, requests
from jobcentre.payload import clean, payload_of
from jobcentre.protocol import Deadline, decode, encode
from jobcentre.pytest_plugin import running_worker
from jobcentre.server import PATIENCE, Server
from jobcentre.sync import Connection


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with listeners for beanstalkd clients and for packets, at paths of `tmp_path`."""
    listeners = [
        *("--beanstalkd", f"unix:{tmp_path}/b.sock"),
        *("--pinpriq", f"unix:{tmp_path}/p.sock"),
    ]
    server = Server(arguments=listeners)
    yield server
    server.kill()


def put_by_beanstalkd(folder: Path, tube: str, body: bytes, ttr: int = 60) -> int:
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
        connection.connect(str(folder / "b.sock"))
        head = f"use {tube}\r\nput 0 0 {ttr} {len(body)}\r\n"
        connection.sendall(head.encode() + body + b"\r\n")
        assert answers.readline().startswith(b"USING")
        word, id = answers.readline().split()
        assert word == b"INSERTED"
        return int(id)


def push_packet(folder: Path, queue: bytes, key: bytes, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / "p.sock"))
        head = struct.pack(">cHHBHH", b"p", len(queue), 0, 1, len(key), len(data))
        connection.sendall(head + key + data + queue)


BODIES = [(b'{"u":1}', {"u": 1}), (b' [1, "\xc3\xbc"]\n', [1, "ü"])]
BODIES += [(body, body) for body in (b"", b"\0\xff", b"hello", b"NaN", b"[" * 5000 + b"]" * 5000)]


def test_bytes_of_beanstalkd_are_reached(server: Server, tmp_path: Path) -> None:
    with Client(server.url) as client:
        for body, value in BODIES:
            put_by_beanstalkd(tmp_path, "mail", body)
            with client.get("mail", wait=PATIENCE) or pytest.fail("no job") as job:
                assert (job.job, job.bytes, job.packet_key) == (value, body, None)
        push_packet(tmp_path, b"mail", b"k\xff", b"{}")
        with client.get("mail", wait=PATIENCE) or pytest.fail("no job") as job:
            assert (job.job, job.bytes, job.packet_key) == ({}, b"{}", b"k\xff")

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            for body, value in BODIES:
                put_by_beanstalkd(tmp_path, "mail", body)
                async with await client.get("mail", wait=PATIENCE) or pytest.fail("no job") as job:
                    assert (job.job, job.bytes, job.packet_key) == (value, body, None)

    asyncio.run(main())


def test_any_json_and_bytes_are_put(server: Server, tmp_path: Path) -> None:
    values: List[Any] = [[1], None, "x", 5, True, 1.5, {"a": 1}]
    values += [b"\0\xff", b"{}", bytearray(b"x")]

    def check(value: Any, job: Any) -> None:
        if isinstance(value, (bytes, bytearray)):
            assert job.bytes == value
        else:
            assert (job.job, job.bytes) == (value, None)

    with Client(server.url) as client:
        for value in values:
            client.put("q", value)
            with client.get("q") or pytest.fail("no job") as job:
                check(value, job)
        client.put_many([requests.put("q", value, safe=False) for value in values])

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            for value in values:
                async with await client.get("q") or pytest.fail("no job") as job:
                    check(value, job)
                await client.put("other", value)

    asyncio.run(main())


def test_object_is_put_as_before() -> None:
    line = encode(requests.put("q", {"a": 1}, safe=False, max_attempts=None, ttr=None))
    assert line == b'{"request":"put","queue":"q","job":{"a":1},"pri":0}\n'


def test_tasks_are_put_by_beanstalkd(server: Server, tmp_path: Path) -> None:
    app = App(server.url)
    seen = []

    @app.task(queue="mail")
    def send(to: str) -> None:
        seen.append(to)

    message = {"task": "send", "args": ["ann"], "kwargs": {}}
    good = put_by_beanstalkd(tmp_path, "mail", json.dumps(message).encode())
    bad = put_by_beanstalkd(tmp_path, "mail", b"\0\xff")
    strange = put_by_beanstalkd(tmp_path, "mail", b'{"u":1}')
    with running_worker(app):
        for id, words in ((bad, "2 bytes, is no JSON"), (strange, "names no task")):
            with pytest.raises(JobFailed, match=words):
                app.client.result(id, PATIENCE)
            info = app.client.peek(id)
            assert info is not None and (info["state"], info["attempts"]) == ("buried", 1)
    assert app.client.peek(good) is None and seen == ["ann"]
    app.close()


def test_job_of_beanstalkd_fails_as_often_as_its_task_permits(
    server: Server, tmp_path: Path
) -> None:
    app = App(server.url)
    attempts = []

    @app.task(queue="fails", retry=2, context=True)
    async def fail(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("no")

    id = put_by_beanstalkd(tmp_path, "fails", b'{"task":"fail"}')
    with running_worker(app):
        with pytest.raises(JobFailed, match="ValueError: no"):
            app.client.result(id, PATIENCE)
    assert attempts == [1, 2]
    app.close()


def test_short_lease_of_beanstalkd_is_that_of_the_task(server: Server, tmp_path: Path) -> None:
    """The default heartbeat comes after the end of the lease that was put."""
    app = App(server.url)
    seen = []

    @app.task(queue="short", ttr=60)
    async def send(to: str) -> None:
        seen.append(to)
        await asyncio.sleep(2.5)

    id = put_by_beanstalkd(tmp_path, "short", b'{"task":"send","args":["ann"]}', ttr=1)
    with running_worker(app, concurrency=4):
        deadline = Deadline(PATIENCE)
        while app.client.peek(id) is not None and not deadline.is_over():
            time.sleep(0.01)
    assert seen == ["ann"]
    app.close()


def test_answer_that_python_cannot_read_is_an_error_of_its_request(server: Server) -> None:
    result = "[" * 200_000 + "]" * 200_000
    with Client(server.url) as client:
        id = client.put("q", {}, keep_result=60).id
        connection = Connection(client.address, Deadline(PATIENCE))
        connection.exchange([requests.get(["q"])], Deadline(PATIENCE))
        line = b'{"request":"done","id":%d,"result":%s}\n' % (id, result.encode())
        connection._socket.sendall(line)
        assert connection._socket.recv(100) == b'{"status":"ok"}\n'
        with pytest.raises(errors.BadAnswer, match="nested too deep"):
            client.result(id, PATIENCE)

        async def main() -> None:
            async with AsyncClient(server.url) as other:
                with pytest.raises(errors.BadAnswer, match="nested too deep"):
                    await other.result(id, PATIENCE)

        asyncio.run(main())


def test_json_that_python_cannot_read_is_bytes(server: Server) -> None:
    """It goes by raw lines: the client cannot make it either."""
    deep, digits = b'{"x":"},{\\"","job":' + b"[" * 5000 + b"]" * 5000 + b"}", b"9" * 5000
    host, port = server.address.rsplit(":", 1)

    def put(payload: bytes) -> int:
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            line = b'{"request":"put","queue":"q","pri":0,"max_attempts":3,"payload":%s}\n'
            connection.sendall(line % payload)
            return int(json.loads(connection.makefile("rb").readline())["id"])

    with Client(server.url) as client:
        for payload in (deep, digits):
            id = put(payload)
            info = client.peek(id)
            assert info is not None and payload_of(info).data == payload
            with client.get("q") or pytest.fail("no job") as job:
                # Some versions of Python read more than others.
                assert job.bytes in (payload, None)
                assert job.bytes is None or job.job == payload
    app = App(server.url)

    @app.task(queue="q", keep_result=60)
    def add(a: int) -> int:
        return a + 1

    bad, good = put(deep), add.put(1)
    with running_worker(app):
        assert good.result(PATIENCE) == 2
        with pytest.raises(JobFailed, match="no JSON that can be read|names no task"):
            app.client.result(bad, PATIENCE)
    app.close()


def test_only_the_job_that_cannot_be_read_is_replaced() -> None:
    line = b'{"status":"ok","jobs":[{"id":1,"job":%s,"queue":"a"},{"id":2,"job":{"job":[1]}}]}'
    one, two = decode(line % (b"[" * 200_000 + b"]" * 200_000))["jobs"]
    assert (one["id"], one["queue"], one["job"]) == (1, "a", None)
    assert payload_of(one).job == b"[" * 200_000 + b"]" * 200_000
    assert two == {"id": 2, "job": {"job": [1]}}
    line = b'{"status":"ok","jobs":[{"id":1,"job":{},"pri":%s,"queue":"a"}]}' % (b"9" * 5000)
    assert decode(line)["jobs"][0]["pri"] > 10**300


def test_texts_of_reports_are_clean() -> None:
    assert clean("ü\0") == "ü\0" and clean("\ud83d\ude00") == "\U0001f600"
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("y" * 100, 40) == "y" * 20 + "... (100 characters)"
    assert len(clean("y" * 3_000_000)) == 32_768

    class Bad(Exception):
        def __str__(self) -> str:
            raise KeyError("x")

    assert "Bad" in clean(Bad())
