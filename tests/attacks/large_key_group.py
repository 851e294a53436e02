"""A pop and a delivery of a large key group."""

import struct

import attack as a

LARGE, SMALL = 65_535, 4_000
KEY = b"group"
PAYLOAD = 16 * 1024


def push(number):
    payload = struct.pack(">I", number) + bytes(PAYLOAD - 4)
    head = struct.pack(">cHHBHH", b"p", 1, 0, 1, len(KEY), PAYLOAD)
    return head + KEY + payload + b"q"


def read(client, size):
    (count,) = struct.unpack(">H", client.read(2))
    assert count == size, f"{count} packets of {size}"
    seen = set()
    for _ in range(count):
        packet = client.read(4 + len(KEY) + PAYLOAD)
        seen.add(packet[4 + len(KEY):8 + len(KEY)])
    assert len(seen) == size, "packets were lost"


def fill(attack):
    client = attack.client("pinpriq")
    for number in range(attack.size):
        client.socket.sendall(push(number))
    client.socket.sendall(b"P" + struct.pack(">H", 0))
    assert client.read(2) == b"\0\0", "all was read before"
    return client


def run(attack):
    client = fill(attack)
    attack.begin()
    client.socket.sendall(b"P" + struct.pack(">H", 1) + b"q")
    read(client, attack.size)
    client = fill(attack)
    # The delivery.
    client.socket.sendall(b"s" + struct.pack(">H", 1) + b"q" + b"A")
    read(client, attack.size)
