"""Threads for blocking functions.

They are daemons, in contrast to those of concurrent.futures: a function that does not end does not
keep the program from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from typing import Any, Callable, List, Optional, Tuple

_Work = Tuple[Callable[[], Any], "asyncio.Future[Any]", Callable[[], None]]


#: What a coroutine that awaits it would take for the end of itself or of the loop.
_OF_THE_LOOP = (StopIteration, GeneratorExit, KeyboardInterrupt, asyncio.CancelledError)


class ThreadPool:
    """At most `size` threads, started when there is work for them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[Optional[_Work]] = queue.SimpleQueue()
        self._threads: List[threading.Thread] = []
        self._busy = 0

    def submit(
        self, function: Callable[[], Any], on_end: Callable[[], None]
    ) -> asyncio.Future[Any]:
        """Calls the function in a thread. `on_end` is called in the loop when it has ended, also
        if the future was cancelled before."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._busy >= len(self._threads) and len(self._threads) < self._size:
            name = f"jobcentre-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            thread.start()  # It may be that no further thread can be had.
            self._threads.append(thread)
        self._busy += 1
        context = contextvars.copy_context()
        self._work.put((lambda: context.run(function), future, on_end))
        return future

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            function, future, on_end = work
            result, error = None, None
            if not future.cancelled():
                try:
                    result = function()
                except BaseException as raised:  # SystemExit, too, is a failure of the job.
                    error = raised
            try:
                self._loop.call_soon_threadsafe(self._settle, future, result, error, on_end)
            except RuntimeError:
                return  # The loop is closed: the worker has stopped without this thread.

    def _settle(
        self,
        future: asyncio.Future[Any],
        result: Any,
        error: Optional[BaseException],
        on_end: Callable[[], None],
    ) -> None:
        self._busy -= 1
        if not future.done():
            if error is None:
                future.set_result(result)
            elif isinstance(error, _OF_THE_LOOP):
                future.set_exception(RuntimeError(repr(error)))
            else:
                future.set_exception(error)
        on_end()
