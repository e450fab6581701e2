"""From topics to a table of PostgreSQL: the walk of `examples/kafka`, and what is committed with rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial

import pytest

import rpq
from rpq import run_topics
from rpq.errors import InputError
from rpq.run.loop import OutputError
from tests.kafka.kafka_process import ROOT
from tests.services.kafka_topics import edges


@pytest.mark.parametrize(("changes", "kills"), [(2_000, 3), pytest.param(6_000, 10, marks=pytest.mark.long)])
def test_a_table_equals_the_answer_over_changes_of_a_database_after_kills(
    kafka, postgres, tmp_path, changes: int, kills: int
) -> None:
    script = ROOT / "examples" / "kafka" / "debezium_to_postgresql.py"
    ran = subprocess.run(
        [sys.executable, str(script), kafka.broker.address, postgres.login, str(changes), str(kills)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, last = ran.stdout.splitlines()
    assert first == f"at least {changes:,} changes of transfers; the run was killed {kills} times"
    count = re.fullmatch(r"the ([\d,]+) pairs of accounts in the table are those of the \d+ remaining transfers", last)
    assert count is not None and int(count[1].replace(",", "")) > 20


WINDOW = rpq.Window(size=40, slide=5)
PATHS = rpq.Query("a/b*", window=WINDOW, semantics="explicit", name="paths")
PATTERN = rpq.Query("?x a ?y . ?y b ?z", window=WINDOW, semantics="explicit", name="pattern")


def test_run_topics_keeps_tables_equal_to_the_answers_and_resumes(kafka, postgres, tmp_path) -> None:
    read, stream = kafka.new(), edges(600)
    tables = {query.name: postgres.new(query.name) for query in (PATHS, PATTERN)}
    run = partial(
        run_topics,
        *(PATHS, PATTERN),
        input=kafka.uri(read),
        output={name: postgres.url(table) for name, table in tables.items()},
        checkpoint=tmp_path / "run.state",
        until_end=True,
    )
    engine = rpq.Engine(PATHS, PATTERN)
    for part in (stream[:300], stream[300:]):
        kafka.send(read, part)
        run()
        engine.push_rows([tuple(one.values()) for one in part], collect=False)
        for query in (PATHS, PATTERN):
            names = ", ".join(f'"{column}"' for column in query.columns)
            answers = engine.answers(query.name).to_arrow().select(list(query.columns)).to_pylist()
            wanted = {(query.name, *one.values()) for one in answers}
            assert {*postgres.rows(f"SELECT query, {names} FROM {tables[query.name]}")} == wanted != set()
    with pytest.raises(OutputError, match="has the rows of another run"):
        run(checkpoint=None)
    assert run(checkpoint=None, replace=True).messages == len(stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": {"paths": "postgresql:///shop?table=a", "pattern": "kafka://localhost/b"}}, "or elsewhere, not both"),
        ({"output": {"paths": "postgresql:///shop?table=a", "pattern": "postgresql:///inn?table=a"}}, "different databases"),
        ({"upsert": True}, "upsert applies to topics; a table contains the current answers"),
        ({"message": "{query}"}, "message: .* contains answers, and a message describes a row"),
        ({"on_error": "kafka://localhost/letters"}, "on_error kafka://… needs an output kafka://…"),
        ({"output": "kafka://localhost/rows", "replace": True}, "replace applies to tables; it needs an output postgresql"),
    ],
)
def test_what_does_not_go_with_tables_is_refused(options, message) -> None:
    given = {"output": "postgresql:///shop?table=answers", **options}
    with pytest.raises(InputError, match=message):
        run_topics(PATHS, PATTERN, input="kafka://localhost/edges", **given)


def test_a_table_needs_explicit_semantics() -> None:
    with pytest.raises(InputError, match="needs semantics explicit"):
        run_topics(
            rpq.Query("a", window=WINDOW), input="kafka://localhost/edges", output="postgresql:///shop?table=answers"
        )
