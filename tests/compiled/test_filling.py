"""Columns filled by kernels: what Arrow would take, whatever the names are like."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import rpq
from rpq.rows import changes as changes_module
from rpq.rows import column_kernels
from rpq.rows.column_kernels import NameColumns, Region, repeat_text, signs, spread

W = rpq.Window(size=10, slide=1)
TEXTS = ["", "x", "fifteen letters", "sixteen letters!", "ünïcödé", "a name that is longer than any slot", "z"]


@pytest.mark.parametrize(
    "names",
    [pa.array(TEXTS[:3]), pa.array(["pad", *TEXTS])[1:], pa.array([7, -(2**63), 2**63 - 1]), pa.array([*TEXTS, None])],
)
def test_a_column_is_what_arrow_would_take(names):
    width = 3
    drawn = random.Random(width)
    values = np.array([[drawn.randrange(len(names)) for _ in range(width)] for _ in range(200)], np.int32)
    ready = NameColumns(names)
    region = Region.of_rows(200, ready.bytes_a_row * width, columns=2 * width)
    for place in range(width):
        for first, count in ((0, 150), (150, 50)):
            column = ready.column(values, place, first, count, region)
            column.validate(full=True)
            assert column.to_pylist() == names.take(pa.array(values[first : first + count, place])).to_pylist()


def test_more_text_than_a_column_has_offsets_for(monkeypatch):
    monkeypatch.setattr(column_kernels, "_MAX_TEXT", 80)
    values = np.zeros((9, 1), np.int32)
    for text in ("0123456789", "0123456789abcdefghij"):
        column = NameColumns(pa.array([text])).column(values, 0, 0, 9, Region(0))
        assert column.type == pa.large_string() and column.to_pylist() == [text] * 9


def test_rows_have_what_their_event_has():
    ends = np.array([2, 3, 7])
    rows = np.zeros(4, np.int64)
    spread(np.array([10, 20, 30]), ends, 1, 4, rows)
    assert rows.tolist() == [10, 20, 30, 30]
    assert signs(np.array([0, 1, 0], np.uint8), ends, 0, 7, Region(100)).to_pylist() == [*"++-++++"]
    assert repeat_text("query", 3).to_pylist() == ["query"] * 3 and len(repeat_text("", 1)) == 1
    assert repeat_text("q" * 100, 5).to_pylist() == ["q" * 100] * 5


def test_tables_are_made_in_pieces_and_say_what_rows_say(monkeypatch):
    monkeypatch.setattr(changes_module, "PIECE", 7)
    one = rpq.Query("?source a ?target", window=W, semantics="explicit", name="one")
    questions = [one, rpq.Query("a/b", window=W, semantics="explicit", name="two"), rpq.Query("?x a ?y . ?y b ?z", window=W)]
    engine = rpq.Engine(*questions)
    drawn = random.Random(5)
    ends = [str(10**n) for n in (0, 2, 9, 17)]
    tuples = [(drawn.choice(ends), drawn.choice(ends), "ab"[n % 2], n, "-" if n % 5 == 4 else "+") for n in range(200)]
    found = engine.push_rows(tuples)
    for query in questions:
        table = found.to_arrow(query.name)
        table.validate(full=True)
        names = {"query", *query.columns, "timestamp", "op"}
        assert {*table.column_names} == names and table.num_rows > 20 and table["op"].num_chunks > 2
        rows = [tuple(row) for row in found.rows() if row.query == query.name]
        assert [tuple(row.values()) for row in table.to_pylist()] == rows
    again = rpq.Engine(*questions)
    singly = [change for row in tuples for change in again.push_rows([row]).rows()]
    assert sorted(map(tuple, singly), key=repr) == sorted(map(tuple, found.rows()), key=repr)
    both = rpq.Engine(one, rpq.Query("?source b ?target", window=W, semantics="explicit", name="two"))
    merged = both.push_rows(tuples)
    assert [tuple(row.values()) for row in merged.to_arrow().to_pylist()] == [tuple(row) for row in merged.rows()]
    assert {row.query for row in merged.rows()} == {"one", "two"}
    assert [row.timestamp for row in merged.rows()] == sorted(row.timestamp for row in merged.rows())
