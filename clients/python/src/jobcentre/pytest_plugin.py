"""Fixtures for pytest: the real server, and an app of it.

`jobcentre_server` (of the session) starts the program that `--jobcentre-binary`, or
$JOBCENTRE_BINARY, names, or `jobcentre` on the path. `jobcentre_url` points $JOBCENTRE_URL to it
for one test. `jobcentre_worker` runs the worker of an app while a test goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, Callable, ContextManager, Iterator, Optional

import pytest

from .app import App
from .server import Server
from .worker import Stopped, Worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--jobcentre-binary",
        default=None,
        help="the program jobcentre, for tests with the real server",
    )


@pytest.fixture(scope="session")
def jobcentre_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A server in memory on a free port, for the whole session."""
    server = Server(pytestconfig.getoption("--jobcentre-binary"))
    yield server
    server.stop()


@pytest.fixture
def jobcentre_url(jobcentre_server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the server, which apps without an URL find in $JOBCENTRE_URL."""
    monkeypatch.setenv("JOBCENTRE_URL", jobcentre_server.url)
    monkeypatch.delenv("JOBCENTRE_TOKEN", raising=False)
    return jobcentre_server.url


@pytest.fixture
def jobcentre_worker(jobcentre_url: str) -> Callable[..., ContextManager[Worker]]:
    """`with jobcentre_worker(app, ["mail"], concurrency=2): ...`"""
    return running_worker


@contextlib.contextmanager
def running_worker(app: App, *arguments: Any, **options: Any) -> Iterator[Worker]:
    """A worker in a thread; it is stopped at the end. Raises what the worker has raised."""
    worker = Worker(app, *arguments, **options)
    loop = asyncio.new_event_loop()
    outcome: "list[Stopped | BaseException]" = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            outcome.append(loop.run_until_complete(worker.run()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(worker.stop)
        thread.join()
        loop.close()
    raised: Optional[BaseException] = None
    if outcome and isinstance(outcome[0], BaseException):
        raised = outcome[0]
    if raised is not None:
        raise raised


__all__ = ["running_worker"]
