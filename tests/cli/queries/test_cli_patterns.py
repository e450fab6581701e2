"""`rpq run` with graph patterns, as a user calls it: rows against the oracle, outputs, query files, refusals.

patterns.md sections 2 and 3
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reference_pattern_stream import PatternReference
from tests.strategies.drawn_patterns import question

CHAIN = "?x a ?y . ?y b ?z"
WINDOW = ("--window", 10, "--slide", 3)


def stream(count: int = 250, seed: int = 1) -> list[tuple[str, str, str, int, str]]:
    """Edges out of order, some late, some deleted."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        time = number // 4 + chance.choice((0, 0, 0, -2, -20))
        ends = (chance.choice("stuvw"), chance.choice("stuvw"))
        found.append((*ends, chance.choice("abc"), time, chance.choice("+++-")))
    return found


@pytest.fixture
def edges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"{' '.join(map(str, one))}\n" for one in stream()))
    return path


def expected(text: str, window: str = "10/3", *, static: Any = (), tuples: Any = None, **options: Any) -> list[tuple]:
    """The rows of the oracle as texts, those of a moment sorted."""
    reference = PatternReference(question(text, window, **options))
    reference.load_static(static)
    rows = []
    for source, target, label, time, op in tuples or stream():
        rows += reference.push(source, target, label, time, op)
    return in_order([(*row.values, str(row.timestamp), row.op) for row in rows])


def in_order(rows: list[tuple]) -> list[tuple]:
    times = [int(row[-2]) for row in rows]
    assert times == sorted(times)
    return sorted(rows, key=lambda row: (int(row[-2]), row))


def rows_of(text: str) -> tuple[list[str], list[tuple]]:
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return header, in_order([tuple(row) for row in rows])


# --- rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns", "arguments", "options"),
    [
        (CHAIN, "x y z", (), {}),
        (CHAIN, "z x", ("--select", "z,x", "--distinct"), {"select": ("z", "x"), "distinct": True}),
        (CHAIN, "x y z", ("--matching", "isomorphism"), {"matching": "isomorphism"}),
        ("?x a ?x", "x", ("--semantics", "explicit"), {"semantics": "explicit"}),
        ("?x a s . ?z b t", "x z", ("--threads", 2), {}),
    ],
)
def test_rows_are_those_of_the_oracle(rpq, edges, text, columns, arguments, options):
    status, out, _ = rpq("run", text, "--input", edges, *WINDOW, *arguments, "--output", "-", "--quiet")
    header, rows = rows_of(out)
    assert status == 0 and header == [*columns.split(), "timestamp", "op"]
    assert rows == expected(text, **options) and len(rows) > 5


@pytest.mark.parametrize("window", ["count 12/5", "unbounded"])
def test_windows_of_count_and_without_bounds(rpq, edges, window):
    text = CHAIN
    kind, _, extent = window.partition(" ")
    size, _, step = extent.partition("/")
    arguments = ["--window", f"count:{size}" if kind == "count" else kind, *(("--slide", step) if step else ())]
    status, out, err = rpq("run", text, "--input", edges, *arguments, "--output", "-", "--semantics", "explicit")
    assert status == 0 and rows_of(out)[1] == expected(text, window, semantics="explicit")
    line = {"count 12/5": "window count:12, step 5,", "unbounded": "window unbounded,"}
    assert f"query     {text}   {line[window]}" in err


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl", "rows.parquet"])
def test_outputs_have_the_columns_of_the_query(rpq, edges, name):
    stats = ("--stats", "stats.json", "--quiet")
    assert rpq("run", CHAIN, "--input", edges, *WINDOW, "--select", "z,x", "--output", name, *stats)[0] == 0
    if name.endswith(".parquet"):
        table = pq.read_table(name)
        assert table.schema.types == [pa.string(), pa.string(), pa.int64(), pa.string()]
        rows = [tuple(map(str, row.values())) for row in table.to_pylist()]
        assert table.column_names == ["z", "x", "timestamp", "op"]
    else:
        kind = {".gz": "gzip"}.get(Path(name).suffix)
        with pa.input_stream(name, compression=kind) as file:
            text = file.read().decode()
        if ".jsonl" in name:
            found = [json.loads(line) for line in text.splitlines()]
            assert {tuple(row) for row in found} == {("z", "x", "timestamp", "op")}
            rows = [tuple(map(str, row.values())) for row in found]
        else:
            rows = rows_of(text)[1]
    assert in_order(rows) == expected(CHAIN, select=("z", "x"))
    figures = json.loads(Path("stats.json").read_text())
    assert (figures["expression"], figures["columns"], figures["window"]) == (CHAIN, ["z", "x"], 10)
    assert figures["rows_added"] + figures["rows_removed"] == len(rows) == Counter(row[-1] for row in rows).total()
    assert figures["labels_never_seen"] == []


def test_an_output_without_rows_is_whole(rpq, edges):
    for name in ("rows.csv", "rows.parquet", "rows.srj"):
        assert rpq("run", "?who no ?one", "--input", edges, *WINDOW, "--output", name, "--quiet")[0] == 0
    assert Path("rows.csv").read_text() == "who,one,timestamp,op\n"
    assert pq.read_table("rows.parquet").column_names == ["who", "one", "timestamp", "op"]
    assert json.loads(Path("rows.srj").read_text())["results"]["bindings"] == []


def test_vertices_of_typed_columns_stay_integers(rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = {"source": [1, 2], "target": [2, 3], "label": ["a", "b"], "timestamp": [1, 2]}
    pq.write_table(pa.table(table), "edges.parquet")
    arguments = ("?x a 2 . 2 b ?z", "--input", "edges.parquet", *WINDOW, "--output", "rows.parquet", "--quiet")
    assert rpq("run", *arguments)[0] == 0
    assert pq.read_table("rows.parquet").to_pylist() == [{"x": 1, "z": 3, "timestamp": 2, "op": "+"}]


def test_a_variable_that_is_no_column_may_have_any_name(rpq, edges):
    edges.write_text("s t a 1\n")
    arguments = ("--select", "y", "--input", edges, *WINDOW, "--output", "-")
    assert rpq("run", "?op a ?y", *arguments)[1] == "y,timestamp,op\nt,1,+\n"


def test_labels_that_no_tuple_has_are_told(rpq, edges):
    status, _, err = rpq("run", "?x a ?y . ?y cc ?z", "--input", edges, *WINDOW)
    assert status == 0 and "warning: no tuple has the label 'cc'; did you mean 'c'?" in err


# --- texts ------------------------------------------------------------------------------------------------------


def test_a_query_may_stand_in_a_file(rpq, edges):
    Path("query.txt").write_text("?x a ?y .\n?y b ?z\n")
    arguments = ("--query-file", "query.txt", *WINDOW, "--input", edges, edges)
    assert rpq("run", *arguments[:-1], "--output", "-", "--quiet")[1] == rpq(
        "run", CHAIN, "--input", edges, *WINDOW, "--output", "-", "--quiet"
    )[1]
    status, _, err = rpq("run", *arguments)  # the last of several inputs is not taken for an expression
    assert status == 0 and "query     ?x a ?y . ?y b ?z   window 10, slide 3, implicit" in err
    for content, message in (
        ("", "query.txt: is empty"),
        ("?x a ?y .\n?y b*", "the pattern is not understood\nline 2, column 6: the pattern ends too early"),
        ("a//b", "the expression is not understood\ncolumn 3"),
        ("\udc80", "is not text in UTF-8"),
    ):
        Path("query.txt").write_bytes(content.encode(errors="surrogateescape"))
        status, _, err = rpq("run", "--query-file", "query.txt", "--input", edges, *WINDOW)
        assert status == 2 and message in err, err
    status, _, err = rpq("run", "--query-file", "nothing.txt", "--input", edges, *WINDOW)
    assert status == 2 and "--query-file nothing.txt: cannot be read: No such file" in err
    status, _, err = rpq("run", "a", "--query-file", "query.txt", "--input", edges, *WINDOW)
    assert status == 2 and "EXPRESSION and --query-file are two queries; give one" in err


def test_the_pointer_stands_below_the_column(rpq, edges):
    err = rpq("run", "?x a ?y . ?y b* . ?z", "--input", edges, *WINDOW)[2].splitlines()
    assert err[-4] == "Error: the pattern is not understood"
    assert err[-3].startswith("column 17: unexpected '.'; expected '/'")
    assert err[-2:] == ["  ?x a ?y . ?y b* . ?z", "                  ^"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((CHAIN, "--source", "s"), "--source is an option of path queries; in a pattern, write a name"),
        ((CHAIN, "--on-budget", "set_aside"), "--on-budget is an option of path queries"),
        ((CHAIN, "--select", "x,q"), "--select: the pattern has no variable 'q'; its variables are 'x', 'y', 'z'"),
        (("a/b", "--select", "x"), "--select: 'x' is no column of a path query, which has source, target and"),
        (("a/b", "--distinct"), "--distinct is an option of graph patterns"),
        (("a/b", "--matching", "isomorphism"), "--matching is an option of graph patterns"),
        (("SELECT ?x { ?x <a> ?y }", "--distinct"), "is an option of graph patterns; in SPARQL, write it in the text"),
        ((CHAIN, "--language", "path"), "the expression is not understood\ncolumn 1: unexpected '?'"),
        (("s a t", "--language", "pattern"), "has no variable, so its rows have no columns"),
        (("?op a ?y",), "all rows have a column called op: rename the variable ?op, or select others"),
        ((CHAIN, "--window", "count:0"), "--window: 'count:0' is no number of inserts: expected such as count:1000"),
        ((CHAIN, "--window", "count:9", "--slide", "1d"), "--slide: '1d' is no number of inserts"),
        ((CHAIN, "--window", "unbounded", "--slide", 1), "--slide: a window without bounds does not slide; leave out '1'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(rpq, edges, args, message):
    window = () if "--window" in args else WINDOW
    status, out, err = rpq("run", args[0], "--input", edges, "--output", "rows.csv", *window, *args[1:])
    assert (status, out) == (2, "") and message in err, err
    assert not Path("rows.csv").exists()


def test_witnesses_are_a_column_behind_those_of_the_pattern(rpq, edges):
    arguments = ("--input", edges, *WINDOW, "--output", "-", "--quiet", "--witness")
    status, out, _ = rpq("run", CHAIN, *arguments)
    header, rows = next(csv.reader(io.StringIO(out))), list(csv.DictReader(io.StringIO(out, newline="")))
    assert status == 0 and header == ["x", "y", "z", "timestamp", "op", "path", "path_times"]
    assert in_order([tuple(row.values())[:-2] for row in rows]) == expected(CHAIN)
    for row in rows:
        assert (row["path"] == "") == (row["op"] == "-")
        if row["path"]:
            first, second = json.loads(row["path"])
            assert (first[:2], first[3], second[:2], second[3]) == ([row["x"], "a"], row["y"], [row["y"], "b"], row["z"])
            assert json.loads(row["path_times"]) == [first[2], second[2]]
    status, _, err = rpq("run", "?path a ?y", *arguments)
    assert status == 2 and "the columns of witnesses are called path and path_times; rename the variable ?path" in err


def test_the_language_decides_what_a_text_is(rpq, edges):
    edges.write_text("ask u a 1\n")
    for text in ("<ask> a ?x", "ask a ?x"):
        status, out, _ = rpq("run", text, "--language", "pattern", "--input", edges, *WINDOW, "--output", "-")
        assert (status, out) == (0, "x,timestamp,op\nu,1,+\n")
    status, _, err = rpq("run", "ask a ?x", "--input", edges, *WINDOW)
    assert status == 2 and "line 1, column 5: unexpected a" in err
    edges.write_text("ask u select 1\n")
    assert rpq("run", "select", "--input", edges, *WINDOW, "--output", "-")[1] == "source,target,timestamp,op\nask,u,1,+\n"


# --- many queries -----------------------------------------------------------------------------------------------

TOML = """
[defaults]
window = 10
slide = 3

[[query]]
name = "chain"
query = "?x a ?y . ?y b ?z"
semantics = "explicit"
output = "chain.csv"

[[query]]
name = "ends"
query = "?x a ?y . ?y b ?z"
select = ["x", "z"]
distinct = true
output = "ends.jsonl"

[[query]]
name = "other ends"
query = "?z c ?y . ?y b ?x"
select = ["x", "z"]
matching = "isomorphism"
window = "count:9"
slide = 2
output = "ends.jsonl"

[[query]]
name = "path"
query = "a/b"
output = "path.csv"

[[query]]
name = "all"
query = "?x b ?y"
window = "unbounded"
output = "all.parquet"
"""


def test_a_file_of_queries_of_both_kinds(rpq, edges):
    Path("q.toml").write_text(TOML)
    status, _, err = rpq("run", "--queries", "q.toml", "--input", edges, "--stats", "stats.json")
    assert status == 0, err
    header, rows = rows_of(Path("chain.csv").read_text())
    assert header == ["query", "x", "y", "z", "timestamp", "op"]
    assert [row[1:] for row in rows] == expected(CHAIN, semantics="explicit")
    found = [json.loads(line) for line in Path("ends.jsonl").read_text().splitlines()]
    in_order([tuple(map(str, row.values())) for row in found])
    for name, rows in (
        ("ends", expected(CHAIN, select=("x", "z"), distinct=True)),
        ("other ends", expected("?z c ?y . ?y b ?x", "count 9/2", select=("x", "z"), matching="isomorphism")),
    ):
        own = [tuple(map(str, row.values())) for row in found if row["query"] == name]
        assert in_order([row[1:] for row in own]) == rows and rows
    alone = rpq("run", "a/b", "--input", edges, *WINDOW, "--output", "-", "--quiet")[1]
    header, rows = rows_of(Path("path.csv").read_text())
    assert header == ["query", "source", "target", "timestamp", "op"]
    assert [row[1:] for row in rows] == rows_of(alone)[1]
    rows = [tuple(map(str, row.values()))[1:] for row in pq.read_table("all.parquet").to_pylist()]
    assert in_order(rows) == expected("?x b ?y", "unbounded")
    queries = {query["name"]: query for query in json.loads(Path("stats.json").read_text())["queries"]}
    assert queries["ends"]["columns"] == ["x", "z"] and queries["path"]["columns"] == ["source", "target"]
    assert (queries["other ends"]["window"], queries["other ends"]["slide"]) == ("count:9", 2)
    assert (queries["all"]["window"], queries["all"]["slide"]) == ("unbounded", None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "?x a ?y . ?y b"}', "line 2, field query: the pattern is not understood\ncolumn 15"),
        ('{"query": "?x a ?y", "sources": ["u"]}', "line 2, field sources: is an option of path queries"),
        ('{"query": "a", "select": ["x"]}', "line 2, field select: 'x' is no column of a path query"),
        ('{"query": "?x a ?y", "select": ["q"]}', "line 2, field select: the pattern has no variable 'q'"),
        ('{"query": "?x a ?y", "select": "x"}', "line 2, field select: expected a list of variables"),
        ('{"query": "?x a ?y", "distinct": "yes"}', "line 2, field distinct: expected true or false, not 'yes'"),
        ('{"query": "?x a ?y", "matching": "iso"}', "line 2, field matching: expected one of homomorphism, isomorphism"),
        ('{"query": "?x a ?y", "language": "path"}', "line 2, field query: the expression is not understood"),
        ('{"query": "?x a ?y", "on_budget": "set_aside"}', "line 2, field on_budget: is an option of path queries"),
        ('{"query": "?op a ?y"}', "line 2, field query: all rows have a column called op"),
        ('{"query": "?x a ?y", "window": "count:x"}', "line 2, field window: 'count:x' is no number of inserts"),
    ],
)
def test_a_line_that_is_wrong_is_told_with_its_place(rpq, edges, line, message):
    Path("q.jsonl").write_text('{"name": "good", "query": "?x a ?y"}\n' + line + "\n")
    status, out, err = rpq("run", "--queries", "q.jsonl", "--input", edges, *WINDOW, "--output", "rows.csv")
    assert (status, out) == (2, "") and f"q.jsonl, {message}" in err, err
    assert not Path("rows.csv").exists()


def test_one_output_has_one_kind_of_columns(rpq, edges):
    Path("q.jsonl").write_text('{"name": "p", "query": "?x a ?y"}\n{"name": "q", "query": "a"}\n')
    status, out, err = rpq("run", "--queries", "q.jsonl", "--input", edges, *WINDOW, "--output", "rows.csv")
    assert (status, out) == (2, "")
    assert (
        "field output: rows.csv cannot contain the rows of both 'p', with the columns x, y, and 'q', with source, target: "
        "give each its own output, or the same names of variables"
    ) in err
    Path("q.jsonl").write_text('{"name": "p", "query": "?source a ?target"}\n{"name": "q", "query": "a"}\n')
    arguments = ("--queries", "q.jsonl", "--input", edges, *WINDOW, "--output", "-", "--quiet")
    found = rows_of(rpq("run", *arguments)[1])[1]
    assert {row[0] for row in found} == {"p", "q"}
    assert [row[1:] for row in found if row[0] == "p"] == [row[1:] for row in found if row[0] == "q"]


# --- edges without time -----------------------------------------------------------------------------------------


def test_edges_without_time_are_there_from_the_beginning(rpq, edges):
    text = "?x role boss . ?x a ?y . ?y b ?z"
    static = [("s", "role", "boss"), ("u", "role", "boss"), ("v", "b", "w")]
    Path("roles.txt").write_text("s boss role\n")
    Path("more.csv").write_text("label,timestamp,target,source\nrole,17,boss,u\nb,,w,v\n")
    arguments = ("--input", edges, *WINDOW, "--semantics", "explicit", "--output", "-")
    status, out, err = rpq("run", text, *arguments, "--static", "roles.txt", "more.csv")
    assert status == 0 and "static    3 edges without time" in err and "warning" not in err
    assert rows_of(out)[1] == expected(text, static=static, semantics="explicit")
    again = rpq("run", text, *arguments, "--static", "roles.txt", "--static", "more.csv", "--quiet")
    assert rows_of(again[1]) == rows_of(out)


@pytest.mark.parametrize("name", ["static.parquet", "static.tsv.gz"])
def test_edges_without_time_come_in_every_format(rpq, edges, name):
    columns = {"source": ["s", "u"], "target": ["boss", "boss"], "label": ["role", "role"]}
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), name)
    else:
        with pa.output_stream(name, compression="gzip") as file:
            file.write(b"s\tboss\trole\nu\tboss\trole\n")
    text = "?x role boss . ?x a ?y"
    status, out, _ = rpq("run", text, "--input", edges, *WINDOW, "--static", name, "--output", "-", "--quiet")
    assert status == 0
    assert rows_of(out)[1] == expected(text, static=[("s", "role", "boss"), ("u", "role", "boss")])


def test_what_is_wrong_with_edges_without_time_is_told(rpq, edges):
    Path("deletes.txt").write_text("s t role 1 -\n")
    Path("bad.txt").write_text("s t role\ns t\n")
    pq.write_table(pa.table({"source": [1], "target": [2], "label": ["role"]}), "numbers.parquet")
    for name, code, message in (
        ("deletes.txt", 1, "deletes.txt: deletes an edge; static edges cannot be deleted"),
        ("bad.txt", 1, "bad.txt:2: found 2 fields"),
        ("nothing.txt", 2, "--static nothing.txt: there is no such file"),
        ("-", 2, "--static -: is not a file or folder"),
        ("rows.csv", 2, "--output rows.csv and --static rows.csv are the same file"),
        (str(edges), 1, "deletes an edge"),
    ):
        status, _, err = rpq("run", CHAIN, "--input", edges, *WINDOW, "--output", "rows.csv", "--static", name)
        assert status == code and message in err, (name, err)
        assert not Path("rows.csv").exists()
    status, _, err = rpq("run", CHAIN, "--input", edges, *WINDOW, "--static", "numbers.parquet")
    assert status == 1 and "integers or text, not both" in err, err


# --- streams ----------------------------------------------------------------------------------------------------


def test_inputs_may_belong_to_streams_which_play_no_part(rpq, edges):
    plain = rpq("run", CHAIN, "--input", edges, edges, *WINDOW, "--output", "-", "--quiet")[1]
    named = rpq("run", CHAIN, "--input", f"one={edges}", f"<http://two>={edges}", *WINDOW, "--output", "-", "--quiet")
    assert named[0] == 0 and named[1] == plain
    Path("columns.csv").write_text("source,target,label,timestamp,feed\ns,t,a,1,x\nt,u,b,2,\n")
    arguments = ("--columns", "stream=feed", "--input", "columns.csv", *WINDOW, "--output", "-")
    assert rpq("run", CHAIN, *arguments)[1] == "x,y,z,timestamp,op\ns,t,u,2,+\n"
    arguments = ("--columns", "stream=fed", "--input", "columns.csv", *WINDOW, "--output", "-")
    status, _, err = rpq("run", CHAIN, *arguments)
    assert status == 1 and "column 'fed': is missing" in err and "did you mean 'feed'?" in err


def test_a_file_whose_name_has_a_sign_of_equality(rpq, edges):
    Path("a=b.txt").write_text("s t a 1\n")
    Path("b.txt").write_text("u v a 1\n")
    run = ("run", "?x a ?y", *WINDOW, "--output", "-", "--quiet")
    assert "s,t,1,+" in rpq(*run, "--input", "a=b.txt")[1]  # what is there as it is written is a file
    assert "s,t,1,+" in rpq(*run, "--input", "./a=b.txt")[1]
    assert "s,t,1,+" in rpq(*run, "--input", "n=a=b.txt")[1]
    Path("a=b.txt").unlink()
    assert "u,v,1,+" in rpq(*run, "--input", "a=b.txt")[1]  # now it is the file b.txt of the stream a
    status, _, err = rpq(*run, "--input", "./a=b.txt")
    assert status == 1 and "./a=b.txt: cannot be read" in err
    status, _, err = rpq(*run, "--input", "=b.txt")
    assert status == 2 and "--input =b.txt: is neither a file nor NAME=FILE" in err
    Path("own.csv").write_text("source,target,label,timestamp,stream\ns,t,a,1,x\n")
    status, _, err = rpq(*run, "--input", "a=own.csv")
    assert status == 1 and "own.csv: has a column 'stream', but the input is assigned to the stream 'a'" in err
    status, _, err = rpq(*run, "--input", "a=b.txt", "--format", "yago")
    assert status == 2 and "the format yago has no streams" in err
    # the last of several inputs is not taken for an expression if its file is there
    status, _, err = rpq("run", *WINDOW, "--input", "a=b.txt", "c=b.txt")
    assert status == 2 and "Missing argument 'EXPRESSION'" in err


def test_an_atom_that_no_simple_path_matches_is_told_of(rpq, edges):
    message = (
        "?x a{3,4} ?x never matches: no simple path leads from a vertex to itself; "
        'write paths="simple_cycle" for cycles that visit no other vertex twice, or paths="walk"'
    )
    arguments = ("run", "?x a{3,4} ?x . ?x b ?y", "--input", edges, *WINDOW)
    status, _, err = rpq(*arguments, "--paths", "simple")
    assert status == 0 and err.count(message) == 1 and f"warning: {message}" in err
    assert "never matches" not in rpq(*arguments, "--paths", "simple_cycle")[2]
    query = 'name = "q"\nquery = "?x a{3,4} ?x"\npaths = "simple"\nwindow = 10\nslide = 1\n'
    Path("q.toml").write_text(f"[[query]]\n{query}")
    assert f"warning      {message}" in rpq("explain", "--queries", "q.toml")[1]
    for text in ("ASK { ?x <a>+ ?y FILTER NOT EXISTS { ?y <b>+ ?y } }", "MATCH ANY (x)-[:a]->{3}(x) RETURN x"):
        shown = rpq("explain", text, "--paths", "simple")[1]
        assert "never matches" in shown and "paths        simple\n" in shown
    assert "paths        simple" in rpq("explain", "a{3,4}", "--paths", "simple")[1]
    assert "write it as a field of a query" in rpq("explain", "--queries", "q.toml", "--paths", "simple")[2]
