"""The tables grow with the names of queues."""

import attack as a

LARGE, SMALL = 2_000_000, 50_000


def run(attack):
    client = attack.client()
    line = b'{"request":"put","queue":"name-%d","job":{},"pri":1}\n'
    attack.begin()
    puts = a.blocks(line % number for number in range(attack.size))
    put = a.ids(client.pipeline(puts, attack.size))
    for number in range(0, attack.size, attack.size // 100):
        assert a.ids(client.ask(a.get(f"name-{number}"))) == [put[number]]
