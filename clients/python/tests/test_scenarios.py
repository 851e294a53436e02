"""The table of scenarios that all clients share, with the blocking and with the asyncio client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest
import test_worker
from scenario_player import AsyncInThread, Player, sync_client

TABLE = json.loads(
    (Path(__file__).parents[2] / "scenarios" / "scenarios.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("client", ["sync", "asyncio"])
@pytest.mark.parametrize("scenario", TABLE["scenarios"], ids=lambda scenario: scenario["name"])
def test_scenario(scenario: Dict[str, Any], client: str, tmp_path: Path) -> None:
    Player(scenario, tmp_path, sync_client if client == "sync" else AsyncInThread.start).play()


def test_every_scenario_of_programs_has_a_test() -> None:
    names = {"test_" + program["name"] for program in TABLE["programs"]}
    missing = sorted(name for name in names if not hasattr(test_worker, name))
    assert not missing, missing
