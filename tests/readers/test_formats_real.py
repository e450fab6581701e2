"""The readers on whole real data sets, where they are at hand."""

from __future__ import annotations

import numpy as np
import pytest

from rpq.readers.edges import open_edges
from rpq.readers.selection import SelfLoopFilter
from rpq.workloads.formats.edge_lists import open_gmark, open_stackoverflow, open_yago
from rpq.workloads.formats.ldbc import open_ldbc
from tests.real import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not here")


def files(pattern: str) -> list[str]:
    found = sorted(map(str, DATA.glob(pattern)))
    if not found:
        pytest.skip(f"{pattern} is not here")
    return found


def columns(reader) -> dict[str, np.ndarray]:
    """All tuples of a reader as arrays; `delete` filled in."""
    gathered: dict[str, list] = {name: [] for name in ("source", "target", "label", "timestamp", "delete")}
    for batch in reader:
        for name, parts in gathered.items():
            if name in batch.columns.schema.names:
                parts.append(batch.columns[name].to_numpy(zero_copy_only=False))
            else:
                parts.append(np.zeros(len(batch), bool))
    assert reader.rejected == 0
    assert reader.bytes_read == reader.bytes_total
    return {name: np.concatenate(arrays) for name, arrays in gathered.items()}


def is_sorted(times: np.ndarray) -> bool:
    return bool((np.diff(times) >= 0).all())


def test_mathoverflow():
    paths = files("stackoverflow/*.txt.gz")
    every = columns(open_stackoverflow(paths))
    labels, counts = np.unique(every["label"], return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {"a2q": 107_581, "c2a": 195_330, "c2q": 203_639}
    assert len(set(every["source"]) | set(every["target"])) == 24_818
    proper = columns(SelfLoopFilter(open_stackoverflow(paths)))
    assert len(proper["source"]) == 390_441
    assert is_sorted(every["timestamp"])


def test_ldbc_updates_with_deletions():
    paths = files("ldbc/*.tsv.gz")
    stream = columns(open_ldbc(paths))
    assert np.count_nonzero(~stream["delete"]) == 403_518
    assert np.count_nonzero(stream["delete"]) == 8_548
    assert len(set(stream["source"]) | set(stream["target"])) == 116_044
    assert len(set(stream["label"])) == 12
    assert is_sorted(stream["timestamp"])
    as_edges = columns(open_edges(paths))  # the file is sorted already, so its lines are the stream
    assert all((as_edges[name] == stream[name]).all() for name in stream)


def test_yago_facts():
    stream = columns(open_yago(files("yago/*.tsv.gz")))
    assert len(stream["source"]) == 201_089
    assert len(set(stream["label"])) == 10
    assert len(set(stream["source"]) | set(stream["target"])) == 10_585
    assert (stream["timestamp"] == np.arange(201_089)).all()
    assert stream["source"][0] == "Szymon_Bogumił_Zug"


def test_gmark_graph():
    stream = columns(open_gmark(files("gmark/*.txt.gz")))
    assert len(stream["source"]) == 229_754
    assert len(set(stream["label"])) == 27
    assert len(set(stream["source"]) | set(stream["target"])) == 93_687
    assert (stream["timestamp"] == np.arange(229_754)).all()
