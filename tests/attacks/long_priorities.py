"""Pipelined deletes of jobs with priorities of a million digits."""

import attack as a

LARGE, SMALL = 200, 20
DIGITS = 1_000_000


def run(attack):
    client = attack.client()
    line = b'{"request":"put","queue":"q","job":{},"pri":%s%03d}\n'
    numbers = [(index * 7919) % 1000 for index in range(attack.size)]
    puts = (line % (b"7" * DIGITS, number) for number in numbers)
    put = a.ids(client.pipeline(puts, attack.size))
    attack.begin()
    client.pipeline([b"".join(map(a.delete, put))], attack.size)
    assert a.empty(client, "q") == 0
