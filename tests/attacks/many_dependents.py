"""A job ends for which many others wait.

It is done, and they are released; then one is lost, and they are cancelled.
"""

import time

import attack as a

LARGE, SMALL = 1_000_000, 20_000


def run(attack):
    client, other = attack.client(), attack.client()
    with attack.alone():
        first, second = (put_all(client, attack.size) for _ in range(2))
    attack.begin()
    assert a.ids(other.ask(a.get("head"))) == [first]
    other.ask(a.delete(first))
    # They come together, before one is handed out.
    assert a.ids(other.ask(a.get("q", wait=True))) == [first + 1]
    other.ask(a.delete(first + 1))
    assert a.empty(other, "q") == attack.size - 1
    assert b'"ok"' in other.ask(b'{"request":"cancel","id":%d}\n' % second)
    wait_for_nothing(other, "q")


def put_all(client, size):
    """A job, and those that wait for it; its id."""
    head = a.ids(client.ask(a.put("head")))[0]
    client.pipeline(a.blocks(a.put("q", after=[head]) for _ in range(size)), size)
    return head


def wait_for_nothing(client, queue):
    """Until no job is blocked."""
    end = time.monotonic() + a.PATIENCE
    request = b'{"request":"stats","queue":"%s"}\n' % queue.encode()
    while b'"blocked":0' not in client.ask(request):
        assert time.monotonic() < end, "jobs are blocked by nothing"
        time.sleep(0.05)
