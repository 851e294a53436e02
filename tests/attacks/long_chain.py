"""Each of many jobs waits for the one before it.

A chain is run to its end; then the first job of another one is lost, and all others with it.
"""

import attack as a
from many_dependents import wait_for_nothing

LARGE, SMALL = 1_000_000, 20_000


def run(attack):
    client = attack.client()
    with attack.alone():
        first, second = (put_all(client, queue, attack.size) for queue in ("q", "r"))
    attack.begin()
    answers = client.pipeline(a.blocks(work(first, attack.size)), 2 * attack.size)
    assert answers.count(b'{"status":"ok"}') == attack.size, "a job of the chain did not run"
    assert b'"ok"' in client.ask(b'{"request":"cancel","id":%d}\n' % second)
    wait_for_nothing(client, "r")


def put_all(client, queue, size):
    """The id of the first job."""
    first = a.ids(client.ask(a.put(queue)))[0]
    rest = (a.put(queue, after=[first + number]) for number in range(size - 1))
    assert len(a.ids(client.pipeline(a.blocks(rest), size - 1))) == size - 1
    return first


def work(first, size):
    for number in range(first, first + size):
        yield a.get("q")
        yield a.delete(number)
