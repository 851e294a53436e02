"""What all tests share: one server, a client of it, and a queue of one's own."""

import itertools

import httpx
import pytest
from server import PATIENCE, JobCentre, Server


def pytest_addoption(parser):
    parser.addoption("--binary", required=True, help="the server")
    parser.addoption("--durable", action="store_true", help="run it with --data")


def pytest_configure(config):
    config.addinivalue_line("markers", "durable: starts a server with --data by itself")


@pytest.fixture(scope="session")
def binary(request):
    return request.config.getoption("--binary")


@pytest.fixture(scope="session")
def server(request, binary, tmp_path_factory):
    data = tmp_path_factory.mktemp("jobs") if request.config.getoption("--durable") else None
    server = Server(binary, data)
    yield server
    server.stop()


class Api:
    """Jobq by a client that keeps its connections; every answer is looked at."""

    def __init__(self, server):
        self.client = httpx.Client(base_url=server.http, timeout=PATIENCE)

    def call(self, method, path, body=None, status=200, **kept):
        if body is not None:
            kept["json"] = body
        answer = self.client.request(method, "/api/v0" + path, **kept)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        assert answer.headers["content-type"] == "application/json"
        said = answer.json()
        if status >= 400:
            assert isinstance(said["error"], str) and len(said["error"]) > 5, said
        return said

    def get(self, path, status=200):
        return self.call("GET", path, status=status)

    def delete(self, path, status=200):
        return self.call("DELETE", path, status=status)

    def post(self, path, body, status=200):
        return self.call("POST", path, body, status)

    def raw(self, path, text, status=200, headers=None):
        """A body as it stands, without a type unless one is given."""
        content = text.encode() if isinstance(text, str) else text
        return self.call("POST", path, status=status, content=content, headers=headers)


@pytest.fixture
def api(server):
    api = Api(server)
    yield api
    api.client.close()


names = itertools.count(1)


@pytest.fixture
def queue(api):
    """The path of a new queue, without /api/v0."""
    name = f"queue-{next(names)}"
    assert api.post("/queue", {"id": name}, 201) == {"id": name}
    return f"/queue/{name}"


@pytest.fixture
def job_centre(server):
    client = JobCentre(server)
    yield client
    client.close()
