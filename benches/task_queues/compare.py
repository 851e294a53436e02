"""The client for Python beside rq, celery and dramatiq, each with the same task.

    benches/task_queues/run BINARY [--jobs N] [--rounds N]

`BINARY` is a release build of the server. The others use a redis-server that this starts, in
memory. The task does nothing: what is measured is what a queue takes for a job. Every library has
one process that puts and then one that works, the fastest way that its documents show for tasks
that are plain functions. The rounds take turns, each with a new server; figures are medians.
"""

import argparse
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from local_processes import free_port, program

HERE = os.path.abspath(__file__)


class Counter:
    """Counts the runs of a task, and says when the first one began and the last one ended."""

    def __init__(self):
        self.left = int(os.environ.get("COMPARE_JOBS", "0"))
        self.began = 0.0

    def one(self):
        # Of one process: the threads of a worker take turns.
        self.began = self.began or time.perf_counter()
        self.left -= 1
        if self.left == 0:
            print(time.perf_counter() - self.began, file=sys.__stdout__, flush=True)
            os._exit(0)


counter = Counter()


def rq_task(number):
    counter.one()


class WithRq:
    def __init__(self, url):
        import redis
        import rq

        self.rq, self.connection = rq, redis.Redis.from_url(url)
        self.queue = rq.Queue("q", connection=self.connection)
        self.task = "compare.rq_task"

    def put(self, jobs):
        for number in range(jobs):
            self.queue.enqueue(self.task, number, result_ttl=0)

    def put_many(self, jobs):
        for start in range(0, jobs, 1_000):
            some = range(start, min(start + 1_000, jobs))
            prepare = self.rq.Queue.prepare_data
            self.queue.enqueue_many([prepare(self.task, (n,), result_ttl=0) for n in some])

    def work(self):
        # No process for each job: the faster one of its workers.
        sys.modules["compare"] = sys.modules["__main__"]
        worker = self.rq.SimpleWorker([self.queue], connection=self.connection)
        worker.work(burst=True, logging_level="ERROR")


class WithCelery:
    def __init__(self, url):
        from celery import Celery

        self.app = Celery("compare", broker=url)
        self.app.conf.update(task_ignore_result=True, worker_redirect_stdouts=False)
        self.app.conf.worker_prefetch_multiplier = 64
        self.app.conf.broker_connection_retry_on_startup = True

        @self.app.task(name="task")
        def task(number):
            counter.one()

        self.task = task

    def put(self, jobs):
        for number in range(jobs):
            self.task.delay(number)

    put_many = None

    def work(self):
        few = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.app.worker_main(["worker", "--pool", "solo", "--loglevel", "CRITICAL", *few])


class WithDramatiq:
    def __init__(self, url):
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker

        self.dramatiq, self.broker = dramatiq, RedisBroker(url=url)
        dramatiq.set_broker(self.broker)

        @dramatiq.actor
        def task(number):
            counter.one()

        self.task = task

    def put(self, jobs):
        for number in range(jobs):
            self.task.send(number)

    put_many = None

    def work(self):
        self.dramatiq.Worker(self.broker, worker_threads=8).start()
        time.sleep(600)


class WithJobcentre:
    def __init__(self, url, coroutines=False):
        from jobcentre import App

        self.app = App(url)

        def function(number: int) -> None:
            counter.one()

        async def coroutine(number: int) -> None:
            counter.one()

        body = coroutine if coroutines else function
        self.task = self.app.task(queue="q")(body)

    def put(self, jobs):
        for number in range(jobs):
            self.task.put(number)

    def put_many(self, jobs):
        self.task.put_many([(number,) for number in range(jobs)])

    def work(self):
        import asyncio

        from jobcentre import Worker

        asyncio.run(Worker(self.app, ["q"], concurrency=256, threads=8).run())


LIBRARIES = {
    "jobcentre": WithJobcentre,
    "jobcentre, coroutines": lambda url: WithJobcentre(url, coroutines=True),
    "rq": WithRq,
    "celery": WithCelery,
    "dramatiq": WithDramatiq,
}


class Server:
    """The server of a library, until the end of the block."""

    def __init__(self, library, binary):
        port = free_port()
        if library.startswith("jobcentre"):
            self.url = f"jobcentre://127.0.0.1:{port}"
            command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--http", "off"]
        else:
            self.url = f"redis://127.0.0.1:{port}/0"
            command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
            command += ["--save", "", "--appendonly", "no", "--dir", tempfile.gettempdir()]
        self.port, self.command = port, command

    def __enter__(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, **quiet)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.command[0]} does not listen within ten seconds")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def seconds_of(part, library, url, jobs):
    """Runs a part in a process of its own, which prints how long it took."""
    env = {**os.environ, "COMPARE_JOBS": str(jobs)}
    command = [sys.executable, HERE, part, library, url]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    try:
        return float(run.stdout.split()[-1])
    except (IndexError, ValueError):
        raise RuntimeError(f"{part} of {library}: {run.stdout}{run.stderr}") from None


def part(name, library, url):
    adapter, jobs = LIBRARIES[library](url), counter.left
    if name == "work":
        return adapter.work()
    method = getattr(adapter, name)
    began = time.perf_counter()
    method(jobs)
    print(time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=program)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    jobs, found = options.jobs, {}
    cores = os.cpu_count()
    print(f"Python {platform.python_version()}, {cores} cores, {jobs} jobs, {options.rounds} rounds")
    for _ in range(options.rounds):
        for library in LIBRARIES:
            many = getattr(LIBRARIES[library], "put_many", True) is not None
            for name in ["put_many", "put"] if many else ["put"]:
                with Server(library, options.binary) as server:
                    spent = seconds_of(name, library, server.url, jobs)
                    found.setdefault((name, library), []).append(jobs / spent)
                    if name == "put":
                        spent = seconds_of("work", library, server.url, jobs)
                        found.setdefault(("work", library), []).append(jobs / spent)
    rates = {key: statistics.median(all_of_it) for key, all_of_it in found.items()}
    names = {"put": "put, one call a job", "put_many": "put, many in a call", "work": "run"}
    print(f"{'a second':<24}" + "".join(f"{title:>22}" for title in names.values()))
    for library in LIBRARIES:
        shown = [rates.get((name, library)) for name in names]
        cells = [f"{rate:>22,.0f}" if rate else f"{'-':>22}" for rate in shown]
        print(f"{library:<24}" + "".join(cells))
    for other in list(LIBRARIES)[2:]:
        best = max(rates.get((name, other), 0) for name in ("put", "put_many"))
        puts = rates["put_many", "jobcentre"] / best
        runs = rates["work", "jobcentre"] / rates["work", other]
        ends = rates["work", "jobcentre, coroutines"] / rates["work", other]
        print(
            f"jobcentre to {other}: puts {puts:.1f}, runs {runs:.1f}, of coroutines {ends:.1f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("put", "put_many", "work"):
        part(*sys.argv[1:4])
    else:
        main()
