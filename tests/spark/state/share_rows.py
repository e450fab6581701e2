"""The answer changes in what the stateful processor of a share gives."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pyarrow as pa

from rpq.spark.stream.packed_rows import RowUnpacker


def changes_in(frames: pd.DataFrame) -> Counter:
    """Return how often each row is in packed rows, after checking their number against the count beside them."""
    found: Counter = Counter()
    for batch in RowUnpacker()([pa.RecordBatch.from_pydict({"rows": pa.array(frames.get("rows", []), pa.binary())})]):
        found.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    assert found.total() == sum(frames.get("count", []))
    return found
