"""The scenarios with `kill_server`, and a worker, over a Redis: another server takes over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
import worker_tasks as tasks
from scenario_player import AsyncInThread, Player, sync_client
from takeover_server import TakeoverServer, has_redis
from test_scenarios import TABLE
from test_worker import APP, counts, recorded, until

from jobcentre.pytest_plugin import running_worker

pytestmark = pytest.mark.skipif(not has_redis(), reason="redis-server is not installed")

#: Those whose server keeps its jobs, at any listener.
KEPT = [it for it in TABLE["scenarios"] if it["server"] == {"data": True}]


@pytest.mark.parametrize("client", ["sync", "asyncio"])
@pytest.mark.parametrize("scenario", KEPT, ids=lambda scenario: scenario["name"])
def test_scenario(scenario: Dict[str, Any], client: str, tmp_path: Path) -> None:
    make_client = sync_client if client == "sync" else AsyncInThread.start
    server = TakeoverServer(tmp_path)
    try:
        Player(scenario, tmp_path, make_client, server=server).play()
    finally:
        server.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TakeoverServer]:
    server = TakeoverServer(tmp_path)
    monkeypatch.setenv("JOBCENTRE_URL", server.url)
    monkeypatch.setenv("JOBCENTRE_RECORD", str(tmp_path / "record"))
    APP.close()
    APP._client = None
    yield server
    APP.close()
    APP._client = None
    server.close()


def test_takeover_in_mid_job(server: TakeoverServer) -> None:
    numbers = range(300)
    with running_worker(APP, ["count"], concurrency=8, heartbeat=0.5):
        # Half of them are put while a server takes over.
        tasks.count.put_many([(number,) for number in numbers[:150]])
        until(lambda: len(set(recorded())) >= 50)
        server.kill()
        tasks.count.put_many([(number,) for number in numbers[150:]])
        server.start()
        until(lambda: len(set(recorded())) >= 200)
        server.kill()
        server.start()
        until(lambda: set(recorded()) == {f"count {number}" for number in numbers})
        until(lambda: not any(counts("count").values()), "the end of all jobs")
    runs = Counter(recorded())
    # Doubled is only what was held, eight jobs, each time that the leader was killed.
    assert sum(runs.values()) - len(numbers) <= 2 * 8, runs
