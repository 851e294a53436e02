"""Tasks for workers of tests, in this process and in others. They say what they do in the file
$JOBCENTRE_RECORD, a line each."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Dict, List, Optional, Tuple

from jobcentre import App, Context, NoRetry, Retry, RetryIn

app = App()
FAST = Retry(3, base=0.01, most=0.05)


def record(text: str) -> None:
    with open(os.environ["JOBCENTRE_RECORD"], "a", encoding="utf-8") as file:
        file.write(text + "\n")


@app.task(keep_result=60)
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@app.task(keep_result=60)
async def add_async(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


@app.task(keep_result=60, process=True, context=True)
def add_elsewhere(ctx: Context, a: int, b: int = 1) -> List[int]:
    ctx.progress(0.5, "half")
    return [a + b, os.getpid(), ctx.attempt]


@app.task(queue="fail", retry=FAST, keep_result=60)
def fail(text: str) -> None:
    record(f"fail {text}")
    raise ValueError(text)


@app.task(queue="fail", retry=Retry(5, base=0.01, on=(OSError,)), keep_result=60)
async def fail_for_good(kind: str) -> None:
    record(f"fail_for_good {kind}")
    if kind == "no-retry":
        raise NoRetry("it is of no use")
    raise KeyError(kind)


@app.task(queue="fail", retry=Retry(5, base=600, most=600), context=True, keep_result=60)
async def fail_once(ctx: Context) -> int:
    if ctx.attempt == 1:
        raise RetryIn(0.01, "at once")
    return ctx.attempt


@app.task(queue="fail", process=True, retry=FAST, keep_result=60)
def die() -> None:
    os._exit(3)


@app.task(queue="fail", process=True, retry=FAST, keep_result=60)
def fail_elsewhere() -> None:
    raise NoRetry("not here")


@app.task(queue="fail", keep_result=60)
def no_json() -> object:
    return object()


@app.task(queue="slow", ttr=600, context=True, keep_result=60)
async def wait_for_file(ctx: Context, name: str, path: Optional[str] = None) -> int:
    """Runs until the file is there; says when it begins and ends."""
    record(f"begin {name}")
    try:
        while path is None or not os.path.exists(path):
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        record(f"cancelled {name}")
        raise
    record(f"end {name}")
    return ctx.attempt


@app.task(queue="slow", ttr=600, context=True, keep_result=60)
def wait_in_thread(ctx: Context, name: str, path: str) -> int:
    record(f"begin {name}")
    while not os.path.exists(path):
        if ctx.cancelled:
            record(f"cancelled {name}")
            ctx.check()
        time.sleep(0.01)
    record(f"end {name}")
    return ctx.attempt


@app.task(queue="slow", ttr=600, process=True, timeout=None)
def wait_elsewhere(name: str, path: str) -> None:
    record(f"begin {name} {os.getpid()}")
    while not os.path.exists(path):
        time.sleep(0.01)


@app.task(queue="short-lease", ttr=6, context=True, keep_result=60)
async def wait_under_short_lease(ctx: Context, name: str, path: str) -> int:
    return await wait_for_file.function(ctx, name, path)


@app.task(queue="timeout", timeout=0.2, retry=Retry(2, base=0.01), keep_result=60)
async def too_long_async() -> None:
    record("too_long_async")
    await asyncio.sleep(3600)


@app.task(queue="timeout", timeout=0.2, retry=Retry(2, base=0.01), keep_result=60, context=True)
def too_long_thread(ctx: Context) -> None:
    record("too_long_thread")
    while not ctx.cancelled:
        time.sleep(0.01)


@app.task(queue="timeout", timeout=6, retry=Retry(1), keep_result=60, process=True)
def too_long_process() -> None:
    record(f"too_long_process {os.getpid()}")
    time.sleep(3600)


@app.task(queue="count", retry=Retry(20, base=0.01))
async def count(number: int) -> None:
    """One of many; its number is recorded once for each run."""
    await asyncio.sleep(0.001)
    record(f"count {number}")


@app.task(queue="processes", process=True, keep_result=60)
def local_class() -> object:
    """What it returns is JSON, and of a class that no other process has."""

    class Local(Dict[str, Tuple[int, int]]):
        pass

    return Local(a=(1, 2))


@app.task(queue="processes", process=True, keep_result=60, retry=Retry(1))
def broken_elsewhere(kind: str) -> object:
    loop: List[object] = []
    loop.append(loop)
    if kind == "loop":
        return loop
    raise ValueError("y" * 3_000_000)
