"""Every lease ends: 10,000 leases of one second on connections that stay idle.

beanstalkd 1.12 loses many of them; here none may be missed. How late the last one is found to
have ended is printed and not judged: a busy machine is slow.
"""

import functools
import re
import resource
import socket
import time

COUNT = 10_000
PATIENCE_S = 60
GIVE_UP_S = 15  # after the last deadline


class Client:
    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def lines(self, request, count=1):
        self.socket.sendall(request)
        return [self.file.readline() for _ in range(count)]

    def statistics(self, request):
        length = int(self.lines(request)[0].split()[1])
        body = self.file.read(length + 2).decode()
        return dict(re.findall(r"^([a-z-]+): (.*)$", body, re.MULTILINE))


def connect(address):
    """A small buffer: there are ten thousand of them."""
    connection = socket.create_connection(address, PATIENCE_S)
    connection.settimeout(PATIENCE_S)
    return connection


def run(start, is_real, count=COUNT):
    """How many leases were missed, and 1 if the server ended badly."""
    count = min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    if not is_real:
        start = functools.partial(start, arguments=["--max-clients", str(count + 100)])
    server = start()
    try:
        missed = play(server.address, count)
    finally:
        wrong = server.stop()
    if wrong:
        print(f"  {wrong}")
    return missed + bool(wrong)


def play(address, count):
    watcher = Client(address)
    for begin in range(0, count, 1000):
        size = min(1000, count - begin)
        replies = watcher.lines(b"put 0 0 1 1\r\nx\r\n" * size, size)
        ids = [b"INSERTED %d\r\n" % number for number in range(begin + 1, begin + size + 1)]
        assert replies == ids, replies[:3]
    holders = [connect(address) for _ in range(count)]
    for number, holder in enumerate(holders, 1):
        holder.sendall(b"reserve-job %d\r\n" % number)
    for number, holder in enumerate(holders, 1):
        expected = b"RESERVED %d 1\r\nx\r\n" % number
        reply = b""
        while len(reply) < len(expected):
            part = holder.recv(100)
            assert part, f"the server closed a connection, after {reply}"
            reply += part
        assert reply == expected, reply
    last_deadline = time.monotonic() + 1
    ended = 0
    while ended < count and time.monotonic() < last_deadline + GIVE_UP_S:
        time.sleep(0.01)
        ended = int(watcher.statistics(b"stats\r\n")["job-timeouts"])
    late = max(0, time.monotonic() - last_deadline)
    tube = watcher.statistics(b"stats-tube default\r\n")
    for holder in holders:
        holder.close()
    missed = count - ended
    if missed:
        print(f"  {missed} of {count} leases did not end within {GIVE_UP_S} s of their deadline")
    else:
        assert tube["current-jobs-ready"] == str(count), tube
        assert tube["current-jobs-reserved"] == "0", tube
        print(f"  {count} leases of 1 s ended, the last one at most {late * 1000:.0f} ms late")
    return missed
