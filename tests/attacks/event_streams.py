"""Ten event streams beside many jobs in 10,000 queues.

The streams are there in every second turn. Beside the figures of all attacks, the share of the time
that the server spends on them, and the canary with and without them.
"""

import time

import attack as a

LARGE, SMALL = 1_000_000, 20_000
QUEUES, SMALL_QUEUES = 10_000, 500
STREAMS = 10
TURNS, SMALL_TURNS = 10, 2
SECONDS = 4  # of a turn


def run(attack):
    client = attack.client()
    is_small = attack.size < LARGE
    queues = [f"mail-{number}" for number in range(SMALL_QUEUES if is_small else QUEUES)]
    puts = (a.put(queues[number % len(queues)], number) for number in range(attack.size))
    client.pipeline(a.blocks(puts), attack.size)
    topics = ",".join(["overview", *(f"queue:{name}" for name in queues[:15])])
    request = f"GET /api/v1/stream?topics={topics} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    attack.begin()
    late, spent = {False: [], True: []}, {False: 0, True: 0}
    turns = SMALL_TURNS if is_small else TURNS
    for turn in range(turns):
        streams = [attack.client("http") for _ in range(STREAMS if turn % 2 else 0)]
        for stream in streams:
            stream.socket.sendall(request)
            assert b" 200 " in stream.read(15), "no stream"
        attack.lap()
        begun = attack.server.cpu_seconds()
        time.sleep(SECONDS)
        spent[bool(streams)] += attack.server.cpu_seconds() - begun
        late[bool(streams)] += attack.lap()
        for stream in streams:
            frames = stream.socket.recv(1 << 20)
            assert frames.count(b"event: queue") >= 15, frames[:200]
            stream.close()
        time.sleep(1)
    seconds = SECONDS * turns / 2
    rare = {with_streams: sorted(times)[-len(times) // 1000] for with_streams, times in late.items()}
    attack.figure("streams_share", (spent[True] - spent[False]) / seconds)
    attack.figure("beside_over_without", rare[True] / rare[False])
    attack.note(f"streams take {(spent[True] - spent[False]) / seconds:.2%} of the time, "
                f"canary p99.9 {rare[False] * 1000:.2f} without them, {rare[True] * 1000:.2f} with")
    assert a.empty(client, queues[0]) == -(-attack.size // len(queues)), "jobs were lost"
