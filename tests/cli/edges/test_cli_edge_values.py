"""Edge variables and filters from the command, in every format, and across a checkpoint.

semantics-patterns.md P14
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rpq.cli import main

PATTERN = "?x ?e:transfer[amount > 1000] ?y . ?y ?f:transfer ?z"
FILTER = "?f.timestamp > ?e.timestamp and ?f.amount >= 0.9 * ?e.amount"
SELECT = "?x,?z,?e,?f.amount"
STREAM = pa.table({
    "source": ["a", "b", "b", "b"],
    "target": ["b", "c", "c", "d"],
    "label": ["transfer"] * 4,
    "timestamp": [1, 2, 3, 4],
    "amount": [2000.0, 1900.0, 100.0, 1990.5],
})
ROWS = [("a", "c", 1, 1900.0, 2, "+"), ("a", "d", 1, 1990.5, 4, "+")]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["run", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def written(folder: Path, ending: str) -> Path:
    path = folder / f"stream.{ending}"
    if ending == "csv":
        pyarrow.csv.write_csv(STREAM, path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in STREAM.to_pylist()))
    elif ending == "parquet":
        pq.write_table(STREAM, path)
    else:
        with pa.ipc.new_file(path, STREAM.schema) as writer:
            writer.write_table(STREAM)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_the_command_filters_and_selects_values(ending, tmp_path):
    """Text files have loose values, which stay texts; others keep their types."""
    stream, output = written(tmp_path, ending), tmp_path / "rows.parquet"
    options = ["--edges", "parallel", "--window", 10, "--slide", 1, "--output", output]
    messages = run(PATTERN, "--filter", FILTER, "--select", SELECT, "--input", stream, *options)
    assert "no tuple has the label" not in messages
    rows = pq.read_table(output)
    assert rows.column_names == ["x", "z", "e", "f.amount", "timestamp", "op"]
    amounts = [float(value) for value in rows["f.amount"].to_pylist()]
    ends, rest = (zip(*(rows[name].to_pylist() for name in names), strict=True) for names in ("xze", ("timestamp", "op")))
    assert [(*end, amount, *more) for end, amount, more in zip(ends, amounts, rest, strict=True)] == ROWS


def test_a_file_of_queries_and_a_checkpoint(tmp_path):
    queries, output = tmp_path / "queries.toml", tmp_path / "rows.csv"
    fields = {"query": PATTERN, "filter": FILTER, "name": "passed on"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    queries.write_text("[[query]]\n" + "\n".join([*lines, f"select = {json.dumps(SELECT.split(','))}"]) + "\n")
    options = ["--queries", queries, "--edges", "parallel", "--window", 10, "--slide", 1, "--output", output]
    stream = written(tmp_path, "csv")
    lines = stream.read_text().splitlines(keepends=True)
    stream.write_text("".join(lines[:3]))
    run(*options, "--input", stream, "--checkpoint", tmp_path / "checkpoint")
    stream.write_text("".join(lines))
    run(*options, "--input", stream, "--checkpoint", tmp_path / "checkpoint")
    assert [line.split(",")[1:] for line in output.read_text().splitlines()[1:]] == [
        ["a", "c", "1", "1900", "2", "+"],
        ["a", "d", "1", "1990.5", "4", "+"],
    ]


def test_a_wrong_filter_points_to_its_place(tmp_path):
    arguments = ["run", PATTERN, "--filter", "?e.amount >", "--input", "x.csv", "--window", "10", "--slide", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "--filter: column 12: unexpected the end" in result.output
