#!/usr/bin/env python3
"""The listener for clients of beanstalkd beside tuber, which speaks that protocol, too.

    benches/tuber.py BINARY TUBER [--rounds 5] [--seconds 1]

TUBER is the program (`cargo build --release` in a checkout of github.com/tuberq/tuber). Both get the
same load from `bench cycle --protocol beanstalkd`: put, reserve and delete of jobs of 100 B over 64
connections. The servers take turns on one core, the generator has another. Prints the server's CPU
time a request, each the median of the rounds with the least and the most, and the ratios.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import engine  # noqa: E402
from local_processes import free_port, program  # noqa: E402

CONNECTIONS = 64


def measure(options, command, port, depth):
    """Microseconds of the server a request."""
    server = subprocess.Popen(["taskset", "-c", "0", *map(str, command)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        engine.wait("the server", lambda: engine.answers(port, b"list-tubes\r\n"))
        run = subprocess.run(list(map(str, [
            "taskset", "-c", "1", options.binary, "bench", "cycle", "--protocol", "beanstalkd",
            "--address", f"127.0.0.1:{port}", "-c", CONNECTIONS, "-d", depth, "--payload", 100,
            "--warmup", 0.2, "--duration", options.seconds, "--server-pid", server.pid,
            "--json", "-"])), check=True, capture_output=True, text=True)
        return json.loads(run.stdout)["server"]["cpu"]["microseconds_per_request"]
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("binary", type=program)
    parser.add_argument("tuber", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    print("load of the machine before:", *map("{:.2f}".format, os.getloadavg()))
    for depth in [1, 16]:
        rounds = []
        for _ in range(options.rounds):
            port, other = free_port(), free_port()
            ours = [options.binary, "serve", "--listen", f"127.0.0.1:{other}", "--beanstalkd",
                    f"127.0.0.1:{port}", "--http", "off"]
            theirs = [options.tuber, "server", "-l", "127.0.0.1", "-p", port]
            figures = {"us of jobcentre": measure(options, ours, port, depth),
                       "us of tuber": measure(options, theirs, port, depth)}
            figures["ratio"] = figures["us of jobcentre"] / figures["us of tuber"]
            rounds.append(figures)
        engine.show(f"cycle, {CONNECTIONS} connections, depth {depth}, CPU a request", rounds)


if __name__ == "__main__":
    main()
