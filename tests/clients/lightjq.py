"""LightJQ by Python's own modules: a pusher, and a worker that is an http.server.

`python lightjq.py MASTER PORT` is a worker as a process of its own: it doubles its arguments.
"""

import http.client
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import msgpack

PATIENCE = 60
TYPE = "application/msgpack"


class Pusher:
    """The pusher as pushers and workers ask it: each request on a connection of its own."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.address = parts.hostname, parts.port

    def call(self, method, path, body=None, worker=None):
        """The status and what was said; `OSError` or `HTTPException` if there was no answer."""
        headers = {} if worker is None else {"worker-id": worker}
        if body is not None:
            headers["Content-Type"] = TYPE
            body = body if isinstance(body, bytes) else msgpack.packb(body)
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if not text:
            return answer.status, None
        assert answer.getheader("content-type") == TYPE, answer.getheaders()
        return answer.status, msgpack.unpackb(text, strict_map_key=False)

    def push(self, name, argument, **kept):
        status, said = self.call("POST", "/job", {"name": name, "argument": argument, **kept})
        assert status == 201, said
        assert list(said) == ["job_id"]
        return said["job_id"]

    def follow(self, job):
        status, said = self.call("GET", f"/job/{job}")
        assert status == 200, said
        return said

    def end_of(self, job):
        status, said = self.call("GET", f"/job/{job}/polling?timeout={PATIENCE - 10}")
        assert status == 200, said
        return said


def success(job, result=None):
    return {"job_id": job["id"], "type": "success", "result": result,
            "finished_at": "2026-01-02T03:04:05.678+09:00"}


def failure(job, message="no", again=True, error=None, reason="other"):
    return {"job_id": job["id"], "type": "failure", "reason": reason, "should_retry": again,
            "error": error, "message": message, "finished_at": "2026-01-02T03:04:05Z"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        worker = self.server.worker
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/base/worker-job" and self.headers["Content-Type"] == TYPE
        job = msgpack.unpackb(body, strict_map_key=False)
        status = worker.offered(job)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if status == 202:
            threading.Thread(target=worker.work, args=(job,), daemon=True).start()

    def log_message(self, *_):
        pass


class Worker:
    """Accepts jobs, has `do` say what came of them, and reports that, unless it is None."""

    def __init__(self, pusher, do, jobs=None, max_jobs=1, port=0, status=202):
        self.pusher, self.do, self.status = pusher, do, status
        self.lock, self.running, self.most, self.got, self.answers = threading.Lock(), 0, 0, [], []
        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.worker = self
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.about = {"name": "python", "max_jobs": max_jobs,
                      "url": f"http://127.0.0.1:{self.http.server_port}/base"}
        if jobs is not None:
            self.about["jobs"] = jobs
        self.register()

    def register(self):
        self.id = None  # the first job may come before the number is known
        status, said = self.pusher.call("POST", "/worker", self.about)
        assert status == 201, said
        self.id = said["worker_id"]

    def offered(self, job):
        with self.lock:
            self.got.append(job)
            status = self.status(job) if callable(self.status) else self.status
            if status == 202:
                self.running += 1
                self.most = max(self.most, self.running)
        return status

    def work(self, job):
        report = self.do(job)
        with self.lock:
            self.running -= 1
        if report is not None:
            self.answers.append(self.report(report))

    def report(self, report, worker=None):
        """As long as there is no answer: a pusher that was killed comes back."""
        while True:
            try:
                if number := worker or self.id:
                    return self.pusher.call("POST", "/done", report, number)[0]
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.005)

    def leave(self):
        status, _ = self.pusher.call("DELETE", "/worker", worker=self.id)
        self.close()
        return status

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def main():
    pusher, port = Pusher(sys.argv[1]), int(sys.argv[2])

    def double(job):
        time.sleep(0.01)
        return success(job, job["argument"] * 2)

    Worker(pusher, double, jobs=["double"], max_jobs=4, port=port)
    print("registered", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
