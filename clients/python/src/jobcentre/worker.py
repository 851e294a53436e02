"""The worker: takes jobs, runs them as coroutines, in threads and in processes, and reports them.

A wait for a job holds up its connection, and a job belongs to the connection that has reserved it.
So a worker has several links (connections), with these invariants:

- a link that holds jobs never waits: it only takes what is there, behind a report;
- at most one link waits, and only as long as there are free slots;
- a slot is either free, or asked for (by a get under way), or has a run: `_free` counts the free
  ones.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Set

from . import address as addresses
from . import protocol, requests
from .aio import AsyncConnection
from .errors import ConnectionLost, Forbidden, JobcentreError, NotHeld, Unauthorized
from .processes import ProcessPool
from .protocol import Answer, Backoff, Deadline
from .running import LOST, STOP, Run
from .threads import ThreadPool

if TYPE_CHECKING:
    from .app import App

log = logging.getLogger("jobcentre.worker")

#: How long a get waits at the server. A get that waits cannot be taken back without the risk of
#: losing an attempt of a job, so this bounds how long an idle worker takes to stop.
WAIT = 2.0
ANSWER_TIMEOUT = 30.0
#: The most jobs that the server gives for one get.
BATCH_MAX = 1000
#: For runs that were cancelled at the end of the grace.
CANCEL_TIMEOUT = 5.0


class Stopped(NamedTuple):
    """What a worker has done when it stops."""

    finished: int
    failed: int
    given_back: int


class Link:
    """A connection of a worker."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.held = 0
        self.gets = 0  # without an answer
        self.freed = 0  # slots, in this turn of the loop
        self.is_idle = False
        #: Holds a job of which no report is taken: it is closed when it has nothing else to do, and
        #: the server gives the job back.
        self.is_spoiled = False
        self.received = -1

    def is_unused(self) -> bool:
        return self.held == 0 and self.gets == 0 and self.freed == 0


class Worker:
    """Runs the tasks of an app.

    - `queues`: by default those of the tasks.
    - `concurrency`: jobs at a time. `threads` (as many) and `processes` (one for each core) bound
      those of them that block; a job that waits for a thread is held meanwhile.
    - `grace`: seconds that a stop leaves to what runs, before it is cancelled and given back.
    - `heartbeat`: how often the server is told that a job still runs, which is also how soon a
      cancellation is noticed; a third of its ttr if that is shorter.
    - `batch`: the most jobs that one get takes.
    """

    def __init__(
        self,
        app: App,
        queues: Optional[Sequence[str]] = None,
        *,
        concurrency: int = 16,
        threads: Optional[int] = None,
        processes: Optional[int] = None,
        grace: float = 25.0,
        heartbeat: float = 5.0,
        batch: Optional[int] = None,
    ) -> None:
        if concurrency < 1 or not heartbeat > 0 or not grace >= 0:
            raise ValueError(
                "concurrency must be 1 or more, heartbeat positive, grace not negative"
            )
        bounds = {"threads": threads, "processes": processes, "batch": batch}
        for name, bound in bounds.items():
            if bound is not None and bound < 1:
                raise ValueError(f"{name} must be 1 or more, or left out: {bound}")
        self.app = app
        self.queues = list(queues or sorted({task.settings.queue for task in app.tasks.values()}))
        if not self.queues:
            raise ValueError("there is no queue to take from: the app has no tasks")
        self.runs: Set[Run] = set()
        self.loop: asyncio.AbstractEventLoop
        self.threads: ThreadPool
        self.processes: ProcessPool
        self._address = addresses.resolve(app.url, app.token)
        self._threads_max = threads or concurrency
        self._processes_max = processes or os.cpu_count() or 1
        self._grace, self._heartbeat = grace, heartbeat
        self._batch = min(batch or -(-concurrency // 4), BATCH_MAX)
        self._free = concurrency
        self._links: Set[Link] = set()
        self._idle: List[Link] = []
        self._is_waiting = False
        self._finished = self._failed = self._given_back = 0
        self._stop_requests = 0

    async def run(self, *, signals: bool = False) -> Stopped:
        """Runs until `stop` is called, or a signal comes. Raises Unauthorized or Forbidden if the
        server does not want this worker."""
        self.loop = asyncio.get_running_loop()
        self.threads = ThreadPool(self._threads_max)
        self.processes = ProcessPool(self._processes_max)
        self._stopping, self._hurry = asyncio.Event(), asyncio.Event()
        self._changed = asyncio.Event()
        for _ in range(self._stop_requests):
            self._request_stop()
        handled = self._handle_signals() if signals else []
        log.info("taking jobs from %s at %s", ", ".join(self.queues), self._address)
        taking = asyncio.ensure_future(self._take())
        beating = asyncio.ensure_future(self._beat())
        try:
            await taking
            await self._drain()
        finally:
            for helper in (taking, beating):
                helper.cancel()
            await asyncio.gather(taking, beating, return_exceptions=True)
            await self._close()
            for number in handled:
                self.loop.remove_signal_handler(number)
        stopped = Stopped(self._finished, self._failed, self._given_back)
        log.info("stopped: %d finished, %d failed, %d given back", *stopped)
        return stopped

    def stop(self) -> None:
        """Takes no more jobs, and ends `run` when those that run are done, or the grace is over.
        Called once more: the grace is over."""
        self._stop_requests += 1
        if hasattr(self, "_stopping"):
            self._request_stop()

    def _request_stop(self) -> None:
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._changed.set()

    def _handle_signals(self) -> List[int]:
        handled: List[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self.loop.add_signal_handler(number, self.stop)
                handled.append(number)
            except (NotImplementedError, RuntimeError, ValueError):
                log.debug("signal %d is not handled outside of the main thread", number)
        return handled

    # Taking.

    async def _take(self) -> None:
        """Waits for jobs, on one link at a time, until the worker stops."""
        backoff = Backoff()
        while not self._stopping.is_set():
            if self._free == 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                link = await self._idle_link()
                if await self._wait_for_jobs(link):
                    backoff.reset()
            except JobcentreError as error:
                if not error.temporary:
                    raise
                pause = backoff.next()
                log.warning("%s; again in %.2f s", error, pause)
                await _wait(self._stopping, pause)

    async def _idle_link(self) -> Link:
        while self._idle:
            link = self._idle.pop()
            link.is_idle = False
            if link.connection.lost is None:
                return link
        link = Link(await AsyncConnection.open(self._address, ANSWER_TIMEOUT))
        link.connection.on_lost = functools.partial(self._link_lost, link)
        self._links.add(link)
        return link

    async def _wait_for_jobs(self, link: Link) -> bool:
        """One get that waits. Whether it was answered."""
        asked = min(self._free, self._batch)
        self._free -= asked
        self._is_waiting, link.gets = True, link.gets + 1
        jobs: List[Answer] = []
        try:
            request = requests.get(self.queues, WAIT, asked)
            timeout = WAIT + ANSWER_TIMEOUT
            answer = await asyncio.wait_for(link.connection.send(request), timeout)
            jobs = self._jobs_of(answer)
        except asyncio.TimeoutError:
            link.connection.close()
            return False
        finally:
            self._is_waiting, link.gets = False, link.gets - 1
            self._free += asked - len(jobs)
            self._start(link, jobs)
        return True

    def _jobs_of(self, answer: Answer) -> List[Answer]:
        checked = protocol.check(answer)
        jobs: List[Answer] = checked["jobs"] if checked is not None else []
        return jobs

    def _start(self, link: Link, jobs: Sequence[Answer]) -> None:
        """Runs jobs whose slots were asked for; once the worker stops they are given back."""
        for job in jobs:
            link.held += 1
            if self._stopping.is_set():
                run = Run(self, link, job)
                run.end(STOP)
                self.runs.add(run)
                asyncio.ensure_future(self.finish(run, requests.release(run.id)))
            else:
                run = Run(self, link, job)
                self.runs.add(run)
                run.start()
        self._keep(link)

    def _keep(self, link: Link) -> None:
        """Remembers a link that has nothing to do."""
        if link.is_unused() and not link.is_idle and link.connection.lost is None:
            if link.is_spoiled:
                link.connection.close()
                return
            link.is_idle = True
            self._idle.append(link)

    def _link_lost(self, link: Link) -> None:
        self._links.discard(link)
        lost = [run for run in self.runs if run.link is link]
        if lost and not self._stopping.is_set():
            log.warning("%s: %d jobs go back", link.connection.lost, len(lost))
        for run in lost:
            run.end(LOST)

    # Reporting.

    async def finish(self, run: Run, report: Optional[Dict[str, Any]]) -> None:
        """Reports a run, and takes the next job in the same turn if there is one."""
        link = run.link
        try:
            run.send_progress()
            answer: Optional[asyncio.Future[Answer]] = None
            if report is not None and link.connection.lost is None:
                try:
                    answer = link.connection.send(report)
                except Exception as error:  # RecursionError, and what the parts of a result raise.
                    report = requests.fail(run.id, type(error).__name__, str(error), False)
                    log.error("job %d: its result cannot be sent: %s", run.id, report["message"])
                    answer = link.connection.send(report)
            self._leave(run)
            if answer is not None and report is not None:
                await self._hear(run, report, answer)
        finally:
            self.forget(run)

    def _leave(self, run: Run) -> None:
        """Frees the slot of a run, or leaves that to the end of its thread."""
        if run.is_left:
            return
        run.is_left = True
        run.link.held -= 1
        if run.thread_is_busy:
            run.keeps_slot = True
        else:
            self._free_slot(run.link)

    def forget(self, run: Run) -> None:
        """The end of a run, however it came: its slot is free."""
        if run in self.runs:
            self._leave(run)
            self.runs.discard(run)
            self._changed.set()
            self._keep(run.link)

    async def _hear(self, run: Run, report: Dict[str, Any], answer: asyncio.Future[Answer]) -> None:
        """Counts what was reported, once it is answered. A report for which the server has no
        space is repeated, while the lease is touched. In place of one that it refuses, another
        one is sent; if that is refused, too, the job goes back with the link."""
        backoff = Backoff(0.5, 10.0)
        while True:
            try:
                if protocol.check(await answer) is None:
                    log.warning("job %d was not ours any more: it may run twice", run.id)
                    return
                break
            except ConnectionLost:
                log.warning("job %d: its report was lost: it may run twice", run.id)
                return
            except NotHeld as error:
                log.warning("job %d: it may run twice: %s", run.id, error)
                return
            except JobcentreError as error:
                if not error.temporary or self._hurry.is_set():
                    log.error("job %d: its report was refused: %s", run.id, error)
                other = report if error.temporary else requests.instead_of(report, error)
                if other is None or self._hurry.is_set():
                    run.link.is_spoiled = True
                    return
                if error.temporary:
                    await _wait(self._hurry, backoff.next())
                report = other
                answer = run.link.connection.send(report)
        if report["request"] == "done":
            self._finished += 1
        elif report["request"] == "fail":
            self._failed += 1
        else:
            self._given_back += 1

    def thread_ended(self, run: Run) -> None:
        """A thread has ended. If its run was left before, its slot is free only now."""
        if run.keeps_slot:
            run.keeps_slot = False
            self._free_slot(run.link)

    def _free_slot(self, link: Link) -> None:
        link.freed += 1
        if link.freed == 1:
            self.loop.call_soon(self._refill, link)

    def _refill(self, link: Link) -> None:
        """Takes as many jobs as slots were freed in this turn, without waiting. While another link
        waits, the queues are empty."""
        slots, link.freed = link.freed, 0
        is_closing = link.is_spoiled or link.connection.lost is not None
        if self._stopping.is_set() or self._is_waiting or is_closing:
            self._free += slots
            self._changed.set()
            self._keep(link)
            return
        if slots > BATCH_MAX:
            self._free += slots - BATCH_MAX
            slots = BATCH_MAX
        link.gets += 1
        answer = link.connection.send(requests.get(self.queues, limit=slots))
        answer.add_done_callback(functools.partial(self._refilled, link, slots))

    def _refilled(self, link: Link, slots: int, answer: asyncio.Future[Answer]) -> None:
        link.gets -= 1
        jobs: List[Answer] = []
        if not answer.cancelled() and answer.exception() is None:
            try:
                jobs = self._jobs_of(answer.result())
            except JobcentreError as error:
                log.warning("no jobs: %s", error)
        self._free += slots - len(jobs)
        self._changed.set()
        self._start(link, jobs)

    # Leases.

    async def _beat(self) -> None:
        """Touches what runs, and closes links on which nothing is answered."""
        silent: Dict[Link, float] = {}
        # A ttr of 0 is none: such a lease is touched for the sake of cancellations.
        ttrs = [task.settings.ttr or requests.TTR for task in self.app.tasks.values()]
        shortest = min(ttrs, default=requests.TTR) / 3
        interval = min(self._heartbeat, shortest) / 2
        while True:
            await asyncio.sleep(interval)
            now = self.loop.time()
            for run in list(self.runs):
                due = run.touched + min(self._heartbeat, run.ttr / 3) - interval / 2
                if now >= due and run.ended is None and run.link.connection.lost is None:
                    run.touch(now)
            for link in list(self._links):
                connection = link.connection
                if len(connection) == 0 or connection.received != link.received:
                    link.received = connection.received
                    silent[link] = now
                elif now - silent.get(link, now) > WAIT + ANSWER_TIMEOUT:
                    log.warning("%s has not answered in time", self._address)
                    connection.close()
            silent = {link: since for link, since in silent.items() if link in self._links}

    # Stopping.

    async def _drain(self) -> None:
        """Waits for what runs, then cancels it, then gives it back."""
        if self.runs:
            log.info("stopping: %d jobs have %g s to end", len(self.runs), self._grace)
        await self._wait_for_runs(self._grace, self._hurry)
        for run in list(self.runs):
            run.end(STOP)
        await self._wait_for_runs(CANCEL_TIMEOUT, None)
        for run in list(self.runs):
            # A coroutine that does not let itself be cancelled.
            log.warning("job %d does not end: it is given back while it runs", run.id)
            if run.link.connection.lost is None:
                answer = run.link.connection.send(requests.release(run.id))
                await asyncio.wait([answer], timeout=CANCEL_TIMEOUT)
                self._given_back += 1

    async def _wait_for_runs(self, seconds: float, hurry: Optional[asyncio.Event]) -> None:
        deadline = Deadline(seconds)
        while self.runs and not deadline.is_over() and not (hurry and hurry.is_set()):
            self._changed.clear()
            await _wait(self._changed, deadline.at_most(1.0))

    async def _close(self) -> None:
        for link in list(self._links):
            link.connection.close()
        self.threads.close()
        self.processes.close()
        await asyncio.sleep(0)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, at most for this time."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


__all__ = ["Forbidden", "Stopped", "Unauthorized", "Worker"]
