"""Posts of RDF in each syntax: where the time of a triple is, blank nodes, deletes, and what is wrong with a body."""

from __future__ import annotations

import shutil

import pytest

import rpq
from rpq.readers import RdfReading
from rpq.serve.models import ServeLimits
from tests.services.served import Served

pytest.importorskip("pyoxigraph")

from rpq.readers.rdf.rdf_format import RdfDocuments

PATH = {"expression": "<l:p>+", "window": 100, "slide": 1, "semantics": "explicit"}
NAME = "<l:p>+"
PROV = "http://www.w3.org/ns/prov#generatedAtTime"
BODIES = {
    "application/n-quads": "<x:a> <l:p> <x:b> <t:5> .",
    "application/trig": "<t:5> { <x:a> <l:p> <x:b> }",
    "application/ld+json": '{"@id": "t:5", "@graph": {"@id": "x:a", "l:p": {"@id": "x:b"}}}',
}
PLAIN = {
    "application/n-triples": "<x:a> <l:p> <x:b> .",
    "text/turtle": "@prefix x: <x:> . x:a <l:p> x:b .",
    "application/rdf+xml": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:l="l:">'
    '<rdf:Description rdf:about="x:a"><l:p rdf:resource="x:b"/></rdf:Description></rdf:RDF>',
}


def post(served: Served, body: str, type_: str, **parameters: object):
    return served.client.post("/tuples", content=body.encode(), headers={"content-type": type_}, params=parameters)


def test_a_post_in_each_syntax_with_the_time_of_its_graph_or_its_own():
    with Served(PATH, rdf=RdfDocuments(RdfReading(time="graph-name"))) as served:
        for type_, body in BODIES.items():
            applied = post(served, body, f"{type_}; charset=utf-8")
            assert applied.json()["tuples"] == 1 and applied.json()["time"] == 5, applied.text
        assert served.answers(NAME) == {("x:a", "x:b")}
        deleted = post(served, "<x:a> <l:p> <x:b> <urn:rpq:delete:6> .", "application/n-quads")
        assert deleted.json()["time"] == 6 and not served.answers(NAME)
        for time, (type_, body) in enumerate(PLAIN.items(), 7):
            assert post(served, body, type_, timestamp=time).json()["time"] == time
        assert served.answers(NAME) == {("x:a", "x:b")}


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        (f"@prefix x: <x:{1000 * 'x'}> . {1000 * 'x:a x:b x:c . '}", "text/turtle"),
        (f'{{"@id": "x:{40_000 * "a"}", "x:p": [{",".join(map(str, range(200)))}]}}', "application/ld+json"),
    ],
    ids=["prefixes", "one subject"],
)
def test_a_document_counts_with_each_term_in_full(body, type_):
    with Served(PATH, limits=ServeLimits(waiting_bytes=1_000_000)) as served:
        refused = post(served, body, type_, timestamp=1)
        assert refused.status_code == 413 and "send in parts" in refused.json()["error"]["message"]


def test_blank_nodes_of_two_posts_are_two_nodes():
    with Served(PATH) as served:
        for time in (1, 2):
            assert post(served, "_:n <l:p> <x:b> .", "text/turtle", timestamp=time).status_code == 200
        assert len(served.answers(NAME)) == 2


def test_a_post_that_is_continued_has_the_blank_nodes_that_it_began_with():
    body = "_:n <l:p> <x:b> <t:1> .\n<x:b> <l:p> _:n <t:50> ."
    headers = {"content-type": "application/n-quads", "idempotency-key": "one"}
    with Served(PATH, max_ahead=10, rdf=RdfDocuments(RdfReading(time="graph-name"))) as served:
        applied = served.client.post("/tuples", content=body, headers=headers)
        assert applied.json()["error"]["applied"] == 1, applied.text
        post(served, "<x:c> <l:q> <x:c> <t:45> .", "application/n-quads")
        served.service.engine.max_ahead = None
        assert served.client.post("/tuples", content=body, headers=headers).json()["tuples"] == 2
        assert len(served.answers(NAME)) == 4  # a circle of two nodes
        headers["idempotency-key"] = "two"
        assert served.client.post("/tuples", content=body, headers=headers).json()["tuples"] == 2
        assert len(served.answers(NAME)) == 9


def test_a_stream_is_named_by_a_parameter_or_by_the_graph():
    text = "SELECT ?x FROM NAMED WINDOW <w> ON <s:1> [RANGE 100 STEP 1] { WINDOW <w> { ?x <l:p> ?y } }"
    with Served({"expression": text, "name": "q"}, rdf=RdfDocuments(RdfReading(time=PROV, graph="stream"))) as served:
        body = f'<s:1> <{PROV}> 5 . <s:2> <{PROV}> 5 . <s:1> {{ <x:a> <l:p> <x:b> }} <s:2> {{ <x:c> <l:p> <x:b> }}'
        assert post(served, body, "application/trig").json()["tuples"] == 2
        assert served.answers("q") == {("x:a",)}
    with Served({"expression": text, "name": "q"}) as served:
        assert post(served, PLAIN["text/turtle"], "text/turtle", timestamp=1, stream="s:1").status_code == 200
        assert served.answers("q") == {("x:a",)}


@pytest.mark.parametrize(
    ("body", "type_", "parameters", "message", "line"),
    [
        ("<x:a> <l:p> <x:b> .\n<x:a> .\n", "text/turtle", {"timestamp": 1}, "the body:2: at character", 2),
        ("<x:a> <l:p> <x:b> .", "application/n-quads", {}, "the body:1: is in the default graph", 1),
        ("{", "application/ld+json", {"timestamp": 1}, "the body:1: ", 1),
        ("<x:a> <l:p> <x:b> .", "text/turtle", {"timestamp": "soon"}, "timestamp", None),
        ('{"source":"a","target":"b","label":"l","timestamp":1}', "application/x-ndjson", {"timestamp": 1}, "of RDF", None),
    ],
)
def test_what_is_wrong_is_told_and_none_of_it_is_applied(body, type_, parameters, message, line):
    with Served(PATH, rdf=RdfDocuments(RdfReading(time="graph-name"))) as served:
        refused = post(served, body, type_, **parameters)
        error = refused.json()["error"]
        assert refused.status_code == 422 and message in error["message"] and error.get("line") == line
        assert not served.answers(NAME)


@pytest.mark.parametrize("is_saved", [False, True])
def test_the_kind_of_times_survives_a_restart(tmp_path, is_saved):
    """Whether the server goes on from its checkpoint, or from its journal alone."""

    def documents() -> RdfDocuments:
        return RdfDocuments(RdfReading(time="graph-name"), time_unit="s")

    quad = '<x:a> <l:p> <x:b> <urn:t/{}> .'
    checkpoint = tmp_path / "state"
    with Served({**PATH, "window": 100, "slide": 1}, rdf=documents(), checkpoint=checkpoint, time_unit="s") as served:
        assert post(served, quad.format(5), "application/n-quads").status_code == 200
        if not is_saved:
            for name in ("state", "state.journal"):
                shutil.copy(tmp_path / name, tmp_path / f"copy.{name}")
    if not is_saved:  # as a crash leaves them
        for name in ("state", "state.journal"):
            shutil.copy(tmp_path / f"copy.{name}", tmp_path / name)
    with Served({**PATH, "window": 100, "slide": 1}, rdf=documents(), checkpoint=checkpoint, time_unit="s") as served:
        refused = post(served, quad.format("2024-05-01T12:00:00Z"), "application/n-quads")
        assert refused.status_code == 422 and "earlier times are integers" in refused.json()["error"]["message"]
        assert post(served, quad.format(6), "application/n-quads").status_code == 200


def test_graph_over_static_edges():
    text = "SELECT ?x ?z { GRAPH <g> { ?y <of> ?z } ?x <l:p> ?y }"
    query = {"expression": text, "name": "q", "window": 100, "slide": 1}
    with Served(query, static={"g": [("x:b", "x:z", "of")]}) as served:
        assert post(served, PLAIN["text/turtle"], "text/turtle", timestamp=1).status_code == 200
        assert served.answers("q") == {("x:a", "x:z")}
    assert rpq.Query(text, window=rpq.Window(size=100, slide=1)).named_graphs == {"g"}
