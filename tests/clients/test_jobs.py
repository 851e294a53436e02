"""Queues, jobs, states and events: every row of the page, and what is decided in it."""

import json
import time
from urllib.parse import quote

import httpx
import pytest

# Texts of JSON, as they are to be kept and as they are as states.
VALUES = [
    "null", "true", "0", "-0", "0.10", "1e400", "12345678901234567890123", '""', '"\\u0061"', "[]",
    "{}", '{"b": 1, "a": [null, {"x": " "}]}', '"\\ud83d\\ude00 \\u0000"', '["CREATED"]',
]


def events_of(job):
    """The events without their timestamps, which are looked at here."""
    tags = []
    for tag, fields in job["events"]:
        moment = fields.pop("timestamp")
        assert isinstance(moment, str) and moment.isascii() and moment.isdigit()
        assert abs(int(moment) - time.time()) < 3600 and int(moment) <= job["modified"]
        tags.append((tag, fields))
    return tags


def ids(answer):
    return [job["id"] for job in answer["jobs"]]


def test_queues(api):
    before = api.get("/queue")["queues"]
    assert all(sorted(entry) == ["id", "jobs"] for entry in before)
    assert "default" in [entry["id"] for entry in before]
    assert api.post("/queue", {"id": "new"}, 201) == {"id": "new"}
    api.post("/queue", {"id": "new"}, 409)
    made = api.raw("/queue", "{}", 201)["id"]
    other = api.raw("/queue", " {} ", 201)["id"]
    assert made and other and made != other
    api.post("/queue/new/job", {"payload": 1})
    sizes = {entry["id"]: entry["jobs"] for entry in api.get("/queue")["queues"]}
    assert (sizes["new"], sizes[made], sizes[other]) == (1, 0, 0)
    for name, jobs in [("new", 1), (made, 0), (other, 0)]:
        assert api.delete(f"/queue/{name}") == {"deleted": jobs}
        api.delete(f"/queue/{name}", 404)
        api.get(f"/queue/{name}/job", 404)


@pytest.mark.parametrize("body", [
    "", " ", "x", "[]", "null", '"q"', '{"id":""}', '{"id":1}', '{"id":null}', '{"id":["q"]}',
    '{"id":"\\ud800"}', '{"id":"q"', '{"id":"q"}}', "{'id':'q'}", '{"id":"a\nb"}', "\ufeff{}",
    '{"x":1}', '{"id":"q","x":1}', '{"id":"q","state":1}',
])
def test_what_is_no_queue(api, body):
    api.raw("/queue", body, 400)


def test_a_body_that_is_no_text(api):
    for body in [b"\xff", b'{"id":"\xff"}', b'{"id":"\xed\xa0\x80"}', b'{"id":"\xc0\xaf"}', b"\0"]:
        api.raw("/queue", body, 400)


def test_a_queue_goes_with_its_jobs_whatever_their_state(api, queue, job_centre):
    name = queue.removeprefix("/queue/")
    for state in [None, ["DONE"], "x"]:
        api.post(f"{queue}/job", {"payload": 1, "state": state})
    put = job_centre.ask("put", queue=name, pri=9, job={"n": 1})
    job_centre.ask("put", queue=name, pri=1, job={"n": 2}, delay=3_600_000)
    assert job_centre.ask("get", queues=[name])["id"] == put["id"]
    assert api.delete(queue) == {"deleted": 5}
    assert job_centre.ask("get", queues=[name]) == {"status": "no-job"}
    assert job_centre.ask("delete", id=put["id"]) == {"status": "no-job"}
    api.delete(queue, 404)


def test_the_queue_default_is_always_there(api):
    api.post("/queue", {"id": "default"}, 409)
    api.post("/queue/default/job", {"payload": 1})
    assert api.delete("/queue/default")["deleted"] >= 1
    assert api.get("/job") == {"jobs": []}
    assert "default" in [entry["id"] for entry in api.get("/queue")["queues"]]
    assert api.delete("/queue/default") == {"deleted": 0}


def test_a_job_from_its_creation_to_its_end(api, queue):
    job = api.post(f"{queue}/job", {"payload": {"a": [1]}, "state": ["CREATED"]})
    assert sorted(job) == ["events", "id", "modified", "payload", "state"]
    assert type(job["id"]) is int and type(job["modified"]) is int
    assert (job["payload"], job["state"]) == ({"a": [1]}, ["CREATED"])
    at = f"{queue}/job/{job['id']}"
    assert api.get(at) == job
    assert events_of(job) == [("job_created", {})]
    assert api.get(f"{queue}/job") == {"jobs": [{"id": job["id"], "state": ["CREATED"]}]}
    job = api.post(f"{at}/state", {"old": ["CREATED"], "new": {"b": 1, "a": 2}})
    assert job["state"] == {"a": 2, "b": 1}
    assert api.post(f"{at}/state", {"old": ["CREATED"], "new": 1}, 409)["state"] == job["state"]
    api.post(f"{at}/state", {"old": {"a": 2, "b": 1}, "new": None})
    job = api.post(f"{at}/event", {"event": ["mine"]})
    assert events_of(job) == [
        ("job_created", {}),
        ("job_state_advanced", {"old": ["CREATED"], "new": {"a": 2, "b": 1}}),
        ("job_state_advanced", {"old": {"a": 2, "b": 1}, "new": None}),
        ("user_event", {"event": {"event": ["mine"]}}),
    ]
    assert api.delete(at) == {}
    api.delete(at, 404)
    api.get(at, 404)
    api.raw(f"{at}/event", "1", 404)
    api.post(f"{at}/state", {"old": None, "new": 1}, 404)


@pytest.mark.parametrize("text", VALUES)
def test_a_payload_comes_back_as_it_was(api, server, queue, text):
    job = api.raw(f"{queue}/job", f'{{"payload":{text}}}')
    assert job["state"] is None
    at = f"{server.http}/api/v0{queue}/job/{job['id']}"
    assert f'"payload":{text},"events":' in httpx.get(at).text
    api.raw(f"{queue}/job/{job['id']}/event", text)
    assert f'["user_event",{{"event":{text},"timestamp":"' in httpx.get(at).text


@pytest.mark.parametrize("text", VALUES)
def test_any_value_is_a_state(api, queue, text):
    job = api.raw(f"{queue}/job", f'{{"state":{text},"payload":0}}')
    at = f"{queue}/job/{job['id']}/state"
    assert api.raw(at, f'{{"old":{text},"new":[{text}]}}')["state"] == [job["state"]]
    api.raw(at, f'{{"old":{text},"new":7}}', 409)
    api.raw(at, f'{{"old":[ {text} ],"new":7}}')


@pytest.mark.parametrize("shown, same, other", [
    ('{"a":1,"b":2}', ['{"b":2,"a":1}', ' { "b" : 2.0 , "a" : 1e0 } ', '{"a":9,"b":2,"a":1}'],
     ['{"a":1}', '{"a":1,"b":"2"}', '[["a",1],["b",2]]']),
    ("100", ["1e2", "100.0", "1000e-1"], ["100.00000000000000000001", '"100"', "-100"]),
    ("0", ["-0", "0.0", "0e99"], ["null", "false", '""']),
    ('"aé"', ['"\\u0061\\u00E9"'], ['"ae\u0301"', '"A\\u00e9"']),
    ("12345678901234567890.1", ["123456789012345678901e-1"], ["12345678901234567890.2"]),
])
def test_states_are_compared_as_values(api, queue, shown, same, other):
    made = api.raw(f"{queue}/job", f'{{"payload":0,"state":{same[0]}}}')
    at = f"{queue}/job/{made['id']}"
    for text in other:
        api.raw(f"{at}/state", f'{{"old":{text},"new":0}}', 409)
    for text in [shown, *same]:
        api.raw(f"{at}/state", f'{{"old":{text},"new":{text}}}')
        answer = api.client.get("/api/v0" + at)
        assert f'"state":{shown},"modified"' in answer.text, answer.text


def test_what_is_missing_is_said(api, queue):
    job = api.post(f"{queue}/job", {"payload": None})
    at = f"{queue}/job/{job['id']}"
    for path, body, member in [
        (f"{queue}/job", "{}", "payload"), (f"{queue}/job", '{"state":1}', "payload"),
        (f"{at}/state", '{"new":1}', "old"), (f"{at}/state", '{"old":null}', "new"),
    ]:
        assert member in api.raw(path, body, 400)["error"]
    for path in [f"{queue}/job", f"{at}/state", f"{at}/event", f"{queue}/query_jobs"]:
        for body in ["", "{", "nonsense", '{"a":1,}', "[1,]", "01", '"\t"', "{}{}", "NaN", "'x'"]:
            api.raw(path, body, 400)
    for path in [f"{queue}/job", f"{at}/state", f"{queue}/query_jobs", f"{queue}/poll_job"]:
        for body in ["[]", "null", '"x"', "7"]:
            api.raw(path, body, 400)
    assert api.get(at) == job


def test_what_is_not_there(api, queue):
    job = api.post(f"{queue}/job", {"payload": 1})
    jobs = f"{queue}/job/"
    other = f"/queue/default/job/{job['id']}"
    for path in ["/queue/none/job", f"/queue/none/job/{job['id']}", other,
                 f"{jobs}0", f"{jobs}{job['id'] + 10**6}", f"{jobs}{10**30}", f"{jobs}x",
                 f"{jobs}-1", f"{jobs}1.0", jobs, f"{jobs}{job['id']}/state/x", "", "/", "/queues",
                 "/queue/a/b/job"]:
        api.get(path, 404)
    api.get(queue, 405)
    api.post("/queue/none/job", {"payload": 1}, 404)
    api.post("/queue/none/query_jobs", {}, 404)
    api.post("/queue/none/poll_job", {}, 404)
    assert "none" not in [entry["id"] for entry in api.get("/queue")["queues"]]


def test_the_longest_untouched_comes_first(api, queue):
    made = [api.post(f"{queue}/job", {"payload": n})["id"] for n in range(6)]

    def next_second():
        begun = int(time.time())
        while int(time.time()) == begun:
            time.sleep(0.05)

    next_second()
    api.post(f"{queue}/job/{made[1]}/event", "a user's event counts")
    next_second()
    api.post(f"{queue}/job/{made[0]}/state", {"old": None, "new": None})
    expected = made[2:] + [made[1], made[0]]
    assert ids(api.get(f"{queue}/job")) == expected
    full = api.post(f"{queue}/query_jobs", {})
    assert ids(full) == expected
    keys = [(job["modified"], job["id"]) for job in full["jobs"]]
    assert keys == sorted(keys)
    for limit in [0, 1, 3, 6, 7, 2**64, 3.0]:
        found = api.post(f"{queue}/query_jobs", {"limit": limit, "query": []})
        assert ids(found) == expected[: int(limit)]
    for limit in [-1, 0.5, "1", None, [], True]:
        api.post(f"{queue}/query_jobs", {"limit": limit}, 400)
    next_second()
    polled = [api.post(f"{queue}/poll_job", {"state": "p"})["id"] for _ in expected]
    assert polled == expected


def test_short_paths_mean_the_queue_default(api):
    api.delete("/queue/default")
    job = api.post("/job/create", {"payload": {"n": 1}, "state": ["CREATED"]})
    at = f"/job/{job['id']}"
    assert api.get(at) == api.get("/queue/default" + at) == job
    assert api.get("/job") == {"jobs": [{"id": job["id"], "state": ["CREATED"]}]}
    assert api.post("/job", {"query": [["IS", "json_extract(state, '$[0]')", "CREATED"]]}) == {
        "jobs": [job]
    }
    assert api.post("/job", {"query": [["IS", "j.state", None]]}) == {"jobs": []}
    api.post("/job/poll", {"query": [["IS", "j.state", None]], "state": 1}, 404)
    assert api.post("/job/poll", {"state": 2})["state"] == 2
    assert api.post(f"{at}/state", {"old": 2, "new": 3})["state"] == 3
    api.post(f"{at}/state", {"old": 2, "new": 3}, 409)
    assert len(api.raw(f"{at}/event", "null")["events"]) == 4
    assert api.delete(at) == {}
    api.get(at, 404)


@pytest.mark.parametrize("kind", [
    None, "application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-16",
    "?",
])
def test_the_examples_of_the_original(api, queue, kind):
    headers = {"content-type": kind} if kind else None
    created = api.raw(f"{queue}/job", '{"payload": {"hello": "world"}, "state": ["CREATED"]}',
                      headers=headers)
    null = api.raw(f"{queue}/job", '{"payload": {"hello": "host"}}', headers=headers)
    found = api.raw(f"{queue}/query_jobs",
                    """{"query": [["IS", "json_extract(state, '$[0]')", "CREATED"]]}""",
                    headers=headers)
    assert found == {"jobs": [created]}
    polled = api.raw(f"{queue}/poll_job",
                     '{"query": [["IS", "j.state", null]], "state": ["ASSIGNED", "host-1"]}',
                     headers=headers)
    assert (polled["id"], polled["state"]) == (null["id"], ["ASSIGNED", "host-1"])


@pytest.mark.parametrize("name", [
    "a/b", "..", ".", "%", "%2F", "a b", "+", "?", "#x", "é", "日本", "\0", "\x7f\n", '"', "\\",
    "job", "😀", "a" * 2000, ";", "http://x/", "'; DROP TABLE j; --",
])
def test_names_are_percent_decoded(api, name):
    assert api.post("/queue", {"id": name}, 201) == {"id": name}
    assert name in [entry["id"] for entry in api.get("/queue?names=whole")["queues"]]
    shown = name if len(name) <= 1024 else name[:1024] + f"...({len(name)} bytes)"
    assert shown in [entry["id"] for entry in api.get("/queue")["queues"]]
    part = quote(name, safe="").replace(".", "%2E")
    job = api.post(f"/queue/{part}/job", {"payload": name})
    lower = part.replace("%2E", "%2e").replace("%2F", "%2f")
    assert api.get(f"/queue/{lower}/job/{job['id']}") == job
    found = api.post(f"/queue/{part}/query_jobs", {"query": [["=", "queue", "j.queue"]]})
    assert found == {"jobs": [job]}
    assert api.delete(f"/queue/{part}") == {"deleted": 1}
    api.delete(f"/queue/{part}", 404)


def test_an_empty_name_is_none(api):
    for method, path in [("GET", "/queue//job"), ("DELETE", "/queue/"), ("GET", "/queue//job/1")]:
        assert "empty" in api.call(method, path, status=400)["error"]
    for part in ["%", "%4", "%zz", "a%"]:
        answer = json.loads(raw_get(api, f"/api/v0/queue/{part}/job"))
        assert "%" in answer["error"]


def raw_get(api, target):
    """Clients mend targets: this one sends it as it is."""
    import http.client
    url = api.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port)
    connection.request("GET", target)
    answer = connection.getresponse()
    assert answer.status == 400
    text = answer.read()
    connection.close()
    return text
