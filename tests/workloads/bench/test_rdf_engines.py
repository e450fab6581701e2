"""Tables of RDF beside stores: what a store is given, its answers and those of the engine, and (long) all stores."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.memory import Resident
from rpq.workloads.bench.rdf_engines import comparison, graph_events, rsp_benchmarks
from rpq.workloads.bench.rdf_engines.comparison import engine_readings
from rpq.workloads.rivals import driver, stores
from rpq.workloads.rivals.driver import RivalError, RivalRun
from rpq.workloads.rivals.rdf_changes import RdfStream, query_without_windows, write_rdf_changes
from rpq.workloads.sparql_queries import named_sparql

TWO_WINDOWS = """SELECT ?x (SUM(?v) AS ?sum)
FROM NAMED WINDOW <w:a> ON <s:a> [RANGE 20 STEP 10]
FROM NAMED WINDOW <w:b> ON <s:b> [RANGE 10]
WHERE { WINDOW <w:a> { ?x <p:a> ?y } WINDOW <w:b> { ?x <p:b> ?v } ?y <p:c> <n:c> }
GROUP BY ?x
"""


def readings_here(changes: Path, *words: str) -> list[driver.SlideState]:
    """Run pyoxigraph in this process."""
    pytest.importorskip("pyoxigraph")
    printed = io.StringIO()
    with redirect_stdout(printed):
        stores.main("pyoxigraph", str(changes), *words)
    ready, *lines = printed.getvalue().splitlines()
    assert ready.split("\t")[0] == "ready"
    return [driver._parse_reading(line, ["pyoxigraph"]) for line in lines]


def pyoxigraph_readings(question, folder: Path) -> list[driver.SlideState]:
    return readings_here(folder / "changes.tsv", question.sparql, str(question.terms))


def two_streams(label: str) -> RdfStream:
    """Slides of ten; the second stream has this label."""
    number = '"%d"^^<http://www.w3.org/2001/XMLSchema#integer>'
    rows = [
        ("n:1", "p:a", "n:2", "s:a", 1), ("n:1", label, number % 5, "s:b", 2), ("n:1", "p:d", "n:2", "s:a", 3),
        ("n:1", "p:a", "n:2", "s:b", 11), ("n:1", label, number % 7, "s:b", 12), ("n:3", "p:a", "n:2", "s:a", 35),
    ]  # fmt: skip
    names = ("source", "label", "target", "stream", "timestamp")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    static = pa.RecordBatch.from_pydict({"source": ["n:2"], "label": ["p:c"], "target": ["n:c"]})
    return RdfStream(table=table, slides=table["timestamp"].to_numpy() // 10, first_slide=1, static=static)


def test_a_store_is_given_what_the_windows_hold_and_what_the_query_reads(tmp_path):
    """Edges in the windows before slide 1 are loaded first; <s:b> is no stream of <p:a>, and nothing reads <p:d>."""
    query = SparqlQuery(TWO_WINDOWS, name="sums", semantics="explicit")
    question, terms = write_rdf_changes(query, two_streams("p:b"), tmp_path)
    lines = [line.split("\t") for line in (tmp_path / "changes.tsv").read_text().splitlines()]
    shown = [(slide, sign, *(terms.texts[int(number)][:4] for number in numbers)) for slide, sign, *numbers in lines]
    assert shown == [
        ("1", "=", "n:2", "p:c", "n:c"), ("0", "=", "n:1", "p:a", "n:2"), ("0", "=", "n:1", "p:b", '"5"^'),
        ("1", "-", "n:1", "p:b", '"5"^'), ("1", "+", "n:1", "p:b", '"7"^'),
        ("3", "-", "n:1", "p:a", "n:2"), ("3", "+", "n:3", "p:a", "n:2"), ("3", "-", "n:1", "p:b", '"7"^'),
    ]  # fmt: skip
    assert "GRAPH" not in question.sparql and "WINDOW" not in question.sparql
    assert (tmp_path / "terms.tsv").read_text().splitlines()[terms.number(terms.texts[-1])].count("\t") <= 1
    found = pyoxigraph_readings(question, tmp_path)
    ours = engine_readings(query, two_streams("p:b"), terms)
    assert [(one.slide, one.answers) for one in ours] == [(1, 1), (3, 0)]
    assert driver.compare("pyoxigraph", found, {one.slide: one for one in ours}) == (found[-1], ours[-1])
    assert found[0].total >= 7 and found[0].change_seconds is not None


def test_windows_that_read_the_same_predicate_are_graphs(tmp_path):
    query = SparqlQuery(TWO_WINDOWS.replace("?x <p:b> ?v", "?x <p:a> ?v"), name="sums", semantics="explicit")
    question, terms = write_rdf_changes(query, two_streams("p:a"), tmp_path)
    assert question.sparql.count("GRAPH") == 2
    cells = [line.split("\t") for line in (tmp_path / "changes.tsv").read_text().splitlines()]
    assert {terms.texts[int(line[5])] for line in cells if len(line) > 5} == {"w:a", "w:b"}
    ours = engine_readings(query, two_streams("p:a"), terms)
    found = pyoxigraph_readings(question, tmp_path)
    assert driver.compare("pyoxigraph", found, {one.slide: one for one in ours}) is not None


def test_numbers_are_compared_by_value_and_within_their_digits():
    ours = {3: driver.SlideState(slide=3, seconds=1.0, answers=1, checksum=7, total=100.0)}
    near = driver.SlideState(slide=3, seconds=1.0, answers=1, checksum=7, total=100.0001)
    assert driver.compare("store", [near], ours) == (near, ours[3])
    far = driver.SlideState(slide=3, seconds=1.0, answers=1, checksum=7, total=100.1)
    with pytest.raises(driver.AnswersDifferError, match=r"total 100\.1.*total 100"):
        driver.compare("store", [far], ours)


def test_a_window_with_a_selection_of_its_own_and_a_template_are_rewritten():
    text = query_without_windows(named_sparql("SR-Q5").text, graphs=False)
    assert "SELECT DISTINCT (?sensor AS ?source)" in text and "{ SELECT ?sensor" in text and "WINDOW" not in text


@pytest.mark.ci
@pytest.mark.parametrize("name", ["SR-Q1", "SR-Q4", "LSB-Q5", "LSB-Q10"])
def test_pyoxigraph_and_the_engine_agree_on_the_queries_of_the_benchmarks(name, tmp_path, monkeypatch):
    monkeypatch.setattr(rsp_benchmarks, "PERIODS", {"sensors": 200, "linked-stream": 100})
    edges = 16_000 if name.startswith("SR") else 4_000
    (line,) = rsp_benchmarks.lines(Settings(output=tmp_path, edges=edges, queries=(name,)))
    question, terms = write_rdf_changes(line.query, line.stream, tmp_path)
    ours = {one.slide: one for one in engine_readings(line.query, line.stream, terms)}
    last = driver.compare("pyoxigraph", pyoxigraph_readings(question, tmp_path), ours)
    assert last is not None and len(ours) > 2
    assert any(one.answers for one in ours.values())
    if name == "SR-Q5":  # windows in the text, and static triples
        assert line.memory is not None and line.memory() > 0


@pytest.mark.ci
@pytest.mark.parametrize("name", ["NY-Q2", "SNB-Q3", "LS-Q1"])
def test_pyoxigraph_and_the_engine_agree_on_events_alone_and_in_windows(name, tmp_path, monkeypatch):
    monkeypatch.setattr(graph_events, "UPDATES", 6)
    monkeypatch.setattr(comparison, "EVENT_ROWS", 1_000)
    answers = 0
    for line in graph_events.lines(Settings(output=tmp_path, edges=300_000, scale=0.01, queries=(name,))):
        question, terms = write_rdf_changes(line.query, line.stream, tmp_path)
        ours = {one.slide: one for one in engine_readings(line.query, line.stream, terms)}
        found = pyoxigraph_readings(question, tmp_path)
        assert len(found) == len(set(line.stream.slides[line.stream.slides >= line.stream.first_slide].tolist()))
        if line.stream.are_graphs:  # ours are behind some events each, and the last one is behind all
            found = list(comparison.answers_so_far(found))
            assert found[-1].slide in ours and len(ours) <= len(found)
        last = driver.compare("pyoxigraph", found, ours)
        assert last is not None and last[0] == found[-1], line.about
        answers += sum(one.answers for one in ours.values())
    assert answers


def test_the_table_names_stores_that_are_missing_and_how_far_others_came(tmp_path, monkeypatch):
    """pyoxigraph, in this process, is stopped after two slides."""

    def no_build(folder, command, *, needs, cache=None):
        raise RivalError(f"{folder} needs {needs}")

    def run(command, changes, *, seconds):
        return RivalRun(readings=readings_here(changes, *command[-2:])[:2], problem="stopped after 1 s", loaded_bytes=5)

    monkeypatch.setattr(driver, "build", no_build)
    monkeypatch.setattr(driver, "run", run)
    known = Resident(imports=1, kernels=2, run=9)
    monkeypatch.setattr(rsp_benchmarks, "resident_memory", lambda *arguments, **options: known)
    options = ["--edges", "2000", "--only", "LSB-Q3,LSB-Q5", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, ["rsp-benchmarks", *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    result = json.loads((tmp_path / "rsp-benchmarks.json").read_text())
    assert result["facts"]["left out: Jena"] == "java needs a JDK 17 and Maven"
    assert {(one["query"], one["rival"]) for one in result["records"]} == {(q, "pyoxigraph") for q in ("LSB-Q3", "LSB-Q5")}
    for one in result["records"]:
        assert one["agree"] and one["slides"] == 2 < one["all_slides"] and one["problem"] == "stopped after 1 s"
        assert one["ratio"] > 0 and one["batch_ratio"] > 0 and one["published"] in (88_647, 52_890)
        assert one["bytes"] == 7 and one["rival_bytes"] >= 0 and one["published_mb"] in (380, 389)
    smaller = [min(one["ratio"], one["batch_ratio"]) for one in result["records"]]
    assert smaller == sorted(smaller)


def test_esper_is_given_the_tuples_of_each_slide(tmp_path):
    """Also those that have left before the first slide that is measured; and it has no SPARQL."""
    query = SparqlQuery(TWO_WINDOWS, name="sums", semantics="explicit")
    question, terms = write_rdf_changes(query, two_streams("p:b"), tmp_path, epl="select irstream …")
    lines = [line.split("\t") for line in (tmp_path / "tuples.tsv").read_text().splitlines()]
    assert [(slide, sign, terms.texts[int(label)]) for slide, sign, _, label, _ in lines] == [
        ("0", "=", "p:a"), ("0", "=", "p:b"), ("1", "+", "p:b"), ("3", "+", "p:a")
    ]  # fmt: skip
    without, _ = write_rdf_changes(query, two_streams("p:b"), tmp_path)
    with pytest.raises(RivalError, match="no SPARQL"):
        driver.rivals()["Esper"].command(without)
    assert question.epl
