"""LightJQ with real pushers and workers: results, retries, refusals, places, and kill -9."""

import http.client
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from lightjq import PATIENCE, Pusher, Worker, failure, success
from server import Server

VALUES = [
    None, True, 0, -1, 2**63, 2**64 - 1, -2**63, 0.5, -1e300, "", "ü\0€😀", b"\x00\xff", [], {},
    [[None, [1.5, {"a": [b"x"]}]]], {"k": {1: "one", True: [2]}}, list(range(1000)), "x" * 70_000,
]


@pytest.fixture
def pusher(server):
    return Pusher(server.http)


@pytest.fixture
def start_worker(pusher):
    """Workers that leave at the end of the test."""
    workers = []

    def start_worker(do, **kept):
        workers.append(Worker(pusher, do, **kept))
        return workers[-1]

    yield start_worker
    for worker in workers:
        assert worker.leave() in (204, 404)


def until(done):
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "in vain waited"
        time.sleep(0.005)


def echo(job):
    return success(job, job["argument"])


def never(job):
    return None


def test_results_are_fetched_once(pusher, start_worker):
    worker = start_worker(echo, jobs=["echo"], max_jobs=4)
    ids = [pusher.push("echo", value, keep_result=True) for value in VALUES]
    for job, value in zip(ids, VALUES):
        ended = pusher.end_of(job)
        assert ended == {"status": "done", "result": value, "retry_count": 0}
        assert type(ended["result"]) is type(value)
        assert pusher.follow(job) is None
    assert sorted(job["id"] for job in worker.got) == sorted(ids)
    assert all(job["name"] == "echo" and job["timeout"] == 30 for job in worker.got)
    forgotten = pusher.push("echo", 1, timeout=1.5)
    assert pusher.end_of(forgotten) is None
    assert worker.got[-1]["timeout"] == 1.5
    # The pusher may be told before the worker is.
    until(lambda: len(worker.answers) == len(VALUES) + 1)
    assert set(worker.answers) == {204}


def test_failures_are_tried_again(pusher, start_worker):
    tries = []

    def third_time(job):
        tries.append(time.monotonic())
        return failure(job, "not yet", error=[b"\1"]) if len(tries) < 3 else echo(job)

    start_worker(third_time, jobs=["third"])
    job = pusher.push("third", 7, keep_result=True)
    until(lambda: tries)
    until(lambda: pusher.follow(job)["status"] == "retrying")
    now = pusher.follow(job)
    assert (now["retry_count"], now["message"], now["error"]) == (1, "not yet", [b"\1"])
    ended = pusher.end_of(job)
    assert (ended["status"], ended["result"], ended["retry_count"]) == ("done", 7, 2)
    waits = [later - earlier for earlier, later in zip(tries, tries[1:])]
    assert waits[0] > 0.89 and waits[1] > 1.79, waits


@pytest.mark.parametrize("again, retries", [(True, 1), (False, 0)])
def test_errors_stay(pusher, start_worker, again, retries):
    name = f"wrong-{again}"
    start_worker(lambda job: failure(job, "never", again, {"code": 3}), jobs=[name])
    job = pusher.push(name, None, max_retry=1)
    error = {"status": "error", "error": {"code": 3}, "message": "never", "retry_count": retries}
    for _ in range(2):
        assert pusher.end_of(job) == error
    assert pusher.follow(job) == error
    assert pusher.call("DELETE", f"/job/{job}")[0] == 409


def test_a_job_that_takes_too_long(pusher, start_worker):
    worker = start_worker(never, jobs=["slow"])
    job = pusher.push("slow", 1, timeout=0.2, max_retry=0)
    ended = pusher.end_of(job)
    assert (ended["status"], ended["message"], ended["retry_count"]) == ("error", "timeout", 0)
    assert worker.report(success(worker.got[0])) == 404, "too late"
    # The place is free again, and a report counts once.
    job = pusher.push("slow", 2, keep_result=True)
    until(lambda: len(worker.got) == 2)
    assert pusher.follow(job) == {"status": "running", "worker_id": worker.id, "retry_count": 0}
    assert pusher.call("DELETE", f"/job/{job}")[0] == 409
    assert pusher.call("GET", f"/job/{job}/polling?timeout=0.05")[0] == 408
    assert worker.report(success(worker.got[1], "a")) == 204
    assert worker.report(success(worker.got[1], "b")) == 404
    assert pusher.end_of(job)["result"] == "a"


@pytest.mark.parametrize("status", [400, 404])
def test_refusals(pusher, start_worker, status):
    name = f"refused-{status}"
    choosy = start_worker(echo, jobs=[name], status=lambda job: status if job["argument"] == 1 else 202)
    job = pusher.push(name, 1, keep_result=True)
    until(lambda: choosy.got)
    until(lambda: pusher.follow(job)["retry_count"] == 1)
    other = pusher.push(name, 2, keep_result=True)
    if status == 400:
        # It refuses a job, and takes the next.
        assert pusher.end_of(other)["result"] == 2
    willing = start_worker(echo, jobs=[name])
    assert pusher.end_of(job)["result"] == 1
    if status == 404:
        # It does not know the name: nothing more of it is offered.
        assert pusher.end_of(other)["result"] == 2
        assert len(willing.got) == 2 and len(choosy.got) == 1
    assert [job["argument"] for job in choosy.got].count(1) == 1


def test_other_answers_cost_nothing(pusher, start_worker):
    broken = start_worker(echo, jobs=["broken"], status=500)
    job = pusher.push("broken", 1, keep_result=True, max_retry=0)
    until(lambda: len(broken.got) == 2)
    assert pusher.follow(job)["retry_count"] == 0
    start_worker(echo, jobs=["broken"])
    assert pusher.end_of(job) == {"status": "done", "result": 1, "retry_count": 0}


def test_a_worker_that_is_not_there(pusher, start_worker):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        dead = {"name": "dead", "max_jobs": 9, "jobs": ["dead"],
                "url": "http://127.0.0.1:%d" % unused.getsockname()[1]}
        status, said = pusher.call("POST", "/worker", dead)
        assert status == 201
        ids = [pusher.push("dead", n, keep_result=True, max_retry=0) for n in range(5)]
        start_worker(echo, jobs=["dead"])
        assert [pusher.end_of(job)["result"] for job in ids] == list(range(5))
        assert pusher.call("DELETE", "/worker", worker=said["worker_id"])[0] in (204, 404)


def test_places(pusher, start_worker):
    def slowly(job):
        time.sleep(random.random() / 50)
        return echo(job)

    worker = start_worker(slowly, jobs=["place"], max_jobs=3)
    ids = [pusher.push("place", n, keep_result=True) for n in range(60)]
    assert [pusher.end_of(job)["result"] for job in ids] == list(range(60))
    assert worker.most == 3 and len(worker.got) == 60


def test_priorities_and_cancelling(pusher, start_worker):
    go = threading.Event()

    def wait(job):
        go.wait(PATIENCE)
        return echo(job)

    worker = start_worker(wait, jobs=["order"])
    first = pusher.push("order", "first")
    until(lambda: worker.got)
    ids = {n: pusher.push("order", n, priority=n) for n in [3, -2**31, 0, 2**31 - 1, -1]}
    same = [pusher.push("order", text, priority=0) for text in "ab"]
    assert pusher.follow(ids[0]) == {"status": "queued", "retry_count": 0}
    assert pusher.call("DELETE", f"/job/{ids[3]}")[0] == 204
    assert pusher.follow(ids[3]) is None
    assert pusher.call("DELETE", f"/job/{ids[3]}")[0] == 404
    assert pusher.call("DELETE", f"/job/{first}")[0] == 409
    go.set()
    for job in [*same, ids[2**31 - 1]]:
        assert pusher.end_of(job) is None
    assert [job["argument"] for job in worker.got] == [
        "first", -2**31, -1, 0, "a", "b", 2**31 - 1]


def test_workers_that_go(pusher, start_worker):
    leaves = start_worker(never, jobs=["leave"])
    job = pusher.push("leave", 1, keep_result=True)
    until(lambda: leaves.got)
    assert pusher.call("DELETE", "/worker", worker=leaves.id)[0] == 204
    assert pusher.call("DELETE", "/worker", worker=leaves.id)[0] == 404
    stays = start_worker(echo, jobs=["leave"])
    assert pusher.end_of(job) == {"status": "done", "result": 1, "retry_count": 0}
    assert leaves.report(success(leaves.got[0])) == 404
    assert len(stays.got) == 1


def test_a_worker_that_registers_again(pusher, start_worker):
    """Who listens at the same address takes the other one's place: what that had goes back."""
    worker = start_worker(never, jobs=["again"])
    job = pusher.push("again", 1, keep_result=True, max_retry=0)
    until(lambda: len(worker.got) == 1)
    former = worker.id
    worker.do = echo
    worker.register()
    assert worker.id != former
    assert pusher.end_of(job) == {"status": "done", "result": 1, "retry_count": 0}
    assert worker.report(success(worker.got[0]), former) == 404
    assert pusher.call("DELETE", "/worker", worker=former)[0] == 404


@pytest.mark.parametrize("path, body, worker, field", [
    ("/job", b"", None, ""), ("/job", b"\xc1", None, ""), ("/job", b"\x81", None, ""),
    ("/job", b"\xdd\xff\xff\xff\xff", None, ""), ("/job", b"\x91" * 100_000, None, ""),
    ("/job", b"\xdb\xff\xff\xff\xff", None, ""), ("/job", [], None, ""),
    ("/job", {"name": "x"}, None, "argument"), ("/job", {"argument": 1}, None, "name"),
    ("/job", {"name": 1, "argument": 1}, None, "name"),
    ("/job", {"name": "x", "argument": 1, "priority": 2**31}, None, "priority"),
    ("/job", {"name": "x", "argument": 1, "max_retry": -1}, None, "max_retry"),
    ("/job", {"name": "x", "argument": 1, "keep_result": 1}, None, "keep_result"),
    ("/job", {"name": "x", "argument": 1, "timeout": 0}, None, "timeout"),
    ("/worker", {"name": "x", "max_jobs": 0, "url": "http://x"}, None, "max_jobs"),
    ("/worker", {"name": "x", "max_jobs": 1, "url": "x"}, None, "url"),
    ("/worker", {"name": "x", "max_jobs": 1, "url": "http://x", "jobs": [1]}, None, "jobs"),
    ("/done", {"job_id": "1", "type": "success"}, None, "worker-id"),
    ("/done", {"job_id": "1", "type": "failure"}, "1", "reason"),
    ("/done", {"job_id": "1", "type": "perhaps"}, "1", "type"),
    ("/done", {"type": "success"}, "1", "job_id"),
])
def test_what_makes_no_sense(pusher, path, body, worker, field):
    status, said = pusher.call("POST", path, body, worker)
    assert status == 400 and list(said) == ["error"], said
    assert field in said["error"]


def test_what_is_not_there(pusher):
    for method, path, worker, field in [
        ("GET", "/job/99999999", None, ""), ("GET", "/job/x", None, ""),
        ("GET", "/job/99999999/polling", None, ""), ("DELETE", "/job/99999999", None, ""),
        ("DELETE", "/worker", "99999999", "worker-id"),
    ]:
        status, said = pusher.call(method, path, worker=worker)
        assert status == 404 and field in said["error"], said
    status, said = pusher.call("POST", "/done", success({"id": "1"}), "99999999")
    assert status == 404 and "worker-id" in said["error"], said


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Process:
    """A worker as a process of its own, always at the same port."""

    def __init__(self, url):
        self.url, self.port = url, free_port()
        self.start()

    def start(self):
        script = Path(__file__).with_name("lightjq.py")
        command = [sys.executable, script, self.url, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "registered\n"

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@pytest.mark.durable
@pytest.mark.parametrize("seed", range(3))
def test_kill_server_and_worker(binary, tmp_path, seed):
    """Every accepted job ends once, with its result, even if processes are killed."""
    dice = random.Random(seed)
    server = Server(binary, tmp_path / "jobs", http=f"127.0.0.1:{free_port()}")
    pusher, workers = Pusher(server.http), [Process(server.http), Process(server.http)]
    promised, stop = {}, threading.Event()

    def push():
        number = 0
        while not stop.is_set():
            number += 1
            try:
                job = pusher.push("double", number, keep_result=True, max_retry=100, timeout=3)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            promised[job] = number
            time.sleep(0.003)

    pushing = threading.Thread(target=push)
    pushing.start()
    for kills in ["server", "worker", "both"]:
        time.sleep(0.1 + dice.random() / 2)
        if kills != "worker":
            server.kill()
        if kills != "server":
            worker = dice.choice(workers)
            worker.kill()
        if kills != "worker":
            server.start()
        if kills != "server":
            worker.start()
    stop.set()
    pushing.join()
    assert len(promised) > 30, "too tame"
    for job, number in promised.items():
        ended = pusher.end_of(job)
        assert ended is not None, f"the result of job {job} is gone, and no client has fetched it"
        assert (ended["status"], ended["result"]) == ("done", 2 * number), (job, ended)
        assert pusher.follow(job) is None
    server.kill()
    server.start()
    assert all(pusher.follow(job) is None for job in promised)
    for worker in workers:
        worker.kill()
    server.stop()
