"""RDF in and out of `rpq run`: queries over it, results in SPARQL's forms and as edges, going on after a crash."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import selectors
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpq.readers import RdfReading, open_reader
from rpq.stream.names.terms import XSD
from tests.cli.test_cli_checkpoint import call, call_and_die, small_steps, unpacked

ox = pytest.importorskip("pyoxigraph")

__all__ = ["small_steps"]

ROOT = Path(__file__).parents[2]
E = "http://e.org/"
WINDOW = ["--window", 100, "--slide", 1, "--quiet"]
KNOWS = f"?x <{E}knows> ?y . ?y <{E}name> ?n"
TRIG = f"""@prefix : <{E}> . @prefix prov: <http://www.w3.org/ns/prov#> .
:g1 prov:generatedAtTime 5 . :g1 {{ :bob :knows :ann . :ann :name "Ann"@fr , "A \\"n\\"\\n\\u00e9" ; :age 30 }}
:g2 prov:generatedAtTime 7 . :g2 {{ :ann :knows _:x . _:x :name "7"^^<http://www.w3.org/2001/XMLSchema#decimal> }}
"""
FOUND = [
    (f"{E}bob", f"{E}ann", '"Ann"@fr', 5),
    (f"{E}bob", f"{E}ann", '"A \\"n\\"\\né"', 5),
    (f"{E}ann", "_:f1.x", f'"7"^^<{XSD}decimal>', 7),
]


@pytest.fixture
def trig(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "people.trig"
    path.write_text(TRIG)
    return path


OF_TRIG = ["--format", "rdf", "--rdf-time", "http://www.w3.org/ns/prov#generatedAtTime"]


def term(text: str) -> str:
    return text if text.startswith(('"', "_:")) else f"<{text}>"


def solutions(data: bytes, format) -> list[tuple[str, ...]]:
    """Return the solutions that a reader of SPARQL results finds, as N-Triples write them."""
    found = ox.parse_query_results(data, format=format)
    return [tuple(str(value) for value in solution) for solution in found]


def test_a_path_over_turtle_row_by_row(rpq, tmp_path):
    file = tmp_path / "a.ttl"
    file.write_text(f"@prefix : <{E}> . :a :knows :b . :b :knows [ :knows :c ] .")
    status, out, err = rpq(
        "run", f"<{E}knows>+", "--source", f"{E}a", "--format", "rdf", "--input", file, *WINDOW, "--output", "-"
    )
    assert status == 0, err
    assert out.splitlines() == [
        "source,target,timestamp,op",
        f"{E}a,{E}b,1,+",
        f"{E}a,_:f1-1,3,+",
        f"{E}a,{E}c,3,+",
    ]


@pytest.mark.parametrize(
    "name", ["out.csv", "out.parquet", "out.tsv.gz", "out.srj", "out.srjl"]
)
def test_datatypes_and_languages_go_out_as_they_came(rpq, trig, name):
    status, _, err = rpq("run", KNOWS, *OF_TRIG, "--input", trig, *WINDOW, "--output", name)
    assert status == 0, err
    path = Path(name)
    texts = [(*row[:3], str(row[3]), "+") for row in FOUND]
    terms = [(*map(term, row[:3]), f'"{row[3]}"^^<{XSD}integer>', '"+"') for row in FOUND]
    if path.suffix == ".parquet":
        found = [(*row.values(),) for row in pq.read_table(path).to_pylist()]
        assert sorted(found) == sorted((*row, "+") for row in FOUND)
    elif path.suffix == ".csv":
        assert sorted(map(tuple, list(csv.reader(io.StringIO(path.read_text())))[1:])) == sorted(texts)
    elif ".tsv" in name:
        assert sorted(solutions(unpacked(path).encode(), ox.QueryResultsFormat.TSV)) == sorted(terms)
    elif path.suffix == ".srj":
        assert sorted(solutions(path.read_bytes(), ox.QueryResultsFormat.JSON)) == sorted(terms)
        assert json.loads(path.read_text())["head"]["vars"] == ["x", "y", "n", "timestamp", "op"]
    else:
        lines = [json.loads(line) for line in unpacked(path).splitlines()]
        document = {"head": {"vars": ["x", "y", "n", "timestamp", "op"]}, "results": {"bindings": lines}}
        assert sorted(solutions(json.dumps(document).encode(), ox.QueryResultsFormat.JSON)) == sorted(terms)


def test_a_pattern_written_as_n_quads_is_read_again(rpq, trig):
    """?subject knows ?object, with the predicate as a vertex; then a query over what came out."""
    trig.write_text(
        TRIG + f"<{E}g3> <http://www.w3.org/ns/prov#generatedAtTime> 9 . GRAPH <{E}g3> "
        f"{{ <{E}knows> <{E}of> <{E}relation> . <{E}name> <{E}of> <{E}relation> }}"
    )
    pattern = f"?subject <{E}knows> ?object . ?predicate <{E}of> <{E}relation>"
    status, _, err = rpq(
        "run", pattern, "--select", "predicate,object,subject", *OF_TRIG, "--input", trig, *WINDOW, "--output", "out.nq"
    )
    assert status == 0, err
    quads = {str(quad) for quad in ox.parse(path="out.nq")}
    assert f"<{E}bob> <{E}knows> <{E}ann> <urn:rpq:insert:9>" in quads and len(quads) == 4
    found = [
        row for batch in open_reader("rdf", "out.nq", rdf=RdfReading(time="graph-name")) for row in batch.columns.to_pylist()
    ]
    assert {(row["source"], row["label"], row["timestamp"]) for row in found if row["target"] == f"{E}ann"} == {
        (f"{E}bob", f"{E}knows", 9),
        (f"{E}bob", f"{E}name", 9),
    }
    again = ["--format", "rdf", "--rdf-time", "graph-name", "--input", "out.nq", *WINDOW, "--output", "-"]
    status, out, err = rpq("run", f"<{E}knows>/<{E}name>", *again)
    assert status == 0 and f"{E}bob,_:f1.f1.x,9,+" in out.splitlines(), err


def test_answers_of_paths_are_edges_called_as_their_query_with_deletes(rpq, tmp_path, monkeypatch):
    """Texts that are no terms go out and come back: as derived edges they answer as they did before."""
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text(
        'source,target,label,timestamp,op\nbob,"J. Doe",a,1,+\n"J. Doe","""x",a,2,+\nbob,"J. Doe",a,3,-\n'
    )
    arguments = ["--input", "edges.csv", *WINDOW, "--semantics", "explicit", "--output"]
    assert rpq("run", "a+", *arguments, "rows.nq")[0] == 0
    assert sorted(Path("rows.nq").read_text().splitlines()) == sorted(
        [
            "<urn:rpq:text:bob> <urn:rpq:text:a+> <urn:rpq:text:J.%20Doe> <urn:rpq:insert:1> .",
            "<urn:rpq:text:bob> <urn:rpq:text:a+> <urn:rpq:text:%22x> <urn:rpq:insert:2> .",
            "<urn:rpq:text:J.%20Doe> <urn:rpq:text:a+> <urn:rpq:text:%22x> <urn:rpq:insert:2> .",
            "<urn:rpq:text:bob> <urn:rpq:text:a+> <urn:rpq:text:%22x> <urn:rpq:delete:3> .",
            "<urn:rpq:text:bob> <urn:rpq:text:a+> <urn:rpq:text:J.%20Doe> <urn:rpq:delete:3> .",
        ]
    )
    assert rpq("run", "a+", *arguments, "direct.csv")[0] == 0
    derived = ["--format", "rdf", "--rdf-time", "graph-name", "--input", "rows.nq", *WINDOW, "--semantics", "explicit"]
    assert rpq("run", "<a+>", *derived, "--output", "derived.csv")[0] == 0
    rows = [sorted(csv.reader(io.StringIO(Path(name).read_text()))) for name in ("direct.csv", "derived.csv")]
    assert rows[0] == rows[1] and len(rows[0]) == 6


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            [KNOWS, "--output", "out.nq"],
            "N-Quads are edges: expected the columns subject, predicate, object, or source and target",
        ),
        ([f"<{E}knows>", "--output", "out.nq", "--witness"], "N-Quads have no column for a path"),
        ([f"<{E}knows>", "--rdf-time", "when"], "expected position, graph-position, graph-name, or the IRI of a property"),
        (
            [f"<{E}knows>", "--format", "edges", "--rdf-graph", "event"],
            "--rdf-graph: the format is edges; expected --format rdf",
        ),
        ([f"<{E}knows>", "--columns", "source=s"], "the format rdf has fixed columns"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(rpq, trig, args, message):
    status, _, err = rpq("run", "--format", "rdf", "--input", trig, *WINDOW, *args)
    assert status == 2 and message in re.sub(r"\s+", " ", err)
    assert [path.name for path in trig.parent.iterdir()] == ["people.trig"]


def test_damage_ends_a_run_with_its_line_and_can_be_passed_over(rpq, trig):
    trig.write_text(TRIG + "<bad .\n:g1 { :bob :knows :eve }\n")
    run = ["run", f"<{E}knows>", *OF_TRIG, "--input", trig, *WINDOW, "--output", "-"]
    status, out, err = rpq(*run)
    assert status == 1 and "people.trig:4: at character 1" in err and len(out.splitlines()) == 3
    status, out, err = rpq(*run[:-3], "--output", "-", "--on-error", "skip")
    assert status == 0 and len(out.splitlines()) == 3 and "people.trig:4: at character 1" in err


def test_edges_without_time_in_rdf(rpq, trig):
    Path("static.ttl").write_text(f"@prefix : <{E}> . :knows a :Relation . _:x :calls :bob , [ :calls :ann ] .")
    status, out, err = rpq(
        "run",
        f"?a <{E}calls> ?b . ?b <{E}knows> ?c",
        "--static",
        "static.ttl",
        "--static-format",
        "rdf",
        *OF_TRIG,
        "--input",
        trig,
        *WINDOW,
        "--output",
        "-",
    )
    assert status == 0, err
    assert out.splitlines()[1:] == [f"_:s1.1.x,{E}bob,{E}ann,5,+", f"_:s1.1-1,{E}ann,_:f1.x,7,+"]
    Path("static.nq").write_text("<a:x> <a:p> <a:y> <urn:rpq:delete> .\n")
    status, _, err = rpq("run", "a", "--static", "static.nq", "--static-format", "rdf", *OF_TRIG, "--input", trig, *WINDOW)
    assert status == 1 and "deletes an edge" in err
    status, _, err = rpq("run", "a", "--static", "static.nq", *OF_TRIG, "--input", trig, *WINDOW)
    assert status == 1 and "expected --static-format rdf" in err


# --- pipes -----------------------------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize(
    ("syntax", "texts"),
    [
        ("ttl", ["@prefix : <a:> . :x :p :y .\n", ":y :p :z .\n"]),
        ("trig", ["<a:g> { <a:x> <a:p> <a:y> .\n", "<a:y> <a:p> <a:z> }\n"]),
    ],
)
def test_rows_come_while_a_pipe_stays_open(syntax, texts):
    command = [sys.executable, "-m", "rpq.cli", "run", "<a:p>+", "--format", "rdf", "--rdf-syntax", syntax, "--input", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, *map(str, WINDOW), "--output", "-"], cwd=ROOT, bufsize=0, **pipes)
    try:
        assert process.stdin and process.stdout
        process.stdin.write(texts[0].encode())
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            seen = b""
            while b"a:x,a:y,1,+\n" not in seen:
                assert selector.select(120), seen
                data = process.stdout.read(1 << 16)
                assert data, process.stderr.read()
                seen += data
        out, _ = process.communicate(texts[1].encode(), timeout=120)
        assert sorted((seen + out).decode().splitlines()[1:]) == ["a:x,a:y,1,+", "a:x,a:z,2,+", "a:y,a:z,2,+"]
    finally:
        process.kill()
        process.wait()


# --- going on after a crash ------------------------------------------------------------------------------------------


def make_rdf(folder: Path, ending: str) -> Path:
    """A stream with blank nodes, some without a label, with deletes and late triples."""
    chance = random.Random(ending)
    path = folder / f"edges.{ending}"
    with open(path, "w") as file:
        if ending == "trig":
            file.write(f"@prefix : <{E}> .\n")
        for number in range(300):
            time = number // 4 + chance.choice([0, 0, 0, -3, -25])
            graph = f"<urn:rpq:{chance.choice(['insert'] * 4 + ['delete'])}:{max(time, 0)}>"
            source, target = (chance.choice([f":n{chance.randrange(6)}", "_:b1", "_:b2"]) for _ in range(2))
            label = chance.choice([":a", ":b"])
            if ending == "nq":
                source, target, label = (re.sub(r"^:(\w+)", rf"<{E}\1>", one) for one in (source, target, label))
                file.write(f"{source} {label} {target} {graph} .\n")
            else:
                inside = f"[ :b {target} ]" if chance.random() < 0.3 else target
                file.write(f"GRAPH {graph} {{ {source} {label} {inside} . }}\n")
    return path


def as_rows(path: Path) -> list:
    if path.suffix == ".parquet":
        return sorted(map(str, pq.read_table(path).to_pylist()))
    text = unpacked(path)
    if path.suffix == ".srj":
        return sorted(map(str, json.loads(text)["results"]["bindings"]))
    return sorted(text.splitlines())


@pytest.mark.ci
@pytest.mark.parametrize(
    ("ending", "name"),
    [
        ("nq", "rows.nq"),
        ("trig", "rows.tsv"),
    ],
)
def test_rows_are_neither_lost_nor_doubled_wherever_a_run_is_killed(tmp_path, capfd, small_steps, ending, name):
    source = make_rdf(tmp_path, ending)

    def command(folder: str, *options: object) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        args = [
            "run",
            f"<{E}a>/<{E}b>*",
            "--format",
            "rdf",
            "--rdf-time",
            "graph-name",
            "--input",
            source,
            "--window",
            20,
            "--slide",
            3,
            "--semantics",
            "explicit",
            "--quiet",
            "--output",
            tmp_path / folder / name,
        ]
        return [*map(str, [*args, *options])]

    assert call(command("whole")) == 0
    wanted = as_rows(tmp_path / "whole" / name)
    assert len(wanted) > 100 and any("_:" in row or "bnode" in row for row in wanted)
    state = tmp_path / "killed" / "state"
    chance = random.Random(name)
    deaths = 0
    while call_and_die(command("killed", "--checkpoint", state), at_event=chance.randint(3, 40)):
        deaths += 1
    assert deaths >= 3
    assert as_rows(tmp_path / "killed" / name) == wanted


def test_a_checkpoint_is_of_one_way_of_reading(rpq, trig):
    args = [
        "run",
        f"<{E}knows>",
        "--format",
        "rdf",
        "--input",
        trig,
        *WINDOW,
        "--output",
        "out.tsv",
        "--checkpoint",
        "state",
    ]
    assert rpq(*args)[0] == 0
    status, _, err = rpq(*args, "--rdf-time", "graph-position")
    assert status == 2 and "--rdf-time was not given, now graph-position" in re.sub(r"\s+", " ", err)


# --- streams and graphs by their names -------------------------------------------------------------------------------

ROOMS = f"""SELECT ?who ?room FROM NAMED WINDOW <w> ON <http://e.org/doors> [RANGE 100 STEP 1]
{{ GRAPH <http://e.org/plan> {{ ?door <{E}leadsTo> ?room }} WINDOW <w> {{ ?who <{E}passes> ?door }} }}"""


@pytest.fixture
def doors(tmp_path, monkeypatch) -> list:
    """The options of a run over a stream with a name and a static graph with a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.nq").write_text(f"<{E}ann> <{E}passes> <{E}d1> <t:1> .\n<{E}bob> <{E}passes> <{E}d2> <t:2> .\n")
    (tmp_path / "plan.ttl").write_text(f"@prefix : <{E}> . :d1 :leadsTo :hall .")
    (tmp_path / "more.ttl").write_text(f"@prefix : <{E}> . :d2 :leadsTo :yard .")
    options = ["--format", "rdf", "--rdf-time", "graph-name", "--input", f"{E}doors=s.nq", "--static-format", "rdf"]
    return [*options, "--output", "-"]


def test_a_stream_and_a_graph_are_named_by_iris(rpq, doors):
    status, out, err = rpq("run", ROOMS, *doors, "--static", f"{E}plan=plan.ttl", "more.ttl", "--quiet")
    assert (status, out.splitlines()[1:]) == (0, [f"{E}ann,{E}hall,1,+"]), err
    status, out, err = rpq("run", ROOMS, *doors, "--static", f"<{E}plan>=plan.ttl", f"{E}plan=more.ttl", "--quiet")
    assert (status, out.splitlines()[1:]) == (0, [f"{E}ann,{E}hall,1,+", f"{E}bob,{E}yard,2,+"]), err


def test_a_graph_without_edges_is_told(rpq, doors):
    status, out, err = rpq("run", ROOMS, *doors, "--static", f"{E}other=plan.ttl")
    assert status == 0 and out.splitlines()[1:] == []
    assert f"there are no edges of the graph <{E}plan>: give them with --static '<{E}plan>=FILE'" in err
    status, _, err = rpq("run", ROOMS, *doors, "--static", f"{E}plan=")
    assert status == 2 and f"--static {E}plan=: is neither a file nor NAME=FILE" in err
    status, _, err = rpq("run", ROOMS, *doors, "--static", f"{E}plan=none.ttl")
    assert status == 2 and "--static none.ttl: there is no such file" in err


def test_a_run_goes_on_with_its_graphs_and_no_others(rpq, doors):
    options = [*doors[:-1], "rows.csv", "--checkpoint", "run.state", "--quiet"]
    status, _, err = rpq("run", ROOMS, *options, "--static", f"{E}plan=plan.ttl", "--limit", 1)
    assert status == 0, err
    status, _, err = rpq("run", ROOMS, *options, "--static", f"{E}other=plan.ttl")
    assert status == 2 and "--static" in err
    status, _, err = rpq("run", ROOMS, *options, "--static", f"{E}plan=plan.ttl")
    assert status == 0, err
    assert Path("rows.csv").read_text().splitlines()[1:] == [f"{E}ann,{E}hall,1,+"]


def test_a_base_of_relative_iris_in_inputs_and_static_files(rpq, tmp_path):
    document, static = tmp_path / "a.jsonld", tmp_path / "s.jsonld"
    document.write_text('{"@id": "a", "http://e.org/p": {"@id": "b"}}')
    static.write_text('{"@id": "b", "http://e.org/p": {"@id": "c"}}')
    options = ["--format", "rdf", "--input", document, "--static", static, "--static-format", "rdf", *WINDOW]
    status, out, err = rpq("run", f"<{E}p>+", "--source", f"{E}a", *options, "--output", "-", "--rdf-base", E)
    assert (status, out.splitlines()[1:]) == (0, [f"{E}a,{E}b,1,+", f"{E}a,{E}c,1,+"]), err
    status, _, err = rpq("run", f"<{E}p>+", *options)
    assert (status, "is relative, without a base" in err) == (1, True)
