"""Thousands of clients begin TLS at once."""

import atexit
import os
import selectors
import shutil
import ssl
import subprocess
import tempfile
import time

import attack as a

LARGE, SMALL = 10_000, 300
FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
CERTIFICATE, KEY = (os.path.join(FOLDER, name) for name in ("cert.pem", "key.pem"))
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", KEY, "-out", CERTIFICATE],
               check=True, stderr=subprocess.DEVNULL)
ARGUMENTS = ("--beanstalkd", "tls:127.0.0.1:0", "--tls-cert", CERTIFICATE, "--tls-key", KEY)


class Handshake:
    """A client whose first message is ready before it connects."""

    def __init__(self, context):
        self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inward, self.outward)
        self.socket, self.answer = None, b""
        self.advance()
        self.hello = self.outward.read()

    def advance(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def read(self, selector):
        """Whether the client is done: its job was put."""
        received = self.socket.recv(1 << 16)
        assert received, "a connection was closed"
        self.inward.write(received)
        if self.hello:
            if not self.advance():
                return False
            self.hello = b""
            self.tls.write(b"put 0 0 60 1\r\nx\r\n")
            self.socket.setblocking(True)
            self.socket.sendall(self.outward.read())
            self.socket.setblocking(False)
        try:
            self.answer += self.tls.read(1 << 10)
        except ssl.SSLWantReadError:
            return False
        if not self.answer.endswith(b"\r\n"):
            return False
        assert self.answer.startswith(b"INSERTED "), self.answer
        selector.unregister(self.socket)
        return True


def run(attack):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    clients = [Handshake(context) for _ in range(attack.size)]
    address = attack.address("beanstalkd")
    address = (address[0].removeprefix("tls:"), address[1])
    attack.begin()
    begun = time.monotonic()
    selector, done = selectors.DefaultSelector(), 0
    for client in clients:
        client.socket = a.socket.create_connection(address, a.PATIENCE)
        client.socket.sendall(client.hello)
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ, client)
        # A client that is silent for a second makes place for others.
        done += sum(key.data.read(selector) for key, _ in selector.select(0))
    while done < len(clients):
        events = selector.select(a.PATIENCE)
        assert events, f"{len(clients) - done} clients wait for ever"
        done += sum(key.data.read(selector) for key, _ in events)
    attack.note(f"all were there after {time.monotonic() - begun:.1f} s")
    attack.lap()
    assert a.empty(attack.client(), "default") == attack.size, "jobs were lost"
