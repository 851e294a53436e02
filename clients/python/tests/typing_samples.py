"""What type checkers must see, and must refuse: checked by mypy and pyright, never run.

An ignore that is not needed is an error for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Coroutine, Dict, List

from jobcentre import App, Context, Job

if TYPE_CHECKING:
    from typing_extensions import assert_type

app = App()


@app.task(queue="mail")
def send(to: str, body: str = "") -> int:
    return len(to + body)


@app.task(context=True)
async def encode(ctx: Context, path: str, *, fast: bool) -> Dict[str, int]:
    return {path: int(fast)}


@app.task(context=True, process=True)
def resize(ctx: Context, path: str) -> None: ...


async def samples() -> None:
    assert_type(send("ann"), int)
    assert_type(send.put("ann", body="x"), Job[int])
    assert_type(send.put("ann").result(), int)
    assert_type(await (await send.aput("ann")).aresult(), int)
    _ = assert_type(encode("p", fast=True), Coroutine[Any, Any, Dict[str, int]])
    assert_type(encode.put("p", fast=True).result(), Dict[str, int])
    assert_type(resize.put("p"), Job[None])
    assert_type(send.put_many([send.call("ann"), ("bob", "x")]), List[Job[int]])
    assert_type(send.options(delay=5, pri=2).put("ann"), Job[int])

    send.put()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send.put(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send.put("a", text="")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send.call("a", 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    encode.put("p")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send.options(delay="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await encode.aput(1, fast=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
