"""What /openapi.json says of requests in MessagePack, which schemathesis cannot send: whatever is
made up by the schemas, or is nearly so, has an answer that is described there, and no 5xx."""

import re

import httpx
import jsonschema_rs
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightjq import Pusher
from server import Server

TYPE = "application/msgpack"
HARMLESS = "http://127.0.0.1:1/x"  # no program listens there
MOMENTS = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+09:00", "1969-12-31T23:59:59-12:00"]
CONSTRAINTS = "/constraint"  # are spoken of in JSON too: schemathesis may see to them

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2**63, 2**64 - 1), st.floats(), st.text(), st.binary(),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
)
KEYS = st.one_of(st.text(), st.integers(-100, 100), st.booleans(), st.binary(), st.none())
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12
)


@pytest.fixture(scope="module")
def own_server(binary):
    server = Server(binary)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def described(own_server):
    """All operations that take or give MessagePack."""
    document = httpx.get(own_server.http + "/openapi.json").json()
    operations = [
        (method, path, operation)
        for path, item in document["paths"].items() if not path.startswith(CONSTRAINTS)
        for method, operation in item.items() if TYPE in str(operation)
    ]
    assert len(operations) == 7, [operation["operationId"] for _, _, operation in operations]
    return document, operations


def by_schema(schema, document):
    """Values of which a schema says that they are right, as far as it can say so."""
    known = {"$ref", "oneOf", "enum", "type", "properties", "required", "items", "minItems",
             "pattern", "minimum", "maximum", "exclusiveMinimum", "default", "description",
             "additionalProperties"}
    assert set(schema) <= known, f"this says what is not understood here: {schema}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return by_schema(document["components"]["schemas"][name], document)
    if "oneOf" in schema:
        return st.one_of([by_schema(each, document) for each in schema["oneOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case None:
            return ANYTHING
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", -2**63), schema.get("maximum", 2**64 - 1))
        case "number":
            least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
            floats = st.floats(min_value=least if above is None else above, allow_infinity=False,
                               exclude_min=above is not None, allow_nan=False)
            return floats | st.integers(1, 2**64 - 1)
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            return st.text()
        case "array":
            return st.lists(by_schema(schema["items"], document), min_size=schema["minItems"])
        case "object":
            fields = {name: by_schema(each, document)
                      for name, each in schema["properties"].items()}
            optional = {name: each for name, each in fields.items()
                        if name not in schema.get("required", [])}
            needed = {name: each for name, each in fields.items() if name not in optional}
            return st.fixed_dictionaries(needed, optional=optional)
    raise AssertionError(f"no values for {schema}")


def known_formats(body):
    """What a schema cannot say of a field: some are URLs, or moments."""
    if "url" in body:
        body = {**body, "url": HARMLESS}
    if "finished_at" in body:
        body = {**body, "finished_at": MOMENTS[len(body["finished_at"]) % len(MOMENTS)]}
    return body


@st.composite
def nearly(draw, right):
    """Something right that is spoilt: a field less, another value, a byte cut off or changed."""
    body = draw(right)
    field = draw(st.sampled_from(sorted(body)))
    match draw(st.integers(0, 3)):
        case 0:
            return msgpack.packb({name: value for name, value in body.items() if name != field})
        case 1:
            return msgpack.packb({**body, field: draw(ANYTHING)})
        case 2:
            packed = msgpack.packb(body)
            return packed[:draw(st.integers(0, len(packed) - 1))]
    packed = bytearray(msgpack.packb(body))
    packed[draw(st.integers(0, len(packed) - 1))] = draw(st.integers(0, 255))
    return bytes(packed)


def path_of(path, operation, draw):
    """A path, and perhaps a worker."""
    worker = None
    ids = st.integers(0, 50).map(str) | st.from_regex(r"[0-9a-z.~-]{1,30}", fullmatch=True)
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        match parameter["in"]:
            case "path":
                path = path.replace("{" + name + "}", draw(ids))
            case "query":
                path += f"?{name}={draw(st.sampled_from(['0', '0.01', '.5e1', 'x', '-1', '']))}"
            case "header":
                worker = draw(ids)
    return path, worker


def check_response(status, said, operation, document):
    """A status that is described, with a body as it is described."""
    assert str(status) in operation["responses"] and status < 500, (status, said)
    answer = operation["responses"][str(status)]
    while "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].split("/")[-1]]
    content = answer.get("content", {})
    assert (said is None) or TYPE in content, (status, said)
    if TYPE in content:
        schema = {**content[TYPE]["schema"], "components": document["components"]}
        plain = in_json(said)
        assert jsonschema_rs.validator_for(schema).is_valid(plain), (status, said)


def in_json(value):
    """The shape of a value, for a validator that knows only JSON."""
    if isinstance(value, dict):
        return {str(key): in_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [in_json(each) for each in value]
    return value if isinstance(value, (str, int, type(None))) else "something else"


def test_what_is_described(own_server, described):
    document, operations = described
    pusher, seen = Pusher(own_server.http), set()

    @settings(max_examples=700, derandomize=True, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @given(st.data())
    def ask(data):
        method, path, operation = data.draw(st.sampled_from(operations))
        path, worker = path_of(path, operation, data.draw)
        body, is_right = None, True
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"][TYPE]["schema"]
            right = by_schema(schema, document).map(known_formats)
            is_right = data.draw(st.booleans())
            body = data.draw(right.map(msgpack.packb) if is_right else nearly(right))
        status, said = pusher.call(method.upper(), path, body, worker)
        check_response(status, said, operation, document)
        if body is not None and is_right:
            assert status in (201, 204, 404), (status, said, body)
        if status == 400 and body is not None:
            assert re.search(r"field '|MessagePack|body", said["error"]), said
        seen.add((operation["operationId"], status))

    ask()
    wanted = {("push_job", 201), ("push_job", 400), ("enlist_worker", 201), ("enlist_worker", 400),
              ("report_job", 404), ("report_job", 400), ("follow_job", 200), ("follow_job", 404),
              ("await_job", 404), ("await_job", 400), ("dismiss_worker", 404), ("cancel_job", 204)}
    assert wanted <= seen, f"too tame: {sorted(seen)}"
