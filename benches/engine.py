#!/usr/bin/env python3
"""What a shared engine costs: Redis' CPU a request and memory a job, loading, and taking over.

    benches/engine.py BINARY [--rounds 5] [--jobs 1000000] [--takeover-jobs 100000]
                     [--only cycle] [--only forwarded] [--only load] [--only takeover]
                     [--only hand-over]
                     [--redis-server valkey-server]

Each round has a fresh redis-server, or the program that is named (on /tmp, or --folder), and fresh
servers, all on this machine:
- cycle: `bench cycle` (put, get, delete) of 64 connections with jobs of 100 B through the leader;
  the CPU time of Redis and of the leader for a request, and requests a second. Without an
  append-only file, and with one (everysec);
- forwarded: the same through a server that waits, which forwards its clients to the leader; and
  the time from a put to a waiting worker, both through that server, beside the same at the leader;
- load: --jobs jobs of 100 B are put; Redis' memory for each; then the leader ends (SIGTERM), and
  the next one reads them: the time that it says it took, and the CPU time that both took for it;
- takeover: --takeover-jobs jobs, the leader is killed (SIGKILL) while another server waits: the
  time until that one answers a request, less the lease;
- hand-over: --jobs jobs, the leader ends (SIGTERM) while another server waits, and a client asks
  without a pause: the time from the last answer of the one to the first of the other, the longest
  answer before, and the time from the signal to the end of the leader.
A figure is the median of the rounds, with the least and the most.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from local_processes import cpu_seconds, free_port, program

PATIENCE = 120
NOTHING = b'{"request":"get","queues":["none"]}\n'
SCENARIOS = ["cycle", "forwarded", "load", "takeover", "hand-over"]
LEASE = 3.0


def wait(what, done):
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            sys.exit(f"timed out: {what}")
        time.sleep(0.001)


def answers(port, request):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as stream:
        stream.sendall(request)
        return stream.recv(1000) != b""
    return False


class Process:
    def __init__(self, folder, name, command):
        self.log = pathlib.Path(folder) / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        self.pid = self.process.pid

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def said(self, text):
        return text in self.log.read_text()


class Redis(Process):
    def __init__(self, program, folder, append_only):
        self.port = free_port()
        super().__init__(folder, "redis", [
            program, "--port", self.port, "--dir", folder, "--save", "", "--appendonly",
            "yes" if append_only else "no", "--appendfsync", "everysec"])
        wait(program, lambda: answers(self.port, b"PING\r\n"))

    def memory(self):
        with socket.create_connection(("127.0.0.1", self.port)) as stream:
            stream.sendall(b"INFO memory\r\n")
            text = stream.recv(100_000).decode()
        return int(re.search(r"used_memory:(\d+)", text).group(1))


class Server(Process):
    def __init__(self, binary, folder, name, redis):
        self.port = free_port()
        super().__init__(folder, name, [
            binary, "serve", "--engine", f"redis://127.0.0.1:{redis.port}", "--server-name", name,
            "--listen", f"127.0.0.1:{self.port}", "--http", "off"])

    def wait_to_serve(self):
        wait("the server", lambda: answers(self.port, NOTHING))


@contextlib.contextmanager
def fresh(options, append_only):
    """A folder, and a Redis; what is added to the list is ended with them."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        processes = [Redis(options.redis_server, folder, append_only)]
        try:
            yield folder, processes
        finally:
            for process in reversed(processes):
                process.end(signal.SIGKILL)


def bench(options, port, *arguments):
    command = [options.binary, "bench", *arguments, "--address", f"127.0.0.1:{port}", "--payload",
               "100", "--json", "-"]
    run = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def measure_cycle(options, depth, processes, port):
    """The CPU time of Redis and of the servers for a request to this port, after a short load."""
    bench(options, port, "cycle", "-c", 64, "-d", depth, "-n", 30_000)
    requests = 600_000 if depth > 1 else 90_000
    before, begun = [cpu_seconds(it.pid) for it in processes], time.monotonic()
    bench(options, port, "cycle", "-c", 64, "-d", depth, "-n", requests)
    seconds = time.monotonic() - begun
    used = [cpu_seconds(it.pid) - was for it, was in zip(processes, before)]
    names = ["us of Redis", "us of the leader", "us of the server that waits"]
    figures = {name: it * 1e6 / requests for name, it in zip(names, used)}
    return {**figures, "requests a second": requests / seconds}


def cycle(options, depth, append_only):
    with fresh(options, append_only) as (folder, processes):
        redis, = processes
        server = Server(options.binary, folder, "one", redis)
        processes.append(server)
        server.wait_to_serve()
        return measure_cycle(options, depth, processes, server.port)


def forwarded(options, depth):
    with fresh(options, False) as (folder, processes):
        redis, = processes
        server = Server(options.binary, folder, "one", redis)
        processes.append(server)
        server.wait_to_serve()
        other = Server(options.binary, folder, "two", redis)
        processes.append(other)
        other.wait_to_serve()
        figures = measure_cycle(options, depth, processes, other.port)
        if depth == 1:
            for name, port in [("at the leader", server.port), ("forwarded", other.port)]:
                figures[f"us from put to worker, {name}"] = delivery(options, port)
        return figures


def delivery(options, port):
    """The median of microseconds from a put to a worker that waits, of one at a time."""
    found = bench(options, port, "wait", "--waiters", 1, "-n", 5_000)
    return found["latency_us"]["delivery"]["p50"]


def fill(options, server, jobs):
    bench(options, server.port, "put", "-c", 16, "-d", 64, "-n", jobs, "--keep")


def load(options):
    with fresh(options, False) as (folder, processes):
        redis, = processes
        server = Server(options.binary, folder, "one", redis)
        processes.append(server)
        server.wait_to_serve()
        before = redis.memory()
        fill(options, server, options.jobs)
        figures = {"bytes of Redis a job": (redis.memory() - before) / options.jobs}
        server.end()
        busy = cpu_seconds(redis.pid)
        again = Server(options.binary, folder, "two", redis)
        processes.append(again)
        again.wait_to_serve()
        text = re.sub(r"\x1b\[[0-9;]*m", "", again.log.read_text())
        figures["seconds to load"] = float(re.search(r"seconds=([0-9.]+)", text).group(1))
        figures["CPU seconds of the server"] = cpu_seconds(again.pid)
        figures["CPU seconds of Redis"] = cpu_seconds(redis.pid) - busy
        return figures


def leader_and_next(options, folder, processes, jobs):
    """A server that leads with so many jobs, and one that waits to lead."""
    redis, = processes
    server = Server(options.binary, folder, "one", redis)
    processes.append(server)
    server.wait_to_serve()
    fill(options, server, jobs)
    other = Server(options.binary, folder, "two", redis)
    processes.append(other)
    wait("a server that waits", lambda: other.said("waiting to lead"))
    return server, other


def takeover(options):
    with fresh(options, False) as (folder, processes):
        server, other = leader_and_next(options, folder, processes, options.takeover_jobs)
        begun = time.monotonic()
        server.end(signal.SIGKILL)
        other.wait_to_serve()
        took = time.monotonic() - begun
        return {"seconds until answered": took, "of these beyond the lease": took - LEASE}


def ask_until_lost(port, answered):
    """Asks one request after the other until the connection ends, and notes when each is answered."""
    with socket.create_connection(("127.0.0.1", port), 5) as stream:
        stream.settimeout(PATIENCE)
        while True:
            with contextlib.suppress(ConnectionError):
                stream.sendall(NOTHING)
                if stream.recv(1000):
                    answered.append(time.monotonic())
                    continue
            return


def hand_over(options):
    with fresh(options, False) as (folder, processes):
        server, other = leader_and_next(options, folder, processes, options.jobs)
        answered = []
        asking = threading.Thread(target=ask_until_lost, args=(server.port, answered))
        asking.start()
        time.sleep(1)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        asking.join()
        other.wait_to_serve()
        pause = time.monotonic() - answered[-1]
        server.process.wait(PATIENCE)
        ended = time.monotonic() - begun
        if not re.search(r"read_before\S*=\S*true", other.log.read_text()):
            sys.exit("the server that waits has not followed")
        gaps = [later - earlier for earlier, later in zip(answered, answered[1:])]
        return {"ms without an answer": pause * 1e3, "ms, the longest before": max(gaps) * 1e3,
                "seconds from signal to end": ended}


def show(name, rounds):
    print(f"{name}: median (least - most)")
    for figure in rounds[0]:
        values = [one[figure] for one in rounds]
        low, high = f"{min(values):.2f}", f"{max(values):.2f}"
        print(f"  {figure:28}{statistics.median(values):12.2f}  ({low} - {high})")
    sys.stdout.flush()


def add_redis_arguments(parser):
    parser.add_argument("--folder", help="where Redis keeps its files")
    parser.add_argument("--redis-server", default="redis-server", metavar="PROGRAM",
                        help="what is started as Redis: a name or a path, such as valkey-server")


def describe(options):
    """Prints what is measured where; ends without a Redis."""
    if not shutil.which(options.redis_server):
        sys.exit(f"{options.redis_server} is not installed")
    version = subprocess.run([options.redis_server, "--version"], check=True, capture_output=True,
                             text=True)
    print(version.stdout.strip())
    print("load of the machine before:", *map("{:.2f}".format, os.getloadavg()))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("binary", type=program)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--takeover-jobs", type=int, default=100_000)
    parser.add_argument("--only", action="append", choices=SCENARIOS)
    add_redis_arguments(parser)
    options = parser.parse_args()
    describe(options)
    only = options.only or SCENARIOS
    for depth in [1, 16] if "cycle" in only else []:
        for append_only in [False, True]:
            name = f"cycle, 64 connections, depth {depth}"
            name += ", append-only" if append_only else ""
            show(name, [cycle(options, depth, append_only) for _ in range(options.rounds)])
    for depth in [1, 16] if "forwarded" in only else []:
        show(f"cycle through a server that waits, 64 connections, depth {depth}",
             [forwarded(options, depth) for _ in range(options.rounds)])
    if "load" in only:
        show(f"load, {options.jobs} jobs of 100 B", [load(options) for _ in range(options.rounds)])
    if "takeover" in only:
        show(f"takeover, {options.takeover_jobs} jobs, lease {LEASE:.0f} s",
             [takeover(options) for _ in range(options.rounds)])
    if "hand-over" in only:
        show(f"hand-over, {options.jobs} jobs of 100 B",
             [hand_over(options) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
