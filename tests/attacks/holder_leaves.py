"""A client that holds many jobs leaves."""

import attack as a

LARGE, SMALL = 1_000_000, 20_000


def run(attack):
    holder, other = attack.client(), attack.client()
    holder.pipeline(a.blocks(a.put("q") for _ in range(attack.size)), attack.size)
    held = a.ids(holder.pipeline(a.blocks(a.get("q") for _ in range(attack.size)), attack.size))
    assert len(held) == attack.size
    attack.begin()
    holder.reset()
    first = other.ask(a.get("q", wait=True))
    assert a.ids(first) == [min(held)], "they are back before anybody is served"
    other.ask(a.delete(min(held)))
    assert a.empty(other, "q") == attack.size - 1
