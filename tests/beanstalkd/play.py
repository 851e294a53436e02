"""Plays a script on a fresh server and notes what comes back, and when."""

import contextlib
import os
import re
import signal
import socket
import struct
import threading
import time
from typing import List, NamedTuple

from script import CONTROL, DRAIN, MAYBE, MOMENT_S, READ, SEND, SILENCE, WAIT

PATIENCE_S = 8  # for a reply; after one that is missing, less
STALL_S = 0.2  # a machine that stands still for longer spoils a play
BULK = re.compile(rb"(?:OK|FOUND \d+|RESERVED \d+) (\d+)$")
NOTHING, END = b"<nothing>", b"<the end>"


class Event(NamedTuple):
    index: int  # of the step, or the number of steps at the end of the play
    step: object
    replies: List[bytes]
    at: float  # seconds since the play began


class Played(NamedTuple):
    events: List[Event]
    wrong: str  # what the server did when it ended, or None
    ids: List[int]  # in the order in which they were inserted
    begin: float
    end: float
    slowest: float  # the longest time between a request and its reply, where none waits


class Canary:
    """Notices when the machine does not let a thread run in time."""

    def __init__(self):
        self.stalls = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            begin = time.monotonic()
            time.sleep(0.02)
            late = time.monotonic() - begin - 0.02
            if late > STALL_S:
                self.stalls.append((begin, begin + late))

    def stalled(self, begin, end):
        return any(first < end and last > begin for first, last in list(self.stalls))


class Connection:
    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.ended, self.closed = b"", False, False

    def send(self, payload, is_split):
        """A server that has closed may refuse it; what it wrote before is still to be read."""
        with contextlib.suppress(OSError):
            self.socket.settimeout(PATIENCE_S)
            if not is_split:
                self.socket.sendall(payload)
                return
            singly = 260
            for at in range(min(singly, len(payload))):
                self.socket.sendall(payload[at:at + 1])
            if len(payload) > singly:
                self.socket.sendall(payload[singly:-3] or payload[singly:])
                for at in range(max(singly, len(payload) - 3), len(payload)):
                    self.socket.sendall(payload[at:at + 1])

    def fill(self, until):
        """Whether something came."""
        if self.ended or self.closed:
            return False
        self.socket.settimeout(max(0.001, until - time.monotonic()))
        try:
            part = self.socket.recv(1 << 17)
        except socket.timeout:
            return False
        except OSError:
            part = b""
        self.buffer += part
        self.ended = not part
        return bool(part)

    def complete(self):
        """The length of the first reply in the buffer, or 0."""
        at = self.buffer.find(b"\r\n")
        if at < 0:
            return 0
        bulk = BULK.match(self.buffer[:at])
        length = at + 2 + (int(bulk.group(1)) + 2 if bulk else 0)
        return length if len(self.buffer) >= length else 0

    def reply(self, until):
        while not (length := self.complete()):
            if not self.fill(until):
                rest, self.buffer = self.buffer, b""
                return rest + (END if self.ended else NOTHING)
        reply, self.buffer = self.buffer[:length], self.buffer[length:]
        return reply

    def rest(self, until):
        """All complete replies until the server closes or the time is over, and how it ended."""
        replies = []
        while True:
            replies.append(self.reply(until))
            if replies[-1].endswith((NOTHING, END)):
                return replies

    def close(self, is_reset=False):
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()
        self.closed = True


class Player:
    def __init__(self, server, script, is_split=False):
        self.server, self.script, self.is_split = server, script, is_split
        self.connections, self.events, self.ids = {}, [], []
        self.patience, self.slowest = PATIENCE_S, 0
        self.begin = time.monotonic()

    def connection(self, name):
        known = self.connections.get(name)
        if known is None or known.closed:
            known = self.connections[name] = Connection(self.server.address)
        return known

    def note(self, index, step, replies):
        for reply in replies:
            if reply.startswith(b"INSERTED "):
                self.ids.append(int(reply.split()[1]))
        self.events.append(Event(index, step, replies, time.monotonic() - self.begin))

    def fill_in(self, payload):
        def one(found):
            number = int(found.group(1))
            return str(self.ids[number - 1]).encode() if number <= len(self.ids) else b"0"

        return re.sub(rb"\$(\d+)", one, payload) if "ids" in self.script.options else payload

    def step(self, index, step):
        if step.kind == WAIT:
            time.sleep(step.number)
            return
        if step.kind == DRAIN:
            os.kill(self.server.process.pid, signal.SIGUSR1)
            time.sleep(2 * MOMENT_S)
            return
        connection = self.connection(step.connection)
        if step.kind == SEND:
            connection.send(self.fill_in(step.payload), self.is_split)
            if self.is_split:  # or a later request of another connection may be read before
                time.sleep(MOMENT_S / 10)
        elif step.kind == READ:
            self.read(index, step, connection)
        elif step.kind == MAYBE:
            until = time.monotonic() + 5 * MOMENT_S
            self.note(index, step, [connection.reply(until)])
            time.sleep(max(0, until - time.monotonic()))  # the same time with and without a reply
        elif step.kind == SILENCE:
            self.note(index, step, connection.rest(time.monotonic() + MOMENT_S))
        elif step.kind == CONTROL:
            self.control(index, step, connection)

    def read(self, index, step, connection):
        replies, begin = [], time.monotonic()
        for _ in range(int(step.number)):
            replies.append(connection.reply(time.monotonic() + self.patience))
            if replies[-1].endswith(NOTHING):
                self.patience = 1
                break
        if not step.text and not replies[-1].endswith(NOTHING):  # it was asked for in the same line
            self.slowest = max(self.slowest, time.monotonic() - begin)
        self.note(index, step, replies)

    def control(self, index, step, connection):
        if step.word == "end":
            self.note(index, step, connection.rest(time.monotonic() + self.patience))
        elif step.word == "half":
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
        elif step.word in ("close", "reset"):
            connection.close(step.word == "reset")
        if step.word in ("half", "close", "reset"):
            time.sleep(MOMENT_S)

    def play(self):
        for index, step in enumerate(self.script.steps):
            self.step(index, step)
        # What comes without being asked for is a difference too.
        time.sleep(MOMENT_S / 2)
        for name in sorted(self.connections):
            connection = self.connections[name]
            if not connection.closed:
                rest = connection.rest(time.monotonic() + 0.001)
                self.note(len(self.script.steps), f"{name} at the end", rest)


def play(start, script, is_split=False, player=Player):
    """`start` makes a fresh server out of the options of the script."""
    size = script.options.get("max-job-size")
    server = start(max_job_size=int(size) if size else None)
    playing = player(server, script, is_split)
    try:
        playing.play()
    finally:
        end = time.monotonic()
        for connection in playing.connections.values():
            connection.close()
        wrong = server.stop()
    return Played(playing.events, wrong, playing.ids, playing.begin, end, playing.slowest)
