"""SPARQL through `rpq run`, `rpq explain` and `rpq.Query`: errors with their pointers, warnings, windows, edges made."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rpq as library
from rpq.errors import SparqlError
from tests.commands import Caller
from tests.language.test_sparql_refused import MARK, OTHERS, REFUSALS

pytest.importorskip("rdflib")

TEN = library.Window(size=10, slide=1)
WINDOW = ("--window", 10, "--slide", 1)
STREAM = "source,target,label,timestamp\np,q,a,1\nq,r,b,2\nq,r,a,12\n"


@pytest.fixture
def rpq(capfdbinary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text(STREAM)
    return Caller(capfdbinary)


# --- each error by its place -----------------------------------------------------------------------------------------


def pointed(marked: str) -> tuple[str, str]:
    """A text without its mark, and what an error that points to the mark says first."""
    before, mark, _ = marked.partition(MARK)
    assert mark
    place = f"line {before.count(chr(10)) + 1}, column {len(before.rpartition(chr(10))[2]) + 1}"
    return marked.replace(MARK, ""), place


def is_of_sparql(text: str) -> bool:
    """Return whether a text is detected as SPARQL."""
    from rpq.language.notation import language_of

    return language_of(text) == "sparql"


@pytest.mark.parametrize("construct", [*REFUSALS, *OTHERS][::9])
def test_every_error_is_told_by_query_and_by_the_command_with_its_place(rpq, construct):
    marked = REFUSALS.get(construct) or OTHERS[construct]
    text, place = pointed(marked)
    language = () if is_of_sparql(text) else ("--language", "sparql")
    if not language:
        with pytest.raises(SparqlError) as caught:
            library.Query(text, window=TEN)
        assert str(caught.value).startswith(f"{place}: ") and construct in str(caught.value).replace("\n", " ")
    path = Path("query.rq")
    path.write_text(text, encoding="utf-8", newline="")
    if not text or text.strip() != text:  # a file is read without the blanks around it
        return
    status, out, err = rpq("run", "--query-file", path, *language, "--input", "edges.csv", *WINDOW, "--output", "rows.csv")
    assert status == 2 and not out and not Path("rows.csv").exists()
    assert place in err and construct.split(": ")[0].split(";")[0] in err and "Traceback" not in err
    before = marked.partition(MARK)[0].rpartition("\n")[2]
    assert before[-12:] in err and "^" in err, "the line is shown, and the place in it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT ?x { ?x <a> ?y }", *WINDOW, "--matching", "isomorphism"), "--matching is an option of graph patterns"),
        (("SELECT ?x { ?x <a> ?y }", *WINDOW, "--source", "p"), "in SPARQL write VALUES or a FILTER"),
        (("SELECT ?x { ?x <a> ?y }", *WINDOW, "--on-budget", "set_aside"), "--on-budget is an option of path queries"),
        (("SELECT ?x { ?x <a> ?y }", "--window", "count:3", "--report", "slide"), "must be a time window"),
        (("ASK { ?x <a> ?y }", *WINDOW, "--semantics", "implicit"), "implicit windows, in which solutions expire silently"),
        (("REGISTER ISTREAM <o> AS SELECT ?x { ?x <a> ?y }", *WINDOW, "--report", "time"), "REGISTER reports at slides"),
        (("SELECT ?x { ?x <a> ?y }",), "Missing option '--window', which patterns outside WINDOW <name> { … } read"),
        (("SELECT ?x { ?x <a> ?y }", "--window", 10), "Missing option '--slide'"),
        (
            ("SELECT ?x FROM NAMED WINDOW <w> [RANGE PT1H] { WINDOW <w> { ?x <a> ?y } }",),
            "the unit of the timestamps is unknown; expected --time-unit",
        ),
        (("SELECT ?x { ?x <a> ?y }", *WINDOW, "--output", "x.nq"), "N-Quads are edges"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(rpq, arguments, message):
    status, _, err = rpq("run", *arguments, "--input", "edges.csv")
    assert status == 2 and message in " ".join(err.split()), err


# --- rows ------------------------------------------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_edges_that_construct_makes_are_a_stream_again(rpq):
    pytest.importorskip("pyoxigraph")
    text = "CONSTRUCT { ?y <http://e/of> ?x } { ?x <a> ?y }"
    assert rpq("run", text, "--input", "edges.csv", *WINDOW, "--output", "made.nq")[0] == 0
    assert Path("made.nq").read_text().splitlines()[:2] == [
        "<urn:rpq:text:q> <http://e/of> <urn:rpq:text:p> <urn:rpq:insert:1> .",
        "<urn:rpq:text:q> <http://e/of> <urn:rpq:text:p> <urn:rpq:delete:11> .",
    ]
    run = ("run", "<http://e/of>", "--format", "rdf", "--rdf-time", "graph-name", "--input", "made.nq")
    assert rows(rpq(*run, "--window", "unbounded", "--output", "-", "--quiet")[1])[1:] == [
        ["q", "p", "1", "+"], ["q", "p", "11", "-"], ["r", "q", "12", "+"]
    ]  # fmt: skip
    assert rpq("run", text, "--input", "edges.csv", *WINDOW, "--output", "made.csv")[0] == 0
    run = ("run", "<http://e/of>", "--input", "made.csv", "--window", "unbounded", "--output", "-", "--quiet")
    assert len(rows(rpq(*run)[1])) == 4


def test_windows_that_the_text_declares_need_no_option(rpq):
    Path("left.csv").write_text("source,target,label,timestamp\np,q,a,1\nr,q,a,20\n")
    Path("right.csv").write_text("source,target,label,timestamp\nq,s,b,4\n")
    text = (
        "SELECT ?x ?z FROM NAMED WINDOW <l> ON <left> [RANGE PT5S] FROM NAMED WINDOW <r> ON <right> [RANGE PT1M]"
        " { WINDOW <l> { ?x <a> ?y } WINDOW <r> { ?y <b> ?z } }"
    )
    run = ("run", text, "--input", "left=left.csv", "right=right.csv", "--time-unit", "s", "--stats", "s.json")
    status, out, err = rpq(*run, "--output", "-")
    assert status == 0 and rows(out)[1:] == [["p", "s", "4", "+"], ["r", "s", "20", "+"]]
    assert "no default window, implicit" in err and json.loads(Path("s.json").read_text())["window"] is None
    Path("q.toml").write_text(f"[[query]]\nname = 'two'\nquery = '''{text}'''\n")
    run = ("run", "--queries", "q.toml", "--input", "left=left.csv", "right=right.csv", "--output", "-", "--quiet")
    assert [row[1:] for row in rows(rpq(*run, "--time-unit", "s")[1])[1:]] == rows(out)[1:]
    status, _, err = rpq(*run)
    assert status == 2 and "q.toml, query 1 ('two'), field query: the text declares windows in durations" in err


def test_a_run_goes_on_from_its_checkpoint(rpq):
    text = "SELECT ?x (COUNT(*) AS ?n) FROM NAMED WINDOW <w> [RANGE PT9S] { WINDOW <w> { ?x <a> ?y } } GROUP BY ?x"
    run = ("run", text, "--input", "edges.csv", "--time-unit", "s", "--quiet")
    assert rpq(*run, "--output", "whole.csv")[0] == 0
    parts = (*run, "--output", "rows.csv", "--checkpoint", "state")
    assert rpq(*parts, "--limit", 2)[0] == 0 and len(Path("rows.csv").read_text().splitlines()) == 2
    assert rpq(*parts)[0] == 0
    assert Path("rows.csv").read_text() == Path("whole.csv").read_text()
    assert rows(Path("rows.csv").read_text())[1:] == [["p", "1", "1", "+"], ["p", "1", "10", "-"], ["q", "1", "12", "+"]]


def test_without_a_default_window_the_default_graph_is_the_static_edges(rpq):
    Path("static.csv").write_text("source,target,label\nz,q,a\nz,y,a\n")
    run = ("run", "SELECT ?x { ?x <a> ?y }", "--static", "static.csv", "--input", "edges.csv", "--output", "-")
    status, out, err = rpq(*run)
    assert status == 0 and rows(out)[1:] == [["z", "1", "+"]] * 2
    assert "warning: the query has no default window" in err and "no default window, implicit" in err


COMPUTED = """PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?x (AVG(?v) AS ?mean) (STRLANG(CONCAT("l", STR(?x)), "EN") AS ?said) (IRI(CONCAT("http://e/", STR(?x))) AS ?made)
  (xsd:double(SUM(?v)) AS ?sum) (COUNT(?v) AS ?n) (CONCAT(STR(?x), "\\n\\"") AS ?odd) (1 / 0 AS ?error)
{ ?x <v> ?v } GROUP BY ?x"""


def test_what_is_computed_keeps_datatype_and_language_where_a_form_has_them(rpq):
    Path("numbers.csv").write_text("source,target,label,timestamp\np,1,v,1\np,2,v,2\n")
    run = ("run", COMPUTED, "--input", "numbers.csv", "--window", "unbounded", "--quiet", "--output")
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert rpq(*run, "rows.srj")[0] == 0
    last = json.loads(Path("rows.srj").read_text())["results"]["bindings"][-1]
    assert last["mean"] == {"type": "literal", "value": "1.5", "datatype": f"{xsd}decimal"}
    assert last["said"] == {"type": "literal", "value": "lp", "xml:lang": "en"}
    assert last["made"] == {"type": "uri", "value": "http://e/p"} and last["x"] == {"type": "uri", "value": "urn:rpq:text:p"}
    assert last["sum"]["datatype"] == f"{xsd}double" and float(last["sum"]["value"]) == 3
    assert last["n"] == {"type": "literal", "value": "2", "datatype": f"{xsd}integer"}
    assert last["odd"] == {"type": "literal", "value": 'p\n"'} and "error" not in last
    assert rpq(*run, "rows.tsv")[0] == 0
    cells = Path("rows.tsv").read_text().splitlines()[-1].split("\t")
    assert cells[:4] == ["<urn:rpq:text:p>", f'"1.5"^^<{xsd}decimal>', '"lp"@en', "<http://e/p>"]
    assert cells[5:] == ["2", '"p\\n\\""', "", "2", '"+"']
    # the other forms have the text, beside those too
    assert rpq(*run, "rows.csv")[0] == 0
    assert rows(Path("rows.csv").read_text())[-1][:4] == ["p", "1.5", "lp", "http://e/p"]
    lines = [{"name": name, "query": COMPUTED, "output": f"many.{name}"} for name in ("srjl", "jsonl")]
    Path("q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    run = ("run", "--queries", "q.jsonl", "--input", "numbers.csv", "--window", "unbounded", "--quiet")
    assert rpq(*run)[0] == 0
    assert json.loads(Path("many.jsonl").read_text().splitlines()[-1])["mean"] == "1.5"
    assert json.loads(Path("many.srjl").read_text().splitlines()[-1]) == {
        "query": {"type": "literal", "value": "srjl"}, **last
    }  # fmt: skip


def test_numbers_that_are_made_into_edges_keep_their_datatype(rpq):
    pytest.importorskip("pyoxigraph")
    Path("numbers.csv").write_text("source,target,label,timestamp\np,1,v,1\np,2,v,2\n")
    text = "CONSTRUCT { ?x <http://e/mean> ?mean } { SELECT ?x (AVG(?v) AS ?mean) { ?x <v> ?v } GROUP BY ?x }"
    assert rpq("run", text, "--input", "numbers.csv", "--window", "unbounded", "--output", "made.nq")[0] == 0
    decimal = "^^<http://www.w3.org/2001/XMLSchema#decimal>"
    assert Path("made.nq").read_text().splitlines()[-1] == (
        f'<urn:rpq:text:p> <http://e/mean> "1.5"{decimal} <urn:rpq:insert:2> .'
    )


# --- what is told ----------------------------------------------------------------------------------------------------


def test_a_column_that_nothing_binds_is_told_of_once(rpq):
    text = "SELECT ?x ?nobody { ?x <a>* ?y . ?y <a>* ?z OPTIONAL { ?z <b>? ?u } }"
    warning = "nothing binds ?nobody: its column is empty"
    assert library.Query(text, window=TEN).warnings == (warning,)
    _, _, err = rpq("run", text, "--input", "edges.csv", *WINDOW)
    lines = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert lines.count(f"warning: {warning}") == 1
    assert "warning" not in rpq("run", text, "--input", "edges.csv", *WINDOW, "--quiet")[2]
    _, out, _ = rpq("explain", text)
    assert out.count(warning) == 1


# --- the last report --------------------------------------------------------------------------------------------------

WHOLE = "REGISTER RSTREAM <now> AS SELECT ?x FROM NAMED WINDOW <w> [RANGE 5 STEP 5] { WINDOW <w> { ?x <a> ?y } }"


def test_the_last_report_is_written_at_the_end_of_the_input_and_taken_back_when_the_run_goes_on(rpq):
    run = ("run", WHOLE, "--input", "edges.csv", "--output", "rows.parquet", "--checkpoint", "state")

    def rows():
        return [tuple(map(str, row.values())) for row in pq.read_table("rows.parquet").to_pylist()]

    status, _, err = rpq(*run)
    assert status == 0 and "waiting   1 rows of the next report, written at the end of the input" in err
    first = [("p", "5", "="), ("q", "15", "=")]
    assert rows() == first
    status, _, err = rpq(*run)  # nothing has come
    assert status == 0 and rows() == first
    with Path("edges.csv").open("a") as file:
        file.write("s,t,a,14\nu,v,b,31\n")
    status, _, err = rpq(*run)
    assert status == 0 and rows() == [("p", "5", "="), ("q", "15", "="), ("s", "15", "=")]
    assert "waiting" not in err


def test_the_last_report_moves_no_time_of_other_queries(rpq):
    other = {"name": "other", "query": "?x a ?y", "window": "3", "slide": "1", "semantics": "explicit", "output": "o.csv"}
    Path("q.jsonl").write_text(f"{json.dumps({'name': 'now', 'query': WHOLE, 'output': 'n.csv'})}\n{json.dumps(other)}\n")
    status, _, err = rpq("run", "--queries", "q.jsonl", "--input", "edges.csv", "--stats", "stats.json")
    assert status == 0, err
    assert Path("n.csv").read_text().split()[1:] == ["now,p,5,=", "now,q,15,="]
    assert Path("o.csv").read_text().split()[1:] == ["other,p,q,1,+", "other,p,q,4,-", "other,q,r,12,+"]
    assert json.loads(Path("stats.json").read_text())["rows_flushed"] == 1


def test_topics_have_no_last_report(rpq):
    status, _, err = rpq("run", WHOLE, "--input", "kafka://localhost/t", "--no-flush")
    assert status == 2 and "--flush applies to files, not to topics" in err


def test_empty_reports_are_rows_on_request(rpq):
    run = ("run", WHOLE, "--input", "edges.csv", "--output", "-", "--quiet")
    status, out, _ = rpq(*run, "--report-empty")
    assert status == 0 and out.split() == ["x,timestamp,op", "p,5,=", ",10,0", "q,15,="]
    made = WHOLE.replace("SELECT ?x", "CONSTRUCT { ?x <made> ?y }")
    status, _, _ = rpq("run", made, "--input", "edges.csv", "--output", "made.nq", "--report-empty")
    assert status == 0 and Path("made.nq").read_text().count("answer:") == 2 == len(Path("made.nq").read_text().splitlines())


def test_empty_reports_keep_the_memory_limit():
    engine = library.Engine(library.Query(WHOLE), report_empty=True, memory_limit=20_000_000)
    engine.insert("p", "q", "a", 1)
    assert len(engine.insert("p", "q", "a", 100_000)) == 19_999
    with pytest.raises(library.MemoryLimitError):
        engine.insert("p", "q", "a", 10**12)
