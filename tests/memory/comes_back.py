#!/usr/bin/env python3
"""Does the memory of deleted jobs and closed connections return to the system?

    tests/memory/comes_back.py BINARY [--rounds N] [--small] [--show] [--only KIND]

In each round a load is put into one and the same server and taken away; then nothing is sent for at
most 3 seconds. After that the resident memory may be 10 % and 8 MiB above that of the fresh server,
and the threads of the server sleep.

Loads: jobs of 100 B, 1 kB and 100 kB, put and deleted (in the order of the puts, backwards and at
random), and connections that each send most of a line and close. SEED replays the random order.
"""

import argparse
import glob
import os
import random
import socket
import subprocess
import sys
import time

SECONDS_AT_MOST = 3.0
KEPT_MIB = 8.0
SEED = int(os.environ.get("SEED", "0")) or random.randrange(1 << 32)
BATCH = 64


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, binary):
        self.port = free_port()
        command = [binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--http", "off"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("the server does not listen")

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(60)
        return connection

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def wait_until_read(self):
        """Until no socket of the server has bytes that it has not read."""
        port = f":{self.port:04X}"
        while True:
            with open("/proc/net/tcp", encoding="ascii") as lines:
                rows = [line.split() for line in lines]
            # A listening socket counts connections in place of bytes.
            if all(row[4].endswith(":00000000") for row in rows[1:] if row[1].endswith(port)):
                return
            time.sleep(0.05)

    def wakeups(self):
        """How often its threads have slept so far."""
        count = 0
        for status in glob.glob(f"/proc/{self.process.pid}/task/*/status"):
            with open(status, encoding="ascii") as lines:
                line = next(line for line in lines if line.startswith("voluntary_ctxt"))
            count += int(line.split()[1])
        return count

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def pipeline(connection, requests):
    """Sends all requests, BATCH at a time; returns the answers."""
    reader = connection.makefile("rb")
    answers = []
    for first in range(0, len(requests), BATCH):
        batch = requests[first : first + BATCH]
        connection.sendall(b"".join(batch))
        answers += [reader.readline() for _ in batch]
    reader.close()
    return answers


def jobs(server, bytes_each, count, order):
    payload = b'{"p":"' + b"x" * (bytes_each - 8) + b'"}'
    put = b'{"request":"put","queue":"q","pri":1,"job":' + payload + b"}\n"
    with server.connect() as connection:
        answers = pipeline(connection, [put] * count)
        ids = [int(answer.split(b":")[2].rstrip(b"}\n")) for answer in answers]
        assert len(ids) == count
        most = server.resident_mib()
        if order == 1:
            ids.reverse()
        elif order == 2:
            random.shuffle(ids)
        deletes = [b'{"request":"delete","id":%d}\n' % job for job in ids]
        answers = pipeline(connection, deletes)
        assert set(answers) == {b'{"status":"ok"}\n'}, set(answers)
    return most


def partial_lines(server, bytes_each, count, order):
    part = b'{"request":"put","queue":"' + b"x" * bytes_each
    connections = [server.connect() for _ in range(count)]
    for connection in connections:
        connection.sendall(part)
    server.wait_until_read()
    most = server.resident_mib()
    if order == 1:
        connections.reverse()
    elif order == 2:
        random.shuffle(connections)
    for connection in connections:
        connection.close()
    server.wait_until_read()
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a tenth of the load")
    parser.add_argument("--show", action="store_true", help="print every round")
    parser.add_argument("--only", default="", help="the kind whose name begins with this")
    given = parser.parse_args()
    share = 10 if given.small else 1
    kinds = {
        "100 B": lambda server, order: jobs(server, 100, 300_000 // share, order),
        "1 kB": lambda server, order: jobs(server, 1_000, 100_000 // share, order),
        "100 kB": lambda server, order: jobs(server, 100_000, 3_000 // share, order),
        "lines": lambda server, order: partial_lines(server, 900 << 10, 1000 // share, order),
    }
    print(f"SEED={SEED}")
    random.seed(SEED)
    failed = 0
    for name, load in kinds.items():
        if not name.startswith(given.only):
            continue
        server = Server(given.binary)
        try:
            base = server.resident_mib()
            worst, peak = 0.0, 0.0
            for number in range(given.rounds):
                most = load(server, number % 3)
                start = time.monotonic()
                bound = base * 1.1 + KEPT_MIB
                while True:
                    now = server.resident_mib()
                    waited = time.monotonic() - start
                    if now <= bound or waited >= SECONDS_AT_MOST:
                        break
                    time.sleep(0.05)
                kept = now - base
                if given.show:
                    print(f"{name}, round {number}: {base:.1f} -> {most:.1f} -> {now:.1f} MiB "
                          f"after {waited:.2f} s", flush=True)
                worst, peak = max(worst, kept), max(peak, most)
                failed += now > bound
            time.sleep(2.5)
            before = server.wakeups()
            time.sleep(2)
            woken = server.wakeups() - before
            if woken > 0:
                print(f"{name}: an idle server woke {woken} times in 2 s")
                failed += 1
            print(f"{name}: fresh {base:.1f} MiB, loaded {peak:.1f}, after {given.rounds} rounds "
                  f"at most {worst:.1f} more than fresh", flush=True)
        finally:
            server.stop()
    if failed:
        sys.exit("memory is kept, or an idle server wakes")


if __name__ == "__main__":
    main()
