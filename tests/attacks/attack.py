"""What all attacks share: the server as a process, clients, the canary, and the line of figures.

A module of an attack has a docstring whose first line names the cause, `LARGE` and `SMALL` (the
sizes), `ARGUMENTS` of the server if it needs any, and `run(attack)`. `run` makes the load, calls
`attack.begin()` before the moment that is measured, and asserts that nothing was lost.
"""

import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

PATIENCE = 120  # seconds: a busy machine is slow, a hanging server is for ever
INTERVAL = 0.002  # seconds between two requests of the canary
LEAST = 500  # requests of the canary after the attack


class Server:
    """A server on free ports. `realtime`: its loop runs before all else, so that a pass takes as
    long as its CPU time."""

    def __init__(self, binary, arguments=(), realtime=False):
        command = [binary, "serve", "--listen", ":0", "--http", ":0", "--pinpriq", ":0",
                   "--log-format", "json", "--max-clients", "20000", *arguments]
        clean = {key: text for key, text in os.environ.items() if not key.startswith("JOBCENTRE_")}
        # A file: a pipe that is read late would stop the server.
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, env=clean)
        self.addresses, self.output_lines = {}, 0
        threading.Thread(target=self._output, daemon=True).start()
        end = time.monotonic() + PATIENCE
        while b'"serving"' not in self.log_text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"the server did not start: {self.log_text()}")
            time.sleep(0.05)
        for text in self.log_text().splitlines():
            if b'"listening"' in text:
                line = json.loads(text)
                host, port = line["address"].rsplit(":", 1)
                self.addresses[line["protocol"]] = (host, int(port))
        if realtime:
            # Not SCHED_FIFO: the system pauses that for 50 ms in each busy second.
            os.setpriority(os.PRIO_PROCESS, self.process.pid, -20)

    def log_text(self):
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0)

    def _output(self):
        for _ in self.process.stdout:
            self.output_lines += 1

    def get(self, path):
        url = "http://{}:{}{}".format(*self.addresses["http"], path)
        return urllib.request.urlopen(url, timeout=PATIENCE).read().decode()

    def passes(self):
        """The longest pass in seconds, how many took at most so long, and the most CPU time
        of one."""
        text = self.get("/metrics")
        longest = re.search(r"^jobcentre_loop_longest_pass_seconds (\S+)", text, re.M)
        cpu = re.search(r"^jobcentre_loop_longest_pass_cpu_seconds (\S+)", text, re.M)
        bucket = r'^jobcentre_loop_pass_seconds_bucket\{le="(\d\S*)"\} (\d+)'
        buckets = re.findall(bucket, text, re.M)
        buckets = [(float(le), int(count)) for le, count in buckets]
        return float(longest[1]), buckets, float(cpu[1])

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def cpu_seconds(self):
        """What all threads have taken."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    @contextlib.contextmanager
    def frozen(self):
        """What clients send meanwhile, and whatever time passes, the server finds in one pass."""
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def stop(self):
        """Ends the server in good order; anything else is a failure."""
        self.process.send_signal(signal.SIGTERM)
        self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        lines = self.log_text().splitlines()
        wrong = [line for line in lines if b"panicked" in line or b'"level":"ERROR"' in line]
        assert status == 0 and not wrong, f"ended with status {status}: {wrong[:5]}"


class Client:
    """A connection to a listener; `ask` speaks the protocol of JSON lines."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def ask(self, request):
        self.socket.sendall(request)
        while b"\n" not in self.rest:
            part = self.socket.recv(65536)
            assert part, "the server closed the connection"
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def pipeline(self, blocks, answers):
        """Sends all blocks while reading so many lines, which it returns."""
        thread = threading.Thread(target=lambda: [self.socket.sendall(block) for block in blocks])
        thread.start()
        parts, lines = [self.rest], self.rest.count(b"\n")
        while lines < answers:
            part = self.socket.recv(1 << 20)
            assert part, f"the server closed after {lines} of {answers} answers"
            parts.append(part)
            lines += part.count(b"\n")
        thread.join()
        assert lines == answers, f"{lines} answers to {answers} requests"
        self.rest = b""
        return b"".join(parts)

    def read(self, size):
        """Exactly so many bytes."""
        while len(self.rest) < size:
            part = self.socket.recv(1 << 20)
            assert part, "the server closed the connection"
            self.rest += part
        head, self.rest = self.rest[:size], self.rest[size:]
        return head

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def put(queue, pri=0, **fields):
    text = {"request": "put", "queue": queue, "job": {}, "pri": pri, **fields}
    return json.dumps(text).encode() + b"\n"


def get(*queues, **fields):
    return json.dumps({"request": "get", "queues": queues, **fields}).encode() + b"\n"


def delete(number):
    return b'{"request":"delete","id":%d}\n' % number


def ids(answers):
    return [int(number) for number in re.findall(rb'"id":(\d+)', answers)]


def blocks(requests, size=1000):
    """Joins requests into blocks."""
    block = []
    for request in requests:
        block.append(request)
        if len(block) == size:
            yield b"".join(block)
            block.clear()
    yield b"".join(block)


def canary(address, pipe, realtime):
    """Puts, gets and deletes a job in its own queue, one request each `INTERVAL` if it can. An
    answer that took longer stands for those to the requests that were due meanwhile, too. `begin`
    returns what was measured, and forgets it; `end` returns it with `LEAST` more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if realtime:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    client, late, step, number, least = Client(address), [], 0, 0, 0
    while True:
        if pipe.poll():
            command = pipe.recv()
            if command == "pause":
                pipe.send("paused")
                pipe.recv()
            elif command == "begin":
                pipe.send(late)
                late = []
            else:
                least = len(late) + LEAST
        if least and len(late) >= least:
            return pipe.send(late)
        due = time.monotonic()
        if step == 0:
            answer = client.ask(b'{"request":"put","queue":"canary","job":{},"pri":1}\n')
            number = int(answer.rpartition(b":")[2][:-1])
        elif step == 1:
            answer = client.ask(b'{"request":"get","queues":["canary"]}\n')
            assert b'"id":%d,' % number in answer, answer
        else:
            answer = client.ask(delete(number))
            assert answer == b'{"status":"ok"}', answer
        step = (step + 1) % 3
        took = time.monotonic() - due
        late.extend(took - INTERVAL * skipped for skipped in range(int(took / INTERVAL) + 1))
        time.sleep(max(INTERVAL - took, 0))


class Attack:
    """One run of one attack."""

    def __init__(self, module, binary, small, realtime):
        self.size = module.SMALL if small else module.LARGE
        self.cause = module.__doc__.partition("\n")[0].rstrip(".")
        self.server = Server(binary, getattr(module, "ARGUMENTS", ()), realtime)
        self.pipe, other = multiprocessing.Pipe()
        self.canary = multiprocessing.Process(target=canary, daemon=True,
                                              args=(self.address(), other, realtime))
        self.canary.start()
        self.memory = self.server.memory()
        self.before = None
        self.laps, self.notes, self.figures = [], [], {}

    def address(self, protocol="job-centre"):
        return self.server.addresses[protocol]

    def client(self, protocol="job-centre"):
        return Client(self.address(protocol))

    def _tell(self, command):
        self.pipe.send(command)
        assert self.pipe.poll(PATIENCE), "the canary hangs"
        return self.pipe.recv()

    def begin(self):
        """The load is made: from here on passes and the canary count."""
        self.before = self.server.passes()
        self.memory = self.server.memory()
        self.laps.clear()
        self._tell("begin")

    def lap(self):
        """What the canary has measured since the last lap, or the begin, in seconds."""
        late = self._tell("begin")
        self.laps += late
        return late

    def note(self, text):
        """A sentence for the line of figures."""
        self.notes.append(text)

    def figure(self, name, value):
        """A figure of its own, for the JSON."""
        self.figures[name] = value

    @contextlib.contextmanager
    def alone(self):
        """The canary puts nothing meanwhile: ids follow each other."""
        self._tell("pause")
        yield
        self.pipe.send("go on")

    @contextlib.contextmanager
    def frozen(self):
        """The server finds in one pass whatever happens meanwhile."""
        with self.alone(), self.server.frozen():
            yield

    def end(self, as_json=False):
        """Prints the line of figures, and ends the server."""
        late = sorted(self.laps + self._tell("end"))
        self.canary.join()
        memory = self.server.memory()
        after, load = self.server.passes(), ""
        if self.before:
            longest, counts, _ = self.before
            load = f" (load {longest * 1000:.1f})"
            if after[0] == longest:
                # Not longer than one before: the bound of the longest bucket that has grown.
                whole = [(le, new - old) for (le, new), (_, old) in zip(after[1], counts)]
                bound = next((le for le, count in whole if count == whole[-1][1]), longest)
                after = (min(bound, longest), after[1], after[2])
        at = lambda part: late[min(int(part * len(late)), len(late) - 1)] * 1000
        mib = lambda size: size >> 20
        if as_json:
            figures = {"p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": at(1)}
            print(json.dumps({"cause": self.cause, "size": self.size,
                              "longest_pass_ms": after[0] * 1000,
                              "cpu_ms": after[2] * 1000, "canary_ms": figures,
                              "resident_bytes": [self.memory, memory], **self.figures}), flush=True)
            return self.server.stop()
        print(f"{self.cause}: size {self.size}, longest pass {after[0] * 1000:.1f} ms{load}, "
              f"{after[2] * 1000:.1f} ms of CPU time at most since the start, "
              f"canary p50 {at(0.5):.2f} p99 {at(0.99):.2f} p99.9 {at(0.999):.2f} "
              f"max {at(1):.1f} ms of {len(late)}, "
              f"resident {mib(self.memory)} -> {mib(memory)} MiB", *self.notes, sep="; ", flush=True)
        self.server.stop()


def empty(client, queue):
    """Takes and deletes what is in a queue; how many jobs that were."""
    taken = 0
    while True:
        answers = client.pipeline([get(queue) * 1000], 1000)
        found = ids(answers)
        if found:
            client.pipeline([b"".join(map(delete, found))], len(found))
        taken += len(found)
        if len(found) < 1000:
            return taken
