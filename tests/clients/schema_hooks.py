"""What schemathesis has to know beside the document: expressions, and who may refuse them."""

import base64
import re

import schemathesis

QUERIES = {"query_jobs", "poll_job", "query_default_jobs", "poll_default_job"}

SQLITE_SAYS = r"term \d+, (left|right) side: |the query (is|has) \d+ |the query cannot be eval"

# Of everything that a query can do, so that not only nonsense is asked.
EXPRESSIONS = [
    "id", "j.state", "payload", "events", "MODIFIED", "queue", "pri", "CREATED", "Straße",
    "json_extract(state, '$[0]')", "payload ->> '$.a'", "json_array_length(events)", "1 + 1",
    "'a' || 'b'", "id IN (1, 2, 3)", "state IS NULL", "CASE WHEN id > 3 THEN 'x' END",
    "lower(payload)", "modified - unixepoch()", "id BETWEEN 2 AND 9", "instr(payload, 'a')",
]

# Any text is an import: what is no job is an error of its line.
schemathesis.serializer.alias("application/x-ndjson", "text/plain")


@schemathesis.hook
def map_body(context, body):
    """Most expressions that were made up become some that mean something."""
    operation = context.operation.definition.raw.get("operationId")
    if operation in QUERIES and isinstance(body, dict) and isinstance(body.get("query"), list):
        return {**body, "query": [meaningful(term) for term in body["query"]]}
    return body


def meaningful(term):
    if not isinstance(term, list):
        return term
    return [side if n == 0 else expression(side) for n, side in enumerate(term)]


def expression(side):
    if not isinstance(side, str) or len(side) % 5 == 4:
        return side
    return EXPRESSIONS[sum(map(ord, side)) % len(EXPRESSIONS)]


@schemathesis.check
def only_sqlite_refuses_valid_queries(context, response, case):
    """A query of the right shape is refused for nothing but its expressions."""
    operation = case.operation.definition.raw.get("operationId")
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    if operation in QUERIES and positive and response.status_code == 400:
        error = response.json()["error"]
        assert re.match(SQLITE_SAYS, error), error


NATIVE = "/api/v1/"

# Of what no schema can say: expressions, and names that others make.
CRONS = ["*/5 * * * *", "30 2 * * MON-FRI", "@daily", "0 0 29 2 *"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Valid requests of the native API obey the rules between their fields. Nothing waits for long,
    and puts are not refused for the rest of the run."""
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    path = case.operation.path
    if positive and path.startswith(NATIVE):
        if isinstance(case.body, (dict, list)):
            case.body = sensible(whole_numbers(case.body), case.operation.method, path)
        if isinstance(case.query, dict) and "cursor" in case.query:
            del case.query["cursor"]
    for part in (case.query, case.body):
        if not isinstance(part, dict):
            continue
        wait = part.get("wait_ms")
        if type(wait) in (int, float) and 20 < wait <= 60_000:
            part["wait_ms"] = 20
        if path == NATIVE + "server/drain" and part.get("on") is True:
            part["on"] = False


def whole_numbers(value):
    """JSON Schema takes 5.0 for an integer, the API does not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return value


def sensible(body, method, path):
    if isinstance(body, list):
        return body
    # A queue without a name is in no path, and links lead to it.
    body = {name: "q" if name in ("queue", "to") and value == "" else value
            for name, value in body.items()}
    if path.endswith("/jobs") and method.upper() == "POST":
        return job({"payload": None, **body})
    if method.upper() == "PATCH":
        return job(body)
    if "/schedules/" in path and method.upper() == "PUT":
        return schedule(body)
    return action(body) if path.endswith("/actions") else body


def job(fields):
    fields = dict(fields)
    if fields.get("payload_base64") is not None:
        fields.pop("payload", None)
        text = fields["payload_base64"].encode("utf-8", "replace")
        fields["payload_base64"] = base64.b64encode(text).decode()
    if fields.get("payload_base64") is None or fields.get("packet_key_base64") is None:
        fields.pop("packet_key_base64", None)
    else:
        text = fields["packet_key_base64"].encode("utf-8", "replace")
        fields["packet_key_base64"] = base64.b64encode(text[:100]).decode()
    if fields.get("delay_ms") is not None:
        fields.pop("run_at", None)
    if fields.get("key") is None:
        fields.pop("key_ttl_ms", None)
        fields.pop("on_duplicate", None)
    # Which ids were given out, no schema says.
    if fields.get("after"):
        fields["after"] = []
    if fields.get("on_duplicate") == "replace":
        fields.pop("group", None)
        fields.pop("after_group", None)
    if fields.get("after_group") is not None and fields["after_group"] == fields.get("group"):
        fields.pop("after_group")
    return fields


def schedule(fields):
    fields = {**fields, "job": job({"payload": None, **fields["job"]})}
    if fields.get("cron") is not None:
        fields["cron"] = CRONS[len(fields["cron"]) % len(CRONS)]
        fields.pop("every_ms", None)
    elif fields.get("every_ms") is None:
        fields["every_ms"] = 1_000
    if fields.get("timezone") is not None:
        fields["timezone"] = ZONES[len(fields["timezone"]) % len(ZONES)]
    return fields


def action(fields):
    fields, where = dict(fields), dict(fields["where"])
    where.pop("query", None)
    if where.get("state") is None and where.get("ids") is None:
        where["state"] = "ready"
    elif where.get("state") is not None:
        where.pop("ids", None)
    fields["where"] = where
    needs = {"move": ("to", "elsewhere"), "change": ("change", {})}.get(fields["do"])
    for name in ("to", "change"):
        if needs is None or name != needs[0]:
            fields.pop(name, None)
    if needs is not None and fields.get(needs[0]) is None:
        fields[needs[0]] = needs[1]
    if isinstance(fields.get("change"), dict):
        fields["change"] = job(fields["change"])
    return fields
