"""`--output postgresql://…`: a table equals the answer, however a run is interrupted; what a table cannot have is refused.

The database is in memory here; tests/cli/outputs/test_postgresql.py has a real one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq as package
from rpq.cli import main, run_outputs
from rpq.run import loop, table_output
from tests.cli.test_cli_checkpoint import make_stream
from tests.reference import ReferenceEngine
from tests.services.memory_database import GoneError, MemoryDatabase
from tests.twins import examples, reference_query

TABLE = "postgresql://ann:se%40cret@db/shop?table=graph.answers"
PATH = ["a/b*", "--window", "20", "--slide", "3", "--semantics", "explicit"]
CHAIN = ["?x a ?y . ?y b ?z", "--select", "x,z", "--window", "20", "--slide", "3", "--semantics", "explicit"]
REPORTS = [*CHAIN, "--report", "slide", "--no-flush"]


def oracle(path: Path) -> ReferenceEngine:
    """The oracle at the end of a stream."""
    query = package.Query("a/b*", window=package.Window(size=20, slide=3), semantics="explicit")
    engine = ReferenceEngine(reference_query(query))
    for line in path.read_text().splitlines():
        source, target, label, timestamp, op = line.split()
        engine.push(source, target, label, int(timestamp), op)
    return engine


def expected(path: Path) -> tuple[Counter, Counter]:
    """The answers to `PATH` and the bag of those to `CHAIN` at the end of a stream, by brute force."""
    engine = oracle(path)
    edges = [*engine.edges()]
    bag = Counter((x, z) for x, first, y in edges for w, second, z in edges if (first, second) == ("a", "b") and y == w)
    return Counter(engine.answers()), bag


def call(arguments: list[object]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["run", *map(str, arguments), "--quiet"], prog_name="rpq")
    return ended.value.code or 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tables")


@examples(50)
@given(
    seed=st.integers(0, 99),
    query=st.sampled_from([PATH, CHAIN, REPORTS]),
    first=st.sampled_from([5, 17, 40]),
)
def test_a_table_is_equal_to_the_answer_however_a_run_is_interrupted(folder, seed, query, first) -> None:
    stream, checkpoint = folder / "edges.txt", folder / "run.state"
    make_stream(stream, 150, seed)
    checkpoint.unlink(missing_ok=True)
    drawn = random.Random(seed)
    left = iter([GoneError("as if a cable was pulled"), KeyboardInterrupt()] * 3)

    def fail() -> None:
        if drawn.random() < 0.3 and (error := next(left, None)) is not None:
            raise error

    database, whole = MemoryDatabase(fail), MemoryDatabase()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "FIRST_SLICE", first)
        patch.setattr(loop.Run, "slice_seconds", 1e-9)  # slices become as small as they may
        patch.setattr(loop, "LEAST_SLICE", min(first, 16))
        patch.setattr(run_outputs, "COMMIT_SECONDS", 0.0)
        patch.setattr(table_output.time, "sleep", lambda seconds: None)
        patch.setattr(table_output, "PostgresTables", lambda *_, **__: database)
        arguments = [*query, "--input", stream, "--output", TABLE, "--checkpoint", checkpoint]
        while status := call(arguments):
            assert status == 130
        patch.setattr(table_output, "PostgresTables", lambda *_, **__: whole)
        assert call([*query, "--input", stream, "--output", TABLE]) == 0
    if query in (PATH, CHAIN):
        assert database.answers("graph.answers") == expected(stream)[query is CHAIN]
    assert database.answers("graph.answers")
    assert database.tables == whole.tables  # with the times of the last changes
    assert database.at.position == 150


def test_queries_have_a_column_and_share_a_table_or_have_their_own(tmp_path, monkeypatch) -> None:
    make_stream(tmp_path / "edges.txt", 100, 1)
    text = "".join(
        f"[[query]]\nname = '{name}'\nquery = '{query}'\noutput = '{TABLE.replace('answers', table)}'\n"
        for name, query, table in (("ab", "a/b*", "one"), ("b", "b", "one"), ("b too", "b", "two"))
    )
    (tmp_path / "queries.toml").write_text(text)
    database = MemoryDatabase()
    monkeypatch.setattr(table_output, "PostgresTables", lambda *_, **__: database)
    assert call(["--queries", tmp_path / "queries.toml", "--input", tmp_path / "edges.txt", *PATH[1:]]) == 0
    one, two = database.answers("graph.one"), database.answers("graph.two")
    assert Counter(row[1:] for row in one if row[0] == "ab") == expected(tmp_path / "edges.txt")[0]
    assert {row[1:] for row in one if row[0] == "b"} == {row[1:] for row in two} and two
    assert {row[0] for row in one} == {"ab", "b"} and {row[0] for row in two} == {"b too"}


def test_a_database_that_stays_away_ends_the_run_at_its_last_commit(tmp_path, monkeypatch, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 300, 2)
    calls = iter(range(1000))

    def fail() -> None:
        if next(calls) > 9:
            raise GoneError("connection refused")

    database = MemoryDatabase(fail)
    monkeypatch.setattr(table_output, "PostgresTables", lambda *_, **__: database)
    monkeypatch.setattr(run_outputs, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_SLICE", 16)
    monkeypatch.setattr(loop.Run, "slice_seconds", 1e-9)
    monkeypatch.setattr(table_output, "RETRY_SECONDS", 0.06)
    arguments = ["run", *PATH, "--input", tmp_path / "edges.txt", "--output", TABLE, "--checkpoint", tmp_path / "state"]
    status, _, err = rpq(*arguments)
    assert status == 1
    assert "postgresql://db/shop?table=graph.answers: has not answered for 0.06 seconds: connection refused" in err
    assert "cret" not in err
    stopped = database.at
    assert 0 < stopped.position < 300
    database.fails = lambda: None
    assert rpq(*arguments)[0] == 0
    assert database.answers("graph.answers") == expected(tmp_path / "edges.txt")[0]
    assert b"cret" not in (tmp_path / "state").read_bytes()


def test_a_tuple_that_is_refused_ends_the_run_behind_those_before_it(tmp_path, monkeypatch, rpq) -> None:
    (tmp_path / "edges.txt").write_text("x y a 1\ny z b 2\nz w b 900000\nu v a 3\n")
    database = MemoryDatabase()
    monkeypatch.setattr(table_output, "PostgresTables", lambda *_, **__: database)
    arguments = ["run", *PATH, "--input", tmp_path / "edges.txt", "--output", TABLE, "--max-ahead", 100]
    status, _, err = rpq(*arguments, "--checkpoint", tmp_path / "state")
    assert status == 1 and "900000" in err
    assert database.answers("graph.answers") == Counter([("x", "y"), ("x", "z")]) and database.at.position == 2


def test_a_table_that_is_older_than_the_checkpoint_is_refused(tmp_path, monkeypatch, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 100, 3)
    database = MemoryDatabase()
    monkeypatch.setattr(table_output, "PostgresTables", lambda *_, **__: database)
    arguments = ["run", *PATH, "--input", tmp_path / "edges.txt", "--output", TABLE, "--checkpoint", tmp_path / "state"]
    assert rpq(*arguments)[0] == 0
    database.at = table_output.TableProgress(3, 50)
    status, _, err = rpq(*arguments)
    assert status == 1 and "is at position 50, before position 100 of the checkpoint" in err and "--replace" in err
    database.at = table_output.TableProgress(3, 150)
    status, _, err = rpq(*arguments)
    assert status == 1 and "is at position 150, but the input ends at 100" in err


REFUSED = {
    "no table": (["--output", "postgresql://db/shop"], "names no table; expected postgresql://…/shop?table=NAME"),
    "a bad password": (["--output", "postgresql://ann:se@cret@db/shop?table=x"], "are written %40, %2F and %23"),
    "two tables": (["--output", f"{TABLE}&table=x"], "names 2 tables"),
    "positions": (["--output", TABLE.replace("graph.answers", "rpq_positions")], "is the table with the positions"),
    "a bad name": (["--output", TABLE.replace("graph.", "a.b.")], "is not a table's name"),
    "implicit semantics": (["--output", TABLE, "--semantics", "implicit"], "needs --semantics explicit"),
    "witnesses": (["--output", TABLE, "--witness"], "--witness: postgresql://db/shop?table=graph.answers contains"),
    "messages": (["--output", TABLE, "--message", "{source}"], "--message: postgresql://db/shop?table=graph.answers con"),
    "late tuples": (["--output", TABLE, "--late", "late.csv"], "--late late.csv: a file cannot be part of the transactions"),
    "upsert": (["--output", TABLE, "--upsert"], "--upsert applies to topics"),
    "replace without a table": (["--output", "rows.csv", "--replace"], "--replace applies to tables"),
    "times without a unit": (["--output", TABLE, "--times", "iso"], "timestamps of this input are plain numbers"),
    "nanoseconds": (["--output", TABLE, "--times", "iso", "--time-unit", "ns"], "those of PostgreSQL microseconds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_for_a_table_is_refused_by_name(case, tmp_path, monkeypatch, rpq) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("1 2 a 1\n")
    options, message = REFUSED[case]
    status, _, err = rpq("run", *PATH, "--input", "edges.txt", *options)
    assert status == 2 and message in err and "cret" not in err


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?times a ?y", "a column times of its own; rename the variable ?times"),
        ("REGISTER RSTREAM <r> AS SELECT ?x { ?x <a> ?y }", "leave out ISTREAM, DSTREAM and RSTREAM"),
        ("ASK { ?x <a> ?y }", "the answers have no columns"),
    ],
)
def test_answers_that_no_table_has_are_refused(query, message, tmp_path, monkeypatch, rpq) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("1 2 a 1\n")
    status, _, err = rpq("run", query, *PATH[1:], "--input", "edges.txt", "--output", TABLE)
    assert status == 2 and message in err and "cret" not in err


def test_outputs_of_queries_are_tables_of_one_database_alone(tmp_path, monkeypatch, rpq) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("1 2 a 1\n")
    for other, message in (
        ("rows.csv", "--output rows.csv: rows go to tables of a database or elsewhere, not both"),
        (TABLE.replace("@db", "@other"), "are URLs of different databases"),
    ):
        entries = (("x", TABLE), ("y", other))
        text = "".join(f"[[query]]\nname = '{name}'\nquery = 'a'\noutput = '{output}'\n" for name, output in entries)
        Path("queries.toml").write_text(text)
        status, _, err = rpq("run", "--queries", "queries.toml", *PATH[1:], "--input", "edges.txt")
        assert status == 2 and message in err and "cret" not in err


def test_figures_and_explanations_have_no_password(tmp_path, monkeypatch, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 10, 1)
    text = f"[[query]]\nname = 'x'\nquery = 'a'\nwindow = '9'\nslide = '1'\nsemantics = 'explicit'\noutput = '{TABLE}'\n"
    (tmp_path / "queries.toml").write_text(text)
    monkeypatch.setattr(table_output, "PostgresTables", lambda *_, **__: MemoryDatabase())
    queries = ("--queries", tmp_path / "queries.toml")
    ran = rpq("run", *queries, "--input", tmp_path / "edges.txt", "--stats", "-")
    explained = rpq("explain", *queries)
    for status, out, err in (ran, explained):
        assert status == 0 and "cret" not in out + err and "postgresql://db/shop?table=graph.answers" in out


def test_numbers_that_a_database_takes_for_equal_are_one_answer() -> None:
    """Otherwise a statement would change a row twice, which PostgreSQL refuses."""
    import pyarrow as pa

    nan = float("nan")
    values = [0.0, -0.0, nan, -nan, None, None]
    rows = pa.table({"x": values, "timestamp": list(range(6)), "times": [1, 1, 1, -1, 1, 1]})
    found = table_output.net_changes([rows], ["x"]).to_pylist()
    summary = [(str(row["x"]), row["timestamp"], row["times"]) for row in found]
    assert summary == [("0.0", 1, 2), ("nan", 3, 0), ("None", 5, 2)]


@pytest.mark.parametrize(
    ("message", "is_waited_for"),
    [
        ("the database system is starting up", True),
        ("the database system is not yet accepting connections", True),
        ("the database system is in recovery mode", True),
        ("sorry, too many clients already", True),
        ('database "shop" does not exist', False),
    ],
)
def test_a_server_that_takes_no_connection_yet_is_waited_for(monkeypatch, message, is_waited_for):
    """The driver gives no condition for a connection that the server refuses, only a text."""

    class Driver:
        class Error(Exception):
            sqlstate = None

        def connect(self, url):
            raise self.Error(f"IO: [libpq] Failed to connect: connection to server at 'db' failed: FATAL:  {message}")

    monkeypatch.setattr(table_output, "_driver", Driver)
    tables = table_output.answer_tables([("pairs", ("source", "target"), TABLE)], names_queries=False)
    database = table_output.PostgresTables(tables, identity={}, differences=lambda *_: [])
    with pytest.raises(GoneError if is_waited_for else loop.OutputError, match=message):
        database.claim("run")
