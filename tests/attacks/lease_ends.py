"""Leases end in one moment."""

import time

import attack as a

LARGE, SMALL = 50_000, 2_000
TTR = 4_000


def run(attack):
    client, other = attack.client(), attack.client()
    put, get = a.put("q", ttr=TTR), a.get("q")
    client.pipeline(a.blocks(put for _ in range(attack.size)), attack.size)
    held = a.ids(client.pipeline(a.blocks(get for _ in range(attack.size)), attack.size))
    assert len(held) == attack.size
    attack.begin()
    with attack.frozen():
        time.sleep(TTR / 1000)
    first = other.ask(a.get("q", wait=True))
    other.ask(a.delete(*a.ids(first)))
    assert a.empty(other, "q") == attack.size - 1
