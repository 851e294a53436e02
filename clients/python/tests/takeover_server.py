"""Servers over one Redis: one serves, another one waits to take over at the same address."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Optional

from jobcentre.server import PATIENCE, Server


# valkey-server can be named here.
REDIS = os.environ.get("REDIS_SERVER", "redis-server")


def has_redis() -> bool:
    return "REDIS_SERVER" in os.environ or shutil.which(REDIS) is not None


class TakeoverServer:
    """What `Server` is, with jobs in a Redis of its own: after `kill` the server that waits serves,
    and `start` waits for that."""

    def __init__(self, folder: Path, *, listen: str = "127.0.0.1:0") -> None:
        self._listen, self._started = listen, 0
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            port = any_port.getsockname()[1]
        self._engine = f"redis://127.0.0.1:{port}"
        command = [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(folder), "--maxmemory-policy", "noeviction"]
        quiet = subprocess.DEVNULL
        self._redis = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        atexit.register(self._redis.kill)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._leader = self._serve()
        self._listen = self._leader._listen
        self._next: Optional[Server] = None
        self._waits = self._wait_to_lead()

    def _serve(self) -> Server:
        """Returns when it leads."""
        self._started += 1
        name = f"server-{self._started}"
        arguments = ["--engine", self._engine, "--server-name", name, "--engine-lease", "1s"]
        # Both servers have one address: the one that waits listens there once it leads.
        arguments += ["--engine-forward", "off"]
        return Server(listen=self._listen, arguments=arguments)

    def _wait_to_lead(self) -> threading.Thread:
        def wait() -> None:
            self._next = self._serve()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    @property
    def url(self) -> str:
        return self._leader.url

    @property
    def address(self) -> str:
        return self._leader.address

    def kill(self) -> None:
        self._leader.kill()

    def start(self) -> None:
        self._waits.join(2 * PATIENCE)
        assert self._next is not None, "the server that waits does not take over"
        self._leader, self._next = self._next, None
        self._waits = self._wait_to_lead()

    def close(self) -> None:
        """Ends all of it."""
        self._leader.kill()
        self._waits.join(2 * PATIENCE)
        if self._next is not None:
            self._next.kill()
        self._redis.kill()
        self._redis.wait(PATIENCE)
