"""A proxy between a client and the server that loses answers when it is told to."""

from __future__ import annotations

import socket
import threading
from typing import Callable


class LossyProxy:
    """Forwards connections to `target`. After `lose_answer` the next request reaches the server,
    and its connection ends when the answer arrives here."""

    def __init__(self, target: Callable[[], str]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._listener.getsockname()[1])
        self._lose = threading.Event()
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self) -> None:
        self._lose.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self._target().rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)), 10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for forward in (self._requests, self._answers):
                threading.Thread(target=forward, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while True:
                data = client.recv(1 << 16)
                if not data:
                    break
                server.sendall(data)
        except OSError:
            pass
        _end(server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while True:
                data = server.recv(1 << 16)
                if not data:
                    break
                if self._lose.is_set():
                    self._lose.clear()
                    self.lost += 1
                    break
                client.sendall(data)
        except OSError:
            pass
        _end(client)
        _end(server)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
