"""A job that a client holds, on a connection of its own, until it is reported: blocking, and for
asyncio."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional, Protocol, Type, TypeVar, Union

from . import protocol, requests
from .errors import AnswerLost, ConnectionLost, JobcentreError, NotHeld
from .payload import clean, payload_of
from .protocol import Answer, Deadline, Request

if TYPE_CHECKING:
    from .aio import AsyncClient, AsyncConnection
    from .sync import Client, Connection

log = logging.getLogger("jobcentre")


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)
C_contra = TypeVar("C_contra", bound=_Closable, contravariant=True)


class _Owner(Protocol[C_contra]):
    def _give_back(self, connection: C_contra) -> None: ...


class _HeldJob(Generic[C]):
    """What both have: the members of the job, and the end of its connection."""

    def __init__(self, owner: _Owner[C], connection: C, job: Answer) -> None:
        self.id: int = job["id"]
        self.queue: str = job["queue"]
        self.pri: int = job["pri"]
        found = payload_of(job)
        self.job: Any = found.job
        self.bytes: Optional[bytes] = found.data
        self.packet_key: Optional[bytes] = found.packet_key
        #: Whether the server has said that the job was cancelled.
        self.cancelled = False
        self._owner = owner
        self._connection: Optional[C] = connection

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._owner._give_back(connection)

    def _reported(self, answer: Optional[Answer]) -> None:
        self._leave()
        if answer is None:
            raise protocol.not_held(self.id, self.cancelled)

    def _told(self, answer: Optional[Answer]) -> bool:
        if answer is None:
            raise NotHeld(f"job {self.id} is not held any more")
        self.cancelled = self.cancelled or bool(answer.get("cancelled"))
        return not self.cancelled

    def _failure(
        self, error: Union[str, BaseException], retry: bool, delay: Optional[float]
    ) -> Request:
        name = "Error" if isinstance(error, str) else type(error).__name__
        return requests.fail(self.id, name, clean(error), retry, delay)

    def close(self) -> None:
        """Ends its connection without a report: the server gives the job back, which counts as an
        attempt of a job with max_attempts."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class ReservedJob(_HeldJob["Connection"]):
    """A job that this client holds, on a connection of its own, until it is reported.

    `job` is the payload: the value of its JSON. Of bytes, put by a beanstalkd client for example,
    it is the value of the JSON text that they are, or else the bytes; `bytes` has them in any case,
    and is None of JSON. `packet_key` is the key of a packet. A report that the server refuses, or
    that is no JSON, raises, and the job is held as before."""

    def __init__(self, client: Client, connection: Connection, job: Answer) -> None:
        super().__init__(client, connection, job)
        self._client = client

    def __enter__(self) -> ReservedJob:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._connection is None:
            return
        if error is None:
            try:
                self.done()
            except BaseException:
                self.close()
                raise
        elif isinstance(error, Exception):
            try:
                self.fail(error)
            except Exception as lost:
                log.warning("job %d: its failure was not reported: %s", self.id, lost)
                self.close()
        else:
            # An interrupt: the job is given back.
            try:
                self.release()
            except JobcentreError:
                self.close()

    def _ask(self, request: Request) -> Optional[Answer]:
        if self._connection is None:
            raise NotHeld(f"job {self.id} was reported already")
        try:
            answers, lost = self._connection.exchange([request], Deadline(self._client.timeout))
        except BaseException:
            if self._connection.is_closed:
                self._connection = None
            raise
        if lost is not None:
            self._connection = None
            raise lost
        return protocol.check(answers[0])

    def _report(self, request: Request) -> None:
        try:
            answer = self._ask(request)
        except NotHeld:
            self._leave()
            raise
        self._reported(answer)

    def done(self, result: Any = None) -> None:
        self._report(requests.done(self.id, result))

    def fail(
        self, error: Union[str, BaseException], *, retry: bool = True, delay: Optional[float] = None
    ) -> None:
        """Reports that the run has failed: it is run again by its backoff, or after `delay`."""
        self._report(self._failure(error, retry, delay))

    def release(self) -> None:
        """Gives it back; this does not count as an attempt."""
        self._report(requests.release(self.id))

    def touch(self, ttr: Optional[float] = None) -> bool:
        """Starts the lease anew. False: the job was cancelled."""
        return self._tell(requests.touch(self.id, ttr))

    def progress(self, part: float, message: Optional[str] = None) -> bool:
        """Says how far it is, from 0 to 1. False: the job was cancelled."""
        return self._tell(requests.progress(self.id, part, message))

    def _tell(self, request: Request) -> bool:
        return self._told(self._ask(request))


class AsyncReservedJob(_HeldJob["AsyncConnection"]):
    """A job that this client holds, on a connection of its own, until it is reported; its members
    are those of `ReservedJob`."""

    def __init__(self, client: AsyncClient, connection: AsyncConnection, job: Answer) -> None:
        super().__init__(client, connection, job)
        self._client = client

    async def __aenter__(self) -> AsyncReservedJob:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._connection is None:
            return
        if error is None:
            try:
                await self.done()
            except BaseException:
                self.close()
                raise
        elif isinstance(error, Exception):
            try:
                await self.fail(error)
            except Exception as lost:
                log.warning("job %d: its failure was not reported: %s", self.id, lost)
                self.close()
        else:
            # The task was cancelled: the job is given back.
            try:
                await self.release()
            except JobcentreError:
                self.close()

    async def _ask(self, request: Request) -> Optional[Answer]:
        if self._connection is None:
            raise NotHeld(f"job {self.id} was reported already")
        try:
            answer = await asyncio.wait_for(self._connection.send(request), self._client.timeout)
        except asyncio.TimeoutError:
            self.close()
            raise AnswerLost(f"{self._client.address} has not answered in time") from None
        except ConnectionLost:
            self.close()
            raise
        return protocol.check(answer)

    async def _report(self, request: Request) -> None:
        try:
            answer = await self._ask(request)
        except NotHeld:
            self._leave()
            raise
        except asyncio.CancelledError:
            # Whether it has counted is not known.
            self.close()
            raise
        self._reported(answer)

    async def done(self, result: Any = None) -> None:
        await self._report(requests.done(self.id, result))

    async def fail(
        self, error: Union[str, BaseException], *, retry: bool = True, delay: Optional[float] = None
    ) -> None:
        """Reports that the run has failed: it is run again by its backoff, or after `delay`."""
        await self._report(self._failure(error, retry, delay))

    async def release(self) -> None:
        """Gives it back; this does not count as an attempt."""
        await self._report(requests.release(self.id))

    async def touch(self, ttr: Optional[float] = None) -> bool:
        """Starts the lease anew. False: the job was cancelled."""
        return await self._tell(requests.touch(self.id, ttr))

    async def progress(self, part: float, message: Optional[str] = None) -> bool:
        """Says how far it is, from 0 to 1. False: the job was cancelled."""
        return await self._tell(requests.progress(self.id, part, message))

    async def _tell(self, request: Request) -> bool:
        return self._told(await self._ask(request))
