"""Two protocols at once, long answers, and what survives a restart."""

import json
import threading
import time

import httpx
import pytest
from server import LARGE, PATIENCE, JobCentre, Server


def test_each_door_sees_what_the_other_does(api, queue, job_centre, server):
    name = queue.removeprefix("/queue/")
    there = job_centre.ask("put", queue=name, pri=7, job={"n": 1})["id"]
    here = api.post(f"{queue}/job", {"payload": [1, "two"], "state": "mine"})["id"]
    assert api.get(f"{queue}/job/{there}")["payload"] == {"n": 1}
    taken = job_centre.ask("get", queues=[name])
    assert (taken["id"], taken["pri"], taken["job"]) == (there, 7, {"n": 1})
    other = JobCentre(server)
    assert other.ask("get", queues=[name]) == {
        "status": "ok", "id": here, "job": [1, "two"], "pri": 0, "queue": name,
    }
    assert job_centre.ask("abort", id=there) == {"status": "ok"}
    # The state is the user's, and may be changed while somebody works on the job.
    api.post(f"{queue}/job/{here}/state", {"old": "mine", "new": ["DONE"]})
    other.close()
    while tags(api.get(f"{queue}/job/{here}"))[-1] == "job_state_advanced":
        time.sleep(0.01)
    assert tags(api.get(f"{queue}/job/{here}")) == [
        "job_created", "job_taken", "job_state_advanced", "job_abandoned",
    ]
    job = api.get(f"{queue}/job/{there}")
    assert tags(job) == ["job_created", "job_taken", "job_aborted"] and job["state"] is None
    for _, fields in job["events"]:
        assert fields["timestamp"].isdigit()
    assert api.delete(f"{queue}/job/{there}") == {}
    assert job_centre.ask("delete", id=there) == {"status": "no-job"}
    assert job_centre.ask("delete", id=here) == {"status": "ok"}
    api.get(f"{queue}/job/{here}", 404)


def tags(job):
    return [tag for tag, _ in job["events"]]


def test_jobs_are_taken_and_deleted_while_they_are_listed(api, queue, server):
    name, count = queue.removeprefix("/queue/"), 1500 if LARGE else 500
    made = [api.post(f"{queue}/job", {"payload": n, "state": ["S", n]})["id"] for n in range(count)]
    failures, gone = [], []

    def work():
        try:
            client = JobCentre(server)
            while (job := client.ask("get", queues=[name]))["status"] == "ok":
                assert client.ask("delete", id=job["id"]) == {"status": "ok"}
                gone.append(job["id"])
            client.close()
        except Exception as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    rank = {job: n for n, job in enumerate(made)}
    while any(worker.is_alive() for worker in workers):
        # What was gone before we asked is not there, and what is there is as it was put.
        before = set(gone)
        listed = api.get(f"{queue}/job")["jobs"]
        assert all(job["state"] == ["S", rank[job["id"]]] for job in listed)
        assert len({job["id"] for job in listed}) == len(listed)
        assert not before & {job["id"] for job in listed}
        # Bare `payload` is text, and '100' comes before '50'.
        few = [["<", "json_extract(payload, '$')", 50]]
        found = api.post(f"{queue}/query_jobs", {"query": few})["jobs"]
        assert all(job["payload"] < 50 and job["id"] in rank for job in found)
    for worker in workers:
        worker.join()
    assert not failures, failures[0]
    assert sorted(gone) == sorted(made)
    assert api.get(f"{queue}/job") == {"jobs": []}


def test_long_lists(api, queue, server):
    count, text = 4000, "x" * 500
    made = []
    for n in range(count):
        # Not by the client that checks everything: there are many.
        answer = api.client.post(f"/api/v0{queue}/job", json={"payload": text, "state": [n]})
        made.append(answer.json()["id"])
    states = [{"id": job, "state": [n]} for n, job in enumerate(made)]
    assert api.get(f"{queue}/job") == {"jobs": states}
    found = api.post(f"{queue}/query_jobs", {})["jobs"]
    assert [job["id"] for job in found] == made and {job["payload"] for job in found} == {text}
    found = api.post(f"{queue}/query_jobs", {"query": [["=", "id % 2", 0]], "limit": 1500})["jobs"]
    assert [job["id"] for job in found] == [job for job in made if job % 2 == 0][:1500]
    # A client that reads slowly gets the list of the moment it asked. Others go on.
    with api.client.stream("POST", f"/api/v0{queue}/query_jobs", content=b"{}") as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        pieces = answer.iter_bytes(20_000)
        parts = [next(pieces)]
        with httpx.Client(base_url=server.http, timeout=PATIENCE) as other:
            assert other.delete(f"/api/v0{queue}").json() == {"deleted": count}
            assert other.get(f"/api/v0{queue}/job").status_code == 404
        parts.extend(pieces)
    assert [job["id"] for job in json.loads(b"".join(parts))["jobs"]] == made


def test_many_queues(api):
    names = {f"many/{n}" for n in range(1500)}
    for name in names:
        api.client.post("/api/v0/queue", json={"id": name})
    listed = [entry["id"] for entry in api.get("/queue")["queues"]]
    assert len(listed) == len(set(listed)) and names <= set(listed)
    for name in names:
        api.client.delete("/api/v0/queue/" + name.replace("/", "%2F"))
    assert not names & {entry["id"] for entry in api.get("/queue")["queues"]}


@pytest.mark.durable
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_what_survives_a_restart(binary, tmp_path, ending):
    server = Server(binary, tmp_path / "jobs")
    with httpx.Client(base_url=server.http + "/api/v0", timeout=PATIENCE) as client:
        for name in ["empty", "full", "gone"]:
            assert client.post("/queue", json={"id": name}).status_code == 201
        for n in range(50):
            client.post("/queue/full/job", json={"payload": {"n": n}, "state": ["NEW"]})
        ids = [job["id"] for job in client.get("/queue/full/job").json()["jobs"]]
        for job in ids[::2]:
            client.post("/queue/full/poll_job", json={"state": {"b": [job], "a": None}})
        for job in ids[::3]:
            client.post(f"/queue/full/job/{job}/event", content=b'{"note": 1.50}')
        client.delete(f"/queue/full/job/{ids[4]}")
        client.post("/queue/gone/job", json={"payload": 1})
        client.delete("/queue/gone")
        worker = JobCentre(server)
        taken = worker.ask("get", queues=["full"])["id"]
        worker.ask("abort", id=taken)
        before = client.post("/queue/full/query_jobs", json={}).text
        queues = client.get("/queue").json()
    (server.stop if ending == "stop" else server.kill)()
    worker.close()
    server.start()
    with httpx.Client(base_url=server.http + "/api/v0", timeout=PATIENCE) as client:
        after = client.post("/queue/full/query_jobs", json={}).text
        assert after == before and "job_aborted" in after and '{"note": 1.50}' in after
        listed = client.get("/queue").json()["queues"]
        assert sorted(listed, key=str) == sorted(queues["queues"], key=str)
        assert client.get("/queue/gone/job").status_code == 404
        assert client.get(f"/queue/full/job/{ids[4]}").status_code == 404
        new = client.post("/queue/full/job", json={"payload": 1}).json()["id"]
        assert new > max(ids)
        old = json.loads(before)["jobs"][0]
        body = {"old": old["state"], "new": "later"}
        job = client.post(f"/queue/full/job/{old['id']}/state", json=body).json()
        assert job["events"][:-1] == old["events"] and job["state"] == "later"
        first = client.post("/queue/full/poll_job", json={"query": [["=", "state", "'\"later\"'"]]})
        assert first.json()["id"] == old["id"]
    server.stop()
