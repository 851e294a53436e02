"""The real server as a child process, for tests."""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type

#: A loaded machine is slow; a server that hangs is for ever.
PATIENCE = 60.0


class Server:
    """A server on a free port, or at another address of `--listen`, with `arguments` besides.

    `binary`: the program; $JOBCENTRE_BINARY, or `jobcentre` on the path. `data`: a directory, with
    which jobs outlive the process. `http`: with an HTTP listener, too, on a free port.
    """

    def __init__(
        self,
        binary: Optional[str] = None,
        *,
        data: Optional[str] = None,
        listen: str = "127.0.0.1:0",
        arguments: Sequence[str] = (),
        http: bool = False,
    ) -> None:
        found = binary or os.environ.get("JOBCENTRE_BINARY") or shutil.which("jobcentre")
        if found is None:
            raise FileNotFoundError(
                "there is no program jobcentre on the path: set JOBCENTRE_BINARY to it"
            )
        self.binary, self.data = found, data
        self.arguments = list(arguments)
        self.log: List[str] = []
        self._listen = listen
        self._http = "127.0.0.1:0" if http else "off"
        atexit.register(self.kill)
        self._process: Optional[subprocess.Popen[str]] = None
        self.start()

    def start(self) -> None:
        """Starts it; after `stop` or `kill` at the same address."""
        command = [self.binary, "serve", "--listen", self._listen, "--http", self._http]
        command += ["--log-format", "json", *self.arguments]
        if self.data is not None:
            command += ["--data", self.data]
        clean = {
            name: text for name, text in os.environ.items() if not name.startswith("JOBCENTRE_")
        }
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean)
        lines: queue.SimpleQueue[Optional[Dict[str, Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                line = None
            if line is None:
                self.kill()
                raise RuntimeError("the server did not start: " + "\n".join(self.log[-20:]))
            is_ours = line.get("protocol", "job-centre") == "job-centre"
            if line.get("message") == "listening" and is_ours:
                # The port that was free; of TLS the address has no prefix.
                prefix = "tls:" if self._listen.startswith("tls:") else ""
                if not self._listen.startswith("unix:"):
                    self._listen = prefix + str(line["address"]).replace("tls:", "")
            if line.get("message") == "listening" and line.get("protocol") == "http":
                self._http = str(line["address"])
            if line.get("message") == "serving":
                return

    def _read(self, process: subprocess.Popen[str], lines: Any) -> None:
        assert process.stderr is not None
        for text in process.stderr:
            self.log.append(text.rstrip("\n"))
            try:
                lines.put(json.loads(text))
            except ValueError:
                pass  # The text of a panic; `log` has it.
        lines.put(None)
        process.stderr.close()

    @property
    def address(self) -> str:
        """HOST:PORT, or the path of the socket."""
        listen = self._listen.partition(",")[0]
        for prefix in ("tls:", "unix:"):
            if listen.startswith(prefix):
                return listen[len(prefix) :]
        return listen

    @property
    def url(self) -> str:
        """For App, Client and AsyncClient; that of TLS needs `?ca=` besides."""
        if self._listen.startswith("unix:"):
            return f"jobcentre+unix://{self.address}"
        scheme = "jobcentre+tls" if self._listen.startswith("tls:") else "jobcentre"
        return f"{scheme}://{self.address}"

    @property
    def http_url(self) -> str:
        """The address of the HTTP listener, of a server with `http`."""
        if self._http == "off":
            raise ValueError("the server has no HTTP listener: Server(http=True)")
        return f"http://{self._http}"

    def kill(self) -> None:
        """What a crash does: SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(PATIENCE)

    def stop(self) -> None:
        """Ends it in good order."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        status = process.wait(PATIENCE)
        if status != 0:
            raise RuntimeError(f"the server ended with {status}: " + "\n".join(self.log[-20:]))

    def reload(self) -> None:
        """Makes it read its settings again: SIGHUP."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()
