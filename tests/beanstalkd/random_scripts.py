"""Random scripts from a grammar: a seed makes one. The same comparison, and the shortest found.

The order of a list is not compared: it is defined only until something is removed.

A connection that waits in a reserve sends nothing until it has its reply, and only one waits at a
time: beanstalkd serves several in an order that is not quite that of their coming. Which one waits
is known when the script is played, not when it is made, so the player decides (`play_random`).
"""

import contextlib
import random
import socket
import time
from typing import NamedTuple

import compare
import play
from script import Script

STEPS = 60
NAMES = "ABCD"
TUBES = ["default", "a", "b", "c-1", "x.y", "t" * 200]
BAD_LINES = [
    "foo", "", "PUT 0 0 60 1", "put 0 0 60", "put 1 2 3 x", "peek x", "peek", "use -a", "use a:b",
    "watch " + "w" * 201, "delete -1", "release 1 2", "bury 1", "kick x", "touch", "stats 1",
    "reserve 1", "pause-tube a", "pause-tube default x", "ignore", "y" * 300, "stats-job 1x",
    "kick-job 18446744073709551616", "list-tubes 1",
]


class Request(NamedTuple):
    connection: str
    payload: bytes
    count: int  # of replies
    may_wait: bool
    action: str = ""  # close, reset, half, quit


def draw_id(rng):
    """By its number among the inserted ones; or one that is not there."""
    return f"${rng.randint(1, 12)}" if rng.random() < 0.95 else rng.choice(["0", "999", "x"])


def draw_put(rng):
    priority = rng.choice([0, 1, 5, 5, 5, 1023, 1024, 4294967295])
    delay = rng.choice([0, 0, 0, 0, 1000, 2000, 3000])
    body = rng.choice(["", "x", "hello", "a\r\nb", "\0\xff", "{\"a\": 1}", "y" * 300, "z" * 65535])
    size = len(body)
    odd = rng.random()
    if odd < 0.03:
        body, size = "z" * 65536, 65536
    elif odd < 0.06 and body:
        return f"put {priority} {delay} 600 {size}\r\n{body}xx", 1
    return f"put {priority} {delay} 600 {size}\r\n{body}\r\n", 1


def draw_line(rng):
    tube, job = rng.choice(TUBES), draw_id(rng)
    priority = rng.choice([0, 1, 5, 5, 1024, 4294967295])
    choices = [
        (6, f"use {tube}"), (6, f"watch {tube}"), (4, f"ignore {tube}"), (8, f"delete {job}"),
        (8, f"release {job} {priority} {rng.choice([0, 0, 0, 1500])}"),
        (7, f"bury {job} {priority}"), (3, f"touch {job}"), (3, f"peek {job}"), (3, "peek-ready"),
        (3, "peek-delayed"), (3, "peek-buried"), (5, f"kick {rng.choice([0, 1, 1, 2, 10])}"),
        (4, f"kick-job {job}"), (5, f"reserve-job {job}"), (6, f"stats-job {job}"),
        (6, f"stats-tube {tube}"), (3, "stats"), (3, "list-tubes"), (3, "list-tubes-watched"),
        (2, "list-tube-used"), (3, f"pause-tube {tube} {rng.choice([0, 0, 4000])}"),
        (18, "reserve-with-timeout 0"), (3, rng.choice(BAD_LINES)),
    ]
    return rng.choices([line for _, line in choices], [weight for weight, _ in choices])[0] + "\r\n"


def draw_request(rng):
    name = rng.choices(NAMES, [5, 3, 2, 1])[0]
    kind = rng.random()
    if kind < 0.28:
        text, count = draw_put(rng)
        return Request(name, text.encode("latin-1"), count, False)
    if kind < 0.34:
        return Request(name, b"reserve\r\n", 1, True)
    if kind < 0.37:
        return Request(name, b"", 0, False, rng.choice(["close", "reset", "half", "quit"]))
    if kind < 0.42:
        lines = [draw_line(rng) for _ in range(rng.randint(2, 6))]
        return Request(name, "".join(lines).encode(), len(lines), False)
    return Request(name, draw_line(rng).encode(), 1, False)


def make(seed):
    rng = random.Random(seed)
    return [draw_request(rng) for _ in range(rng.randint(10, STEPS))]


class RandomPlayer(play.Player):
    """Plays requests; `W` is a connection of its own that asks whether all is settled."""

    def __init__(self, server, script, is_split=False):
        super().__init__(server, script, is_split)
        self.waiting = None
        self.settle()

    def settle(self):
        """All that was sent before has been answered once two more requests have been."""
        for _ in range(2):
            self.connection("W").send(b"list-tube-used\r\n", False)
            self.connection("W").reply(time.monotonic() + play.PATIENCE_S)

    def request(self, index, request):
        connection = self.connection(request.connection)
        if request.action and self.waiting not in (None, request.connection):
            return  # its jobs would go to the waiting one in another order: an open difference
        if request.action:
            self.end(index, request, connection)
            if self.waiting == request.connection:
                self.waiting = None
            self.settle()
        elif request.connection != self.waiting:
            payload = self.fill_in(request.payload)
            if request.may_wait and self.waiting:
                payload = b"reserve-with-timeout 0\r\n"
            connection.send(payload, False)
            if request.may_wait and not self.waiting:
                self.settle()
                self.waiting = request.connection
            else:
                replies = [
                    connection.reply(time.monotonic() + self.patience)
                    for _ in range(request.count)
                ]
                self.note(index, show(request), replies)
                self.settle()
        if self.waiting:
            reply = self.connection(self.waiting).reply(time.monotonic() + 0.001)
            if reply != play.NOTHING:
                self.note(index, f"{self.waiting} waits; {show(request)}", [reply])
                self.waiting = None

    def end(self, index, request, connection):
        """What the server says until it closes, unless the client does so at once."""
        is_waiting = self.waiting == request.connection
        if request.action == "quit" and not is_waiting:
            connection.send(b"quit\r\n", False)
        elif request.action == "half":
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
        if request.action == "half" or request.action == "quit" and not is_waiting:
            rest = connection.rest(time.monotonic() + self.patience)
            self.note(index, show(request), rest)
        connection.close(request.action == "reset")

    def play(self):
        for index, request in enumerate(self.script.steps):
            self.request(index, request)
        for name in sorted(self.connections):
            rest = self.connections[name].rest(time.monotonic() + 0.001)
            self.note(len(self.script.steps), f"{name} at the end", rest)


def show(request):
    if request.action:
        return f"{request.connection}| {request.action}"
    text = request.payload.decode("latin-1").encode("unicode_escape").decode()
    return f"{request.connection}! {compare.shorten(text, 200)}"


def compare_one(bench, requests):
    script = Script("random", {"ids": ""}, requests)
    for _ in range(4):
        found = []
        for start in (bench.reference, bench.subject):
            found.append(play.play(start, script, player=RandomPlayer))
        difference = compare.difference(
            script, *found, bench.allowed, True, bench.is_real, bench.late_s
        )
        if not difference or not bench.is_spoilt(found):
            break
    return difference


def shrink(bench, requests, index):
    """Leaves out what is not needed for a difference, from large pieces to single requests."""
    requests = requests[:index + 1]
    size = len(requests) // 2
    while size:
        at = 0
        while at < len(requests):
            fewer = requests[:at] + requests[at + size:]
            if fewer and compare_one(bench, fewer):
                requests = fewer
            else:
                at += size
        size //= 2
    return requests


def run(bench, seed, count):
    """Plays fresh seeds, or the one that is given; returns how many differ."""
    first = seed if seed is not None else random.SystemRandom().randrange(10**9)
    seeds = range(first, first + (1 if seed is not None else count))
    print(f"random scripts: seeds from {first}", flush=True)
    begin, failed = time.monotonic(), []
    for one in seeds:
        requests = make(one)
        found = compare_one(bench, requests)
        if not found:
            continue
        failed.append(one)
        print(f"  DIFFERS at --seed {one}, step {found[1]} of {len(requests)}\n{found[0]}")
        if len(failed) > 5:
            continue
        fewer = shrink(bench, requests, found[1])
        again = compare_one(bench, fewer)
        print("    the shortest:", *[f"      {show(it)}" for it in fewer], sep="\n")
        print(again[0] if again else "    (it does not differ each time)", flush=True)
    seconds = time.monotonic() - begin
    print(f"{len(seeds)} random scripts, {len(failed)} differ, {seconds:.0f} s", flush=True)
    return len(failed)
