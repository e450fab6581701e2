"""Sorting by time, in memory and through runs on disk.

semantics.md S8
"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rpq.workloads.formats.ordering import sort_by_time
from tests.twins import examples


@examples(300)
@given(
    batches=st.lists(st.lists(st.integers(-4, 4), min_size=1, max_size=6), max_size=8),
    run_rows=st.sampled_from([1, 3, 7, 1 << 22]),
)
def test_sorted_stably_whatever_fits_in_memory(batches, run_rows):
    def stream():
        number = 0
        for times in batches:
            names = [str(number + place) for place in range(len(times))]
            number += len(times)
            columns = {
                "source": pa.array(names),
                "target": pa.array(names),
                "label": pa.array([f"l{time}" for time in times]).dictionary_encode(),
                "timestamp": pa.array(times, pa.int64()),
            }
            if number % 2:
                columns["delete"] = pa.array([True] * len(times))
            yield pa.RecordBatch.from_pydict(columns)

    rows = [row for batch in stream() for row in batch.to_pylist()]
    expected = sorted(rows, key=lambda row: row["timestamp"])
    found = [row for batch in sort_by_time(stream(), run_rows=run_rows) for row in batch.to_pylist()]
    assert [{**row, "delete": row.get("delete", False)} for row in found] == [
        {**row, "delete": row.get("delete", False)} for row in expected
    ]
