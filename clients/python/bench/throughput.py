"""Puts and jobs a second, against a server that this starts: the figures of one machine.

    python bench/throughput.py BINARY [--data DIR] [--jobs N] [--rounds N]

`BINARY` is a release build. Client, worker and server are on the same machine, over loopback, and
take each other's cores if there are few. Each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import time
from typing import Any, Callable, List

from jobcentre import App, Client, Worker, requests
from jobcentre.server import Server

app = App()
count = 0
left = 0
worker: Any = None
ended = 0.0


def one_done() -> None:
    global left, ended
    left -= 1
    if left == 0:
        # The stop that follows takes up to two seconds, in which a wait at the server ends.
        ended = time.perf_counter()
        worker.stop()


@app.task(queue="coroutines")
async def coroutine(number: int) -> None:
    one_done()


@app.task(queue="coroutines-unsafe", safe=False)
async def coroutine_unsafe(number: int) -> None:
    one_done()


@app.task(queue="threads")
def thread(number: int) -> None:
    worker.loop.call_soon_threadsafe(one_done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("binary")
    parser.add_argument("--data", help="a directory for the server")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    where = f"--data {options.data}" if options.data else "in memory"
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {options.jobs} jobs, {where}"
    )
    with Server(options.binary, data=options.data) as server:
        app.url = server.url
        for name, measure in measures(server, options.jobs):
            figures = [measure() for _ in range(options.rounds)]
            print(f"{name:<44}{statistics.median(figures):>10,.0f} a second")
        app.close()


def measures(server: Server, jobs: int) -> "List[tuple[str, Callable[[], float]]]":
    def puts(**options: Any) -> Callable[[], float]:
        def measure() -> float:
            with Client(server.url) as client:
                began = time.perf_counter()
                client.put_many([requests.put("puts", {"n": n}, **options) for n in range(jobs)])
                return jobs / (time.perf_counter() - began)

        return measure

    def single_puts() -> float:
        some = jobs // 10
        with Client(server.url) as client:
            began = time.perf_counter()
            for n in range(some):
                client.put("puts", {"n": n})
            return some / (time.perf_counter() - began)

    def task_puts() -> float:
        began = time.perf_counter()
        coroutine_unsafe.options(queue="puts").put_many([(n,) for n in range(jobs)])
        return jobs / (time.perf_counter() - began)

    def asyncio_puts() -> float:
        async def run() -> float:
            began = time.perf_counter()
            for start in range(0, jobs, 1000):
                some = range(start, start + 1000)
                await asyncio.gather(*(app.aclient.put("puts", {"n": n}) for n in some))
            rate = jobs / (time.perf_counter() - began)
            await app.aclose()
            return rate

        return asyncio.run(run())

    def work(task: Any, concurrency: int) -> Callable[[], float]:
        def measure() -> float:
            global left, worker
            left = jobs
            task.put_many([(n,) for n in range(jobs)])
            worker = Worker(app, [task.settings.queue], concurrency=concurrency)
            began = time.perf_counter()
            stopped = asyncio.run(worker.run())
            assert stopped.finished == jobs, stopped
            return jobs / (ended - began)

        return measure

    return [
        ("puts, blocking, pipelined", puts()),
        ("puts, blocking, pipelined, safe=False", puts(safe=False)),
        ("puts, blocking, pipelined, plain", puts(safe=False, max_attempts=None)),
        ("puts, blocking, one after the other", single_puts),
        ("puts of a task, put_many, safe=False", task_puts),
        ("puts, asyncio, a coroutine each", asyncio_puts),
        ("jobs, coroutines, concurrency 16", work(coroutine, 16)),
        ("jobs, coroutines, concurrency 256", work(coroutine, 256)),
        ("jobs, coroutines, concurrency 256, safe=False", work(coroutine_unsafe, 256)),
        ("jobs, threads, concurrency 16", work(thread, 16)),
    ]


if __name__ == "__main__":
    main()
