"""Many queries in one run: what a file of them may say, and that each gives the rows that it gives alone.

semantics.md S7
"""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rpq as library
from rpq import automata

WINDOW = ("--window", "20", "--slide", "3")


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def edges(tmp_path) -> Path:
    """A stream out of order, some of it late, some of it deleted."""
    chance = random.Random(3)
    lines = [
        (chance.randrange(9), chance.randrange(9), chance.choice("abc"), n // 4 + chance.choice([0, 0, -3, -12, -25]), op)
        for n, op in enumerate(chance.choices("+++-", k=400))
    ]
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines))
    return path


def rows_by_query(path: Path | str) -> dict[str, list[tuple[str, ...]]]:
    """The rows of an output: of each query in time order, those of one time sorted."""
    if str(path).endswith(".parquet"):
        found = [{name: str(value) for name, value in row.items()} for row in pq.read_table(path).to_pylist()]
    else:
        with open(path, newline="") as file:
            found = list(csv.DictReader(file))
    assert all(list(row)[:5] == ["query", "source", "target", "timestamp", "op"] for row in found)
    times = [int(row["timestamp"]) for row in found]
    assert times == sorted(times)
    rows: dict[str, list[tuple[str, ...]]] = {}
    for row in found:
        rows.setdefault(row["query"], []).append(tuple(row.values())[1:5])
    return {query: sorted(part, key=lambda row: (int(row[2]), row)) for query, part in rows.items()}


def rows_alone(rpq, edges: Path, *args: object) -> list[tuple[str, ...]]:
    status, out, err = rpq("run", *args, "--input", edges, "--output", "-", "--quiet")
    assert status == 0, err
    rows = [tuple(row.values()) for row in csv.DictReader(io.StringIO(out, newline=""))]
    return sorted(rows, key=lambda row: (int(row[2]), row))


TOML = """
[defaults]
window = 20
slide = "3"

[[query]]
name = "reach"
query = "a/b*"
output = "reach.parquet"

[[query]]
query = "(a|b|c)+"
semantics = "explicit"
window = 7

[[query]]
name = 'from a, "few"'
query = "a/^c?"
sources = [1, "2", "3"]
targets = ["4", "5", "6", "7"]
output = "shared.csv"

[[query]]
name = "simple"
query = "a/b*/a"
paths = "simple"
semantics = "explicit"
slide = 1
simple_budget = 1000
on_budget = "set_aside"
output = "./shared.csv"

[[query]]
name = "cycles"
query = "(a|b)/(b|c)/a?"
paths = "simple_cycle"
semantics = "explicit"
output = "./shared.csv"
"""

ALONE = {
    "reach": ("a/b*", "--window", 20, "--slide", 3),
    "(a|b|c)+": ("(a|b|c)+", "--window", 7, "--slide", 3, "--semantics", "explicit"),
    'from a, "few"': ("a/^c?", "--window", 20, "--slide", 3, "--source", 1, 2, 3, "--target", 4, 5, 6, 7),
    "simple": ("a/b*/a", "--window", 20, "--slide", 1, "--paths", "simple", "--semantics", "explicit"),
    "cycles": (
        *("(a|b)/(b|c)/a?", "--window", 20, "--slide", 3),
        *("--paths", "simple_cycle", "--semantics", "explicit"),
    ),
}


@pytest.mark.parametrize(("kind", "threads"), [("toml", 2), ("jsonl", 1)])
def test_each_query_gives_the_rows_that_it_gives_alone(rpq, edges, tmp_path, kind, threads):
    if kind == "toml":
        Path("queries.toml").write_text(TOML)
        defaults: tuple[object, ...] = ()
    else:
        import tomllib

        lines = [json.dumps(query) for query in tomllib.loads(TOML)["query"]]
        Path("queries.jsonl").write_text("\n\n".join(lines) + "\n")
        defaults = WINDOW
    status, _, err = rpq(
        *("run", "--queries", f"queries.{kind}", "--input", edges, "--output", "rest.csv", "--late", "late.csv"),
        *("--threads", threads, "--stats", "stats.json", *defaults),
    )
    assert status == 0, err
    reach, rest, shared = (rows_by_query(name) for name in ("reach.parquet", "rest.csv", "shared.csv"))
    assert list(reach) == ["reach"] and list(rest) == ["(a|b|c)+"] and set(shared) == {'from a, "few"', "simple", "cycles"}
    found = {**reach, **rest, **shared}
    figures = json.loads(Path("stats.json").read_text())
    assert [query["name"] for query in figures["queries"]] == list(ALONE)
    of_an_engine = {one.name for one in fields(library.Statistics)}
    assert of_an_engine <= figures.keys()
    of_a_query = of_an_engine - {"vertices_live", "engine_seconds", "non_numeric"}
    assert all(of_a_query <= query.keys() for query in figures["queries"])
    for query in figures["queries"]:
        wanted = rows_alone(rpq, edges, *ALONE[query["name"]], "--stats", "alone.json")
        alone = json.loads(Path("alone.json").read_text())
        assert found[query["name"]] == wanted and len(wanted) > 20
        for name in ("expression", "window", "slide", "rows_added", "rows_removed", "answers_live", "late", "tuples"):
            assert query[name] == alone[name], name
        assert f"{query['name']}   {alone['rows_added']:,} rows added" in err
    assert figures["rows_added"] == sum(query["rows_added"] for query in figures["queries"])
    assert 0 < len(Path("late.csv").read_text().splitlines()) - 1 == figures["late"]
    assert figures["late"] < max(query["late"] for query in figures["queries"])  # late for one window, not for all


def test_defaults_and_options_say_what_a_query_does_not(rpq, edges):
    Path("q.toml").write_text(
        '[defaults]\nslide = 5\nsources = ["1"]\n[[query]]\nname = "x"\nquery = "a/b"\n'
        '[[query]]\nname = "y"\nquery = "a/b"\nslide = 2\nsources = ["3", "4"]\n'
    )
    options = ("--window", 12, "--slide", 1, "--semantics", "explicit", "--source", 8)
    status, out, err = rpq("run", "--queries", "q.toml", "--input", edges, *options, "--output", "rows.csv")
    assert status == 0 and out == "", err
    found = rows_by_query("rows.csv")
    alone = ("a/b", "--window", 12, "--semantics", "explicit")
    assert found["x"] == rows_alone(rpq, edges, *alone, "--slide", 5, "--source", 1)
    assert found["y"] == rows_alone(rpq, edges, *alone, "--slide", 2, "--source", 3, 4)


def test_integers_of_typed_columns(rpq):
    pq.write_table(pa.table({"source": [1, 2], "target": [2, 3], "label": ["a", "a"], "timestamp": [1, 2]}), "e.parquet")
    Path("q.jsonl").write_text(
        '{"name": "x", "query": "a+", "sources": [1], "output": "x.parquet"}\n'
        '{"name": "y", "query": "a+", "targets": ["3"]}\n'
    )
    run = ("run", "--queries", "q.jsonl", "--input", "e.parquet", *WINDOW, "--output", "y.parquet")
    status, _, err = rpq(*run)
    assert status == 0, err
    assert pq.read_table("x.parquet").select(["source", "target"]).to_pylist() == [
        {"source": 1, "target": 2},
        {"source": 1, "target": 3},
    ]
    assert sorted(pq.read_table("y.parquet")["source"].to_pylist()) == [1, 2]
    Path("q.jsonl").write_text('{"query": "a+"}\n{"query": "a", "targets": ["u3"]}\n')
    status, _, err = rpq(*run)
    assert status == 2 and "q.jsonl, line 2, field targets: the vertices of this input are integers" in err


GOOD = '{"name": "good", "query": "a/b"}\n'


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        ('{"name": "x", "query": "a/b||c"}', ["line 2, field query: the expression", "column 5", "a/b||c\n      ^"]),
        ('{"name": "x", "query": "a", "windw": 5}', ["line 2, field windw: is not known", "did you mean 'window'?"]),
        ('{"name": "x", "query": "a", "semantics": "explict"}', ["line 2, field semantics", "did you mean 'explicit'?"]),
        ('{"name": "good", "query": "a"}', ["line 2, field name: there is already a query named 'good'", "line 1"]),
        ('{"name": "x", "query": "a", "query": "b"}', ["line 2, field query: occurs twice"]),
        ('{"name": "x"}', ["line 2: has no field query"]),
        ('{"name": "", "query": "a"}', ["line 2, field name: expected a text"]),
        ('{"name": "\\ud800", "query": "a"}', ["line 2", "lone surrogate"]),
        ('{"name": "x", "query": "a"', ["line 2: is not JSON", "column 27"]),
        ("\xff", ["line 2: is not UTF-8 text"]),
        pytest.param("[" * 100_000, ["line 2: is not JSON"], id="deep"),
        ('{"name": "x", "query": "a", "window": "30x"}', ["line 2, field window: '30x' has the unknown unit 'x'"]),
        ('{"name": "x", "query": "a", "slide": 1.5}', ["line 2, field slide: expected a positive whole number"]),
        ('{"name": "x", "query": "a", "window": "30d"}', ["line 2, field window: '30d' has a unit", "--time-unit"]),
        ('{"name": "x", "query": "a", "sources": "u1"}', ["line 2, field sources: expected a list"]),
        ('{"name": "x", "query": "a", "simple_budget": 0}', ["line 2, field simple_budget"]),
        ('{"name": "x", "query": "a", "order": "increasing", "max_gap": -1}', ["line 2, field max_gap"]),
        ('{"name": "x", "query": "a", "hold": 0}', ["line 2, field hold", "longer than 0"]),
        ('{"name": "x", "query": "a", "output": "x.txt"}', ["line 2, field output: x.txt", ".csv, .parquet"]),
        ('{"name": "x", "query": "a", "output": "no/x.csv"}', ["line 2, field output: no/x.csv: cannot", "no folder"]),
    ],
)
def test_a_bad_line_ends_the_command_before_anything_runs(rpq, edges, lines, messages):
    Path("q.jsonl").write_bytes(GOOD.encode() + lines.encode("latin-1") + b"\n")
    Path("rows.csv").write_text("kept\n")
    for command in (["run", "--input", edges, *WINDOW, "--output", "rows.csv"], ["explain"]):
        status, out, err = rpq(*command, "--queries", "q.jsonl")
        if command == ["explain"] and {"--time-unit", "lone surrogate", "no folder"} & set(messages):
            continue  # whether a query can run is seen when it does
        assert status == 2 and out == ""
        for message in messages:
            assert message in err
        assert f"q.jsonl, {messages[0]}" in err
    assert Path("rows.csv").read_text() == "kept\n"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('[[query]]\nquery = "a"\n[[query]]\nname = "x"\nquery = "a|"', ["query 2 ('x'), field query", "column 3"]),
        ('[defaults]\nquery = "b"\n[[query]]\nquery = "a"', ["[defaults], field query: is not known"]),
        ('[defaults]\nwindow = "3 days"\n[[query]]\nquery = "a"', ["[defaults], field window: '3 days'"]),
        ('[default]\nwindow = 3\n[[query]]\nquery = "a"', ["'default' is not known here", "did you mean 'defaults'?"]),
        ('window = 3\n[[query]]\nquery = "a"', ["'window' is not known here", "[defaults]"]),
        ('[query]\nquery = "a"', ["[[query]]"]),
        ('[[query]]\nquery = a', ["is not TOML", "line 2"]),
        ("[[query]]\nquery = '\xff'", ["line 2: is not UTF-8 text"]),
        ("", ["has no query"]),
        ('[[query]]\nquery = "a"\nname = "x"\n[[query]]\nquery = "x"', ["field name: there is already a query named 'x'"]),
    ],
)
def test_a_bad_table_ends_the_command_before_anything_runs(rpq, edges, text, messages):
    Path("q.toml").write_bytes(text.encode("latin-1"))
    status, out, err = rpq("run", "--queries", "q.toml", "--input", edges, *WINDOW, "--output", "rows.csv")
    assert status == 2 and out == "" and not Path("rows.csv").exists()
    for message in ["q.toml", *messages]:
        assert message in err


def test_options_that_do_not_go_with_a_file_of_queries(rpq, edges):
    Path("q.jsonl").write_text(GOOD)
    run = ("--queries", "q.jsonl", "--input", edges)
    for args, message in (
        (("a", *run, *WINDOW), "leave out EXPRESSION"),
        ((*run, *WINDOW, "--query", "Q1", "--dataset", "ldbc"), "leave out --query and --dataset"),
        (run, "q.jsonl, line 1, field window: is missing"),
        ((*run, "--window", "3x", "--slide", 1), "--window: '3x'"),
        ((*run, "--window", "3d", "--slide", 1), "--window: '3d' has a unit"),
        ((*run, *WINDOW, "--witness"), "--witness needs an --output"),
        ((*run, *WINDOW, "--checkpoint", "state", "--output", "-"), "--checkpoint needs an --output that is a file"),
        (("--queries", "q.yaml", "--input", edges), "q.yaml: cannot be read"),
        (("--queries", edges, "--input", edges), ".toml, .jsonl or .ndjson"),
    ):
        status, _, err = rpq("run", *args)
        assert status == 2 and message in err, err
    # the last of several inputs is not taken for an expression
    assert rpq("run", *WINDOW, "--queries", "q.jsonl", "--input", edges, edges)[0] == 0


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("rows.csv", ("--late", "./rows.csv"), "field output: rows.csv and --late ./rows.csv are the same file"),
        ("rows.csv", ("--stats", "q.jsonl"), "--stats q.jsonl and --queries q.jsonl are the same file"),
        ("edges.csv", (), "q.jsonl, line 2, field output: edges.csv and --input"),
        ("x.parquet", ("--checkpoint", "x.parquet.rows"), "the rows of q.jsonl, line 2, field output: in x.parquet.rows"),
        ("/dev/null", ("--checkpoint", "state"), "/dev/null: is not a regular file"),
    ],
)
def test_one_file_is_not_for_two_purposes(rpq, edges, output, options, message):
    edges.rename("edges.csv")
    Path("q.jsonl").write_text(f'{GOOD}{{"name": "x", "query": "a", "output": "{output}"}}\n')
    status, _, err = rpq("run", "--queries", "q.jsonl", "--input", "edges.csv", *WINDOW, *options)
    assert status == 2 and message in err, err
    assert {path.name for path in Path().iterdir()} == {"edges.csv", "q.jsonl"}


def test_an_error_leaves_outputs_without_rows_as_they_were_and_the_others_with_the_rows_so_far(rpq, edges):
    edges.write_text("1 2 a 1\n2 3 a 2\nwhat is this\n")
    Path("q.jsonl").write_text('{"query": "a", "output": "a.jsonl"}\n{"query": "b", "output": "b.csv"}\n')
    Path("b.csv").write_text("kept\n")
    status, _, err = rpq("run", "--queries", "q.jsonl", "--input", edges, *WINDOW)
    assert status == 1 and "edges.txt:3: found 3 fields" in err
    assert [json.loads(line)["query"] for line in Path("a.jsonl").read_text().splitlines()] == ["a", "a"]
    assert Path("b.csv").read_text() == "kept\n"


def test_a_thousand_queries_are_read_and_equal_ones_compiled_once(tmp_path, monkeypatch):
    compiled = []
    real = automata.compile
    monkeypatch.setattr(automata, "compile", lambda text: compiled.append(text) or real(text))
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"name": "q{i}", "query": "a{i % 500}/(b|c{i % 500})*"}}\n' for i in range(1_000)))
    queries = library.read_queries(path, window=100, slide=10)
    assert len(queries) == 1_000 and len(compiled) == 500


def test_the_library_reads_a_file_of_queries(tmp_path):
    path = tmp_path / "queries.toml"
    path.write_text(TOML.replace("window = 20", 'window = "20s"'))
    queries = library.read_queries(path, time_unit="ms", semantics="explicit")
    assert [query.name for query in queries] == list(ALONE)
    assert queries[0] == library.Query(
        "a/b*", name="reach", window=library.Window(size=20_000, slide=3), semantics="explicit"
    )
    assert queries[2].sources == {1, "2", "3"}
    defaults = '[defaults]\nwindow = "30d"\nslide = "1d"\n'
    path.write_text(f'{defaults}[[query]]\nquery = "a"\n[[query]]\nquery = "b"\nwindow = 5\nslide = "1"')
    with pytest.raises(library.QueryError, match="is in durations"):
        library.Engine(*library.read_queries(path))
    assert library.read_queries(path)[0].window == library.Window(size="30d", slide="1d")
    engine = library.Engine(*queries)
    assert {row.query for row in engine.push_rows([("1", "2", "a", 1)])} == {"reach", "(a|b|c)+"}
    with pytest.raises(library.QueryError, match="the defaults, field windows: is not known") as caught:
        library.read_queries(path, windows=3)
    assert caught.value.field == "windows"
    path.write_text(TOML + '[[query]]\nname = "late"\nquery = "a|"\n')
    with pytest.raises(library.QueryError, match=r"queries.toml, query 6 \('late'\), field query(.|\n)*column 3") as caught:
        library.read_queries(path)
    assert (caught.value.file, caught.value.entry, caught.value.field) == (str(path), 6, "query")


def test_any_text_is_a_name_and_stays_one_value_in_outputs(rpq, edges):
    name = 'two\nlines, "quoted"\t\x1b[31m'
    Path("q.jsonl").write_text(json.dumps({"name": name, "query": "a"}) + "\n")
    status, _, err = rpq("run", "--queries", "q.jsonl", "--input", edges, *WINDOW, "--output", "rows.csv")
    assert status == 0 and "\x1b[31m" not in err and repr(name) in err
    assert rows_by_query("rows.csv") == {name: rows_alone(rpq, edges, "a", *WINDOW)}
    status, out, _ = rpq("explain", "--queries", "q.jsonl")
    assert status == 0 and "\x1b" not in out and repr(name) in out


def test_paths_are_a_column_of_every_output(rpq, edges):
    Path("q.toml").write_text(TOML)
    assert rpq("run", "--queries", "q.toml", "--input", edges, "--output", "rest.csv", "--witness")[0] == 0
    for row in [*pq.read_table("reach.parquet").to_pylist(), *csv.DictReader(io.StringIO(Path("shared.csv").read_text()))]:
        path = json.loads(row["path"]) if row["op"] == "+" else None
        assert (row["path"] == "") if path is None else (str(path[0]), str(path[-1])) == (row["source"], row["target"])


def test_outputs_may_be_more_than_files_that_may_be_open(rpq, edges, monkeypatch):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lines = ({"name": f"q{number}", "query": "a", "output": f"{number}.csv"} for number in range(150))
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = ("run", "--queries", "q.jsonl", "--input", edges, *WINDOW)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
        status, _, err = rpq(*run)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert status == 0, err
    assert Path("0.csv").read_text().count("q0,") == Path("149.csv").read_text().count("q149,") > 0
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    status, _, err = rpq(*run)
    assert status == 2 and "a process can open only 64 files" in err
