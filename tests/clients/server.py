"""The real server as a child process, and plain clients of its protocols."""

import atexit
import json
import os
import queue
import signal
import socket
import subprocess
import threading

LARGE = "LARGE" in os.environ  # tests play all they have: the gate leaves that to .ci/long
PATIENCE = 60  # seconds: a busy machine is slow, a hanging server is for ever


class Server:
    """A server on free ports. `addresses` maps the name of a protocol to (host, port)."""

    def __init__(self, binary, data=None, arguments=(), http=":0"):
        self.binary, self.data, self.arguments = binary, data, list(arguments)
        self.listen = http
        self.log = []
        # A test that fails does not stop its server.
        atexit.register(lambda: self.process.kill())
        self.start()

    def start(self):
        command = [self.binary, "serve", "--listen", ":0", "--http", self.listen,
                   "--log-format", "json"]
        if "--query-timeout" not in self.arguments:
            # Queries get what other programs leave of the processors.
            command += ["--query-timeout", "60s"]
        if self.data:
            command += ["--data", str(self.data)]
        clean = {key: text for key, text in os.environ.items() if not key.startswith("JOBCENTRE_")}
        self.process = subprocess.Popen(
            command + self.arguments, stderr=subprocess.PIPE, text=True, env=clean
        )
        self.addresses, lines = {}, queue.Queue()
        threading.Thread(target=self._read, args=(self.process.stderr, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                line = None
            if line is None:
                self.process.kill()
                raise RuntimeError(f"the server did not start: {self.log[-20:]}")
            if line.get("message") == "listening":
                host, port = line["address"].rsplit(":", 1)
                self.addresses[line["protocol"]] = (host, int(port))
            if line.get("message") == "serving":
                break
        self.http = "http://{}:{}".format(*self.addresses["http"])

    def _read(self, stderr, lines):
        for text in stderr:
            self.log.append(text.rstrip("\n"))
            try:
                lines.put(json.loads(text))
            except ValueError:
                pass  # what a panic says is no JSON: `stop` looks for it
        lines.put(None)

    def stop(self):
        """Ends the server in good order; anything else is a failure."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        wrong = [line for line in self.log if "panicked" in line or '"level":"ERROR"' in line]
        assert status == 0 and not wrong, f"the server ended with status {status}: {wrong}"

    def kill(self):
        """What a crash does."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def socket(self, protocol="http"):
        return socket.create_connection(self.addresses[protocol], PATIENCE)


class JobCentre:
    """A client of the protocol of JSON lines."""

    def __init__(self, server):
        self.socket = server.socket("job-centre")
        self.lines = self.socket.makefile("rb")

    def ask(self, request, **fields):
        self.socket.sendall(json.dumps({"request": request, **fields}).encode() + b"\n")
        return json.loads(self.lines.readline())

    def close(self):
        self.lines.close()
        self.socket.close()


def exchange(server, request, shut=True):
    """Sends bytes, and reads until the server closes. `shut` says whether we close first."""
    with server.socket() as sock:
        try:
            sock.sendall(request)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has closed already: the answer is still to be read
        parts = []
        while True:
            try:
                part = sock.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts)
