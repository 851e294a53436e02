"""A small web server that remembers what it was asked, and when."""

from __future__ import annotations

import http.server
import threading
import time
from types import TracebackType
from typing import Callable, Dict, List, NamedTuple, Optional, Type


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: Dict[str, str] = {}


class Asked(NamedTuple):
    """`at` is of the monotonic clock."""

    path: str
    at: float


class WebServer:
    """On a free port of the loopback. `answer` has the path, and how often it was asked before."""

    def __init__(self, answer: Callable[[str, int], Answer], seconds: float = 0) -> None:
        self.asked: List[Asked] = []
        self.most_at_a_time = 0
        self._at_a_time = 0
        self._counts: Dict[str, int] = {}
        self._lock = threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                at = time.monotonic()
                with server._lock:
                    server._at_a_time += 1
                    server.most_at_a_time = max(server.most_at_a_time, server._at_a_time)
                    count = server._counts.get(self.path, 0)
                    server._counts[self.path] = count + 1
                time.sleep(seconds)
                status, body, headers = answer(self.path, count)
                with server._lock:
                    # Before the answer: the next request may come before this thread goes on.
                    server._at_a_time -= 1
                    server.asked.append(Asked(self.path, at))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> WebServer:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
