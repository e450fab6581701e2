"""`--output postgresql://…` with a real server: exactly once, over kills and restarts of either side."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest

import rpq as package
from rpq.run.table_names import table_in
from rpq.run.table_output import AnswerTable, PostgresTables, TableSink
from tests.cli.outputs.test_cli_tables import CHAIN, PATH, expected
from tests.cli.test_cli_checkpoint import make_stream
from tests.services.postgres_server import PASSWORD

ROOT = Path(__file__).parents[3]


def answers(postgres, table: str, columns: str) -> Counter:
    """The bag of answers in a table."""
    rows = postgres.rows(f"SELECT {columns}, times FROM {table}")
    assert all(row[-1] > 0 for row in rows)
    return Counter({row[:-1]: row[-1] for row in rows})


def started(*arguments: object, **options) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rpq.cli", "run", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_a_table_is_created_with_types_and_equal_to_the_answer(postgres, tmp_path, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 400, 5)
    for query, columns in ((PATH, "source, target"), (CHAIN, "x, z")):
        table = postgres.new()
        assert rpq("run", *query, "--input", tmp_path / "edges.txt", "--output", postgres.url(table))[0] == 0
        assert answers(postgres, table, columns) == expected(tmp_path / "edges.txt")[query is CHAIN]


def test_columns_have_the_types_of_their_values_also_if_the_first_rows_have_none(postgres) -> None:
    import decimal

    import pyarrow as pa

    name = table_in(postgres.url(postgres.new()))
    columns = ("x", "e.fee", "e.sum", "e.note", "e.timestamp")
    window = package.Window(size="1h", slide="1s")
    query = package.Query("?x ?e:paid ?y", select=columns, window=window, semantics="explicit")
    table = AnswerTable(name=name, columns=columns, queries=frozenset({query.name}))
    utc = pa.timestamp("ms", "UTC")
    database = PostgresTables([table], identity={}, differences=lambda old, new: [], times=utc)
    sink = TableSink([table], database, label="")
    sink.begin("run", None)
    engine = package.Engine(query, edges="parallel")
    for number, (fee, total, note) in enumerate(
        [(None, None, None), (1.5, decimal.Decimal("0.10"), None), (None, decimal.Decimal("1234.5"), "x"), (2.5, None, None)]
    ):
        given = {"source": [number], "target": [9], "label": ["paid"], "fee": [fee], "sum": [total], "note": [note]}
        tuples = pa.RecordBatch.from_pydict({**given, "timestamp": pa.array([number * 1000], utc)})
        sink.write(engine.push(tuples).to_arrow())
        sink.commit(number + 1)
    sink.close()
    types = postgres.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '{name.name}'::regclass AND attnum > 0 ORDER BY attnum"
    )
    zoned = "timestamp with time zone"
    assert types == [
        *[("x", "bigint"), ("e.fee", "double precision"), ("e.sum", "numeric"), ("e.note", "text"), ("e.timestamp", zoned)],
        *[("timestamp", zoned), ("times", "bigint")],
    ]  # fmt: skip
    found = postgres.rows(f'SELECT x, "e.fee", "e.sum"::float8, "e.note", times FROM {name.name} ORDER BY x')
    assert found == [
        *[(0, None, None, None, 1), (1, 1.5, 0.1, None, 1), (2, None, 1234.5, "x", 1), (3, 2.5, None, None, 1)]
    ]


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.long)])
def test_a_run_that_is_killed_goes_on_and_the_table_equals_the_answer(postgres, tmp_path, kills: int) -> None:
    drawn = random.Random(11)
    make_stream(tmp_path / "edges.txt", 2_000 * kills, 7)
    lines = (tmp_path / "edges.txt").read_text().splitlines(keepends=True)
    table = postgres.new()
    arguments = [
        *(*PATH, "--input", "-", "--output", postgres.url(table), "--checkpoint", tmp_path / "run.state", "--quiet"),
    ]

    first = len(lines) - 1_000  # a run that is to be killed never sees the end of its input

    def feed(process: subprocess.Popen[bytes], begin: int, end: int) -> None:
        """Write the first `end` tuples of the stream, those from `begin` on a few at a time."""
        starts = [0, *range(begin, end, 100)]
        with contextlib.suppress(OSError):  # it was killed
            for start, stop in itertools.pairwise([*starts, end]):
                process.stdin.write("".join(lines[start:stop]).encode())
                process.stdin.flush()
                time.sleep(0.02)

    committed = 0
    for kill in range(kills):
        process = started(*arguments, stdin=subprocess.PIPE)
        before = committed
        writer = threading.Thread(target=feed, args=(process, before, first * (kill + 1) // kills))
        writer.start()

        def has_gone_on(process=process, before=before) -> bool:
            nonlocal committed
            assert process.poll() is None, process.stderr.read()
            committed = position(postgres, table)
            return committed > before

        wait_until(has_gone_on, seconds=300)  # there are tuples behind what was committed, so only a defect lets it wait
        time.sleep(drawn.uniform(0, 0.4))
        assert process.poll() is None, process.stderr.read()
        process.kill()
        process.wait()
        writer.join()
        committed = position(postgres, table)
        with contextlib.suppress(OSError):
            process.stdin.close()
    assert 0 < committed <= first
    process = started(*arguments, stdin=subprocess.PIPE)
    feed(process, len(lines), len(lines))
    process.stdin.close()
    assert process.wait(120) == 0, process.stderr.read()
    assert answers(postgres, table, "source, target") == expected(tmp_path / "edges.txt")[0]


def position(postgres, table: str) -> int:
    """Return how far a run has come that writes a table; 0 before it has begun."""
    if not postgres.rows("SELECT 1 WHERE to_regclass('rpq_positions') IS NOT NULL"):
        return 0
    return sum(row[0] for row in postgres.rows(f"SELECT position FROM rpq_positions WHERE name = '{table}'"))


def wait_until(holds, seconds: float = 180) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_server_that_is_killed_in_the_middle_is_waited_for(postgres, tmp_path) -> None:
    make_stream(tmp_path / "edges.txt", 6_000, 9)
    lines = (tmp_path / "edges.txt").read_text().splitlines(keepends=True)
    table = postgres.new()
    process = started(*CHAIN, "--input", "-", "--output", postgres.url(table), "--quiet", stdin=subprocess.PIPE)
    said: list[bytes] = []
    listener = threading.Thread(target=lambda: said.extend(process.stderr))
    listener.start()

    def count(event: str) -> int:
        return b"".join(said).count(event.encode())

    stops = 0

    def has_gone_on() -> bool:
        found = position(postgres, table), count("the database is back")
        assert process.poll() is None and found[1] <= stops, (found, stops, said)
        return found[0] > 0 and found[1] == stops

    for number, start in enumerate(range(0, len(lines), 200)):
        is_stopped = number % 10 == 5
        if is_stopped:
            # An outage that the run still waits for would be the same as the next one.
            wait_until(has_gone_on)
            postgres.stop(signal.SIGINT if number > 10 else signal.SIGQUIT)
            stops += 1
        process.stdin.write("".join(lines[start : start + 200]).encode())
        process.stdin.flush()
        time.sleep(0.05)
        if is_stopped:
            wait_until(lambda: count("waiting for the database") == stops)
            postgres.start()
    process.stdin.close()
    assert process.wait(120) == 0, said
    listener.join()
    assert count("the database is back") == stops
    assert answers(postgres, table, "x, z") == expected(tmp_path / "edges.txt")[1]


def test_what_a_table_is_refused_for(postgres, tmp_path, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 200, 5)
    run = ["run", *PATH, "--input", tmp_path / "edges.txt"]

    def refused(*options: object, table: str) -> str:
        status, _, err = rpq(*run, *options, "--output", postgres.url(table))
        assert status == 1
        return err

    table = postgres.new()
    first, second = tmp_path / "first.state", tmp_path / "second.state"
    assert rpq(*run, "--output", postgres.url(table), "--checkpoint", first)[0] == 0
    # The rows of another run, or of this one without its checkpoint.
    assert "has the rows of another run (with the same options)" in refused("--checkpoint", second, table=table)
    assert "(--window was 20, now 30)" in refused("--window", 30, table=table)
    assert rpq(*run, "--output", postgres.url(table), "--checkpoint", second, "--replace")[0] == 0
    assert "was taken over by another run" in refused("--checkpoint", first, table=table)
    postgres.run(f"DROP TABLE {table}")
    assert "was dropped, or never written by this run" in refused("--checkpoint", second, table=table)
    # Tables of others.
    postgres.run(f"CREATE TABLE {table} (source text, target text)")
    assert "has the columns source, target; expected source, target, timestamp, times" in refused(table=table)
    postgres.run(f"DROP TABLE {table}", f"CREATE TABLE {table} (source bigint, target text, timestamp bigint, times bigint)")
    assert f'expected CREATE UNIQUE INDEX ON "{table}" ("source", "target") NULLS NOT DISTINCT' in refused(table=table)
    postgres.run(f"CREATE UNIQUE INDEX ON {table} (source, target) NULLS NOT DISTINCT")
    assert "the column source is of type bigint, and the answers have values of type text" in refused(table=table)
    postgres.run(f"ALTER TABLE {table} ALTER COLUMN source TYPE text")
    assert rpq(*run, "--output", postgres.url(table))[0] == 0
    assert answers(postgres, table, "source, target") == expected(tmp_path / "edges.txt")[0]
    postgres.run(f"DELETE FROM rpq_positions WHERE name = '{table}'")
    assert "has rows, which no run has written" in refused(table=table)
    # What the server says.
    assert 'schema "nowhere" does not exist' in refused(table="nowhere.answers")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (("x", "y\0z", "a", 2), r"column target: 'y\x00z' contains the character NUL"),
        (("x", "y", "a", 9_223_372_036_855), "9223372036855 is outside the years"),
        (("x", "y", "a", -210_866_803_201), "-210866803201 is outside the years"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--events", "window"]], ids=["tuples", "events"])
def test_a_tuple_that_no_table_can_hold_is_bad_input(postgres, tmp_path, rpq, bad, reason, options) -> None:
    names = ("source", "target", "label", "timestamp", "event")
    tuples = [("x", "u", "a", 1, 1), ("x", "v", "a", 2, 2), (*bad, 2), ("x", "w", "a", 3, 3)]
    (tmp_path / "edges.jsonl").write_text("".join(json.dumps(dict(zip(names, one))) + "\n" for one in tuples))
    run = ["run", *PATH, "--input", tmp_path / "edges.jsonl", "--time-unit", "s", "--times", "iso", *options]
    table = postgres.new()
    before = [("u",)] if options else [("u",), ("v",)]
    for _ in range(2):
        state = ["--checkpoint", tmp_path / "state"]
        status, _, err = rpq(*run, "--output", postgres.url(table), *state)
        assert status == 1 and "at the tuple x y" in err and reason in err
        assert postgres.rows(f"SELECT target FROM {table} ORDER BY target") == before
    skipped = ["--on-error", "skip", "--checkpoint", tmp_path / "skipped"]
    status, _, err = rpq(*run, "--output", postgres.url(table), *skipped, "--replace")
    assert status == 0 and reason in err
    assert postgres.rows(f"SELECT target FROM {table} ORDER BY target") == [*before, ("w",)]


def test_an_answer_that_no_table_can_hold_is_named(postgres, tmp_path, rpq) -> None:
    (tmp_path / "static.jsonl").write_text(r'{"source": "y", "target": "z\u0000", "label": "b"}')
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp\nx,y,a,1\n")
    options = ["--static", tmp_path / "static.jsonl", "--static-format", "jsonl", "--input", tmp_path / "edges.csv"]
    status, _, err = rpq("run", *CHAIN, *options, "--output", postgres.url(postgres.new()))
    assert status == 1 and r"column z: 'z\x00' contains the character NUL" in err


def test_a_database_in_another_encoding_is_refused(postgres, tmp_path, rpq) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgres.login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp\nx,ψ,a,1\n")
    url = postgres.url(postgres.new()).replace("/postgres?", "/latin?")
    status, _, err = rpq("run", *PATH, "--input", tmp_path / "edges.csv", "--output", url)
    assert status == 1 and "the database has the encoding LATIN1" in err


def test_a_table_that_others_change_ends_the_run(postgres, tmp_path, rpq) -> None:
    make_stream(tmp_path / "edges.txt", 200, 5)
    table = postgres.new()
    files = ["--input", tmp_path / "edges.txt", "--checkpoint", tmp_path / "state"]
    run = ["run", *PATH, *files, "--output", postgres.url(table)]
    assert rpq(*run)[0] == 0
    postgres.run(f"DELETE FROM {table}")
    with open(tmp_path / "edges.txt", "a") as file:
        file.write("1 1 c 900\n")
    status, _, err = rpq(*run)
    assert status == 1 and "lacks rows that have to be removed, so another program changed it" in err


def test_a_password_comes_from_the_url_or_the_environment_and_is_in_no_message(postgres, tmp_path, rpq, monkeypatch) -> None:
    make_stream(tmp_path / "edges.txt", 50, 5)
    run = ["run", *PATH, "--input", tmp_path / "edges.txt", "--checkpoint", tmp_path / "state", "--stats", "-"]
    secret = quote(PASSWORD, safe="")
    host = f"127.0.0.1:{postgres.port}/postgres?table={postgres.new()}"
    status, out, err = rpq(*run, "--output", f"postgresql://rpq:{secret}@{host}")
    assert status == 0, err
    seen = [out, err, (tmp_path / "state").read_bytes().decode("latin-1"), str(postgres.rows("SELECT * FROM rpq_positions"))]
    status, out, err = rpq(*run, "--output", f"postgresql://rpq:{secret}x@{host}")
    assert status == 1 and 'password authentication failed for user "rpq"' in err
    seen += [out, err]
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    status, out, err = rpq(*run, "--output", f"postgresql://rpq@{host}")
    assert status == 0, err
    seen += [out, err]
    assert not any(form in text for form in (PASSWORD, secret) for text in seen)


def test_a_login_comes_from_a_file_of_passwords_or_a_service(postgres, tmp_path, rpq, monkeypatch) -> None:
    make_stream(tmp_path / "edges.txt", 50, 5)
    run = ["run", *PATH, "--input", tmp_path / "edges.txt", "--output"]
    monkeypatch.setenv("HOME", str(tmp_path))
    url = f"postgresql://rpq@127.0.0.1:{postgres.port}/postgres?table={postgres.new()}"
    status, _, err = rpq(*run, url)
    assert status == 1 and "no password supplied" in err
    passwords = tmp_path / ".pgpass"
    passwords.write_text(f"127.0.0.1:{postgres.port}:postgres:rpq:{PASSWORD}\n")
    passwords.chmod(0o600)
    assert rpq(*run, url)[0] == 0
    passwords.unlink()
    service = {"host": "127.0.0.1", "port": postgres.port, "dbname": "postgres", "user": "rpq", "password": PASSWORD}
    lines = [f"{name}={value}" for name, value in service.items()]
    (tmp_path / ".pg_service.conf").write_text("\n".join(["[bank]", *lines, ""]))
    status, out, err = rpq(*run, f"postgresql:///?service=bank&table={postgres.new()}")
    assert status == 0, err
    assert PASSWORD not in out + err
    monkeypatch.setenv("PGSERVICE", "bank")
    assert rpq(*run, f"postgresql:///?table={postgres.new()}")[0] == 0


def test_a_server_that_is_not_there_is_said(postgres, tmp_path, rpq, monkeypatch) -> None:
    from rpq.run import table_output

    make_stream(tmp_path / "edges.txt", 50, 5)
    monkeypatch.setattr(table_output, "START_SECONDS", 0.1)
    status, _, err = rpq("run", *PATH, "--input", tmp_path / "edges.txt", "--output", "postgresql://127.0.0.1:1/x?table=y")
    assert status == 1 and "postgresql://127.0.0.1:1/x?table=y: has not answered" in err and "Connection refused" in err


@pytest.mark.long
def test_of_two_runs_over_one_table_one_ends(postgres, tmp_path) -> None:
    table = postgres.new()
    options = [*PATH, "--input", "-", "--output", postgres.url(table), "--quiet"]
    first = started(*options, stdin=subprocess.PIPE)
    first.stdin.write(b"x y a 1\n")
    first.stdin.flush()
    wait_until(lambda: position(postgres, table) > 0)
    second = started(*options, "--replace", stdin=subprocess.PIPE)
    second.stdin.write(b"u v a 1\n")
    second.stdin.flush()
    wait_until(lambda: postgres.rows(f"SELECT source FROM {table}") == [("u",)])
    _, err = first.communicate(b"y z b 2\n", timeout=60)
    assert first.returncode == 1 and b"another run has taken over the table" in err
    assert second.communicate(b"v w b 2\n", timeout=60)[1] == b"" and second.returncode == 0
    assert answers(postgres, table, "source, target") == Counter([("u", "v"), ("u", "w")])
