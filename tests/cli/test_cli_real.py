"""`rpq run` on whole real data sets, where they are at hand, against figures that others counted."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rpq.cli import main
from rpq.readers import formats
from tests.real import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not here")


def call(*args: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args], prog_name="rpq")
    assert not ended.value.code


def files(pattern: str, format: str = "edges") -> list[Path]:
    found = sorted(DATA.glob(pattern))
    if format not in formats():
        pytest.skip("the package is not installed: its formats are entry points")
    if not found:
        pytest.skip(f"{pattern} is not here")
    return found


# Rows, and distinct pairs with x ≠ y, window 30 days, slide 1 day, self-loops left out: counted by two other programs.
@pytest.mark.parametrize(("expression", "rows", "pairs"), [("a2q/c2a/c2q", 2_622_497, 1_887_631)])
def test_stack_overflow_has_the_rows_that_others_counted(tmp_path, capfd, expression, rows, pairs):
    out, stats = tmp_path / "rows.parquet", tmp_path / "stats.json"
    inputs = files("stackoverflow/*.txt.gz", "stackoverflow")
    options = ["--window", "30d", "--slide", "1d", "--drop-self-loops", "--output", out, "--stats", stats, "--quiet"]
    call("run", expression, "--format", "stackoverflow", "--input", *inputs, *options)
    assert json.loads(stats.read_text())["tuples"] == 390_441
    table = pq.read_table(out)
    assert table.num_rows == rows
    table = table.filter(pc.not_equal(table["source"], table["target"]))
    assert table.group_by(["source", "target"]).aggregate([]).num_rows == pairs


def test_deletions_of_a_real_stream_balance(tmp_path, capfd):
    """The sum of the rows is the answer at the end."""
    out, stats = tmp_path / "rows.parquet", tmp_path / "stats.json"
    (path,) = files("ldbc/*.tsv.gz")
    options = ["--window", "10d", "--slide", "1d", "--time-unit", "ms", "--semantics", "explicit"]
    call("run", "likes/replyOf*", "--input", path, *options, "--output", out, "--stats", stats)
    figures = json.loads(stats.read_text())
    assert figures["tuples"] == 412_066
    ops = dict(zip(*pq.read_table(out)["op"].value_counts().flatten()))
    counts = {op.as_py(): count.as_py() for op, count in ops.items()}
    assert counts["+"] - counts["-"] == figures["answers_live"] > 0
    assert (counts["+"], counts["-"]) == (figures["rows_added"], figures["rows_removed"])
