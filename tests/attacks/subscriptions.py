"""Subscribers with as many subscriptions as allowed get packets."""

import struct

import attack as a

LARGE, SMALL = 200, 10
NAMES = 4_096
CREDITS = 50


def run(attack):
    names = [b"name-%d" % number for number in range(NAMES)]
    subscribe = b"".join(b"s" + struct.pack(">H", len(name)) + name for name in names)
    clients = [attack.client("pinpriq") for _ in range(attack.size)]
    pop = b"P" + struct.pack(">H", 0)
    for client in clients:
        client.socket.sendall(subscribe + pop)
    for client in clients:
        assert client.read(2) == b"\0\0"
    pusher = attack.client("pinpriq")
    attack.begin()
    for client in clients:
        client.socket.sendall(b"A" * CREDITS)
    for number in range(CREDITS * attack.size):
        name = names[number * 4093 % NAMES]
        key = b"%08d" % number
        head = struct.pack(">cHHBHH", b"p", len(name), 0, 1, len(key), 0)
        pusher.socket.sendall(head + key + name)
    seen = set()
    for client in clients:
        for _ in range(CREDITS):
            packet = client.read(2 + 4 + 8)
            assert packet[:2] == b"\0\1", packet
            seen.add(packet[6:])
    assert len(seen) == CREDITS * attack.size, "packets were lost"
