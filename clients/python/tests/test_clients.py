"""The clients where the scenarios do not lead: threads, forks, limits, errors by kind."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from jobcentre import AsyncClient, Client, errors, requests
from jobcentre.protocol import Deadline
from jobcentre.server import PATIENCE, Server
from jobcentre.sync import Connection


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.kill()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def test_threads_share_a_client(client: Client) -> None:
    ids: List[int] = []

    def put() -> None:
        for n in range(50):
            ids.append(client.put("q", {"n": n}).id)
            if n % 10 == 0:
                with client.get("q", wait=PATIENCE) or pytest.fail("no job"):
                    pass

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 400
    stats = client.stats("q")
    assert stats is not None and stats["counts"]["ready"] == 360


def test_wait_of_one_thread_does_not_hold_up_another(client: Client) -> None:
    found: List[Any] = []
    thread = threading.Thread(target=lambda: found.append(client.get("q", wait=PATIENCE)))
    thread.start()
    for n in range(20):
        client.put("other", {"n": n})
    client.put("q", {"n": 1})
    thread.join()
    assert found[0].job == {"n": 1}
    found[0].release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_child_of_a_fork_has_connections_of_its_own(client: Client) -> None:
    client.put("q", {"n": 0})
    pid = os.fork()
    if pid == 0:
        try:
            for n in range(20):
                client.put("q", {"n": n})
        except BaseException:
            os._exit(1)
        os._exit(0)
    for n in range(20):
        client.put("q", {"n": n})
    assert os.waitpid(pid, 0)[1] == 0
    stats = client.stats("q")
    assert stats is not None and stats["counts"]["ready"] == 41


def test_server_that_is_away_is_a_lost_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = Client(f"jobcentre://127.0.0.1:{port}", timeout=0.2)
    with pytest.raises(errors.ConnectionLost):
        client.put("q", {})
    with pytest.raises(errors.ConnectionLost):
        client.get("q")

    async def main() -> None:
        async with AsyncClient(f"jobcentre://127.0.0.1:{port}", timeout=0.2) as other:
            with pytest.raises(errors.ConnectionLost):
                await other.put("q", {})
            with pytest.raises(errors.ConnectionLost):
                await other.get("q")

    asyncio.run(main())


def test_server_that_hangs_is_a_timeout() -> None:
    """It accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "jobcentre://127.0.0.1:{}".format(silent.getsockname()[1])
        client = Client(url, timeout=1)
        for call in (lambda: client.put("q", {}), lambda: client.stats(), lambda: client.get("q")):
            with pytest.raises(errors.RequestTimeout):
                call()

        async def main() -> None:
            other = AsyncClient(url, timeout=1)
            with pytest.raises(errors.RequestTimeout):
                await other.put("q", {})
            with pytest.raises(errors.RequestTimeout):
                await other.put_many([requests.put("q", {}) for _ in range(600)])
            with pytest.raises(errors.RequestTimeout):
                await other.get("q")
            await other.close()

        asyncio.run(main())


def test_listener_of_another_protocol_is_named(client: Client) -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        other = Client("jobcentre://127.0.0.1:{}".format(listener.getsockname()[1]), timeout=5)
        with pytest.raises(errors.BadAnswer, match="not a Job Centre listener"):
            other.put("q", {})


def test_too_many_clients_is_waited_for() -> None:
    with Server(arguments=["--max-clients", "1"]) as server:
        first, second = Client(server.url), Client(server.url, timeout=PATIENCE)
        first.put("q", {})
        connection = Connection(second.address, Deadline(PATIENCE))
        answers, lost = connection.exchange([requests.put("q", {})], Deadline(PATIENCE))
        assert not answers and type(lost) is errors.ConnectionLost
        assert "--max-clients" in str(lost)
        timer = threading.Timer(0.3, first.close)
        timer.start()
        assert second.put("q", {}).id == 2
        timer.join()
        second.close()


def test_full_server_is_named_and_temporary(tmp_path: Path) -> None:
    with Server(arguments=["--max-memory", "32MiB"]) as server, Client(server.url) as client:
        text = "x" * 500_000
        with pytest.raises(errors.Full) as caught:
            for n in range(200):
                client.put("q", {"n": n, "text": text})
        assert caught.value.temporary


def test_some_of_many_puts_are_refused(client: Client) -> None:
    puts = [requests.put("q", {"n": n}, pri=-1 if n == 1 else 0) for n in range(3)]
    with pytest.raises(errors.PutManyError, match="1 of 3") as caught:
        client.put_many(puts)
    kinds = [type(result) for result in caught.value.results]
    assert kinds == [requests.Placed, errors.BadRequest, requests.Placed]


def test_large_jobs_are_pipelined(client: Client) -> None:
    """More bytes than the sockets hold: neither side waits for the other."""
    text = "x" * 200_000
    placed = client.put_many(requests.put("q", {"n": n, "text": text}) for n in range(120))
    assert len(placed) == 120

    async def main(url: str) -> None:
        async with AsyncClient(url) as other:
            await other.put_many([requests.put("p", {"text": text}) for _ in range(120)])
            for _ in range(120):
                async with await other.get("p") or pytest.fail("no job") as job:
                    assert job.job["text"] == text

    asyncio.run(main(f"jobcentre://{client.address}"))


def test_request_that_is_too_large_is_refused(client: Client) -> None:
    with pytest.raises(errors.BadRequest, match="--max-request|longer"):
        client.put("q", {"text": "x" * 2_000_000})
    client.put("q", {})


def test_exception_fails_the_job_and_interrupt_releases_it(client: Client) -> None:
    id = client.put("q", {}, max_attempts=5, backoff={"kind": "fixed", "first_ms": 600_000}).id

    def attempt(error: BaseException) -> Dict[str, Any]:
        with pytest.raises(type(error)):
            with client.get("q", wait=PATIENCE) or pytest.fail("no job"):
                raise error
        found = client.peek(id)
        assert found is not None
        return found

    found = attempt(KeyboardInterrupt())
    assert (found["state"], found["attempts"]) == ("ready", 0)
    found = attempt(ValueError("no"))
    assert (found["state"], found["last_error"]["error"]) == ("scheduled", "ValueError")


def test_cancelled_task_gives_its_job_back(server: Server) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            id = (await client.put("q", {})).id
            began = asyncio.Event()

            async def work() -> None:
                async with await client.get("q", wait=PATIENCE) or pytest.fail("no job"):
                    began.set()
                    await asyncio.sleep(3600)

            task = asyncio.ensure_future(work())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            found = await client.peek(id)
            assert found is not None and (found["state"], found["attempts"]) == ("ready", 0)
            # A get that is cancelled while it waits takes nothing.
            waiting = asyncio.ensure_future(client.get("empty", wait=PATIENCE))
            while (await client.stats() or {})["waiting_consumers"] == 0:
                await asyncio.sleep(0.01)
            waiting.cancel()
            while (await client.stats() or {})["waiting_consumers"] != 0:
                await asyncio.sleep(0.01)
            await client.put("empty", {})
            stats = await client.stats("empty")
            assert stats is not None and stats["counts"]["ready"] == 1

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_many_coroutines_share_one_connection(server: Server) -> None:
    """More requests than the pipeline holds: they wait for room, and all are answered."""

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            places = await asyncio.gather(*(client.put("q", {"n": n}) for n in range(3000)))
            assert len({place.id for place in places}) == 3000
            stats = await client.stats()
            assert stats is not None and stats["connections"]["job-centre"] == 1

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_answers_after_a_restart_belong_to_their_requests(tmp_path: Path) -> None:
    """Puts and kills beside each other: every id is that of the job that was put."""
    server = Server(data=str(tmp_path / "data"))
    placed: Dict[int, int] = {}
    stop = threading.Event()

    def put() -> None:
        with Client(server.url, timeout=PATIENCE) as client:
            n = 0
            while not stop.is_set():
                placed[n] = client.put("q", {"n": n}).id
                n += 1

    thread = threading.Thread(target=put)
    thread.start()
    for share in (20, 40, 60):
        deadline = time.monotonic() + PATIENCE
        while len(placed) < share and time.monotonic() < deadline:
            time.sleep(0.005)
        server.kill()
        server.start()
    stop.set()
    thread.join()
    with Client(server.url) as client:
        for n, id in placed.items():
            found = client.peek(id)
            assert found is not None and found["job"] == {"n": n}
        stats = client.stats("q")
        assert stats is not None and stats["counts"]["ready"] == len(placed)
    server.kill()
