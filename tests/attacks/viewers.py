"""Ten viewers of the dashboard beside many jobs in 10,000 queues.

Each viewer is a browser of its own: a stream, and the requests that the open page makes, as often as
it makes them. Four look at the overview, three at the list of queues, three at the jobs of a queue.
They open their pages in every second turn. Beside the figures of all attacks, the share of the time
that the server spends on them, and the canary with and without them.
"""

import http.client
import json
import time

import attack as a

LARGE, SMALL = 1_000_000, 20_000
QUEUES, SMALL_QUEUES = 10_000, 500
TURNS, SMALL_TURNS = 6, 2
SECONDS, SMALL_SECONDS = 20, 4  # of a turn
FILES = ["/ui/", "/ui/style.css", "/ui/theme.js", "/ui/main.js"]


class Viewer:
    """A page: what it asks for, and every how many seconds; 0: once."""

    def __init__(self, attack, number, queues):
        path = f"/api/v1/queues/{queues[number]}"
        sparks = [(60, f"/api/v1/queues/{name}/history?step=1m") for name in queues[:100]]
        first = [(0, file) for file in FILES] + [(0, "/api/v1/me"), (0, "/api/v1/server")]
        self.topics, asks = [
            ("overview", [(5, "/api/v1/queues?sort=oldest&limit=50"),
                          (5, "/api/v1/queues?sort=ready&limit=50"),
                          (5, "/api/v1/server/history?step=5s"), *sparks[:20]]),
            ("overview", [(2, "/api/v1/queues?sort=name&limit=100"), *sparks]),
            (f"overview,queue:{queues[number]}",
             [(0, path), (2, f"{path}/jobs?state=ready&limit=50"), (15, f"{path}/history?step=1m")]),
        ][number % 3]
        now = time.monotonic()
        self.due = [[now, period, target] for period, target in first + asks]
        host, port = attack.server.addresses["http"]
        self.connection = http.client.HTTPConnection(host, port, timeout=a.PATIENCE)
        self.stream = attack.client("http")
        self.stream.socket.sendall(f"GET /api/v1/stream?topics={self.topics} HTTP/1.1\r\n"
                                   "Host: localhost\r\n\r\n".encode())
        assert b" 200 " in self.stream.read(15), "no stream"
        self.asked = 0

    def go(self):
        """Makes the requests that are due."""
        for entry in self.due:
            at, period, target = entry
            if time.monotonic() < at:
                continue
            self.connection.request("GET", target, headers={"Accept-Encoding": "gzip"})
            answer = self.connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (target, answer.status, body[:200])
            if target.startswith("/api"):
                json.loads(body)
            self.asked += 1
            entry[0] = at + period if period else float("inf")

    def close(self):
        frames = self.stream.socket.recv(1 << 20)
        assert b"event: overview" in frames, frames[:200]
        self.stream.close()
        self.connection.close()


def run(attack):
    client = attack.client()
    is_small = attack.size < LARGE
    queues = [f"mail-{number}" for number in range(SMALL_QUEUES if is_small else QUEUES)]
    puts = (a.put(queues[number % len(queues)], number) for number in range(attack.size))
    client.pipeline(a.blocks(puts), attack.size)
    attack.begin()
    turns, seconds = (SMALL_TURNS, SMALL_SECONDS) if is_small else (TURNS, SECONDS)
    late, spent, asked = {False: [], True: []}, {False: 0, True: 0}, 0
    for turn in range(turns):
        attack.lap()
        begun, end = attack.server.cpu_seconds(), time.monotonic() + seconds
        viewers = [Viewer(attack, number, queues) for number in range(10 if turn % 2 else 0)]
        while time.monotonic() < end:
            for viewer in viewers:
                viewer.go()
            time.sleep(0.05)
        spent[bool(viewers)] += attack.server.cpu_seconds() - begun
        late[bool(viewers)] += attack.lap()
        for viewer in viewers:
            asked += viewer.asked
            viewer.close()
    total = seconds * turns / 2
    rare = {there: sorted(times)[-len(times) // 1000] for there, times in late.items()}
    share = (spent[True] - spent[False]) / total
    attack.figure("viewers_share", share)
    attack.figure("beside_over_without", rare[True] / rare[False])
    attack.note(f"ten viewers take {share:.2%} of the time, with {asked / total:.0f} requests a "
                f"second, canary p99.9 {rare[False] * 1000:.2f} without them, "
                f"{rare[True] * 1000:.2f} with")
    assert a.empty(client, queues[0]) == -(-attack.size // len(queues)), "jobs were lost"
