"""`rpq generate rdf`: streams of triples in events, as text that readers and RDF libraries read."""

from __future__ import annotations

import json
import re
from itertools import groupby

import pyarrow as pa
import pyoxigraph
import pytest
from click.testing import CliRunner

from rpq.cli import main
from rpq.readers import open_reader
from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS, rdf_stream
from rpq.workloads.generate.writing import GENERATED_AT

STREAMS = {
    "rides": ["dropoff", "fare", "pickup"],
    "linked-stream": ["likedphotostream", "likedpoststream", "photostream", "poststream"],
    "sensors": ["observations"],
}


def stream(kind: str, *, edges: int = 30_000, seed: int = 1) -> pa.Table:
    return pa.Table.from_batches(rdf_stream(edges=edges, seed=seed, kind=kind)).combine_chunks()


def generated(*arguments: object) -> str:
    ran = CliRunner().invoke(main, ["generate", "rdf", *map(str, arguments)])
    return ran.output if ran.exit_code == 0 else f"{ran.exit_code}: {ran.output}"


@pytest.mark.parametrize("kind", RDF_KINDS)
def test_a_kind_is_a_stream_in_order_of_time_that_its_seed_tells(kind):
    table = stream(kind)
    assert table.num_rows == 30_000
    times = table["timestamp"].to_pylist()
    assert times == sorted(times)
    assert not any(column.null_count for column in table.columns)
    assert table.equals(stream(kind)) and not table.equals(stream(kind, seed=2))
    # The same stream, cut: what is made does not depend on how much.
    assert kind == "taxi" or table.slice(0, 999).equals(stream(kind, edges=999))
    names = {name.rpartition("/")[2] for name in table["stream"].to_pylist()} if "stream" in table.column_names else set()
    assert sorted(names) == STREAMS.get(kind, [])


@pytest.mark.parametrize("kind", RDF_KINDS)
def test_an_event_is_whole_and_comes_once(kind):
    table = stream(kind)
    events = [(event, len([*rows])) for event, rows in groupby(table["event"].to_pylist())]
    assert len(events) == len({event for event, _ in events})
    if kind == "taxi":
        assert {size for _, size in events} == {24}
        assert len(set(table["label"].to_pylist())) == 24
    times = dict(zip(table["event"].to_pylist(), table["timestamp"].to_pylist(), strict=True))
    assert all(times[row["event"]] == row["timestamp"] for row in table.to_pylist())


def test_deletes_of_a_changing_graph_are_of_edges_that_came():
    seen, absent, deletes = set(), 0, 0
    for row in stream("changing").to_pylist():
        edge = row["source"], row["label"], row["target"]
        if row["delete"]:
            deletes += 1
            absent += edge not in seen
            seen.discard(edge)
        else:
            seen.add(edge)
    assert deletes == 10_000 and absent < deletes / 2


@pytest.mark.parametrize(("kind", "name"), [("taxi", "s.csv.gz"), ("rides", "s.jsonl"), ("changing", "s.parquet")])
def test_what_is_written_is_read_again(tmp_path, kind, name):
    path = tmp_path / name
    assert "wrote 500 tuples" in generated("--kind", kind, "--edges", 500, "--output", path)
    read = pa.Table.from_batches([batch.columns for batch in open_reader("edges", [str(path)])])
    wanted = stream(kind, edges=500)
    for column in {"source", "target", "label", "timestamp", "delete", "stream"} & {*wanted.column_names}:
        assert read[column].to_pylist() == wanted[column].to_pylist(), column


def test_json_lines_are_json(tmp_path):
    generated("--edges", 100, "--output", tmp_path / "s.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert rows == stream("taxi", edges=100).to_pylist()


@pytest.mark.parametrize("kind", ["taxi", "social"])
def test_quads_have_their_event_as_graph_and_its_time_before(tmp_path, kind):
    path = tmp_path / "s.nq"
    generated("--kind", kind, "--edges", 200, "--output", path)
    times: dict[str, str] = {}
    triples = []
    for quad in pyoxigraph.parse(path.read_bytes(), pyoxigraph.RdfFormat.N_QUADS):
        if quad.predicate.value == GENERATED_AT:
            assert isinstance(quad.graph_name, pyoxigraph.DefaultGraph)
            times[quad.subject.value] = quad.object.value
        else:
            assert quad.graph_name.value in times
            triples.append((quad.subject.value, quad.predicate.value, quad.graph_name.value))
    wanted = stream(kind, edges=200)
    assert triples == [(row["source"], row["label"], row["event"]) for row in wanted.to_pylist()]
    assert len(times) == len(set(wanted["event"].to_pylist()))
    assert next(iter(times.values())) == ("2013-01-01T00:00:00Z" if kind == "taxi" else "2016-01-01T00:00:00Z")


def test_milliseconds_are_told_in_quads(tmp_path):
    generated("--kind", "linked-stream", "--stream", "photostream", "--edges", 50, "--output", tmp_path / "s.nq")
    quads = [*pyoxigraph.parse((tmp_path / "s.nq").read_bytes(), pyoxigraph.RdfFormat.N_QUADS)]
    assert quads[0].object.value == "2012-10-01T00:00:00.004Z"


def test_one_stream_of_several_and_what_does_not_change(tmp_path):
    out, static = tmp_path / "s.nt", tmp_path / "static.nt"
    output = generated("--kind", "sensors", "--stream", "observations", "--edges", 300, "--output", out, "--static", static)
    assert "wrote 1,200 triples without time" in output and "wrote 300 tuples" in output
    triples = pyoxigraph.parse(out.read_bytes(), pyoxigraph.RdfFormat.N_TRIPLES)
    assert len({*triples}) == 300
    assert len([*pyoxigraph.parse(static.read_bytes(), pyoxigraph.RdfFormat.N_TRIPLES)]) == 1_200
    one = [row for row in stream("rides", edges=2_000).to_pylist() if row.pop("stream").endswith("/dropoff")]
    generated("--kind", "rides", "--stream", "dropoff", "--edges", 2_000, "--output", tmp_path / "d.jsonl")
    assert [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()] == one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "rides", "--output", "s.nq"], "have stream names.*select one stream with --stream"),
        (["--kind", "changing", "--output", "s.nt"], "has deletes, which N-Triples and N-Quads cannot represent"),
        (["--kind", "rides", "--stream", "pikup", "--output", "s.csv"], "no stream 'pikup': expected one of dropoff, fare"),
        (["--kind", "taxi", "--stream", "x", "--output", "s.csv"], "taxi is one stream without a name"),
        (["--kind", "taxi", "--static", "t.nt", "--output", "s.csv"], "--static: taxi has no static triples"),
        (["--kind", "taxis", "--output", "s.csv"], "'taxis' is not one of"),
        (["--output", "s.ttl"], "expected a name that ends in"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    output = generated("--edges", 50, *arguments)
    assert output.startswith("2: ") and re.search(message, " ".join(output.split())), output
    assert not [*tmp_path.glob("s.*")]
