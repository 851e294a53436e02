"""What schemathesis has to know beside the document: expressions, and who may refuse them."""

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
