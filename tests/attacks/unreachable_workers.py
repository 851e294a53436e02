"""Workers that cannot be reached, and jobs for them."""

import http.client
import json
import time

import attack as a

LARGE, SMALL = 10_000, 200


def post(connection, path, fields):
    head = {"Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(fields), head)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 201, (answer.status, text)
    return json.loads(text)


def run(attack):
    connection = http.client.HTTPConnection(*attack.address("http"), timeout=a.PATIENCE)
    for number in range(attack.size):
        # Nothing listens there: the connection is refused at once.
        url = f"http://127.{number >> 16}.{number >> 8 & 255}.{number & 255}:9"
        post(connection, "/worker", {"name": "w", "url": url, "max_jobs": 4})
    attack.begin()
    for number in range(2 * attack.size):
        job = {"name": f"n{number % 100}", "argument": number, "max_retry": 10}
        post(connection, "/job", job)
    # In the large run until about all workers are dropped, after five failures each.
    time.sleep(20 if attack.size == LARGE else 3)
    client, found = attack.client(), 0
    for number in range(100):
        found += a.empty(client, f"n{number}")
    assert found == 2 * attack.size, f"{found} jobs of {2 * attack.size}"
