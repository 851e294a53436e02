"""Waiting gets that name many new queues reset together."""

import string
import time

import attack as a

LARGE, SMALL = 2_400, 80
NAMES = 1_024
LETTERS = string.digits + string.ascii_letters


def name(number):
    """Four characters."""
    return "".join(LETTERS[number // 62 ** place % 62] for place in range(4))


def run(attack):
    clients = [attack.client() for _ in range(attack.size)]
    for index, client in enumerate(clients):
        names = ",".join(f'"{name(index * NAMES + number)}"' for number in range(NAMES))
        client.socket.sendall(f'{{"request":"get","wait":true,"queues":[{names}]}}\n'.encode())
    other = attack.client()
    # Their lines are read in parts, in turn with those of other clients.
    time.sleep(3)
    attack.begin()
    with attack.frozen():
        for client in clients:
            client.reset()
    for index in range(attack.size):
        queue = name(index * NAMES)
        put = a.ids(other.ask(a.put(queue)))
        # A get whose reset is not handled yet may have got the job, which then comes back.
        get = a.get(queue, wait=True)
        assert a.ids(other.ask(get)) == put, "the job of a get that was reset is lost"
