"""The asyncio client, of one event loop.

As in the blocking client, one connection carries all plain requests, pipelined, and a wait has one
of its own. Writes of one turn of the loop leave together.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Sequence

from . import address as addresses
from . import errors, protocol, requests
from .errors import (
    AnswerLost,
    BadAnswer,
    ConnectionLost,
    JobcentreError,
    JobGone,
    RequestTimeout,
    Untrusted,
)
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
from .reserved import AsyncReservedJob

log = logging.getLogger("jobcentre")


class AsyncConnection(asyncio.Protocol):
    """One connection. It is of no use after `lost` is set."""

    def __init__(self, address: addresses.Address) -> None:
        self.address = address
        self.lost: Optional[ConnectionLost] = None
        #: Called once when the connection is lost or closed.
        self.on_lost: Optional[Callable[[], None]] = None
        self._loop = asyncio.get_running_loop()
        self._pipeline: Pipeline[asyncio.Future[Answer]] = Pipeline()
        self._transport: Optional[asyncio.Transport] = None
        self._unsent: List[bytes] = []
        self._paused = False
        #: Counts what has arrived: whether the server is there.
        self.received = 0
        self._queue: Deque[asyncio.Future[None]] = deque()

    @classmethod
    async def open(cls, address: addresses.Address, timeout: float) -> AsyncConnection:
        """Connects and authenticates. Raises ConnectionLost, or Unauthorized."""
        loop = asyncio.get_running_loop()
        timeout = max(0.001, min(timeout, CONNECT_TIMEOUT))
        connection = cls(address)
        # Outside of the try: files that are not there are a mistake, and do not come by waiting.
        context = address.ssl_context()
        try:
            await asyncio.wait_for(connection._connect(loop, context), timeout)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            connection.close()
            other = ConnectionLost(f"no connection to {address}: {error!r}")
            raise errors.of_certificate(address, error) or other from error
        if address.token is not None:
            try:
                answer = await asyncio.wait_for(
                    connection.send(requests.auth(address.token)), TIMEOUT
                )
                protocol.check_auth(answer)
            except asyncio.TimeoutError as error:
                connection.close()
                raise ConnectionLost(f"{address} has not answered in time") from error
            except BaseException:
                connection.close()
                raise
        return connection

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, context: Optional[ssl.SSLContext]
    ) -> None:
        address = self.address
        if address.path is not None:
            await loop.create_unix_connection(lambda: self, address.path)
            return
        name = (address.server_name or address.host) if context else None
        await loop.create_connection(
            lambda: self, address.host, address.port, ssl=context, server_hostname=name
        )

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=1 << 20)

    def data_received(self, data: bytes) -> None:
        self.received += 1
        try:
            for waiter, answer in self._pipeline.feed(data):
                if not waiter.done():
                    waiter.set_result(answer)
        except JobcentreError as error:
            lost = error if isinstance(error, ConnectionLost) else ConnectionLost(str(error))
            if isinstance(error, BadAnswer):
                log.error("%s: %s", self.address, error)
            self._lose(lost)
            return
        self._wake()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        why = exc or "the server has closed the connection"
        other = AnswerLost(f"the connection to {self.address} was lost: {why}")
        self._lose(errors.of_certificate(self.address, exc) or other)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake()

    # Requests.

    def __len__(self) -> int:
        """Requests without an answer."""
        return len(self._pipeline)

    def send(self, request: Request) -> asyncio.Future[Answer]:
        """Sends a request at the end of this turn of the loop, whatever is unanswered: for those
        who bound that themselves. The future has the answer, or ConnectionLost."""
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        if self.lost is not None:
            is_final = isinstance(self.lost, Untrusted)
            waiter.set_exception(self.lost if is_final else ConnectionLost(str(self.lost)))
            return waiter
        line = protocol.encode(request)
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(line)
        self._pipeline.push(waiter)
        return waiter

    def has_room(self) -> bool:
        return len(self._pipeline) < protocol.IN_FLIGHT_MAX and not self._paused

    async def wait_for_room(self) -> None:
        """Returns when another request may be sent: the pipeline is full, or the server does not
        read."""
        while not self.has_room() and self.lost is None:
            turn: asyncio.Future[None] = self._loop.create_future()
            self._queue.append(turn)
            await turn

    def _wake(self) -> None:
        room = protocol.IN_FLIGHT_MAX - len(self._pipeline)
        while self._queue and room > 0 and not self._paused:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1

    def _flush(self) -> None:
        if self._unsent and self._transport is not None and self.lost is None:
            self._transport.write(b"".join(self._unsent))
        self._unsent = []

    def close(self) -> None:
        self._flush()
        self._lose(AnswerLost(f"the connection to {self.address} was closed"))

    def _lose(self, lost: ConnectionLost) -> None:
        if self.lost is not None:
            return
        self.lost = lost
        if self._transport is not None:
            self._transport.close()
        for waiter in self._pipeline.take_all():
            if not waiter.done():
                waiter.set_exception(lost)
                # Retrieved: the one that has sent it may have gone.
                waiter.exception()
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
        if self.on_lost is not None:
            self.on_lost()


class AsyncClient:
    """The asyncio client of the line protocol; it belongs to the loop that uses it first."""

    def __init__(
        self, url: Optional[str] = None, *, token: Optional[str] = None, timeout: float = TIMEOUT
    ) -> None:
        self.address = addresses.resolve(url, token)
        self.timeout = timeout
        self._main: Optional[AsyncConnection] = None
        self._opening: Optional[asyncio.Task[AsyncConnection]] = None
        self._idle: List[AsyncConnection] = []

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. A later call opens them anew."""
        if self._opening is not None:
            self._opening.cancel()
        for connection in [*self._idle, *([self._main] if self._main else [])]:
            connection.close()
        self._main, self._idle = None, []
        # The transports close in the next turn of the loop.
        await asyncio.sleep(0)

    async def _connection(self, deadline: Deadline) -> AsyncConnection:
        """The shared connection; those who find none wait for the same attempt to connect."""
        if self._main is not None and self._main.lost is None:
            return self._main
        if self._opening is None or self._opening.done():
            opening = AsyncConnection.open(self.address, deadline.at_most(CONNECT_TIMEOUT))
            self._opening = asyncio.ensure_future(opening)
        connection = await asyncio.shield(self._opening)
        self._main = connection
        return connection

    async def request(self, request: Request, timeout: Optional[float] = None) -> Answer:
        """Sends any request and returns its answer, whatever its status. It is sent again if the
        connection is lost and that is safe; otherwise AnswerLost is raised."""
        deadline = Deadline(self.timeout if timeout is None else timeout)
        attempts = Attempts(deadline)
        while True:
            try:
                return await self._attempt(request, deadline)
            except ConnectionLost as error:
                lost = error
            await asyncio.sleep(attempts.pause_after(lost, [request]))

    async def _attempt(self, request: Request, deadline: Deadline) -> Answer:
        connection = await self._connection(deadline)
        try:
            if not connection.has_room():
                await asyncio.wait_for(connection.wait_for_room(), deadline.left())
            answer = connection.send(request)
            left = deadline.left()
            timer = None
            if left is not None:
                # Cheaper than wait_for: most answers come.
                timer = connection._loop.call_later(left, connection.close)
            try:
                return await answer
            finally:
                if timer is not None:
                    timer.cancel()
        except asyncio.TimeoutError as error:
            connection.close()
            raise AnswerLost(f"{self.address} has not answered in time") from error

    async def request_many(
        self, lines: Sequence[Request], timeout: Optional[float] = None
    ) -> List[Answer]:
        """The same for many, pipelined."""
        deadline = Deadline(self.timeout if timeout is None else timeout)
        attempts = Attempts(deadline)
        answers: Dict[int, Answer] = {}
        while True:
            missing = [index for index in range(len(lines)) if index not in answers]
            if not missing:
                return [answers[index] for index in range(len(lines))]
            try:
                await self._exchange(lines, missing, answers, deadline)
            except ConnectionLost as error:
                unanswered = [lines[index] for index in missing if index not in answers]
                await asyncio.sleep(attempts.pause_after(error, unanswered))

    async def _exchange(
        self,
        lines: Sequence[Request],
        missing: Sequence[int],
        answers: Dict[int, Answer],
        deadline: Deadline,
    ) -> None:
        connection = await self._connection(deadline)
        left = deadline.left()
        timer = None if left is None else connection._loop.call_later(left, connection.close)
        sent: Dict[int, asyncio.Future[Answer]] = {}
        try:
            for index in missing:
                if not connection.has_room():
                    await connection.wait_for_room()
                if connection.lost is not None:
                    break
                sent[index] = connection.send(lines[index])
            for index, waiter in sent.items():
                answers[index] = await waiter
        finally:
            if timer is not None:
                timer.cancel()
        if connection.lost is not None and len(sent) < len(missing):
            raise connection.lost

    # Connections for one use.

    async def _borrow(self, deadline: Deadline) -> AsyncConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.lost is None:
                return connection
        return await AsyncConnection.open(self.address, deadline.at_most(CONNECT_TIMEOUT))

    def _give_back(self, connection: AsyncConnection) -> None:
        if connection.lost is None and len(connection) == 0 and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    async def _wait_for(
        self, line: Callable[[float], Request], wait: float, is_end: Callable[[Answer], bool]
    ) -> "tuple[Answer, AsyncConnection]":
        """Repeats a request that waits, on a connection that is then the caller's."""
        deadline = Deadline(wait)
        attempts = Attempts(Deadline(wait + self.timeout))
        while True:
            part = deadline.at_most(WAIT_MAX)
            request, patience = line(part), Deadline(part + self.timeout)
            try:
                connection = await self._borrow(patience)
                try:
                    answer = await asyncio.wait_for(connection.send(request), patience.left())
                except BaseException:
                    # Also when the caller is cancelled: what it is handed out goes back.
                    connection.close()
                    raise
            except asyncio.TimeoutError:
                lost: ConnectionLost = AnswerLost(f"{self.address} has not answered in time")
            except ConnectionLost as error:
                lost = error
            else:
                if is_end(answer) or deadline.is_over():
                    return answer, connection
                self._give_back(connection)
                attempts = Attempts(Deadline(wait + self.timeout))
                continue
            await asyncio.sleep(attempts.pause_after(lost, [request]))

    # Jobs.

    async def put(self, queue: str, job: Any, **options: Any) -> requests.Placed:
        """Adds a job, what JSON has or bytes; the options are those of `requests.put`. A put whose
        answer was lost is repeated under its key, or under a random one; with `safe=False` it
        raises AnswerLost."""
        return await self.put_request(requests.put(queue, job, **options))

    async def put_request(self, request: Dict[str, Any]) -> requests.Placed:
        answer = await self.request(request)
        protocol.check(answer)
        return requests.placed(request, answer)

    async def put_many(self, puts: Iterable[Dict[str, Any]]) -> List[requests.Placed]:
        """Adds many jobs, pipelined: requests as `requests.put` returns them. Raises PutManyError
        if some were refused."""
        lines = list(puts)
        return requests.all_placed(lines, await self.request_many(lines))

    async def get(self, *queues: str, wait: float = 0) -> Optional[AsyncReservedJob]:
        """Reserves the most urgent job of the queues. None: there was none within `wait` seconds.

        As an async context manager the job is finished at the end, or failed if there is an
        exception.
        """
        answer, connection = await self._wait_for(
            lambda part: requests.get(queues, part),
            wait,
            lambda answer: answer["status"] != "no-job" and answer.get("jobs") != [],
        )
        found = None
        try:
            checked = protocol.check(answer)
            if checked is not None and checked["jobs"]:
                found = AsyncReservedJob(self, connection, checked["jobs"][0])
        finally:
            if found is None:
                self._give_back(connection)
        return found

    async def result(self, id: int, timeout: float) -> Any:
        """The result of a job, once it is completed. Raises JobFailed if it is dead, JobGone if
        there is no such job (any more), RequestTimeout."""
        deadline = Deadline(timeout)
        while True:
            answer, connection = await self._wait_for(
                lambda part: requests.result(id, part), deadline.at_most(WAIT_MAX), lambda _: True
            )
            self._give_back(connection)
            checked = protocol.check(answer)
            if checked is not None:
                return result_of(checked)
            # The server says the same of a job that is gone and of a wait that has ended.
            if await self.peek(id) is None:
                raise JobGone(f"job {id} is gone, or its result was not kept")
            if deadline.is_over():
                raise RequestTimeout(f"job {id} has no result after {timeout} s")

    async def peek(self, id: int) -> Optional[Answer]:
        """The members of a job, as docs/protocols/api.md names them; its payload is `job`, or, of
        bytes, `payload_base64`."""
        return protocol.check(await self.request(requests.of_id("peek", id)))

    async def cancel(self, id: int) -> bool:
        """Cancels a job. If it runs, its worker is told. False: there is no such job."""
        return protocol.check(await self.request(requests.of_id("cancel", id))) is not None

    async def delete(self, id: int) -> bool:
        """Deletes a job in whatever state. False: there is no such job."""
        return protocol.check(await self.request(requests.of_id("delete", id))) is not None

    async def kick(self, id: int) -> bool:
        """Makes a buried or scheduled job ready. False: there is no such job."""
        return protocol.check(await self.request(requests.of_id("kick", id))) is not None

    async def stats(self, queue: Optional[str] = None) -> Optional[Answer]:
        """The figures of a queue, or of the server. None: nothing is known of the queue."""
        request = {"request": "stats"} if queue is None else {"request": "stats", "queue": queue}
        return protocol.check(await self.request(request))
