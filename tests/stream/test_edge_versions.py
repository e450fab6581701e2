"""The versions of edges, against a dict: replaced, deleted, late, expired and collected, with few bytes an edge."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.compiled.views import view
from rpq.stream.chunk import Chunk, SingleTuple
from rpq.stream.edges.edge_versions import ABSENT_VERSION, EdgeVersions, PriorVersions
from tests.twins import examples

FAR = 1 << 33
"""A time whose upper half is another one."""

TUPLES = st.tuples(
    st.integers(-1, 2), st.integers(0, 2), st.integers(0, 2), st.integers(-4, 4) | st.sampled_from((-5, 5, FAR)),
    st.sampled_from((0, 0, 0, 0, 1)), st.integers(0, 3),
)  # fmt: skip
"""Source, label, target, how much later the tuple is than the last, whether it deletes, and its set."""


class Dict:
    """The same by a dict: the timestamp and the set of each edge."""

    def __init__(self, *, keeps_all: bool) -> None:
        self.keeps_all = keeps_all
        self.of: dict[tuple[int, int, int], tuple[int, int]] = {}

    def apply(self, key, timestamp, delete, derived_set, bound):
        """Return what the edge was before, and whether the tuple changes it."""
        version = self.of.get(key, (ABSENT_VERSION, 0))
        version = version if version[0] > bound else (ABSENT_VERSION, 0)
        if key[0] < 0:
            return (ABSENT_VERSION, 0), 0
        if delete:
            self.of.pop(key, None)
            return version, 1
        if timestamp <= bound or (timestamp < version[0] and not self.keeps_all):
            return version, 0
        if timestamp >= version[0]:
            self.of[key] = timestamp, derived_set
        return version, 1


def singles(chunk: Chunk) -> Iterator[SingleTuple]:
    """Yield the tuples of a chunk one at a time, in the same object."""
    one = SingleTuple()
    for u, v, label, timestamp, delete, _ in zip(*(column.tolist() for column in chunk), strict=True):
        one.fill(u, v, label, timestamp, bool(delete))
        yield one


def copies(before: PriorVersions) -> list[np.ndarray]:
    return [column.copy() for column in before]


@pytest.mark.parametrize("keeps_all", [False, True])
@examples(100)
@given(data=st.data())
def test_versions_are_a_dict(keeps_all, data):
    versions = EdgeVersions(keeps_all=keeps_all, capacity=data.draw(st.sampled_from((1, 3, 64))))
    twin = Dict(keeps_all=keeps_all)
    time = data.draw(st.sampled_from((0, -3, FAR - 2)))
    for _ in range(data.draw(st.integers(1, 6))):
        drawn = data.draw(st.lists(TUPLES, max_size=8))
        columns = [np.array([row[place] for row in drawn], np.int32) for place in (0, 1, 2, 5)]
        timestamp = time + np.cumsum([row[3] for row in drawn], dtype=np.int64)
        time = int(timestamp[-1]) if drawn else time
        bound = np.maximum.accumulate(timestamp) - data.draw(st.integers(1, 12))
        delete = np.array([row[4] for row in drawn], np.uint8)
        chunk = Chunk(columns[0], columns[2], columns[1], timestamp, delete, columns[0])
        if data.draw(st.booleans()):
            before = versions.apply(chunk, view(chunk), columns[3], bound)
        else:
            each = zip(singles(chunk), columns[3].tolist(), bound.tolist(), strict=True)
            found = [copies(versions.apply_one(one, derived_set, lower)) for one, derived_set, lower in each]
            before = PriorVersions(*map(np.concatenate, zip(*found, strict=True))) if drawn else None
        versions._check()
        for place, row in enumerate(drawn):
            version, is_effective = twin.apply(row[:3], int(timestamp[place]), row[4], row[5], int(bound[place]))
            assert before.is_effective[place] == is_effective
            if not keeps_all or row[4]:
                derived_set = 0 if keeps_all else version[1]  # which is not kept then
                assert (before.timestamp[place], before.derived_set[place]) == (version[0], derived_set)
        bound_now = int(bound[-1]) if drawn else ABSENT_VERSION
        action = data.draw(st.sampled_from(("nothing", "look", "collect", "renumber", "load")))
        if action == "look":
            found = versions.columns(versions.live(bound_now))
            expected = {(*key, *version) for key, version in twin.of.items() if version[0] > bound_now}
            found = set(zip(*(column.tolist() for column in found), strict=True))
            assert {one[:4] if keeps_all else one for one in found} == {one[:4] if keeps_all else one for one in expected}
        elif action == "collect":
            versions.collect(bound_now)
            twin.of = {key: version for key, version in twin.of.items() if version[0] > bound_now}
        elif action == "renumber":
            numbers = np.array([0, *data.draw(st.permutations((1, 2, 3)))], np.int32)
            versions.renumber(numbers)
            twin.of = {key: (version[0], int(numbers[version[1]])) for key, version in twin.of.items()}
        elif action == "load":
            versions.load(*versions.columns(versions.live(ABSENT_VERSION)))
        versions._check()


def test_single_tuples_after_a_collection_find_what_is_left():
    versions = EdgeVersions(keeps_all=False)
    single = SingleTuple()
    for vertex, timestamp in ((1, 2), (0, 5)):
        single.fill(vertex, vertex, 0, timestamp, False)
        versions.apply_one(single, 0, -10)
    versions.collect(3)
    single.fill(0, 0, 0, 7, False)
    assert versions.apply_one(single, 0, 3).timestamp.tolist() == [5]
    versions._check()


def test_more_sets_than_two_bytes_can_tell():
    count = 70_000
    versions, number, bound = EdgeVersions(keeps_all=False), np.arange(count, dtype=np.int32), np.full(count, ABSENT_VERSION)
    chunk = Chunk(number, number % 97, number % 3, number.astype(np.int64), np.zeros(count, np.uint8), number)
    versions.apply(chunk, view(chunk), number, bound)
    versions.apply(chunk, view(chunk), number[::-1].copy(), bound)
    versions.collect(35_000)
    live = versions.columns(versions.live(35_000))
    assert live[4].tolist() == number[::-1][35_001:].tolist()
    assert live[1].tolist() == chunk.label[35_001:].tolist()
