"""HTTP itself: bodies in chunks, connections that are kept, methods, limits, bad shapes."""

import http.client
import json
import re
import socket

import httpx
import pytest
from server import PATIENCE, exchange

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def responses(text):
    """Takes apart what came over a connection: (status, headers, body) of each answer."""
    found, sock = [], Replayed(text)
    while sock.left():
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        body = answer.read()
        found.append((answer.status, {k.lower(): v for k, v in answer.getheaders()}, body))
    return found


class Replayed:
    """As much of a socket as http.client reads answers from."""

    def __init__(self, text):
        import io
        self.file = io.BytesIO(text)
        self.file.close = lambda: None

    def makefile(self, _mode):
        return self.file

    def left(self):
        return self.file.tell() < len(self.file.getvalue())


def test_bodies_in_chunks(server):
    connection = http.client.HTTPConnection(*server.addresses["http"], timeout=PATIENCE)
    for pieces in [[b"{", b'"pay', b'load"', b":[1", b",2]}"], [b'{"payload":[1,2]}'],
                   [b'{"payload":[1,2]}'[n:n + 1] for n in range(17)]]:
        connection.request("POST", "/api/v0/job/create", iter(pieces), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["payload"]) == (200, [1, 2])
    text = "y" * 900_000

    def body():
        yield b'{"payload":"'
        for start in range(0, len(text), 10_000):
            yield text[start:start + 10_000].encode()
        yield b'"}'

    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        made = client.post("/api/v0/job/create", content=body())
        assert made.status_code == 200 and made.request.headers["transfer-encoding"] == "chunked"
        assert client.get(f"/api/v0/job/{made.json()['id']}").json()["payload"] == text
        client.delete(f"/api/v0/job/{made.json()['id']}")
    connection.close()


def test_a_body_too_long_is_refused(server, api):
    for size, status in [((1 << 20) + 65_536, 200), ((1 << 20) + 65_537, 413)]:
        body = b'{"payload":"' + b"z" * (size - 14) + b'"}'
        length = f"Content-Length: {len(body)}\r\nConnection: close".encode()
        for headers, framed in [(length, body), (
            b"Transfer-Encoding: chunked\r\nConnection: close",
            b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n",
        )]:
            head = b"POST /api/v0/job/create HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n"
            [(said, _, text)] = responses(exchange(server, head + framed, shut=False))
            assert said == status, text
            if status == 200:
                api.delete(f"/job/{json.loads(text)['id']}")
            else:
                assert "error" in json.loads(text)


def test_expect(server):
    body = b'{"limit":0}'
    head = (b"POST /api/v0/job HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body))
    with server.socket() as sock, sock.makefile("rb") as file:
        sock.sendall(head)
        assert file.readline() == b"HTTP/1.1 100 Continue\r\n" and file.readline() == b"\r\n"
        sock.sendall(body)
        [(status, _, text)] = responses(file.read())
        assert (status, text) == (200, b'{"jobs":[]}\n')
    for refused, status in [
        (head.replace(b"/api/v0/job", b"/nothing"), 404),
        (head.replace(b"Length: 11", b"Length: 99999999"), 413),
        (head.replace(b"100-continue", b"200-ok"), 417),
    ]:
        [(said, headers, _)] = responses(exchange(server, refused, shut=False))
        assert (said, headers["connection"]) == (status, "close")


def test_connections_are_kept(server):
    connection = http.client.HTTPConnection(*server.addresses["http"], timeout=PATIENCE)
    connection.connect()
    first = connection.sock
    for method, path, body, status in [
        ("GET", "/health", None, 200), ("HEAD", "/health", None, 200), ("GET", "/no", None, 404),
        ("POST", "/api/v0/job", "{}", 200), ("POST", "/api/v0/job", "{", 400),
        ("OPTIONS", "/api/v0/job", None, 204), ("DELETE", "/health", None, 405),
        ("GET", "/api/v0/queue", "a body that is not read", 200), ("POST", "/no", "x" * 999, 404),
        ("HEAD", "/api/v0/job", None, 200),
    ] * 30:
        connection.request(method, path, body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, (method, path)
        assert connection.sock is first, "the server closed the connection"
    connection.request("GET", "/health", headers={"Connection": "close"})
    assert connection.getresponse().getheader("connection") == "close"
    assert first.recv(1) == b"" if first.fileno() >= 0 else True
    connection.close()


@pytest.mark.parametrize("path", [
    "/health", "/openapi.json", "/api/v0/queue", "/api/v0/job", "/nothing",
])
def test_head_is_get_without_the_body(server, path):
    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        get, head = client.get(path), client.head(path)
    assert get.content and not head.content and get.status_code == head.status_code
    kept = [{k: v for k, v in answer.headers.items() if k != "date"} for answer in (get, head)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("path, allow", [
    ("/health", "GET, HEAD, OPTIONS"),
    ("/metrics", "GET, HEAD, OPTIONS"),
    ("/openapi.json", "GET, HEAD, OPTIONS"),
    ("/api/v0/queue", "GET, HEAD, POST, OPTIONS"),
    ("/api/v0/queue/q", "DELETE, OPTIONS"),
    ("/api/v0/queue/q/job", "GET, HEAD, POST, OPTIONS"),
    ("/api/v0/queue/q/query_jobs", "POST, OPTIONS"),
    ("/api/v0/queue/q/poll_job", "POST, OPTIONS"),
    ("/api/v0/queue/q/job/1", "GET, HEAD, DELETE, OPTIONS"),
    ("/api/v0/queue/q/job/1/state", "POST, OPTIONS"),
    ("/api/v0/queue/q/job/1/event", "POST, OPTIONS"),
    ("/api/v0/job", "GET, HEAD, POST, OPTIONS"),
    ("/api/v0/job/create", "POST, OPTIONS"),
    ("/api/v0/job/poll", "POST, OPTIONS"),
    ("/api/v0/job/1", "GET, HEAD, DELETE, OPTIONS"),
])
def test_methods(server, path, allow):
    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        answer = client.options(path)
        assert (answer.status_code, answer.headers["allow"], answer.content) == (204, allow, b"")
        for method in ["GET", "POST", "DELETE", "PUT", "PATCH", "TRACE", "BREW"]:
            answer = client.request(method, path, content=b"[")
            if method in allow.split(", "):
                assert answer.status_code != 405
            else:
                assert (answer.status_code, answer.headers["allow"]) == (405, allow), method
                assert "error" in answer.json()
        assert client.options("/nothing").status_code == 404
    # Methods are told apart by case, and httpx writes them in capitals.
    lower = HEALTH.replace(b"GET", b"get").replace(b"/health", path.encode())
    [(status, headers, _)] = responses(exchange(server, lower))
    assert (status, headers["allow"]) == (405, allow)


def test_pipelined_requests_are_answered_in_order(server):
    parts = [HEALTH, HEALTH.replace(b"/health", b"/nothing"),
             b"POST /api/v0/job HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n{\"limit\":0}",
             HEALTH.replace(b"GET", b"DELETE")]
    found = responses(exchange(server, b"".join(parts * 100)))
    assert [status for status, _, _ in found] == [200, 404, 200, 405] * 100
    # Cut at every byte.
    request = parts[2] + HEALTH
    with server.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            sock.sendall(bytes([byte]))
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as file:
            assert [status for status, _, _ in responses(file.read())] == [200, 200]


def test_versions(server):
    [(status, headers, _)] = responses(exchange(server, b"GET /health HTTP/1.0\r\n\r\n", False))
    assert status == 200 and "transfer-encoding" not in headers
    kept = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    found = responses(exchange(server, kept * 2))
    assert [headers["connection"] for _, headers, _ in found] == ["keep-alive"] * 2
    for version, expected in [(b"HTTP/2.0", 505), (b"HTTP/1.2", 505), (b"HTTP/9", 400), (b"", 400)]:
        sent = HEALTH.replace(b"HTTP/1.1", version)
        [(status, headers, _)] = responses(exchange(server, sent, False))
        assert (status, headers["connection"]) == (expected, "close"), version
    listed = exchange(server, b"POST /api/v0/job HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", False)
    [(status, headers, body)] = responses(listed)
    assert status == 200 and "jobs" in json.loads(body) and "transfer-encoding" not in headers


def post(headers, body=b"{}"):
    return b"POST /api/v0/job HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + body


# Two readers could understand these differently, so they end the connection.
SMUGGLED = [
    post(b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    post(b"Transfer-Encoding: chunked\r\nContent-Length: 2", b"0\r\n\r\n"),
    post(b"Content-Length: 2\r\nContent-Length: 2"),
    post(b"Content-Length: 2\r\nContent-Length: 3"),
    post(b"Content-Length: 2, 2"),
    post(b"Content-Length: +2"),
    post(b"Content-Length: -2"),
    post(b"Content-Length: 0x2"),
    post(b"Content-Length: 2 2"),
    post(b"Content-Length: 2.0"),
    post(b"Content-Length:"),
    post(b"Content-Length : 2"),
    post(b"Content-Length: 2\r\n folded: 1"),
    post(b"X: a\r\n\tb\r\nContent-Length: 2"),
    post(b"Transfer-Encoding : chunked", b"0\r\n\r\n"),
    post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"0\r\n\r\n"),
    post(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n"),
    post(b"Content-Length: 2\nX: y"),
    post(b"Content-Length: 2\rX: y"),
    post(b"Content-Length: 2\x00"),
    post(b"X: y\x00z\r\nContent-Length: 2"),
    post(b"Content-Length: 2\r\nHost: y"),
    post(b"Host\x00: y\r\nContent-Length: 2"),
    post(b"(bad): y\r\nContent-Length: 2"),
    post(b": y\r\nContent-Length: 2"),
    post(b"no colon\r\nContent-Length: 2"),
    *(post(b"Transfer-Encoding: chunked", body) for body in [
        b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n", b"2\r\n{}\r\n0\n\n",
        b"0x2\r\n{}\r\n0\r\n\r\n", b"+2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n",
        b" 2\r\n{}\r\n0\r\n\r\n", b"2 2\r\n{}\r\n0\r\n\r\n", b"2g\r\n{}\r\n0\r\n\r\n",
        b"\r\n{}\r\n0\r\n\r\n", b"1\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\nno field\r\n\r\n",
        b"00000000000000002\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n: x\r\n\r\n",
        b"2;a\x00\r\n{}\r\n0\r\n\r\n", b"2;a\n\r\n{}\r\n0\r\n\r\n",
    ]),
    HEALTH.replace(b"\r\n", b"\n"),
    HEALTH.replace(b"Host: localhost\r\n", b""),
    HEALTH.replace(b"GET ", b"GET  "),
    HEALTH.replace(b"/health ", b"/health\t"),
    HEALTH.replace(b"/health", b"/hea lth"),
    HEALTH.replace(b"/health", b"/h\xc3\xa9"),
    HEALTH.replace(b"GET", b"G\x00T"),
    b" " + HEALTH,
    HEALTH.replace(b"Host:", b" Host:"),
    b"HTTP/1.1 200 OK\r\n\r\n",
    b'{"request":"get","queues":["default"]}\n',
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", SMUGGLED)
def test_what_can_be_understood_in_two_ways_ends_the_connection(server, request_bytes):
    """One answer, 400, and what comes behind is no request. We do not close: the server does."""
    behind = b"DELETE /api/v0/queue/default HTTP/1.1\r\nHost: localhost\r\n\r\n"
    found = responses(exchange(server, request_bytes + behind, shut=False))
    [(status, headers, body)] = found
    assert (status, headers["connection"]) == (400, "close"), found
    assert len(json.loads(body)["error"]) > 5


def test_other_refusals_that_end_the_connection(server):
    fields = b"".join(b"X-%d: y\r\n" % n for n in range(65))
    for request, expected in [
        (post(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"), 501),
        (post(b"Transfer-Encoding: xchunked", b"0\r\n\r\n"), 501),
        (HEALTH.replace(b"Host: localhost\r\n", b"Host: localhost\r\n" + fields), 431),
        (HEALTH.replace(b"Host: localhost", b"Host: localhost\r\nX: " + b"y" * 17_000), 431),
        (HEALTH.replace(b"/health", b"/" + b"y" * 9000), 414),
        (HEALTH.replace(b"/health", b"/" + b"y" * 20_000), 414),
        (b"A" * 20_000, 414),
    ]:
        [(status, headers, body)] = responses(exchange(server, request, shut=False))
        assert (status, headers["connection"]) == (expected, "close"), body


def test_what_is_refused_and_goes_on(server):
    found = responses(exchange(server, b"".join([
        b"POST /api/v0/job HTTP/1.1\r\nHost: localhost\r\n\r\n",
        post(b"Content-Encoding: gzip\r\nContent-Length: 2"),
        HEALTH.replace(b"/health", b"*"), HEALTH.replace(b"/health", b"health"), HEALTH,
    ])))
    assert [status for status, _, _ in found] == [411, 415, 404, 400, 200]


def test_an_answer_says_what_it_is(server):
    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        for path in ["/health", "/api/v0/job", "/nothing"]:
            answer = client.get(path, headers={"Accept": "text/html"})
            assert answer.http_version == "HTTP/1.1"
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["date"].endswith(" GMT")
        assert client.get("/health").json()["status"] == "ok"


def test_figures(server, api, queue):
    name = queue.removeprefix("/queue/")
    for n in range(3):
        api.post(f"{queue}/job", {"payload": n})
    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        answer = client.get("/metrics")
        asked = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith(
        "text/plain; version=0.0.4"
    )
    assert asked.headers["content-type"].startswith("application/openmetrics-text")
    assert asked.text.endswith("\n# EOF\n") and "# EOF" not in answer.text
    figure = r'[a-z_]+(\{([a-z_]+="([^"\\]|\\.)*",?)+\})? -?[0-9.e+-]+|\S+ \+Inf'
    lines = answer.text.splitlines()
    for line in lines:
        assert line.startswith("# ") or re.fullmatch(figure, line), line
    ready = [line for line in lines if f'"{name}"' in line and "ready" in line]
    assert any(line.endswith(" 3") for line in ready), ready


def test_half_a_request_is_none(server):
    body = b'{"payload":1}'
    with httpx.Client(base_url=server.http, timeout=PATIENCE) as client:
        before = client.get("/api/v0/job").json()
        whole = (b"POST /api/v0/job/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                 % len(body)) + body
        for end in range(len(whole)):
            assert exchange(server, whole[:end]) == b"", whole[:end]
        assert client.get("/api/v0/job").json() == before
