"""The parts without I/O: addresses, lines, errors by kind, retries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict

import pytest

from jobcentre import Retry, RetryIn, address, errors, protocol, requests
from jobcentre.retry import NoRetry, failure_of


TABLE = json.loads(
    (Path(__file__).parents[2] / "scenarios" / "addresses.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", TABLE["accepted"], ids=lambda case: str(case["url"]))
def test_address_is_parsed_as_by_all_clients(case: Dict[str, str]) -> None:
    found = address.parse(case["url"])
    assert str(found) == case["address"]
    for name in ("token", "ca", "cert", "key", "server_name"):
        assert getattr(found, name) == case.get(name), name
    assert found.token is None or found.token not in repr(found)


@pytest.mark.parametrize("case", TABLE["refused"], ids=lambda case: str(case["url"]))
def test_wrong_address_is_a_value_error_without_its_token(case: Dict[str, str]) -> None:
    with pytest.raises(ValueError) as caught:
        address.parse(case["url"])
    assert case["says"] in str(caught.value)
    assert "secret" not in str(caught.value)


def test_token_is_found_and_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOBCENTRE_TOKEN", "of-environment")
    monkeypatch.setenv("JOBCENTRE_URL", "jobcentre://:of-url@h")
    assert address.resolve().token == "of-url"
    assert address.resolve(token="given").token == "given"
    assert address.resolve("jobcentre://h").token == "of-environment"
    file = tmp_path / "token"
    file.write_text("of-file\n")
    assert address.resolve(f"jobcentre://h?token_file={file}").token == "of-file"
    found = address.parse("jobcentre://:s3cret@h")
    assert "s3cret" not in repr(found) + str(found)
    with pytest.raises(ValueError) as caught:
        address.parse("jobcentre://:s3cret@h:99999")
    assert "s3cret" not in str(caught.value)


def test_answers_arrive_in_any_pieces() -> None:
    text = b"".join(b'{"status":"ok","id":%d}\n' % n for n in range(50))
    for size in (1, 2, 7, 24, 1000, len(text)):
        pipeline: protocol.Pipeline[int] = protocol.Pipeline()
        for n in range(50):
            pipeline.push(n)
        found = []
        for start in range(0, len(text), size):
            found += pipeline.feed(text[start : start + size])
        assert found == [(n, {"status": "ok", "id": n}) for n in range(50)]
        assert len(pipeline) == 0


def test_other_servers_are_recognised() -> None:
    pipeline: protocol.Pipeline[int] = protocol.Pipeline()
    pipeline.push(1)
    with pytest.raises(errors.BadAnswer, match="HTTP/1.1 400"):
        pipeline.feed(b"HTTP/1.1 400 Bad Request\r\n")
    for line in (b"[1]", b"{}", b"\xff", b"1"):
        with pytest.raises(errors.BadAnswer):
            protocol.decode(line)


def test_answer_without_a_request_is_an_error() -> None:
    pipeline: protocol.Pipeline[int] = protocol.Pipeline()
    pipeline.push(1)
    with pytest.raises(errors.BadAnswer):
        pipeline.feed(b'{"status":"ok"}\n{"status":"ok"}\n')


def test_request_is_one_line_of_ascii() -> None:
    line = protocol.encode(requests.put("q\n", {"text": "ü\n\u2028"}, safe=False))
    assert line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii()
    assert json.loads(line)["job"] == {"text": "ü\n\u2028"}
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            protocol.encode({"request": "put", "job": value})
    with pytest.raises(TypeError):
        protocol.encode({"request": "put", "job": object()})


def test_times_are_milliseconds() -> None:
    request = requests.put("q", {}, delay=1.5, ttl=0.0001, ttr=None, keep_result=60, safe=False)
    assert (request["delay"], request["ttl"], request["keep_result"]) == (1500, 1, 60_000)
    assert "ttr" not in request and "key" not in request
    with pytest.raises(ValueError):
        requests.put("q", {}, delay=-1)


def test_drawn_keys_differ_and_are_no_duplicates() -> None:
    one, other = requests.put("q", {}), requests.put("q", {})
    assert one["key"] != other["key"] and one["key_ttl"] == 60_000
    assert not requests.placed(one, {"id": 1, "duplicate": True}).duplicate
    own = requests.put("q", {}, key="put")
    assert requests.placed(own, {"id": 1, "duplicate": True}).duplicate


def test_backoff_doubles_up_to_the_most() -> None:
    backoff = protocol.Backoff(1.0, 8.0)
    for whole in (1, 2, 4, 8, 8, 8):
        assert whole / 2 <= backoff.next() <= whole
    backoff.reset()
    assert backoff.next() <= 1


def test_what_is_repeated_after_a_loss() -> None:
    lost, refused = errors.AnswerLost("lost"), errors.ConnectionLost("refused")
    done = requests.done(1)
    attempts = protocol.Attempts(protocol.Deadline(60))
    assert attempts.pause_after(refused, [done]) > 0
    with pytest.raises(errors.AnswerLost):
        attempts.pause_after(lost, [requests.put("q", {}), done])
    assert attempts.pause_after(lost, [requests.put("q", {})]) > 0
    with pytest.raises(errors.AnswerLost):
        attempts.pause_after(lost, [requests.put("q", {}, safe=False)])
    # The end of the time says whether the request may have been executed.
    over = protocol.Attempts(protocol.Deadline(0))
    with pytest.raises(errors.ConnectionLost):
        over.pause_after(refused, [done])
    with pytest.raises(errors.RequestTimeout):
        over.pause_after(lost, [done])
    with pytest.raises(errors.RequestTimeout):
        over.pause_after(refused, [done])
    with pytest.raises(errors.Untrusted):
        attempts.pause_after(errors.Untrusted("no"), [requests.put("q", {})])


def test_second_job_under_an_own_key_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    attempts = protocol.Attempts(protocol.Deadline(60))
    attempts.pause_after(errors.AnswerLost("lost"), [requests.put("q", {}, key="k", key_ttl=5)])
    assert not caplog.records
    attempts.pause_after(errors.AnswerLost("lost"), [requests.put("q", {}, key="k")])
    assert "'k'" in caplog.text


def test_failures_by_policy() -> None:
    policy = Retry(3, on=(OSError,))
    assert failure_of(FileNotFoundError("x"), policy) == ("FileNotFoundError", "x", True, None)
    assert not failure_of(KeyError("x"), policy).retry
    assert not failure_of(NoRetry("x"), Retry()).retry
    assert failure_of(RetryIn(5), Retry(on=())).delay == 5
    assert Retry(8, base=2, most=60, fixed=True).backoff() == {
        "kind": "fixed",
        "first_ms": 2000,
        "max_ms": 60_000,
        "jitter": 0.2,
    }
    with pytest.raises(ValueError):
        Retry(0)
    with pytest.raises(ValueError):
        Retry(1, base=10, most=1)
