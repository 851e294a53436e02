"""The pytest plugin as a user has it: installed, found by its entry point."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["pytester"]

USER_TEST = """
from jobcentre import App

app = App()

@app.task(queue="plugin", keep_result=60)
def add(a: int, b: int) -> int:
    return a + b

def test_with_the_server(jobcentre_url, jobcentre_worker):
    with jobcentre_worker(app, concurrency=2):
        assert add.put(1, 2).result(60) == 3
    app.close()

def test_in_memory():
    with app.testing() as jobs:
        add.put(1, 2)
    assert len(jobs) == 1
"""


def test_fixtures_are_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USER_TEST)
    binary = os.environ["JOBCENTRE_BINARY"]
    result = pytester.runpytest_subprocess(f"--jobcentre-binary={binary}")
    result.assert_outcomes(passed=2)


def test_program_that_is_not_there_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOBCENTRE_BINARY")
    monkeypatch.setenv("PATH", "/nowhere")
    pytester.makepyfile("def test_it(jobcentre_url): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*JOBCENTRE_BINARY*"])
