"""The blocking client. Threads may share one.

A `Client` has one connection for plain requests, and one more for each job that is held and each
wait that goes on, because a wait holds up its connection and a job belongs to the connection that
has reserved it. They are kept for the next use.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

from . import address as addresses
from . import errors, protocol, requests
from .errors import AnswerLost, ConnectionLost, JobGone, RequestTimeout, Untrusted
from .protocol import (
    CONNECT_TIMEOUT,
    IDLE_MAX,
    TIMEOUT,
    WAIT_MAX,
    Answer,
    Attempts,
    Deadline,
    Pipeline,
    Request,
    result_of,
)
from .reserved import ReservedJob


class Connection:
    """One connection. It is used by one thread at a time, and is of no use after an error."""

    def __init__(self, address: addresses.Address, deadline: Deadline) -> None:
        self.address = address
        self._pipeline: Pipeline[int] = Pipeline()
        self.is_closed = False
        timeout = deadline.at_most(CONNECT_TIMEOUT)
        # Outside of the try: files that are not there are a mistake, and do not come by waiting.
        context = address.ssl_context()
        try:
            self._socket = self._open(max(timeout, 0.001), context)
        except (OSError, ValueError) as error:
            other = ConnectionLost(f"no connection to {address}: {error}")
            raise errors.of_certificate(address, error) or other from error
        if address.token is not None:
            try:
                answers, lost = self.exchange([requests.auth(address.token)], deadline)
                if isinstance(lost, Untrusted):
                    raise lost
                if lost is not None:
                    raise ConnectionLost(str(lost)) from lost
                protocol.check_auth(answers[0])
            except BaseException:
                self.close()
                raise

    def _open(self, timeout: float, context: Optional[ssl.SSLContext]) -> socket.socket:
        address = self.address
        if address.path is not None:
            plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                plain.settimeout(timeout)
                plain.connect(address.path)
            except BaseException:
                plain.close()
                raise
            return plain
        plain = socket.create_connection((address.host, address.port), timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is None:
                return plain
            name = address.server_name or address.host
            return context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def close(self) -> None:
        self.is_closed = True
        self._socket.close()

    def exchange(
        self, lines: Sequence[Request], deadline: Deadline
    ) -> "tuple[Dict[int, Answer], Optional[ConnectionLost]]":
        """Sends requests, pipelined, and returns the answers by their index. If the connection is
        lost, those that came, and why."""
        answers: Dict[int, Answer] = {}
        sent = 0
        is_sending = False
        try:
            while len(answers) < len(lines):
                is_sending = True
                sent = self._send_some(lines, sent, deadline)
                is_sending = False
                self._settimeout(deadline)
                data = self._socket.recv(1 << 18)
                if not data:
                    raise ConnectionResetError("the server has closed the connection")
                answers.update(self._pipeline.feed(data))
        except (socket.timeout, TimeoutError):
            self.close()
            return answers, AnswerLost(f"{self.address} has not answered in time")
        except ConnectionLost as error:
            self.close()
            return answers, error
        except OSError as error:
            self.close()
            other = AnswerLost(f"the connection to {self.address} was lost: {error}")
            return answers, errors.of_certificate(self.address, error) or other
        except BaseException:
            # An interrupt between a request and its answer, or no Job Centre server. What cannot be
            # sent because it is no JSON leaves the connection as it was.
            if len(self._pipeline) or not is_sending:
                self.close()
            raise
        return answers, None

    def _send_some(self, lines: Sequence[Request], sent: int, deadline: Deadline) -> int:
        """Fills the pipeline, once half of it is answered. Returns how many are sent now."""
        room = protocol.IN_FLIGHT_MAX - len(self._pipeline)
        if sent == len(lines) or room < protocol.IN_FLIGHT_MAX // 2:
            return sent
        parts: List[bytes] = []
        size = 0
        for line in lines[sent : sent + room]:
            part = protocol.encode(line)
            if parts and size + len(part) > protocol.UNANSWERED_BYTES_MAX:
                break
            parts.append(part)
            size += len(part)
        for index in range(sent, sent + len(parts)):
            self._pipeline.push(index)
        self._settimeout(deadline)
        self._socket.sendall(b"".join(parts))
        return sent + len(parts)

    def _settimeout(self, deadline: Deadline) -> None:
        left = deadline.left()
        self._socket.settimeout(None if left is None else max(left, 0.001))


class Client:
    """A client of the line protocol; see `App` for tasks.

    `timeout` is for every call unless the call says another one; attempts to connect, and repeated
    puts, are within it.
    """

    def __init__(
        self, url: Optional[str] = None, *, token: Optional[str] = None, timeout: float = TIMEOUT
    ) -> None:
        self.address = addresses.resolve(url, token)
        self.timeout = timeout
        self._lock = threading.Lock()
        self._main: Optional[Connection] = None
        self._idle: List[Connection] = []
        self._pid = os.getpid()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. A later call opens them anew."""
        with self._lock:
            connections = self._idle + ([self._main] if self._main else [])
            self._main, self._idle = None, []
        for connection in connections:
            connection.close()

    def _forget_if_forked(self) -> None:
        """A child process must not speak on the connections of its parent."""
        if self._pid != os.getpid():
            self._lock = threading.Lock()
            self._main, self._idle, self._pid = None, [], os.getpid()

    # Requests on the connection that is shared.

    def request(self, request: Request, timeout: Optional[float] = None) -> Answer:
        """Sends any request and returns its answer, whatever its status. It is sent again if the
        connection is lost and that is safe; otherwise AnswerLost is raised."""
        return self.request_many([request], timeout)[0]

    def request_many(
        self, lines: Sequence[Request], timeout: Optional[float] = None
    ) -> List[Answer]:
        """The same for many, pipelined."""
        self._forget_if_forked()
        deadline = Deadline(self.timeout if timeout is None else timeout)
        answers: Dict[int, Answer] = {}
        attempts = Attempts(deadline)
        while True:
            missing = [index for index in range(len(lines)) if index not in answers]
            if not missing:
                return [answers[index] for index in range(len(lines))]
            lost = self._exchange([lines[index] for index in missing], missing, answers, deadline)
            if lost is not None:
                unanswered = [lines[index] for index in missing if index not in answers]
                time.sleep(attempts.pause_after(lost, unanswered))

    def _exchange(
        self,
        lines: Sequence[Request],
        indices: Sequence[int],
        answers: Dict[int, Answer],
        deadline: Deadline,
    ) -> Optional[ConnectionLost]:
        left = deadline.left()
        if not self._lock.acquire(timeout=-1 if left is None else left):
            return ConnectionLost("other threads have used the connection for the whole time")
        try:
            if self._main is None:
                try:
                    self._main = Connection(self.address, deadline)
                except ConnectionLost as error:
                    return error
            try:
                found, lost = self._main.exchange(lines, deadline)
            except BaseException:
                if self._main.is_closed:
                    self._main = None
                raise
            if lost is not None:
                self._main = None
            answers.update((indices[index], answer) for index, answer in found.items())
            return lost
        finally:
            self._lock.release()

    # Connections for one use.

    def _borrow(self, deadline: Deadline) -> Connection:
        self._forget_if_forked()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Connection(self.address, deadline)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _wait_for(
        self, line: Callable[[float], Request], wait: float, is_end: Callable[[Answer], bool]
    ) -> "tuple[Answer, Connection]":
        """Repeats a request that waits, on a connection that is then the caller's. One whose
        connection is lost is repeated, too, until the wait is over."""
        deadline = Deadline(wait)
        attempts = Attempts(Deadline(wait + self.timeout))
        while True:
            part = deadline.at_most(WAIT_MAX)
            request, patience = line(part), Deadline(part + self.timeout)
            try:
                connection = self._borrow(patience)
            except ConnectionLost as error:
                time.sleep(attempts.pause_after(error, [request]))
                continue
            try:
                answers, lost = connection.exchange([request], patience)
            except BaseException:
                connection.close()
                raise
            if lost is None:
                if is_end(answers[0]) or deadline.is_over():
                    return answers[0], connection
                self._give_back(connection)
                # The next loss is one of its own.
                attempts = Attempts(Deadline(wait + self.timeout))
            else:
                # Those that were kept are of the same server.
                self._drop_idle()
                time.sleep(attempts.pause_after(lost, [request]))

    # Jobs.

    def put(self, queue: str, job: Any, **options: Any) -> requests.Placed:
        """Adds a job, what JSON has or bytes; the options are those of `requests.put`. A put whose
        answer was lost is repeated under its key, or under a random one; with `safe=False` it
        raises AnswerLost."""
        return self.put_request(requests.put(queue, job, **options))

    def put_request(self, request: Dict[str, Any]) -> requests.Placed:
        answer = self.request(request)
        protocol.check(answer)
        return requests.placed(request, answer)

    def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]:
        """Adds many jobs, pipelined: requests as `requests.put` returns them. Raises PutManyError
        if some were refused."""
        lines = list(puts)
        return requests.all_placed(lines, self.request_many(lines))

    def get(self, *queues: str, wait: float = 0) -> Optional[ReservedJob]:
        """Reserves the most urgent job of the queues. None: there was none within `wait` seconds.

        As a context manager the job is finished at the end, or failed if there is an exception.
        """
        answer, connection = self._wait_for(
            lambda part: requests.get(queues, part),
            wait,
            lambda answer: answer["status"] != "no-job" and answer.get("jobs") != [],
        )
        found = None
        try:
            checked = protocol.check(answer)
            if checked is not None and checked["jobs"]:
                found = ReservedJob(self, connection, checked["jobs"][0])
        finally:
            if found is None:
                self._give_back(connection)
        return found

    def result(self, id: int, timeout: float) -> Any:
        """The result of a job, once it is completed. Raises JobFailed if it is dead, JobGone if
        there is no such job (any more), RequestTimeout."""
        deadline = Deadline(timeout)
        while True:
            answer, connection = self._wait_for(
                lambda part: requests.result(id, part), deadline.at_most(WAIT_MAX), lambda _: True
            )
            self._give_back(connection)
            checked = protocol.check(answer)
            if checked is not None:
                return result_of(checked)
            # The server says the same of a job that is gone and of a wait that has ended.
            if self.peek(id) is None:
                raise JobGone(f"job {id} is gone, or its result was not kept")
            if deadline.is_over():
                raise RequestTimeout(f"job {id} has no result after {timeout} s")

    def peek(self, id: int) -> Optional[Answer]:
        """The members of a job, as docs/protocols/api.md names them; its payload is `job`, or, of
        bytes, `payload_base64`."""
        return protocol.check(self.request(requests.of_id("peek", id)))

    def cancel(self, id: int) -> bool:
        """Cancels a job. If it runs, its worker is told. False: there is no such job."""
        return protocol.check(self.request(requests.of_id("cancel", id))) is not None

    def delete(self, id: int) -> bool:
        """Deletes a job in whatever state. False: there is no such job."""
        return protocol.check(self.request(requests.of_id("delete", id))) is not None

    def kick(self, id: int) -> bool:
        """Makes a buried or scheduled job ready. False: there is no such job."""
        return protocol.check(self.request(requests.of_id("kick", id))) is not None

    def stats(self, queue: Optional[str] = None) -> Optional[Answer]:
        """The figures of a queue, or of the server. None: nothing is known of the queue."""
        request = {"request": "stats"} if queue is None else {"request": "stats", "queue": queue}
        return protocol.check(self.request(request))
