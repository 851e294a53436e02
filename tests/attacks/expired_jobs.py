"""One take meets jobs that are over their time to live."""

import time

import attack as a

LARGE, SMALL = 1_000_000, 20_000


def run(attack):
    client = attack.client()
    ttl = 3_000 + attack.size // 100
    began = time.monotonic()
    client.pipeline(a.blocks(a.put("q", ttl=ttl) for _ in range(attack.size)), attack.size)
    last = int(client.ask(a.put("q", pri=0)).rpartition(b":")[2][:-1])
    took = time.monotonic() - began
    assert took * 1000 < ttl, "the first jobs end before all are put"
    attack.begin()
    with attack.frozen():
        time.sleep(ttl / 1000)
        client.socket.sendall(a.get("q", wait=True))
    assert a.ids(client.ask(b"")) == [last], "what has no time to live is left"
    assert client.ask(a.delete(last)) == b'{"status":"ok"}'
    assert a.empty(client, "q") == 0
