"""The endpoints of a server: what they take, what they give, and how they say what is wrong."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import weakref
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import rpq
from rpq.readers.source import InputSizeError
from rpq.serve import requests
from rpq.serve.models import ServeLimits
from tests.services.served import Served, arrow, lines

PATH = {"expression": "a/b*", "window": 100, "slide": 10, "semantics": "explicit"}
TUPLES = [("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "b", 3)]


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(PATH) as server:
        yield server


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Served]:
    """A server with one answer, to which requests do nothing."""
    with Served(PATH) as server:
        server.post(("p", "q", "a", 1))
        yield server


def error_of(response) -> dict:
    assert response.headers["content-type"] == "application/json"
    return response.json()["error"]


# --- tuples ----------------------------------------------------------------------------------------------------------


def test_tuples_of_every_kind_are_applied_and_acknowledged(served):
    applied = served.post(*TUPLES)
    assert applied.status_code == 200
    assert applied.json() == {"tuples": 3, "late": 0, "time": 3, "position": 2}  # 1 was the query
    post = served.client.post
    csv = post("/tuples", content=b"label,source,target,timestamp\nb,w,v,4\n", headers={"content-type": "text/csv"})
    assert csv.json() == {"tuples": 1, "late": 0, "time": 4, "position": 3}
    bare = post("/tuples", content=b"v\tu\tb\t5\nx\ty\ta\t6\t-\n", headers={"content-type": "text/csv; charset=utf-8"})
    assert bare.json()["tuples"] == 2 and served.answers("a/b*") == set()
    body = arrow(source=["x", "x"], target=["y", "q"], label=["a", "a"], timestamp=[7, -1000], op=["+", "+"])
    sent = post("/tuples", content=body, headers={"content-type": "application/vnd.apache.arrow.stream"})
    assert sent.json() == {"tuples": 2, "late": 1, "time": 7, "position": 5}
    assert served.answers("a/b*") == {("x", one) for one in "yzwvu"}
    empty = post("/tuples", content=b"\n# nothing\n", headers={"content-type": "text/csv"})
    assert empty.json() == {"tuples": 0, "late": 0, "time": 7, "position": 5}


def test_arrow_of_several_dictionaries_and_of_times(tmp_path):
    with Served({"expression": "a+", "window": "1h", "slide": "1m"}) as served:
        batches = [
            pa.record_batch(
                {
                    "source": pa.array([source]).dictionary_encode(),
                    "target": pa.array(["t"]).dictionary_encode(),
                    "label": pa.array(["a"]).dictionary_encode(),
                    "timestamp": pa.array([second], pa.timestamp("s", "UTC")),
                }
            )
            for source, second in (("p", 60), ("q", 90))
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        type_ = {"content-type": "application/vnd.apache.arrow.stream"}
        with served.follow() as events:
            events.next("start")
            applied = served.client.post("/tuples", content=sink.getvalue().to_pybytes(), headers=type_)
            assert applied.json()["time"] == "1970-01-01T00:01:30Z"
            assert [row[2] for row in events.rows(2)] == ["1970-01-01T00:01:00Z", "1970-01-01T00:01:30Z"]
        assert served.answers("a+") == {("p", "t"), ("q", "t")}


def test_a_stream_is_named_by_a_parameter_or_a_column():
    sparql = "SELECT ?x ?y FROM NAMED WINDOW <w> ON <left> [RANGE PT100S STEP PT10S] WHERE { WINDOW <w> { ?x <a> ?y } }"
    with Served({"expression": sparql, "name": "left"}, time_unit="s") as served:
        assert served.post(("x", "y", "a", 1), stream="left").status_code == 200
        assert served.post(("x", "z", "a", 2), stream="right").status_code == 200
        body = json.dumps({"source": "x", "target": "w", "label": "a", "timestamp": 3, "stream": "left"}).encode()
        type_ = {"content-type": "application/x-ndjson"}
        assert served.client.post("/tuples", content=body, headers=type_).status_code == 200
        assert served.answers("left") == {("x", "y"), ("x", "w")}
        both = served.client.post("/tuples?stream=left", content=body, headers=type_)
        assert both.status_code == 422 and "one of the two" in error_of(both)["message"]


@pytest.mark.parametrize(
    ("body", "type_", "status", "message", "line"),
    [
        (lines(*TUPLES) + b"{", "application/x-ndjson", 422, "the body:4", 4),
        (b'{"source":"x","target":"y","label":"a","timestamp":"soon"}', "application/x-ndjson", 422, "soon", 1),
        (b"source,target,label,timestamp\nx,y,a,1\nx,y,a\n", "text/csv", 422, "expected 4", 3),
        (b"x,y\n", "text/csv", 422, "does not determine the columns", 1),
        (b"\xff\xfe,y,a,1\n", "text/csv", 422, "UTF-8", 1),
        (b"no arrow", "application/vnd.apache.arrow.stream", 422, "not a stream in Arrow", None),
        (arrow(source=["x"], target=["y"]), "application/vnd.apache.arrow.stream", 422,
         "the columns label and timestamp are missing; expected source, target, label, timestamp and optionally op or "
         "delete, found source, target; add label and timestamp", None),
        (b"user,item,ts\na,b,1\n", "text/csv", 422, "rename user to source, item to target, ts to timestamp, add label", 1),
        (b'{"source":"a","target":"b","timestamp":1}', "application/x-ndjson", 422, "column 'label': is missing", 1),
        (arrow(source=["x"], target=["y"], label=["a"], timestamp=[1])[:-40], "application/vnd.apache.arrow.stream", 422,
         "not a stream in Arrow", None),
        (b'[{"source":"a","target":"b",\n"label":"a","timestamp":1}\n,{"source":"a"}]', "application/json", 422,
         "the body:2", 2),
        (lines(*TUPLES), "application/json", 422, "send several objects, one per line, as application/x-ndjson", None),
        (b"[1]", "application/json", 422, "the body:1", 1),
        (b"[" * 100_000, "application/json", 422, "nested too deeply", None),
        (lines(*TUPLES), "text/plain", 415, "text/plain", None),
        (lines(*TUPLES), "", 415, "no content type", None),
        (b'{"source":1,"target":2,"label":"a","timestamp":1}', "application/x-ndjson", 422, "integers or text", None),
    ],
)  # fmt: skip
def test_a_body_that_is_not_understood_is_not_applied(unchanged, body, type_, status, message, line):
    response = unchanged.client.post("/tuples", content=body, headers={"content-type": type_} if type_ else {})
    assert response.status_code == status, response.text
    error = error_of(response)
    assert message in error["message"] and error.get("line") == line
    assert unchanged.answers("a/b*") == {("p", "q")}


@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_an_object_or_an_array_of_objects(served, indent):
    edges = [dict(zip(("source", "target", "label", "timestamp"), one, strict=True)) for one in TUPLES]
    edges[0]["note"] = "two\r\nlines"
    type_ = {"content-type": "application/json; charset=utf-8"}
    for document, count in ((edges[0], 1), (edges[1:], len(edges) - 1), ([], 0)):
        body = "\r\n" + json.dumps(document, indent=indent) + "\n"
        response = served.client.post("/tuples", content=body.encode(), headers=type_)
        assert response.status_code == 200 and response.json()["tuples"] == count, response.text
    with Served(PATH) as other:
        other.post(*TUPLES)
        assert served.answers("a/b*") == other.answers("a/b*") != set()


def test_a_tuple_that_the_engine_does_not_take_ends_its_post_alone(served):
    late = ("x", "y", "a", 2**63 - 1)
    response = served.post(("x", "y", "a", 1), ("y", "z", "b", 2), late, ("z", "w", "b", 3))
    error = error_of(response)
    assert response.status_code == 422 and error["type"] == "InputError" and error["row"] == 2 and error["applied"] == 2
    assert "row 2" in error["message"]
    assert served.post(("z", "w", "b", 4)).status_code == 200
    assert served.answers("a/b*") == {("x", "y"), ("x", "z"), ("x", "w")}


# --- queries ---------------------------------------------------------------------------------------------------------


def test_queries_come_and_go():
    with Served(keep=rpq.Window(size=100, slide=1)) as served:
        pattern = served.register("?x a ?y . ?y b ?z", window="count:10", select=["z"], distinct=True, name="p")
        text = "SELECT (COUNT(*) AS ?n) { ?x <b> ?y }"
        sparql = served.register(text, window="unbounded", name="s")
        served.post(*TUPLES)
        made = served.register("a/b*", window=100, slide=10, name="a path", semantics="explicit", sources=["y", "w", "x"])
        assert made.status_code == 201
        expected = {
            "name": "a path", "expression": "a/b*", "language": "path", "window": 100, "slide": 10,
            "semantics": "explicit", "paths": "walk", "report": "change", "columns": ["source", "target"], "answers": 3,
            "options": {"sources": ["w", "x", "y"]},
        }  # fmt: skip
        assert made.json() == expected
        assert pattern.json()["window"] == "count:10" and pattern.json()["columns"] == ["z"]
        assert pattern.json()["options"] == {"select": ["z"], "distinct": True}
        assert sparql.status_code == 201 and sparql.json()["language"] == "sparql"
        assert [one["name"] for one in served.client.get("/queries").json()["queries"]] == ["p", "s", "a path"]
        assert served.of("a path").json() == expected
        assert served.answers("p") == {("z",)} and served.of("s", "answers").json()["rows"] == [[2]]
        assert served.client.delete("/queries/p").status_code == 204
        gone = served.of("p")
        assert gone.status_code == 404 and error_of(gone)["type"] == "NoSuchQuery"
        assert served.client.delete("/queries/p").status_code == 404
        taken = served.register("b", window=10, name="a path")
        assert taken.status_code == 409 and error_of(taken)["type"] == "NameTaken"


def test_a_window_slides_by_a_thirtieth_unless_told_otherwise():
    with Served(time_unit="s") as served:
        windows = (300, 7, "30d", "1h")
        found = {window: served.register("a", window=window, name=str(window)).json()["slide"] for window in windows}
        assert found == {300: 10, 7: 1, "30d": "1d", "1h": "2m"}
        mixed = served.register("a", window="1h", slide=60, name="mixed").json()
        assert (mixed["window"], mixed["slide"]) == (3600, 60)


def test_parameters_are_a_field_and_survive_a_restart(tmp_path):
    text, parameters = "MATCH (x {id: $who[0]})-[:a]->(y) WHERE y <> $not RETURN x, y", {"who": ["x"], "not": "z"}
    for target in ("y", "z", "v"):
        with Served(checkpoint=tmp_path / "state") as served:
            if target == "y":
                made = served.register(text, window=10, name="q", parameters=parameters)
                assert made.status_code == 201 and made.json()["options"]["parameters"] == parameters
            assert served.post(("x", target, "a", 2), ("y", target, "a", 2)).status_code == 200
            answers = served.answers("q")
    assert answers == {("x", "y"), ("x", "v")}


def test_the_label_of_nodes_is_a_field_and_survives_a_restart(tmp_path):
    text, fields = "MATCH (x:A)-[:a]->(y) RETURN DISTINCT x, y", {"window": 10, "name": "q", "node_label": "is"}
    for target in "yz":
        with Served(checkpoint=tmp_path / "state") as served:
            if target == "y":
                assert served.register(text, **fields).status_code == 201
                assert served.post(("x", "A", "is", 1)).status_code == 200
            assert served.post(("x", target, "a", 2)).status_code == 200
            answers = served.answers("q")
    assert answers == {("x", "y"), ("x", "z")}


def test_posted_nodes_have_facts_that_queries_read_and_survive_a_restart(tmp_path):
    text = "(a/@[risk > 3])+"
    lines, csv = {"content-type": "application/x-ndjson"}, {"content-type": "text/csv"}
    with Served({"expression": text, "window": 10, "slide": 1}, checkpoint=tmp_path / "state") as served:
        post = served.client.post
        assert served.post(("x", "y", "a", 1), ("y", "z", "a", 2)).status_code == 200
        body = [{"node": "y", "risk": 4, "labels": ["Account", "New"]}, {"node": "z", "risk": None}]
        applied = post("/nodes", json=body)
        assert applied.status_code == 200 and applied.json() == {"records": 2, "time": 2, "position": 3}
        assert served.answers(text) == {("x", "y")}
        assert post("/nodes", content=b'{"node":"z","risk":5,"timestamp":3}\n{"node":"y","country":"NL"}\n', headers=lines)
        assert served.answers(text) == {("x", "y"), ("y", "z"), ("x", "z")}
    with Served(checkpoint=tmp_path / "state") as served:
        assert served.answers(text) == {("x", "y"), ("y", "z"), ("x", "z")}
        found = served.client.get("/nodes/y").json()
        assert (found["labels"], found["properties"]["country"], found["time"]) == (["Account", "New"], "NL", 3)
        assert served.client.post("/nodes", content=b"node,op\nz,-\n", headers=csv).json()["records"] == 1
        assert served.answers(text) == {("x", "y")}
        assert served.client.get("/statistics").json()["tuples"] == 2
        missing = served.client.get("/nodes/z")
        assert missing.status_code == 404 and error_of(missing)["type"] == "NoSuchNode"


@pytest.mark.parametrize(
    ("body", "type_", "message"),
    [
        (b'{"node":"x"}\n{"node":"y","id":"z"}\n', "application/x-ndjson", ":2: column 'id': 'z' is not the name"),
        (b'[{"node":"x"},{"risk":1}]', "application/json", ":2: column 'node': is missing"),
        (b'{"node":"x","labels":[1]}', "application/json", "no list of labels"),
        (b"node,op\nx,?\n", "text/csv", ":2: column 'op': '?' is not an operation"),
        (b'{"node":"x","timestamp":"2024-05-01"}', "application/json", "expected numbers, or a time unit"),
    ],
)
def test_records_of_nodes_that_are_not_understood_are_not_applied(served, body, type_, message):
    refused = served.client.post("/nodes", content=body, headers={"content-type": type_})
    assert refused.status_code == 422 and message in error_of(refused)["message"]
    assert served.client.get("/nodes/x").status_code == 404


@pytest.mark.parametrize(
    ("fields", "message", "place"),
    [
        ({"expression": "a/b||c"}, "unexpected '|'", {"line": 1, "column": 5, "length": 1, "field": "expression"}),
        ({"expression": "a/\n(b"}, "end", {"line": 2, "column": 3}),
        ({"expression": "?x a ?y . ?y b"}, "", {"line": 1, "field": "expression"}),
        ({"expression": "SELECT ?x { ?x <a> ?y FILTER(?y < NOW()) }"}, "NOW is", {"line": 1, "column": 35, "length": 3}),
        ({"expression": "MATCH (a)-->(b)\nRETURN c"}, "no variable c", {"line": 2, "column": 8, "field": "expression"}),
        ({"expression": "MATCH (a)-->(b) RETURN a GROUP BY a"}, "GROUP BY is refused", {"line": 1, "column": 26}),
        ({"expression": "a", "window": "30 days"}, "30 days", {"field": "window"}),
        ({"expression": "a", "window": "30d"}, "--time-unit", {}),
        ({"expression": "a", "window": True}, "window", {"field": "window"}),
        ({"expression": "a", "semantics": "explizit"}, "did you mean 'explicit'", {"field": "semantics"}),
        ({"expression": "a", "wndow": 3}, "did you mean 'window'", {"field": "wndow"}),
        ({"expression": "a", "start": "later"}, "'empty' or 'window'", {"field": "start"}),
        ({"expression": "a", "select": ["x"]}, "select", {"field": "select"}),
        ({"expression": "a", "node_label": "is"}, "is an option of MATCH", {"field": "node_label"}),
        ({"expression": "a", "parameters": {"x": 1}}, "is an option of MATCH", {"field": "parameters"}),
        ({"expression": "MATCH (a {id: $x}) RETURN a"}, "$x", {"line": 1, "column": 15}),
        ({"expression": "MATCH (a) RETURN a", "parameters": {"x": 1}}, "no $x", {"field": "parameters"}),
        ({"expression": "MATCH (a) RETURN a", "parameters": [1]}, "parameters", {"field": "parameters"}),
        ({"expression": "a", "name": "."}, "no address", {"field": "name"}),  # clients take them out of a path
        ({"expression": "a", "name": ".."}, "no address", {"field": "name"}),
        ({"expression": "a\ud800"}, "surrogate", {"field": "expression"}),
        ({"expression": "a", "\ud800": 1}, "not a field of a query", {"field": "\\ud800"}),
        ({"expression": "a", "sources": ["x", 2.5]}, "sources: expected a list", {"field": "sources"}),
        ({"expression": "a", "simple_budget": 0}, "a whole number from 1, not 0", {"field": "simple_budget"}),
        ({"expression": "(" * 5000}, "", {}),
        ({"expression": ""}, "expected a text", {"field": "expression"}),
        ({"window": 10}, "expected a text", {"field": "expression"}),
        (["a"], "object", {}),
    ],
)
def test_a_query_that_is_not_understood_says_where(unchanged, fields, message, place):
    if isinstance(fields, dict):
        fields = {"window": 100, **fields} if "expression" in fields else fields
    for path in ("/queries", "/check"):
        if message == "--time-unit" and path == "/check":
            continue  # a text alone is understood: which unit the stream has nobody asks
        response = unchanged.client.post(path, content=json.dumps(fields), headers={"content-type": "application/json"})
        error = error_of(response)
        assert response.status_code == 422, error
        assert message in error["message"], error
        assert {name: error.get(name) for name in place} == place
    assert len(unchanged.client.get("/queries").json()["queries"]) == 1


def test_a_query_whose_edges_were_not_kept_says_from_when_it_can_be_had(served):
    served.post(("x", "y", "c", 5), ("x", "y", "a", 50))
    refused = served.register("c", window=100, slide=10)
    error = error_of(refused)
    assert refused.status_code == 409 and error["type"] == "RegistrationError" and error["available_from"] == 110
    assert served.register("c", window=100, slide=10, start="empty").status_code == 201


def posted(served, body, type_="application/x-ndjson"):
    return served.client.post("/tuples", content=body, headers={"Content-Type": type_})


def test_posts_have_properties(served):
    assert served.register("a[n > 1]", window=10, slide=1, name="q").status_code == 201
    line = '{"source":"x","target":"%s","label":"a","timestamp":1%s}\n'
    assert posted(served, line % ("p", ',"n":2,"m":[]') + line % ("q", "") + line % ("r", ',"n":1')).status_code == 200
    assert posted(served, "source,target,label,timestamp,n\nx,u,a,2,5\nx,v,a,2,\n", "text/csv").status_code == 200
    assert posted(served, "source,target,label,timestamp\nx,w,a,2\n", "text/csv").status_code == 200  # n is null
    assert served.answers("q") == {("x", "p"), ("x", "u")}
    sink = pa.BufferOutputStream()
    table = pa.table({"source": ["x"], "target": ["z"], "label": ["a"], "timestamp": [3], "n": [7]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    refused = posted(served, sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream")
    assert refused.status_code == 422  # in text the values of n are loose
    assert error_of(refused)["field"] == "n"
    late = served.register("a[m > 1]", window=10, slide=1)
    assert late.status_code == 409
    assert "was not stored" in error_of(late)["message"]


def test_a_posted_query_has_an_order_in_time(tmp_path):
    """Registered while the server runs, kept over a restart, followed and asked for a witness."""
    checkpoint = tmp_path / "state"
    wanted = {"window": 100, "slide": 10, "semantics": "explicit", "order": "increasing", "max_gap": 10, "max_span": 15}
    with Served(checkpoint=checkpoint, edges="parallel") as served:
        assert served.register("a+", name="q", **wanted).status_code == 201
        far = {"name": "far", "select": ["source", "target", "length"]}
        assert served.register("a+", **wanted, **far).status_code == 201
        served.post(("y", "z", "a", 5), ("x", "y", "a", 7), ("z", "w", "a", 12))
        assert served.answers("q") == {("y", "z"), ("x", "y"), ("z", "w"), ("y", "w")}
        assert served.answers("far") == {("y", "z", 1), ("x", "y", 1), ("z", "w", 1), ("y", "w", 2)}
        mistaken = served.register("a+", name="r", window=100, slide=10, max_gap=10)
        assert mistaken.status_code == 422
        assert "pass order=" in error_of(mistaken)["message"]
    with Served(checkpoint=checkpoint, edges="parallel") as served, served.follow("q") as changes:
        served.post(("y", "z", "a", 8))  # late
        assert {(op, values) for _, op, _, values in changes.rows(2)} == {("+", ("x", "z")), ("+", ("x", "w"))}
        assert [edge["timestamp"] for edge in served.of("q", "witness", value=["x", "w"]).json()["edges"]] == [7, 8, 12]
        assert len(served.of("far", "witness", value=["x", "w", "3"]).json()["edges"]) == 3
    with Served() as served:
        refused = served.register("a+", name="q", **wanted)
        assert refused.status_code == 422
        assert "rpq serve --edges parallel" in error_of(refused)["message"]


@pytest.mark.parametrize("edges", ["triple", "id"])
def test_a_posted_pattern_has_edge_variables_and_a_filter(edges, tmp_path):
    line = '{"source":"%s","target":"%s","label":"a","timestamp":%d,"n":%d,"m":"%s"%s}\n'

    def edge(source: str, target: str, time: int, n: int, tx: str) -> str:
        return line % (source, target, time, n, "m" + tx, f',"edge":"{tx}"' if edges == "id" else "")

    select = ["?x", "?f.m", "?f.timestamp"] + (["?e"] if edges == "id" else [])
    wanted = {"window": 10, "slide": 5, "name": "q", "select": select, "filter": "?f.n >= 2 * ?e.n and ?x <> ?z"}
    chain = "?x ?e:a ?y . ?y ?f:a ?z"
    expected = {"triple": (), "id": ("7",)}[edges]
    checkpoint = tmp_path / "state"
    with Served(checkpoint=checkpoint, edges=edges) as served:
        assert served.register(chain, **wanted).status_code == 201
        mistaken = served.register(chain, **{**wanted, "name": "r", "filter": "?f.n >= ?g.n"})
        assert mistaken.status_code == 422
        assert "no variable ?g" in error_of(mistaken)["message"]
        body = edge("x", "y", 1, 3, "7") + edge("y", "z", 2, 5, "8") + edge("y", "w", 2, 6, "9") + edge("y", "x", 2, 9, "5")
        assert posted(served, body).status_code == 200
        assert served.of("q", "answers").json()["columns"] == [name.removeprefix("?") for name in select]
        assert served.answers("q") == {("x", "m9", 2, *expected)}
        witness = served.of("q", "witness", value=["x", "m9", "2", *map(str, expected)]).json()
        walked = [(one["source"], one["target"], one["timestamp"]) for one in witness["edges"]]
        assert walked == [("x", "y", 1), ("y", "w", 2)]
        assert witness["edges"][1]["properties"] == {"m": "m9", "n": "6"}
        second = served.register("?x ?e:a ?y", window=10, slide=5, name="second", select=["e.m"], filter="?e.n < 4")
        assert second.status_code == 201  # of edges that are there
        assert served.answers("second") == {("m7",)}
        lost = served.register("?x ?e:a ?y", window=10, slide=5, name="third", select=["e.k"])
        assert lost.status_code == 409
        assert "the values of k were not stored" in error_of(lost)["message"]
    with Served(checkpoint=checkpoint, edges=edges) as served:
        assert served.answers("q") == {("x", "m9", 2, *expected)}
        with served.follow("q") as changes:
            assert posted(served, edge("y", "v", 3, 7, "6")).status_code == 200
            assert changes.rows(1) == [("q", "+", 3, ("x", "m6", 3, *expected))]
        served.service.input_columns = ("m", "n")  # as of a server with an --input
        refused = served.register("?x ?e:a[k > 1] ?y", window=10, slide=5, paths="simple", filter="?e.m <> 'x'")
        assert refused.status_code == 422
        assert "reads k, and the server does not read this from its input" in error_of(refused)["message"]


@pytest.mark.parametrize(
    "when", [datetime(2024, 1, 1, 12), datetime(2024, 7, 1, 12, 0, 0, 5, tzinfo=ZoneInfo("Europe/Berlin"))]
)
def test_a_row_with_a_date_has_a_witness_by_the_text_that_answers_have(when):
    query = {"expression": "MATCH (x)-[e:a]->(y) RETURN x, e.paid"}
    body = arrow(source=["x", "x"], target=["y", "z"], label=["a", "a"], timestamp=[1, 2], paid=[when, None])
    with Served({**query, "name": "q", "window": 10, "slide": 1}, edges="parallel") as served:
        sent = {"content": body, "headers": {"content-type": "application/vnd.apache.arrow.stream"}}
        assert served.client.post("/tuples", **sent).status_code == 200
        for x, paid in served.answers("q"):
            edges = served.of("q", "witness", value=[x, paid or ""]).json()["edges"]
            assert [edge["target"] for edge in edges] == ["y" if paid else "z"]
            assert edges[0].get("properties", {}).get("paid") == paid
        assert served.of("q", "witness", value=["x", "2023-01-01T12:00:00"]).status_code == 404
        assert served.of("q", "witness", value=["x", "soon"]).status_code == 404


def test_a_posted_path_query_has_lengths(tmp_path):
    checkpoint = tmp_path / "state"
    wanted = {"window": 10, "slide": 5, "name": "q", "select": ["source", "target", "length"]}
    line = '{"source":"%s","target":"%s","label":"a","timestamp":%d}\n'
    with Served(checkpoint=checkpoint) as served:
        assert served.register("a+", **wanted).status_code == 201
        assert posted(served, line % ("x", "y", 1) + line % ("y", "z", 2)).status_code == 200
        assert served.answers("q") == {("x", "y", 1), ("x", "z", 2), ("y", "z", 1)}
        assert served.register("a+", **{**wanted, "name": "r", "select": ["length"]}).status_code == 422
    with Served(checkpoint=checkpoint) as served:
        with served.follow("q") as changes:
            assert posted(served, line % ("x", "z", 3)).status_code == 200
            assert changes.rows(2) == [("q", "-", 3, ("x", "z", 2)), ("q", "+", 3, ("x", "z", 1))]
        assert served.of("q", "witness", value=["x", "z", "1"]).status_code == 200
        assert served.of("q", "witness", value=["x", "z", "2"]).status_code == 404


def test_a_posted_match_text_has_rows_and_survives_a_restart(tmp_path):
    line = '{"source":"%s","target":"%s","label":"a","timestamp":%d,"n":%d}\n'
    text = "MATCH (x)-[e:a]->(y) WHERE e.n > 2 RETURN x, count(*) AS number, sum(e.n) AS total"
    optional = "MATCH (x)-[e:a]->(y) OPTIONAL MATCH (y)-[f:a]->(z) RETURN x, e.timestamp, f.n, z"
    cypher = "MATCH (x)-[:a*1..2]->(y) RETURN DISTINCT x, y"
    with Served(checkpoint=tmp_path / "state", edges="parallel") as served:
        assert served.register(text, window=10, slide=5, name="q").status_code == 201
        refused = served.register(cypher, window=10, slide=5, name="r")
        assert refused.status_code == 422 and "write {1,2}" in error_of(refused)["message"]
        assert served.register(cypher, window=10, slide=5, name="r", language="cypher").status_code == 201
        assert served.client.get("/queries/q").json()["language"] == "gql"
        assert served.client.get("/queries/r").json()["language"] == "cypher"
        assert served.register(optional, window=10, slide=5, name="s").status_code == 201
        assert posted(served, line % ("x", "y", 1, 3) + line % ("x", "y", 2, 1) + line % ("y", "z", 2, 5)).status_code == 200
        assert {(x, n) for x, n, _ in served.answers("q")} == {("x", 1), ("y", 1)}
        assert "group by ?x" in served.of("q", "explain").json()["text"]
        witness = served.of("r", "witness", value=["x", "z"]).json()
        assert [(edge["source"], edge["target"], edge["timestamp"]) for edge in witness["edges"]][-1] == ("y", "z", 2)
        assert witness["binding"] == {"x": "x", "y": "z"}
        refused = served.of("q", "witness", value=["x", "1", "3"])
        assert refused.status_code == 422 and "MATCH with aggregates" in error_of(refused)["message"]
        witness = served.of("s", "witness", value=["y", "2", "", ""]).json()
        assert [atom["atom"] for atom in witness["atoms"]] == ["?x ?e:a ?y"]
        assert served.of("s", "witness", value=["x", "2", "", ""]).status_code == 404
    with Served(checkpoint=tmp_path / "state", edges="parallel") as served:
        assert served.answers("r") == {("x", "y"), ("y", "z"), ("x", "z")}
        assert posted(served, line % ("x", "y", 3, 4)).status_code == 200
        assert {(x, n, int(total)) for x, n, total in served.answers("q")} == {("x", 2, 7), ("y", 1, 5)}


def test_edges_of_posts_have_ids_also_after_a_crash(tmp_path):
    (tmp_path / "one").mkdir()
    query = {"expression": "a[n > 1]/b", "window": 10, "slide": 5, "name": "q"}
    line = '{"source":"%s","target":"%s","label":"%s","timestamp":%d,"tx":0,"edge":"%s","n":%d}\n'
    delete = '{"op":"-","timestamp":3,"edge":"%s"}\n'
    with Served(query, checkpoint=tmp_path / "one" / "state", edges="id") as served:
        assert posted(served, line % ("x", "y", "a", 1, "e", 2) + line % ("y", "z", "b", 1, "f", 0)).status_code == 200
        assert posted(served, line % ("w", "y", "a", 2, "e", 2) + line % ("v", "y", "a", 2, "g", 2)).status_code == 200
        refused = posted(served, '{"source":"x","target":"y","label":"a","timestamp":3}\n')
        assert refused.status_code == 422
        assert error_of(refused)["field"] == "edge"
        assert served.answers("q") == {("w", "z"), ("v", "z")}
        shutil.copytree(tmp_path / "one", tmp_path / "two")  # what a crash leaves: the tuples are in the journal alone
        assert posted(served, delete % "g").status_code == 200
        assert served.answers("q") == {("w", "z")}
    for folder, expected in (("one", {("w", "z")}), ("two", {("w", "z"), ("v", "z")})):
        with Served(query, checkpoint=tmp_path / folder / "state", edges="id") as served:
            assert served.answers("q") == expected
            assert posted(served, delete % "e").status_code == 200
            assert served.answers("q") == expected - {("w", "z")}


def test_a_query_that_reads_what_the_input_is_read_without_is_refused(served):
    served.service.input_columns = ("m",)  # as of a server with an --input
    refused = served.register("a[n > 1 and m > 1]", window=10, slide=1)
    assert refused.status_code == 422
    assert "reads n, and the server does not read this from its input" in error_of(refused)["message"]
    assert served.register("a[m > 1]", window=10, slide=1).status_code == 201


def test_a_check_tells_and_draws_without_registering(served):
    def check(**fields):
        return served.client.post("/check", json=fields).json()

    path = check(expression="a/b*", window=10)
    assert path["language"] == "path" and path["columns"] == ["source", "target"]
    assert "minimal automaton: 2 states" in path["text"] and path["svg"].startswith("<svg ")
    pattern = check(expression="?x '<b>' ?y . ?y (a|b)+ \"&\"", window=10)
    assert pattern["language"] == "pattern" and "stroke-dasharray" in pattern["svg"]
    assert "<b>" not in pattern["svg"] and "&amp;" in pattern["svg"]
    sparql = check(expression="SELECT ?x ?z { ?x <a>* ?y }", window=10)
    assert sparql["language"] == "sparql" and sparql["svg"] is None and "nothing binds ?z" in sparql["warnings"][0]
    assert len(served.client.get("/queries").json()["queries"]) == 1
    assert served.of("a/b*", "explain").json() == {"text": path["text"], "svg": path["svg"]}


# --- answers and witnesses -------------------------------------------------------------------------------------------


def test_answers_as_json_csv_and_arrow(served):
    served.post(("<script>", "a,b", "a", 1), ("<script>", 'say "hi"\n', "a", 2), ("<script>", "c", "a", 3))
    expected = {("<script>", "a,b"), ("<script>", 'say "hi"\n'), ("<script>", "c")}
    assert served.answers("a/b*") == expected
    some = served.of("a/b*", "answers", limit=2)
    assert len(some.json()["rows"]) == 2 and some.json()["total"] == 3 and some.headers["x-rpq-total"] == "3"
    assert some.headers["x-rpq-cursor"] == some.json()["cursor"]
    rest = served.of("a/b*", "answers", after=some.json()["cursor"]).json()
    assert rest["cursor"] is None and rest["total"] == 3
    assert {tuple(row) for row in some.json()["rows"] + rest["rows"]} == expected
    to_c = served.of("a/b*", "answers", source="<script>", target="c").json()
    assert to_c["rows"] == [["<script>", "c"]] and to_c["total"] == 3
    csv = served.of("a/b*", "answers", format="csv")
    assert csv.headers["content-type"] == "text/csv; charset=utf-8"
    read = pa.csv.read_csv(pa.BufferReader(csv.content), parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    assert {tuple(row.values()) for row in read.to_pylist()} == expected
    found = served.of("a/b*", "answers", format="arrow")
    with pa.ipc.open_stream(found.content) as reader:
        table = reader.read_all()
    assert {tuple(row.values()) for row in table.to_pylist()} == expected
    assert table.schema.metadata[b"rpq.total"] == b"3"
    for parameters, message in [
        ({"limit": 0}, "limit: expected a whole number from 1 to 1,000,000, not"),
        ({"limit": "all"}, "limit: expected a whole number from 1 to 1,000,000, not"),
        ({"format": "xml"}, "format: expected 'arrow' or 'csv' or 'json', not"),
        ({"limit": [1, 2]}, "?limit= occurs several times"),
        ({"other": 1}, "'other' is not a parameter: expected limit, after, source, target, format"),
    ]:
        refused = served.of("a/b*", "answers", **parameters)
        assert refused.status_code == 422 and message in error_of(refused)["message"], refused.text
        assert error_of(refused)["type"] == "BadParameter" and error_of(refused)["field"] == next(iter(parameters))
    refused = served.of("a/b*", "answers", after="7")
    assert refused.status_code == 422 and error_of(refused)["field"] == "after"


def test_a_witness_has_the_edges_in_their_order_with_their_times(served):
    served.post(*TUPLES)
    found = served.of("a/b*", "witness", value=["x", "w"]).json()
    assert found["edges"] == [
        {"source": source, "target": target, "label": label, "timestamp": time} for source, target, label, time in TUPLES
    ]
    assert served.of("a/b*", "witness", value=["x", "nobody"]).status_code == 404
    assert served.of("a/b*", "witness", value=["x"]).status_code == 422
    served.register("?x a ?y . ?y b+ ?z", window=100, name="p", start="empty")
    served.post(*[(source, target, label, time + 10) for source, target, label, time in TUPLES])
    of_pattern = served.of("p", "witness", value=["x", "y", "w"]).json()
    assert [atom["atom"] for atom in of_pattern["atoms"]] == ["?x a ?y", "?y b+ ?z"]
    assert [edge["timestamp"] for edge in of_pattern["edges"]] == [11, 12, 13]
    assert of_pattern["binding"] == {"?x": "x", "?y": "y", "?z": "w"}


def test_a_witness_against_the_direction_of_edges_and_of_integers():
    with Served({"expression": "^a/b", "window": 100, "slide": 10, "name": "back"}) as served:
        served.post((2, 1, "a", 1), (2, 3, "b", 2))
        assert served.answers("back") == {(1, 3)}
        found = served.of("back", "witness", value=["1", "3"]).json()
        assert found["edges"] == [
            {"source": 2, "target": 1, "label": "a", "timestamp": 1},
            {"source": 2, "target": 3, "label": "b", "timestamp": 2},
        ]
        assert served.of("back", "witness", value=["1", "x"]).status_code == 404


@pytest.mark.parametrize("name", ["x/answers", "<script>alert(1)</script>", "ü %2F?#&", "...", "a\nb"])
def test_queries_have_any_name(name):
    with Served() as served:
        assert served.register("a+", window=10, slide=1, name=name).status_code == 201
        with served.follow(name) as events:
            served.post(("<img src=x onerror=alert(1)>", "y", "a", 1))
            assert events.rows(1) == [(name, "+", 1, ("<img src=x onerror=alert(1)>", "y"))]
        assert served.of(name).json()["name"] == name
        assert served.of(name, "answers").json()["rows"] == [["<img src=x onerror=alert(1)>", "y"]]
        response = served.of(name, "nothing")
        assert response.status_code == 404 and "<script" not in response.headers.get("content-type", "")
        assert f'query="{name}"' in served.client.get("/metrics").text or "\n" in name or "\\" in name


# --- the server itself -----------------------------------------------------------------------------------------------


def test_statistics_and_metrics_count(served):
    served.post(*TUPLES, ("x", "y", "a", -500))
    figures = served.client.get("/statistics").json()
    assert figures["tuples"] == 4 and figures["late"] == 1 and figures["time"] == 3 and figures["position"] == 2
    assert figures["memory_bytes"] > 1 << 20 and figures["latency_ms"]["p50"] > 0
    (query,) = figures["queries"]
    assert query["name"] == "a/b*" and query["answers"] == 3 and query["rows"] == 3
    metrics = served.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    for line in ("rpq_tuples_total 4.0", "rpq_late_total 1.0", 'rpq_query_answers_live{query="a/b*"} 3.0', "rpq_failed 0.0"):
        assert line in metrics.text.splitlines(), line
    assert 'rpq_latency_seconds_bucket{le="+Inf"} 4.0' in metrics.text


def test_health_readiness_page_and_paths_that_are_not_there(served):
    assert served.client.get("/healthz").json() == {"status": "alive"}
    assert served.client.get("/readyz").json() == {"status": "ready"}
    page = served.client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for path in ("/nothing", "/page/nothing.js", "/page/../service.py", "/page/%2e%2e/service.py", "/queries/", "/tuples/"):
        response = served.client.get(path)
        assert response.status_code == 404, path
        assert response.headers["x-content-type-options"] == "nosniff"
    wrong = served.client.put("/queries")
    assert wrong.status_code == 405 and "GET" in wrong.headers["allow"]
    assert served.client.get("/playback").status_code == 404


REPORTS = "REGISTER RSTREAM <q> AS SELECT ?x ?y { ?x <a> ?y }"


def arrow_body(table: pa.Table, **options) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def arrow_columns(count: int, *sources: pa.Array) -> pa.Table:
    plain = {"target": ["y"] * count, "label": ["a"] * count, "timestamp": [1] * count}
    return pa.table({"source": pa.chunked_array(sources) if sources else ["x"] * count, **plain})


def arrow_bodies_that_expand() -> dict[str, bytes]:
    """Return bodies of less than 200 kB whose values have over a megabyte."""
    few, long = np.zeros(1000, np.int8), pa.array([20_000 * "x"])
    runs = pa.RunEndEncodedArray.from_arrays([1000], long)
    end = pa.array([2**31 - 1], pa.int32())
    endless = {name: pa.RunEndEncodedArray.from_arrays(end, [""]) for name in ("source", "target", "label")}
    found = {
        "packed": arrow_body(arrow_columns(1000, pa.array(1000 * [20_000 * "x"])), compression="zstd"),
        "dictionary": arrow_body(arrow_columns(1000, pa.DictionaryArray.from_arrays(few, long))),
        "runs": arrow_body(arrow_columns(1000, runs)),
        "endless runs": arrow_body(pa.table({**endless, "timestamp": pa.RunEndEncodedArray.from_arrays(end, [1])})),
        "no values": arrow_body(pa.table({name: pa.nulls(1 << 30) for name in ("source", "target", "label", "timestamp")})),
    }
    with contextlib.suppress(ValueError):  # older releases of pyarrow cannot make such an array
        views = np.zeros((1000, 4), np.int32)  # length, prefix, buffer, offset
        views[:, 0], views[:, 1] = 20_000, int.from_bytes(b"xxxx", "little")
        buffers = [None, pa.py_buffer(views), pa.py_buffer(20_000 * b"x")]
        found["views"] = arrow_body(arrow_columns(1000, pa.Array.from_buffers(pa.string_view(), 1000, buffers)))
    sink = pa.BufferOutputStream()
    schema = pa.schema({"source": pa.dictionary(pa.int32(), pa.string())})
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for count in range(1, 100):
            words = [f"{number}{500 * 'x'}" for number in range(count)]
            sources = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), words)
            writer.write_batch(pa.record_batch([sources], schema=schema))
    return {**found, "dictionaries that grow": sink.getvalue().to_pybytes()}


@pytest.mark.parametrize(
    "kind", ["packed", "dictionary", "runs", "endless runs", "no values", "views", "dictionaries that grow"]
)
def test_a_body_in_arrow_is_refused_before_it_expands(kind):
    body = arrow_bodies_that_expand().get(kind)
    if body is None:
        pytest.skip("this pyarrow cannot make it")
    with pytest.raises(InputSizeError, match="have over .* bytes; send in parts"):
        requests.read_tuple_body(body, requests.ARROW[0], stream=None, time_unit=None, most_bytes=1_000_000)


def test_a_body_in_arrow_may_be_packed_or_repeat_values():
    few = np.zeros(1000, np.int8)
    for body in (
        *(arrow_body(arrow_columns(1000), compression=compression) for compression in (None, "zstd", "lz4")),
        arrow_body(arrow_columns(1000, pa.DictionaryArray.from_arrays(few, ["x"]))),
        arrow_body(arrow_columns(1000, pa.RunEndEncodedArray.from_arrays([900, 1000], ["x", "z"]))),
        arrow_body(arrow_columns(1000, pa.array(["x", None] * 500, pa.string_view()))),
    ):
        found = requests.read_tuple_body(body, requests.ARROW[0], stream=None, time_unit=None, most_bytes=300_000)
        assert found.columns.num_rows == 1000 and found.size < 200_000


def test_the_address_names_columns_and_the_label_of_a_body(served):
    send, names = served.client.post, {"columns": "source=from.id,target=to,timestamp=at", "label": "a"}
    body, json_lines = b'{"from":{"id":"x"},"to":"y","at":1}', {"content-type": "application/x-ndjson"}
    assert send("/tuples", content=body, headers=json_lines, params=names).status_code == 200
    assert served.answers("a/b*") == {("x", "y")}
    for parameter, value in (("columns", "source=x"), ("label", "a")):
        refused = send("/tuples", content=b"", headers={"content-type": "application/n-quads"}, params={parameter: value})
        assert refused.status_code == 422
        assert f"?{parameter}= is for JSON and CSV; its columns have fixed names" in error_of(refused)["message"]


@pytest.mark.parametrize(("head", "parameter"), [("source,target,label", "stream"), ("source,target", "label")])
def test_what_the_address_gives_to_all_tuples_counts_for_each(head, parameter):
    row = b"x,y,a,1\n" if parameter == "stream" else b"x,y,1\n"
    with Served(PATH, limits=ServeLimits(waiting_bytes=800_000)) as served:
        sent = {"content": f"{head},timestamp\n".encode() + row * 1000, "headers": {"content-type": "text/csv"}}
        refused = served.client.post("/tuples", **sent, params={parameter: 900 * "n"})
        assert refused.status_code == 413 and "over 79" in error_of(refused)["message"]
        assert served.application.bodies.waiting_bytes == 0
        assert served.client.post("/tuples", **sent, params={parameter: "n"}).status_code == 200


@pytest.mark.parametrize("parameter", ["label", "stream"])
def test_what_the_address_gives_to_all_tuples_is_short(parameter):
    body = b"source,target,timestamp\nx,y,1\n" if parameter == "label" else lines(*TUPLES)
    type_ = "text/csv" if parameter == "label" else "application/x-ndjson"
    given = {"stream": None, "time_unit": None}
    found = requests.read_tuple_body(body, type_, **{**given, parameter: 1000 * "n"})
    assert found.columns.column(parameter)[0].as_py() == 1000 * "n"
    with pytest.raises(rpq.InputError, match=rf"\?{parameter}= has 1,001 characters; expected at most 1,000"):
        requests.read_tuple_body(body, type_, **{**given, parameter: 1001 * "n"})


def test_a_body_in_arrow_with_a_column_whose_name_is_not_utf_8_is_damaged():
    body = arrow_body(pa.table({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1], "further": [2]}))
    with pytest.raises(rpq.InputError, match="is not a stream in Arrow's IPC format: .*utf-8"):
        requests.read_tuple_body(body.replace(b"further", b"f\xffrther"), requests.ARROW[0], stream=None, time_unit=None)


def test_a_query_without_a_name_has_that_of_its_registration(served):
    query = {"expression": "PREFIX : <urn:> REGISTER RSTREAM :q AS SELECT ?x { ?x <a> ?y }", "window": 10, "slide": 5}
    created = served.client.post("/queries", json=query)
    assert (created.status_code, created.json()["name"]) == (201, "urn:q")
    assert served.client.get("/queries/urn:q").json()["expression"] == query["expression"]
    again = served.client.post("/queries", json=query | {"name": ""})
    assert again.status_code == 409 and "named 'urn:q'" in again.json()["error"]["message"]
    assert served.client.post("/queries", json=query | {"name": "r"}).json()["name"] == "r"
    unnamed = {"expression": "SELECT ?x { ?x <a> ?y }", "window": 10, "slide": 5}
    assert served.client.post("/queries", json=unnamed).json()["name"] == unnamed["expression"]


def test_the_next_reports_are_told_before_their_time_and_nothing_changes():
    window = {"window": 10, "slide": 5}
    others = {"expression": "?x a ?y", "report": "slide", "name": "o", **window}
    path = {"expression": "a", "name": "p", **window}
    with Served({"expression": REPORTS, "name": "q", **window}, others, path) as served:
        assert served.client.post("/flush").json() == {"changes": [], "total": 0, "time": None, "position": 3}
        served.post(["x", "y", "a", 1], ["p", "q", "a", 7])
        reports = served.client.post("/flush").json()
        assert (reports["total"], reports["time"], reports["position"]) == (3, 7, 4)
        rows = {(one["query"], one["op"], one["timestamp"], *one["values"]) for one in reports["changes"]}
        assert rows == {("q", "=", 10, "x", "y"), ("q", "=", 10, "p", "q"), ("o", "+", 10, "p", "q")}
        of_one = served.client.post("/flush", params={"query": "o"}).json()
        assert of_one["changes"] == [{"query": "o", "op": "+", "timestamp": 10, "values": ["p", "q"]}]
        few = served.client.post("/flush", params={"limit": 1}).json()
        assert (len(few["changes"]), few["total"]) == (1, 3)
        assert served.client.post("/flush", params={"query": "z"}).status_code == 404
        assert served.client.post("/flush", params={"limit": "all"}).status_code == 422
        follower = served.follow()
        served.post(["r", "s", "a", 11])
        rows = follower.rows(4)
        assert ("o", "+", 10, ("p", "q")) in rows and ("q", "=", 10, ("p", "q")) in rows, "reported again when due"


def test_paths_are_found_in_the_window_now():
    with Served({"expression": "a|b", "window": 10, "slide": 5}) as served:
        served.post(["x", "y", "a", 1], ["y", "z", "b", 2], ["z", "x", "c", 3])
        found = served.client.post("/find", json={"expression": "a/b?", "source": "x"}).json()
        assert (sorted(found["pairs"]), found["is_cut"], found["time"]) == ([["x", "y"], ["x", "z"]], False, 3)
        asked = {"expression": "a|b", "target": ["y", "z"], "limit": 1, "witness": True}
        found = served.client.post("/find", json=asked).json()
        ((source, target),) = found["pairs"]
        ((edge,),) = found["paths"]
        assert found["is_cut"] and (edge["source"], edge["target"]) == (source, target)
        ends = {"source": "z", "target": "y"}
        path = served.client.get("/check", params={"expression": "^b", **ends}).json()["path"]
        assert path == [{"source": "y", "target": "z", "label": "b", "timestamp": 2}]
        assert served.client.get("/check", params={"expression": "b", **ends}).json()["path"] is None
        lost = served.client.get("/check", params={"expression": "c", **ends})
        assert lost.status_code == 409 and "keep" in lost.json()["error"]["message"]
        few = served.client.get("/check", params={"expression": "(a|b)+", "source": "x", "target": "z", "max_edges": 1})
        assert (few.status_code, few.json()["error"]["type"]) == (422, "FindLimitError")
        for fields in ({"expression": "a"}, {"expression": "a/", "source": "x"}, {"expression": "a", "source": 1.5}):
            assert served.client.post("/find", json=fields).status_code == 422


def test_a_flush_beyond_the_limit_on_rows_leaves_the_engine_as_it_is():
    window = {"window": 10, "slide": 5}
    with Served({"expression": REPORTS, **window}, max_rows=2) as served:
        served.post(*(["x", str(number), "a", 1] for number in range(3)))
        refused = served.client.post("/flush")
        assert refused.status_code == 507 and "the engine remains usable" in refused.json()["error"]["message"]
        assert served.post(*(["x", str(number), "a", 2, "-"] for number in range(2))).status_code == 200
        assert served.client.post("/flush").json()["total"] == 1


def test_the_copy_that_a_flush_makes_is_released(monkeypatch):
    copies = []
    copy = rpq.Engine._copy

    def noted(engine: rpq.Engine) -> rpq.Engine:
        made = copy(engine)
        copies.append(weakref.ref(made._evaluation))
        return made

    monkeypatch.setattr(rpq.Engine, "_copy", noted)
    with Served({"expression": REPORTS, "window": 10, "slide": 5}) as served:
        served.post(["x", "y", "a", 1])
        gc.disable()
        try:
            assert served.client.post("/flush").json()["total"] == 1
            assert [one() for one in copies] == [None]
        finally:
            gc.enable()


def test_an_empty_value_of_a_witness_is_a_null_or_an_empty_text():
    query = {"expression": "?x ?e:a ?y", "select": ["?x", "?e.kind", "?e.note"], "name": "q", "window": 10, "slide": 5}
    columns = {"source": ["x", "x"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 2]}
    body = arrow(**columns, kind=["", "k"], note=pa.array([None, "n"]))
    with Served(query, edges="parallel") as served:
        sent = {"content": body, "headers": {"content-type": "application/vnd.apache.arrow.stream"}}
        assert served.client.post("/tuples", **sent).status_code == 200
        (edge,) = served.of("q", "witness", value=["x", "", ""]).json()["edges"]  # the first is a text, the second a null
        assert (edge["source"], edge["target"]) == ("x", "y")
        assert served.of("q", "witness", value=["x", "k", ""]).status_code == 404
