"""Workers of the processor fall silent together."""

import json
import time

import attack as a

LARGE, SMALL = 60_000, 2_000
ARGUMENTS = ("--processor", "--tick", "3000")
TICKS = 3 * 3


def message(topic, worker, **payload):
    line = {"topic": f"default/job_queue/{topic}", "service_uuid": worker, "payload": payload}
    return json.dumps(line).encode() + b"\n"


def run(attack):
    stdin, server = attack.server.process.stdin, attack.server
    for number in range(attack.size):
        worker = f"w{number}"
        stdin.write(message("workers/x/worker_idle", worker, queue_name="q"))
    for number in range(attack.size // 2):
        stdin.write(message("add_job", "x", uuid=f"j{number}", queue_name="q"))
    stdin.flush()
    wait(lambda: server.output_lines == attack.size // 2, "assignments are missing")
    attack.begin()
    with attack.frozen():
        time.sleep(TICKS)
    wait(lambda: not state(server)["workers_idle"], "workers are not forgotten")
    assert len(state(server)["jobs_queued"]) == attack.size // 2, "jobs were lost"


def state(server):
    return json.loads(server.get("/processor/q"))


def wait(condition, what):
    end = time.monotonic() + a.PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)
