"""Plays the table of scenarios, which all clients share, with a client of this package."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Type, Union

from lossy_proxy import LossyProxy
from settings import write_certificate, write_client_certificate, write_users
from takeover_server import TakeoverServer

import jobcentre
from jobcentre import errors, requests
from jobcentre.server import PATIENCE, Server

KINDS: Dict[str, Type[Exception]] = {
    "answer-lost": errors.AnswerLost,
    "bad-request": errors.BadRequest,
    "cancelled": errors.Cancelled,
    "connection-lost": errors.ConnectionLost,
    "draining": errors.Draining,
    "duplicate": errors.DuplicateKey,
    "forbidden": errors.Forbidden,
    "job-failed": errors.JobFailed,
    "job-gone": errors.JobGone,
    "not-held": errors.NotHeld,
    "timeout": errors.RequestTimeout,
    "unauthorized": errors.Unauthorized,
    "untrusted": errors.Untrusted,
}
NOTHING: Any = object()


class AsyncInThread:
    """An AsyncClient, or a job of one, whose coroutines are awaited by a loop in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop, self._inner = loop, inner

    @classmethod
    def start(cls, *arguments: Any, **options: Any) -> AsyncInThread:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        async def make() -> jobcentre.AsyncClient:
            return jobcentre.AsyncClient(*arguments, **options)

        return cls(loop, asyncio.run_coroutine_threadsafe(make(), loop).result(PATIENCE))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            async def run() -> Any:
                result = found(*arguments, **options)
                return await result if asyncio.iscoroutine(result) else result

            result = asyncio.run_coroutine_threadsafe(run(), self._loop).result(2 * PATIENCE)
            is_job = isinstance(result, jobcentre.AsyncReservedJob)
            return AsyncInThread(self._loop, result) if is_job else result

        return call

    def stop(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)


def sync_client(*arguments: Any, **options: Any) -> Any:
    return jobcentre.Client(*arguments, **options)


class Player:
    """One scenario: its server, its client, and what its steps have named."""

    def __init__(
        self,
        scenario: Mapping[str, Any],
        folder: Path,
        make_client: Callable[..., Any],
        *,
        server: Optional[TakeoverServer] = None,
    ) -> None:
        self.scenario = scenario
        self.named: Dict[str, Any] = {}
        self.background: Dict[str, "queue.Queue[Any]"] = {}
        terms = scenario["server"]
        self.server: Union[Server, TakeoverServer]
        if server is not None:
            self.server, url = server, server.url
        else:
            self.server, url = self._start_server(terms, folder)
        self.proxy: Optional[LossyProxy] = None
        if any(step["do"] == "lose_answer" for step in scenario["steps"]):
            self.proxy = LossyProxy(lambda: self.server.address)
            url = f"jobcentre://{self.proxy.address}"
        self.client = make_client(url, token=terms.get("token"), timeout=PATIENCE)

    def _start_server(self, terms: Mapping[str, Any], folder: Path) -> "tuple[Server, str]":
        arguments: List[str] = []
        listen, query = "127.0.0.1:0", ""
        if terms.get("listen") == "unix":
            listen = f"unix:{folder / 'socket'}"
        if terms.get("listen") == "tls":
            certificate, key = write_certificate(folder)
            arguments += ["--tls-cert", certificate, "--tls-key", key]
            listen = "tls:127.0.0.1:0"
            query = f"?ca={certificate}" if terms.get("trusts", True) else ""
            if terms.get("asks_certificate"):
                trusted, own, own_key = write_client_certificate(folder)
                arguments += ["--tls-client-ca", trusted]
                query += f"&cert={own}&key={own_key}" if terms.get("presents", True) else ""
        if "users" in terms:
            arguments += ["--config", write_users(folder, terms["users"])]
        data = str(folder / "data") if terms.get("data") else None
        server = Server(data=data, listen=listen, arguments=arguments)
        return server, server.url + query

    def play(self) -> None:
        try:
            for number, step in enumerate(self.scenario["steps"]):
                try:
                    self._play(step)
                except Exception as error:
                    raise AssertionError(f"step {number}, {step}: {error!r}") from error
        finally:
            stop = getattr(self.client, "stop", self.client.close)
            stop()
            self.server.kill()
            if self.proxy is not None:
                self.proxy.close()

    def _play(self, step: Mapping[str, Any]) -> None:
        if step["do"] == "join":
            outcome = self.background.pop(step["background"]).get(timeout=2 * PATIENCE)
            self._compare(step, outcome)
        elif "background" in step:
            answers: "queue.Queue[Any]" = queue.Queue()
            self.background[step["background"]] = answers
            started = threading.Event()

            def run() -> None:
                started.set()
                answers.put(self._outcome(step))

            threading.Thread(target=run, daemon=True).start()
            started.wait(PATIENCE)
        else:
            self._compare(step, self._outcome(step))

    def _outcome(self, step: Mapping[str, Any]) -> Any:
        try:
            return getattr(self, "_do_" + step["do"])(step)
        except errors.JobcentreError as error:
            return error

    def _compare(self, step: Mapping[str, Any], outcome: Any) -> None:
        if "error" in step:
            assert isinstance(outcome, KINDS[step["error"]]), f"it ended with {outcome!r}"
        elif isinstance(outcome, Exception):
            raise outcome
        elif "expect" in step:
            expect = step["expect"]
            if isinstance(outcome, requests.Placed):
                place: Dict[str, Any] = {"duplicate": outcome.duplicate}
                if "same_as" in expect:
                    place["same_as"] = next(
                        name for name, id in self.named.items() if id == outcome.id
                    )
                assert place == {**place, **expect}, f"it was {place}"
            else:
                assert outcome == expect, f"it was {outcome!r}"

    # Steps.

    def _options(self, step: Mapping[str, Any]) -> Dict[str, Any]:
        other = ("do", "as", "queue", "job", "expect", "error", "background")
        options = {name: value for name, value in step.items() if name not in other}
        if "after" in options:
            options["after"] = [self.named[name] for name in options["after"]]
        return options

    def _do_put(self, step: Mapping[str, Any]) -> Any:
        placed = self.client.put(step["queue"], step["job"], **self._options(step))
        self.named.setdefault(step["as"], placed.id)
        return placed

    def _do_put_many(self, step: Mapping[str, Any]) -> int:
        puts = [requests.put(step["queue"], {"n": n}) for n in range(step["count"])]
        return len({place.id for place in self.client.put_many(puts)})

    def _do_get(self, step: Mapping[str, Any]) -> Any:
        job = self.client.get(*step["queues"], wait=step["wait"])
        if job is None:
            return None
        if "as" in step:
            self.named[step["as"]] = job
        return job.job

    def _do_get_many(self, step: Mapping[str, Any]) -> bool:
        found = []
        for _ in range(step["count"]):
            job = self.client.get(step["queue"])
            found.append(job.job["n"])
            job.done()
        return found == list(range(step["count"]))

    def _do_done(self, step: Mapping[str, Any]) -> None:
        self.named[step["job"]].done(step.get("result"))

    def _do_fail(self, step: Mapping[str, Any]) -> None:
        kind = type(step["error_name"], (Exception,), {})
        self.named[step["job"]].fail(
            kind(step["message"]), retry=step.get("retry", True), delay=step.get("delay")
        )

    def _do_release(self, step: Mapping[str, Any]) -> None:
        self.named[step["job"]].release()

    def _do_close(self, step: Mapping[str, Any]) -> None:
        self.named[step["job"]].close()

    def _do_touch(self, step: Mapping[str, Any]) -> Any:
        return self.named[step["job"]].touch()

    def _do_progress(self, step: Mapping[str, Any]) -> Any:
        return self.named[step["job"]].progress(step["part"], step.get("message"))

    def _do_cancel(self, step: Mapping[str, Any]) -> Any:
        return self.client.cancel(self.named[step["job"]])

    def _do_delete(self, step: Mapping[str, Any]) -> Any:
        return self.client.delete(self.named[step["job"]])

    def _do_kick(self, step: Mapping[str, Any]) -> Any:
        return self.client.kick(self.named[step["job"]])

    def _do_peek(self, step: Mapping[str, Any]) -> Any:
        return _members(self.client.peek(self.named[step["job"]]), step["expect"])

    def _do_until(self, step: Mapping[str, Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._do_peek(step)
            if found == step["expect"] or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def _do_result(self, step: Mapping[str, Any]) -> Any:
        return self.client.result(self.named[step["job"]], step["timeout"])

    def _do_count(self, step: Mapping[str, Any]) -> Any:
        return self.client.stats(step["queue"])["counts"][step["state"]]

    def _do_drain(self, step: Mapping[str, Any]) -> None:
        self.client.request({"request": "drain", "on": step["on"]})

    def _do_lose_answer(self, step: Mapping[str, Any]) -> None:
        assert self.proxy is not None
        self.proxy.lose_answer()

    def _do_kill_server(self, step: Mapping[str, Any]) -> None:
        self.server.kill()

    def _do_start_server(self, step: Mapping[str, Any]) -> None:
        self.server.start()


def _members(found: Any, expect: Any) -> Any:
    """Of a job the members that are expected, and of those the same."""
    if not isinstance(found, dict) or not isinstance(expect, dict):
        return found
    return {name: _members(found.get(name, NOTHING), value) for name, value in expect.items()}
