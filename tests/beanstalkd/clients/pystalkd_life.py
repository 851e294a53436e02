"""The life of jobs by pystalkd. Arguments: the server's host and port."""

import sys

from pystalkd.Beanstalkd import CommandFailed, Connection, DeadlineSoon

HOST, PORT = sys.argv[1], int(sys.argv[2])

client = Connection(HOST, PORT)
client.use("mails")
assert client.using() == "mails"
client.watch("mails")
client.ignore("default")
assert client.watching() == ["mails"], client.watching()
first = client.put("first", priority=7, ttr=30)
job = client.reserve(timeout=5)
assert (job.job_id, job.body) == (first, "first")
stats = job.stats()
assert (stats["state"], stats["pri"], stats["ttr"]) == ("reserved", 7, 30), stats
job.touch()
job.bury()
assert client.peek_buried().job_id == first
assert client.kick(10) == 1
job = client.reserve(timeout=0)
job.release(delay=1)
assert client.peek_delayed().job_id == first
assert client.reserve(timeout=0) is None
job = client.reserve()
assert job.job_id == first
job.delete()
assert client.peek(first) is None
try:
    client.put("x" * 65536)
    raise AssertionError("no JOB_TOO_BIG")
except CommandFailed:
    pass
client.put_bytes(b"\0\r\n\xff" * 1000, ttr=1)
assert client.reserve_bytes(timeout=5).body == b"\0\r\n\xff" * 1000
try:
    client.reserve(timeout=5)
    raise AssertionError("no DEADLINE_SOON")
except DeadlineSoon:
    pass
assert client.stats_tube("mails")["name"] == "mails"
assert client.stats()["current-connections"] == 1
assert client.tubes() == ["default", "mails"]
client.close()
