"""Queries and polls: what they find, what is refused, and that no client gets a job twice."""

import json
import threading
import time
from collections import Counter

import httpx
import pytest
from server import LARGE, PATIENCE, Server

# (state, payload) of the jobs that the queries below are asked of.
JOBS = [
    (["CREATED"], {"name": "one", "n": 1, "text": "select * from j; drop table j"}),
    (None, {"name": "two", "n": 2.5}),
    ("CREATED", None),
    ({"b": 1, "a": "é"}, [1, 2, 3]),
    (7, "plain"),
]

FOUND = [
    ([], [0, 1, 2, 3, 4]),
    ([["IS", "json_extract(state, '$[0]')", "CREATED"]], [0]),
    ([["IS", "j.state", None]], [1]),
    ([["IS NOT", "j.state", None]], [0, 2, 3, 4]),
    ([["IS", "payload", None]], [2]),
    ([["=", "state", 7]], [4]),
    ([["=", "state", "'7'"]], [4]),
    ([["=", "j.state ->> '$'", "CREATED"]], [2]),
    ([["=", "STATE", "'\"CREATED\"'"]], [2]),
    ([["=", "J.State", "'{\"a\":\"é\",\"b\":1}'"]], [3]),
    ([["=", "json_extract(state,'$.a')", "é"]], [3]),
    ([["LIKE", "payload", "'%SELECT%drop table%'"]], [0]),
    ([["LIKE", "json_extract(payload, '$.name')", "'t%'"]], [1]),
    ([["IS", "select", "'select'"]], [0, 1, 2, 3, 4]),
    ([["=", "json_type(payload)", "object"]], [0, 1]),
    ([[">", "json_extract(payload,'$.n')", 1]], [1]),
    ([[">=", "json_extract(payload,'$.n')", 1], ["<", "json_extract(payload,'$.n')", 2]], [0]),
    ([["<=", "json_extract(payload,'$.n')", 1e0]], [0]),
    ([["!=", "json_extract(payload,'$.n')", 1]], [1]),
    ([["=", True, 1]], [0, 1, 2, 3, 4]),
    ([["=", False, True]], []),
    ([["=", None, None]], []),
    ([["IS", None, None]], [0, 1, 2, 3, 4]),
    ([["=", "json_array_length(events)", 1]], [0, 1, 2, 3, 4]),
    ([["=", "json_extract(events, '$[0][0]')", "job_created"]], [0, 1, 2, 3, 4]),
    ([["<", "abs(modified - unixepoch())", 3600]], [0, 1, 2, 3, 4]),
    ([["=", "pri", 0]], [0, 1, 2, 3, 4]),
    ([["IS", "queue", "j.queue"]], [0, 1, 2, 3, 4]),
    ([["=", "payload ->> 'name' IN ('one', 'two')", 1]], [0, 1]),
    ([["=", "state", {"value": 7}]], [4]),
    ([["IS", "state", {"value": ["CREATED"]}]], [0]),
    ([["=", {"value": [ "CREATED" ]}, "j.state"]], [0]),
    ([["IS", "state", "CREATED"]], [2]),
    ([["=", "CREATED", "state"]], [2]),
    ([["=", "state", {"value": "CREATED"}]], [2]),
    ([["=", "state", {"value": {"a": "é", "b": 1}}]], [3]),
    ([["IS", "state", {"value": None}]], [1]),
    ([["=", "payload", "plain"]], [4]),
    ([["=", "payload", {"value": "plain"}]], [4]),
    ([["IS", "payload", {"value": None}]], [2]),
    ([["=", "payload", {"value": {"n": 2.50, "name": "two"}}]], [1]),
    ([["=", "payload", {"value": [1, 2, 3]}]], [3]),
    ([["=", "payload ->> 'name'", {"value": "one"}]], [0]),
    ([["=", "payload ->> 'text'", {"value": "select * from j; drop table j"}]], [0]),
    ([["GLOB", "payload ->> 'name'", "'[n-p]*e'"]], [0]),
    ([["GLOB", "payload ->> 'name'", {"value": "?w?"}]], [1]),
    ([["IS", "payload GLOB '*[0-9]*'", 1], ["LIKE", "payload", {"value": "%select%"}]], [0]),
    ([["IS", "CASE WHEN state IS NULL THEN 'x' ELSE 'y' END", "x"]], [1]),
]

# Neither does anything, nor is it an expression: (text, what is said of it).
ATTACKS = [
    "(SELECT 1)", "1 OR (SELECT 1)", "EXISTS(SELECT 1)", "id IN (SELECT 1)", "id IN j",
    "(VALUES(1))", "1) OR (1", "1)) OR ((1", "1) UNION SELECT 1 --", "1)--", "1) /*", "/*", "--",
    "", "1 --\n) OR (1", "'", "1; SELECT 1", "1; DROP TABLE j", "1;", ";", "PRAGMA database_list",
    "ATTACH 'x' AS y", "1 ORDER BY 1", "1 LIMIT 1", "1, 2", "(1, 2)", "1 AS x", "*", "j.*",
    "1), CHECK(1", "?", "?1", ":a", "@a", "$a", "count(*)", "max(id)", "json_group_array(id)",
    "row_number() OVER ()", "RAISE(IGNORE)", "load_extension('x')", "readfile('/etc/passwd')",
    "writefile('x', 'y')", "randomblob(9)", "sqlite_version()", "payload REGEXP 'x'",
    "payload MATCH 'x'", '"select"', "j.rowid", "main.j.id", "sqlite_schema.sql",
    "id COLLATE foreign_one", "1\0 OR 1", "\0", "1 +", "((1)", "x'0'", "nothing.id", "no_such(1)",
    "json_extract(payload, 'path')", "json_each(payload)", "(" * 5000 + "1" + ")" * 5000,
    "1" + "+1" * 50000, "'" + "x" * 300_000 + "'", "\ufffe;", "';--",
]

# What is no list of triples at all.
SHAPES = [
    None, {}, "state", 1, [1], ["IS", "state", None], [["IS", "state"]], [[]],
    [["IS", "state", None, None]], [["is", "state", None]], [["LIKE ", "state", "x"]],
    [["REGEXP", "state", "x"]], [["= 1 OR 1 =", "state", 1]], [[None, "state", 1]],
    [["IS", "state", []]], [["IS", {}, None]], [["IS", "state", {"values": 1}]],
    [["IS", "state", {"value": 1, "more": 2}]], [["IS", "state", "a"], []],
]


@pytest.fixture
def jobs(api, queue):
    return [
        api.post(f"{queue}/job", {"payload": payload, "state": state})["id"]
        for state, payload in JOBS
    ]


def test_what_queries_find(api, queue, jobs):
    for query, expected in FOUND:
        found = api.post(f"{queue}/query_jobs", {"query": query})["jobs"]
        assert [job["id"] for job in found] == [jobs[n] for n in expected], query
        assert [(job["state"], job["payload"]) for job in found] == [JOBS[n] for n in expected]


def test_a_poll_takes_the_first_that_matches(api, queue, jobs):
    for query, expected in FOUND:
        before = api.post(f"{queue}/query_jobs", {})["jobs"]
        matching = api.post(f"{queue}/query_jobs", {"query": query})["jobs"]
        if not matching:
            api.post(f"{queue}/poll_job", {"query": query, "state": "x"}, 404)
            assert api.post(f"{queue}/query_jobs", {})["jobs"] == before
            continue
        first = matching[0]
        job = api.post(f"{queue}/poll_job", {"query": query, "state": {"y": 1, "x": 2}})
        assert (job["id"], job["state"]) == (first["id"], {"x": 2, "y": 1}), query
        tag, fields = job["events"][-1]
        assert tag == "job_state_advanced" and len(job["events"]) == len(first["events"]) + 1
        assert (fields["old"], fields["new"]) == (first["state"], {"x": 2, "y": 1})
        # Back to how it was, so that the next one finds what it is said to find.
        api.delete(f"{queue}")
        name = queue.removeprefix("/queue/")
        api.post("/queue", {"id": name}, 201)
        for state, payload in JOBS:
            api.post(f"{queue}/job", {"payload": payload, "state": state})


def test_attacks_are_refused_and_change_nothing(api, queue, jobs):
    before = api.post(f"{queue}/query_jobs", {})
    for attack in ATTACKS:
        for term in [["=", attack, 1], ["IS", None, attack]]:
            for path, more in [("query_jobs", {}), ("poll_job", {"state": "stolen"})]:
                said = api.post(f"{queue}/{path}", {"query": [term], **more}, 400)["error"]
                assert "panic" not in said
    for shape in SHAPES:
        api.post(f"{queue}/query_jobs", {"query": shape}, 400)
        api.post(f"{queue}/poll_job", {"query": shape, "state": "stolen"}, 400)
    for text in ['{"query":[["IS","\\ud800",null]]}', '{"query":[["IS","state",null]],}',
                 '{"query":[["IS","state",nul]]}', '{"query":[["IS","state",1e]]}']:
        api.raw(f"{queue}/query_jobs", text, 400)
    assert api.post(f"{queue}/query_jobs", {}) == before
    api.post(f"{queue}/query_jobs", {"query": [["IS", "id", None]] * 1000}, 400)


def test_errors_say_how_to_write_a_text(api, queue, jobs):
    for text in ["ann@example.com", "2026-11-22", "in-progress"]:
        query = {"query": [["=", "payload ->> 'name'", text]]}
        said = api.post(f"{queue}/query_jobs", query, 400)["error"]
        assert f'write {{"value": "{text}"}} for ' in said
        query = {"query": [["!=", "payload ->> 'name'", {"value": text}]]}
        assert len(api.post(f"{queue}/query_jobs", query)["jobs"]) == 2


def test_what_takes_too_long_is_stopped(binary):
    server = Server(binary, arguments=["--query-timeout", "100ms"])
    with httpx.Client(base_url=server.http + "/api/v0", timeout=PATIENCE) as client:
        for n in range(600):
            client.post("/job/create", json={"payload": n})
        work = "+".join(["length(hex(zeroblob(20000 + id)))"] * 40)
        slow = {"query": [["IS", work, None]]}
        for path in ["/job", "/job/poll"]:
            answer = client.post(path, json=slow)
            assert answer.status_code == 400, answer.text
            assert "100" in answer.json()["error"] and "query-timeout" in answer.json()["error"]
        # No request waits for clients that are gone.
        text = json.dumps(slow).encode()
        head = b"POST /api/v0/job/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        for _ in range(5):
            with server.socket() as sock:
                sock.sendall(head % len(text) + text)
        # And what comes behind it is answered, at once or when processors are free.
        end = time.monotonic() + PATIENCE
        while True:
            answer = client.post("/job", json={"query": [["=", "payload", 7]]})
            if answer.status_code == 200 or time.monotonic() > end:
                break
            time.sleep(0.05)
        [job] = answer.json()["jobs"]
        assert (job["state"], len(job["events"])) == (None, 1)
    server.stop()


POLLERS, JOBS_TO_POLL = 8, 2000 if LARGE else 400


@pytest.mark.parametrize("query", [
    [["IS", "j.state", None]],
    [["IS", "j.state", None], ["=", "id % 1", 0]],
    [["=", "coalesce(json_extract(state, '$[0]'), 'NEW')", "NEW"]],
])
def test_no_client_gets_a_job_twice(server, api, queue, query):
    made = set()

    def together(work):
        failures = []

        def guarded(number):
            try:
                with httpx.Client(base_url=server.http + "/api/v0", timeout=PATIENCE) as client:
                    work(number, client)
            except Exception as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(n,)) for n in range(POLLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]

    def put(number, client):
        for n in range(JOBS_TO_POLL // POLLERS):
            answer = client.post(f"{queue}/job", json={"payload": [number, n]})
            assert answer.status_code == 200, answer.text
            made.add(answer.json()["id"])

    got = {number: [] for number in range(POLLERS)}

    def poll(number, client):
        while True:
            body = {"query": query, "state": ["ASSIGNED", number]}
            answer = client.post(f"{queue}/poll_job", json=body)
            if answer.status_code == 404:
                return
            assert answer.status_code == 200, answer.text
            job = answer.json()
            assert job["state"] == ["ASSIGNED", number] and len(job["events"]) == 2
            got[number].append(job["id"])

    together(put)
    together(poll)
    assert len(made) == JOBS_TO_POLL
    times = Counter(job for jobs in got.values() for job in jobs)
    assert set(times) == made and set(times.values()) == {1}
    owners = {job: number for number, jobs in got.items() for job in jobs}
    listed = api.get(f"{queue}/job")["jobs"]
    assert {job["id"]: job["state"] for job in listed} == {
        job: ["ASSIGNED", number] for job, number in owners.items()
    }
