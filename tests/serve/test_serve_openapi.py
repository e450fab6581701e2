"""The OpenAPI text is true: whatever is sent, what comes back is what it says, and never a failure of the server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpq.language import options, query_file
from rpq.serve.application import OPERATIONS
from rpq.serve.models import ServeLimits
from tests.services.served import Served

PATH = {"expression": "a/b*", "window": 100, "slide": 10, "semantics": "explicit", "name": "p"}
TEXT = OPERATIONS.document(ServeLimits())
WITH_SCHEMATHESIS = pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")
QUIETLY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(PATH, limits=ServeLimits(queries=10_000)) as server:
        server.post(("x", "y", "a", 1))
        yield server


def fits(value: object, schema: dict) -> bool:
    """Return whether a value conforms to a schema, for the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        return fits(value, TEXT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema or "oneOf" in schema:
        return any(fits(value, one) for one in schema.get("anyOf", schema.get("oneOf")))
    if "enum" in schema:
        return value in schema["enum"]
    if "const" in schema:
        return value == schema["const"]
    kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "null": type(None), "array": list,
             "object": dict}  # fmt: skip
    types = schema.get("type", list(kinds))
    types = [types] if isinstance(types, str) else types
    if isinstance(value, bool) and "boolean" not in types:
        return False
    if not any(isinstance(value, kinds[one]) for one in types):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value):
            return False
        return all(fits(one, properties.get(name, {})) for name, one in value.items())
    if isinstance(value, list):
        return all(fits(one, schema.get("items", {})) for one in value)
    return not isinstance(value, (int, float)) or value >= schema.get("minimum", value)


def check(response, path: str, method: str) -> None:
    """See that a response is one that the text has."""
    known = TEXT["paths"][path][method]["responses"]
    assert str(response.status_code) in known, (response.status_code, response.text)
    found = known[str(response.status_code)]
    if "$ref" in found:
        found = TEXT["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    if "content" not in found:
        assert response.content == b""
        return
    type_ = response.headers["content-type"].partition(";")[0]
    assert type_ in found["content"]
    if type_ == "application/json":
        assert fits(response.json(), found["content"][type_]["schema"]), response.text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.text(min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
pieces = st.lists(
    st.sampled_from([*"ab/*|()^!. {}", "?x", "?y", "{2}", "SELECT", "<i>", '"']),
    max_size=10,
).map("".join)
queries = st.fixed_dictionaries(
    {"expression": pieces | st.text(max_size=20)},
    optional={
        "name": names | st.sampled_from([".", "..", None]),
        "window": st.sampled_from([10, 1, "count:3", "unbounded", "30d", "10", "count:x", 2**63]) | values,
        "slide": st.sampled_from([1, 3, "1d"]) | values,
        "language": st.sampled_from(["path", "pattern", "sparql"]) | values,
        "node_label": values,
        "parameters": values,
        "semantics": st.sampled_from(["implicit", "explicit"]) | values,
        "paths": st.sampled_from(["walk", "simple", "simple_cycle"]) | values,
        "report": st.sampled_from(["change", "slide", "time"]) | values,
        "select": st.just(["x"]) | values,
        "distinct": values,
        "matching": values,
        "sources": st.lists(st.text(max_size=3) | st.integers(), max_size=2) | values,
        "start": st.sampled_from(["window", "empty"]) | values,
        "other": values,
    },
)


@given(fields=queries)
@QUIETLY
def test_queries_of_any_form(served, fields):
    body = json.dumps(fields).encode()
    headers = {"content-type": "application/json"}
    checked = served.client.post("/check", content=body, headers=headers)
    check(checked, "/check", "post")
    if "SELECT" in str(fields.get("expression")):
        return  # such a query may need kernels of its own
    made = served.client.post("/queries", content=body, headers=headers)
    check(made, "/queries", "post")
    assert made.status_code != 201 or checked.status_code == 200
    if made.status_code == 201:
        name = quote(made.json()["name"], safe="")
        check(served.client.get(f"/queries/{name}"), "/queries/{name}", "get")
        check(served.client.get(f"/queries/{name}/answers"), "/queries/{name}/answers", "get")
        check(served.client.get(f"/queries/{name}/explain"), "/queries/{name}/explain", "get")
        check(served.client.delete(f"/queries/{name}"), "/queries/{name}", "delete")


tuples = st.lists(
    st.fixed_dictionaries(
        {"source": st.text(max_size=5), "target": st.text(max_size=5), "label": st.sampled_from(["a", "b", ""])},
        optional={
            "timestamp": st.integers(-5, 200) | st.text(max_size=5) | st.integers(),
            "op": st.sampled_from(["+", "-", "?"]),
        },
    ).map(json.dumps),
    max_size=4,
).map(lambda found: "\n".join(found).encode())


@given(
    body=tuples | st.binary(max_size=200) | st.text("abxy,\t \n+-1", max_size=60).map(str.encode),
    type_=st.sampled_from(["application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "text/plain", "x"]),
    stream=st.none() | st.text(max_size=4),
)
@QUIETLY
def test_bodies_of_any_form(served, body, type_, stream):
    parameters = {} if stream is None else {"stream": stream}
    response = served.client.post("/tuples", content=body, headers={"content-type": type_}, params=parameters)
    check(response, "/tuples", "post")


@given(name=names, what=st.sampled_from(["", "/answers", "/witness", "/explain", "/x"]), value=st.lists(names, max_size=3))
@QUIETLY
def test_names_of_any_form(served, name, what, value):
    path = {"": "/queries/{name}", "/x": "/queries/{name}"}.get(what, "/queries/{name}" + what)
    encoded = quote(name, safe="")
    check(served.client.get(f"/queries/{encoded}{what}"), path, "get")
    if what == "/witness":
        check(served.client.get("/queries/p/witness", params={"value": value}), path, "get")
    if name != "p":
        check(served.client.delete(f"/queries/{encoded}"), "/queries/{name}", "delete")


@pytest.mark.parametrize("path", [path for path in TEXT["paths"] if "{" not in path and path != "/changes"])
def test_what_can_be_read_is_as_it_says(served, path):
    if "get" in TEXT["paths"][path]:
        check(served.client.get(path), path, "get")
        if path not in ("/", "/healthz", "/readyz", "/openapi.json"):
            check(served.client.get(path, params={"x": "1"}), path, "get")
    check_methods = {"get", "post", "put", "patch", "delete"} - set(TEXT["paths"][path])
    for method in check_methods:
        response = served.client.request(method, path)
        assert response.status_code == 405 and response.headers["allow"], (method, path)


def test_what_a_query_may_be_is_what_files_of_queries_may_have():
    fields = TEXT["components"]["schemas"]["QueryRequest"]["properties"]
    assert set(fields) - {"expression", "start"} == set(query_file.FIELDS) - {"query", "output"}
    for name, words in options.CHOICES.items():
        (kind,) = (one for one in fields[name]["anyOf"] if one != {"type": "null"})
        assert sorted(kind["enum"]) == sorted(words), name


def test_references_lead_somewhere():
    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for one in value.values():
                yield from walk(one)
        elif isinstance(value, list):
            for one in value:
                yield from walk(one)

    for reference in set(walk(TEXT)):
        _, kind, name = reference.removeprefix("#/").split("/")
        assert name in TEXT["components"][kind], reference


def schemathesis_of(served: Served, folder: Path, *options: object) -> None:
    """Run Schemathesis over the text of a server, in a folder in which it may leave what it likes."""
    # What the language of queries takes, no schema can say; events have no end to wait for, and JSON lines it cannot write.
    left_out = ["--exclude-path-regex", "^/(changes|tuples)$", "--exclude-checks", "positive_data_acceptance"]
    run = ["run", f"{served.url}/openapi.json", *left_out, *map(str, options), "--no-color", "--request-timeout", "300"]
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", *run]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.search(r"\d+ generated, \d+ passed", done.stdout), done.stdout


@pytest.mark.long
@WITH_SCHEMATHESIS
def test_schemathesis_finds_nothing(served, tmp_path):
    schemathesis_of(served, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", 5, "--seed", 1)
