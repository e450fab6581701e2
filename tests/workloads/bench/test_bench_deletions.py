"""Deletes made up for a stream: the window they are drawn from, and that they depend on nothing but the seed."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rpq.workloads.bench.deletions import Deletions
from tests.twins import examples

Tuple = tuple[str, str, str, int, bool]


def batch_of(stream: list[Tuple]) -> pa.RecordBatch:
    columns = list(zip(*stream)) if stream else [[]] * 5
    types = [pa.string(), pa.string(), pa.string(), pa.int64(), pa.bool_()]
    arrays = [pa.array(column, type) for column, type in zip(columns, types)]
    arrays[2] = arrays[2].dictionary_encode()
    return pa.RecordBatch.from_arrays(arrays, names=["source", "target", "label", "timestamp", "delete"])


def extended(stream: list[Tuple], cuts: list[int], **options) -> list[Tuple]:
    deletions = Deletions(is_relevant=lambda label: label != "other", **options)
    out: list[Tuple] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)]):
        out += zip(*deletions.extend(batch_of(stream[start:end])).to_pydict().values())
    return out


vertices = st.sampled_from("xyz")
tuples = st.tuples(
    vertices,
    vertices,
    st.sampled_from(["a", "b", "other"]),
    st.integers(-8, 30),
    st.sampled_from([False, False, False, True]),
)


@examples(1000)
@given(stream=st.lists(tuples, max_size=40), size=st.integers(1, 12), slide=st.integers(1, 5), data=st.data())
def test_what_is_deleted_was_in_the_window(stream, size, slide, data):
    options = {"size": size, "slide": slide, "percent": 60, "seed": data.draw(st.integers(-3, 3))}
    out = extended(stream, [], **options)
    window: dict[tuple[str, str, str], int] = {}
    time, bound, position = None, 0, 0
    for index, row in enumerate(out):
        source, target, label, timestamp, delete = row
        if position < len(stream) and row == stream[position]:
            position += 1  # a tuple of the input; if a made-up delete equals it, which of them it is does not matter
        else:
            assert delete and timestamp == time
            # A tuple of the input may equal the made-up delete before it, and was taken for it then.
            before = out[index - 2] if out[index - 1] == row else out[index - 1]
            assert not before[4] and before[2] != "other" and before[3] > bound  # behind an insert that counts
            assert (source, target, label) in window or out[index - 1] == row
        time = timestamp if time is None else max(time, timestamp)
        bound = time // slide * slide - size
        window = {edge: at for edge, at in window.items() if at > bound}
        if delete:
            window.pop((source, target, label), None)
        elif label != "other" and timestamp > bound:
            edge = (source, target, label)
            window[edge] = max(timestamp, window.get(edge, timestamp))
    assert position == len(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    assert extended(stream, cuts, **options) == out


def test_share_and_seed():
    stream = [(f"x{i % 400}", f"y{i % 333}", "a", i // 10, False) for i in range(10_000)]
    options = {"size": 100, "slide": 10}
    first = extended(stream, [], percent=5, seed=1, **options)
    assert 430 < len(first) - len(stream) < 570
    assert first == extended(stream, [777, 778, 9000], percent=5, seed=1, **options)
    assert first != extended(stream, [], percent=5, seed=2, **options)
    assert extended(stream, [], percent=0, seed=1, **options) == stream
    assert len(extended(stream, [], percent=100, seed=1, **options)) == 2 * len(stream)


def test_edges_are_drawn_uniformly():
    """Ten edges stay, and an eleventh comes again and again: each of the others goes as often as any other."""
    counts = dict.fromkeys(range(10), 0)
    for seed in range(1000):
        stream = [(str(number), "y", "a", 1, False) for number in range(10)]
        deletions = Deletions(size=10, slide=1, percent=10, seed=seed, is_relevant=lambda label: True)
        rows = list(zip(*deletions.extend(batch_of(stream)).to_pydict().values()))
        for row in rows[rows.index(stream[-1]) + 1 :]:
            counts[int(row[0])] += 1
    assert 70 < sum(counts.values()) < 130
    assert max(counts.values()) < 27 and min(counts.values()) > 1


def test_tuples_that_the_engine_rejects_change_nothing():
    stream = [("x", "y", "a", 1, False), ("z", "y", "a", 2**63 - 3, False), ("x", "z", "a", 2, False)]
    out = extended(stream, [], size=10, slide=1, percent=100, seed=0)
    assert [row[3] for row in out] == [1, 1, 2**63 - 3, 2, 2]
