"""Servers as child processes: beanstalkd, and jobcentre with its beanstalkd listener."""

import contextlib
import itertools
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

REDIS = os.environ.get("REDIS_SERVER", "redis-server")  # or valkey-server
PATIENCE_S = 60  # a busy machine is slow, a hanging server is for ever


class Reference:
    """A fresh beanstalkd. It inherits a socket that listens already, so it need not be awaited."""

    def __init__(self, binary, max_job_size=None):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.address = listener.getsockname()
        command = [binary] + (["-z", str(max_job_size)] if max_job_size else [])
        shell = 'exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        self.process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *command], stdin=listener, stderr=subprocess.DEVNULL
        )
        listener.close()

    def stop(self):
        """Returns what was wrong, or None."""
        died = self.process.poll()
        self.process.kill()
        self.process.wait(PATIENCE_S)
        return None if died is None else f"beanstalkd ended early: {died}"


class Redis:
    """A redis-server for all subjects. Each has a prefix of its own for its keys."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="beanstalkd-redis-")
        path = os.path.join(self.folder, "socket")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", path,
             "--save", "", "--dir", self.folder], stdout=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{port}"
        self.prefixes = itertools.count()
        end = time.monotonic() + PATIENCE_S
        while not os.path.exists(path):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{REDIS} did not start")
            time.sleep(0.01)

    def arguments(self):
        return ["--engine", self.url, "--engine-prefix", f"p{next(self.prefixes)}"]

    def stop(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)


class Subject:
    """A fresh jobcentre whose only listener is that of beanstalkd's protocol."""

    def __init__(self, binary, max_job_size=None, durable=False, redis=None, arguments=()):
        self.folder = tempfile.mkdtemp(prefix="beanstalkd-") if durable else None
        command = [binary, "serve", "--listen", "off", "--http", "off", "--log-format", "json",
                   "--beanstalkd", "127.0.0.1:0", *arguments]
        if max_job_size:
            command += ["--beanstalkd-max-job-size", str(max_job_size)]
        if durable:
            command += ["--data", self.folder]
        if redis:
            command += redis.arguments()
        clean = {key: text for key, text in os.environ.items() if not key.startswith("JOBCENTRE_")}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean)
        self.log, lines = [], queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self.reader.start()
        while True:
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=PATIENCE_S)
                if line and line.get("protocol") == "beanstalkd":
                    host, port = line["address"].rsplit(":", 1)
                    self.address = host, int(port)
                    return
                if line:
                    continue
            self.process.kill()
            raise RuntimeError(f"jobcentre did not start: {self.log}")

    def _read(self, lines):
        for text in self.process.stderr:
            self.log.append(text.rstrip("\n"))
            with contextlib.suppress(ValueError):
                lines.put(json.loads(text))
        lines.put(None)

    def stop(self):
        """Ends the server in good order. Returns what was wrong, or None."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "none: it hangs"
        self.reader.join(PATIENCE_S)
        self.process.stderr.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        wrong = [line for line in self.log if "panicked" in line or '"level":"ERROR"' in line]
        if status == 0 and not wrong:
            return None
        return f"jobcentre ended with status {status}: {wrong}"
