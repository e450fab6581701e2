"""Merging by heads is what a person would do with the files in hand, at the speed of a sort.

semantics.md S8
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.readers.edges import open_edges
from rpq.readers.inputs import merge_by_heads
from tests.twins import examples


def by_hand(streams: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Take the smallest head, of equal ones that of the first stream; yield (stream, place)."""
    places = [0] * len(streams)
    while True:
        heads = [
            (times[place], stream)
            for stream, (times, place) in enumerate(zip(streams, places, strict=True))
            if place < len(times)
        ]
        if not heads:
            return
        stream = min(heads)[1]
        yield stream, places[stream]
        places[stream] += 1


def batches(stream: int, times: list[int], cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """The tuples of a stream, named by stream and place, cut into batches (empty ones among them)."""
    edges = sorted({0, len(times), *(cut % (len(times) + 1) for cut in cuts)})
    for start, stop in zip([0, *edges], [*edges, len(times)], strict=True):
        names = [f"{stream}:{place}" for place in range(start, stop)]
        columns = {
            "source": pa.array(names, pa.string()),
            "target": pa.array(names, pa.string()),
            "label": pa.array([f"l{stream}"] * len(names), pa.string()).dictionary_encode(),
            "timestamp": pa.array(times[start:stop], pa.int64()),
        }
        if stream % 2:
            columns["delete"] = pa.array([True] * len(names), pa.bool_())
        yield pa.RecordBatch.from_pydict(columns)


@examples(1500)
@given(
    streams=st.lists(st.lists(st.integers(-5, 5), max_size=12), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 12), max_size=5),
)
def test_the_merge_is_the_merge_by_hand_sorted_or_not(streams, cuts):
    merged = [
        row
        for batch in merge_by_heads([batches(stream, times, cuts) for stream, times in enumerate(streams)])
        for row in batch.to_pylist()
    ]
    expected = [f"{stream}:{place}" for stream, place in by_hand(streams)]
    assert [row["source"] for row in merged] == expected
    for row in merged:
        stream, place = map(int, row["source"].split(":"))
        assert row["timestamp"] == streams[stream][place]
        assert row["label"] == f"l{stream}"
        assert row.get("delete", False) == bool(stream % 2)


def test_files_are_merged_by_time_with_ties_in_the_order_given(tmp_path):
    #   one:  1     5  2     7          (2 is late: it comes right after 5)
    #   two:     3  5     6
    (tmp_path / "one").write_text("a b one 1\na b one 5\na b one 2\na b one 7\n")
    (tmp_path / "two").write_text("a,b,two,3\na,b,two,5,-\na,b,two,6\n")
    reader = open_edges([str(tmp_path / "one"), str(tmp_path / "two")])
    rows = [row for batch in reader for row in batch.columns.to_pylist()]
    assert [(row["label"], row["timestamp"]) for row in rows] == [
        ("one", 1), ("two", 3), ("one", 5), ("one", 2), ("two", 5), ("two", 6), ("one", 7),
    ]  # fmt: skip
    assert [row.get("delete", False) for row in rows] == [False, False, False, False, True, False, False]


@pytest.mark.parametrize("batch_rows", [1, 1 << 17])
def test_a_bad_line_is_reached_when_its_turn_comes(tmp_path, batch_rows):
    (tmp_path / "one").write_text("a b x 1\na b x 4\na b x ?\n")
    (tmp_path / "two").write_text("a b y 2\na b y 4\na b y 9\n")
    times = []
    with pytest.raises(InputError, match="one:3"):
        for batch in open_edges([str(tmp_path / "one"), str(tmp_path / "two")], batch_rows=batch_rows):
            times += batch.columns.column("timestamp").to_pylist()
    assert times == [1, 2, 4]
