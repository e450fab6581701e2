"""The versions of edges by each identity, against a dict: replaced, deleted, late, expired, collected, with few bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.compiled.views import view
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk, SingleTuple
from rpq.stream.edges.edge_table import ABSENT_VERSION, EdgeTable
from tests.twins import examples

FAR = 1 << 33
"""A time whose upper half is another one."""

TUPLES = st.tuples(
    st.integers(-1, 2), st.integers(0, 2), st.integers(0, 2), st.integers(-4, 4) | st.sampled_from((-5, 5, FAR)),
    st.sampled_from((0, 0, 0, 0, 1, DELETE_UNLESS_NEWER)), st.integers(0, 3), st.integers(0, 4),
)  # fmt: skip
"""Source, target, label, how much later the tuple is than the last, whether it deletes, its set and its id; 0 is none."""

SETS = [labels for at in (3, 5, 7) for labels in ((), (at,), (at, at + 1), (at + 1,))]
"""The derived labels of each set, four sets for each label; the third has all of them."""
FLAT = np.cumsum([0, *map(len, SETS)]), np.array([label for one in SETS for label in one], np.int32)

IS_ORDERED = np.array([0, 1, 0, 1, 0, 0, 0, 0, 0], np.uint8)
IS_READ = np.array([1, 1, 0, 1, 1, 1, 1, 1, 1], np.uint8)


class Edges:
    """The same by a dict: the ends, the timestamp and the set of each edge that was not deleted."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.inserts = 0
        self.of: dict[Any, tuple[tuple[int, int, int], int, int]] = {}

    def apply(self, ends, timestamp, delete, derived_set, edge, bound) -> int:
        """Return the timestamp of the edge before the tuple, or of the youngest that it deletes."""
        if self.identity != "id" and ends[0] < 0:
            return ABSENT_VERSION
        key = edge or None if self.identity == "id" else ends if self.identity == "triple" else None
        if delete:
            deleted = [one for one, version in self.of.items() if (one == key if key else version[0] == ends)]
            before = max([ABSENT_VERSION, *(self.of[one][1] for one in deleted if self.of[one][1] > bound)])
            if not (key and delete == DELETE_UNLESS_NEWER and timestamp < before and self.identity == "id"):
                for one in deleted:
                    del self.of[one]
            return before
        self.inserts += 1
        key = key or self.inserts
        before = self.of[key][1] if key in self.of and self.of[key][1] > bound else ABSENT_VERSION
        if timestamp > bound and timestamp >= before:
            self.of[key] = ends, timestamp, derived_set
        return before

    def graph(self, bound: int) -> dict[tuple[int, int, int], int]:
        """Return the edges of the graph with their timestamps."""
        found: dict[tuple[int, int, int], int] = {}
        for (u, v, label), timestamp, derived_set in self.of.values():
            for one in (*([label] if IS_READ[label] else []), *SETS[derived_set]):
                if timestamp > bound:
                    found[u, v, one] = max(timestamp, found.get((u, v, one), bound))
        return found


def with_operations(graph: dict, operations, bound: np.ndarray) -> dict:
    """Return a graph with operations applied."""
    graph = dict(graph)
    for u, label, v, time, delete, row in zip(*(column.tolist() for column in operations), strict=True):
        if delete:
            graph.pop((u, v, label), None)
        elif time > bound[row]:
            graph[u, v, label] = max(time, graph.get((u, v, label), time))
    return graph


def applied(table: EdgeTable, chunk: Chunk, number, derived_set, all_derived, bound, *, one_by_one: bool) -> tuple:
    """Apply a chunk. Return the timestamps before, and the operations."""
    columns = {"derived_set": derived_set, "all_derived": all_derived, "bound": bound, "is_plain": IS_READ[chunk.label]}
    if not one_by_one:
        flags = {"is_read": IS_READ, "is_ordered": IS_ORDERED, "sets": FLAT}
        before, operations = table.apply(chunk, view(chunk), number, **columns, **flags)
        return before.timestamp.tolist(), operations
    single, timestamps, operations = SingleTuple(), [], []
    for row, (u, v, label, timestamp, delete, _) in enumerate(zip(*(column.tolist() for column in chunk), strict=True)):
        if u < 0:  # which no caller applies alone
            timestamps.append(ABSENT_VERSION)
            continue
        single.fill(u, v, label, timestamp, bool(delete))
        values = {name: int(column[row]) for name, column in columns.items() if name != "bound"}
        before, labels, deletes = table.apply_one(single, lower=int(bound[row]), sets=FLAT, **values)
        timestamps.append(before)
        operations += [(u, one, v, timestamp, is_delete, row) for one, is_delete in zip(labels, deletes, strict=True)]
    return timestamps, np.array(operations, np.int64).reshape(-1, 6).T


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
@examples(100)
@given(data=st.data())
def test_versions_are_a_dict(identity, data):
    table = EdgeTable(identity, capacity=data.draw(st.sampled_from((1, 3, 64))))
    twin, graph = Edges(identity), {}
    time = data.draw(st.sampled_from((0, -3, FAR - 2)))
    bound_now = ABSENT_VERSION
    for _ in range(data.draw(st.integers(1, 6))):
        drawn = data.draw(st.lists(TUPLES, max_size=8))
        if identity == "id":
            drawn = [(max(0, row[0]), *row[1:6], row[6] if row[4] == 1 else max(1, row[6])) for row in drawn]
        drawn = [(*row[:5], 4 * row[2] + row[5], row[6]) for row in drawn]
        source, target, label, derived_set = (np.array([row[at] for row in drawn], np.int32) for at in (0, 1, 2, 5))
        timestamp = time + np.cumsum([row[3] for row in drawn], dtype=np.int64)
        time = int(timestamp[-1]) if drawn else time
        bound = np.maximum(np.maximum.accumulate(timestamp) - data.draw(st.integers(1, 12)), bound_now)
        delete = np.array([row[4] for row in drawn], np.uint8)
        chunk = Chunk(source, target, label, timestamp, delete, source)
        number = np.full(len(drawn), -1, np.int32)
        if identity == "id":
            number = table.name(pa.array([row[6] or None for row in drawn], pa.int64()))
        all_derived = np.where(delete != 0, 4 * label + 2, 0).astype(np.int32)
        one_by_one = identity != "id" and data.draw(st.booleans())
        before, operations = applied(table, chunk, number, derived_set, all_derived, bound, one_by_one=one_by_one)
        table._check()
        for row, (u, v, label_id, _, is_delete, one, edge) in enumerate(drawn):
            expected = twin.apply((u, v, label_id), int(timestamp[row]), is_delete, one, edge, int(bound[row]))
            if identity != "parallel" or is_delete:  # nothing needs to know the others
                assert before[row] == expected
        bound_now = int(bound[-1]) if drawn else bound_now
        graph = with_operations(graph, operations, bound)
        assert {edge: time for edge, time in graph.items() if time > bound_now} == twin.graph(bound_now)
        action = data.draw(st.sampled_from(("nothing", "look", "collect", "renumber", "load")))
        if action == "look":
            found = table.columns(table.live(bound_now))
            found = sorted(zip(*(column.tolist() for column in found), strict=True))
            expected = [(u, one, v, time, derived) for (u, v, one), time, derived in twin.of.values() if time > bound_now]
            if identity == "parallel":
                assert {edge[:4] for edge in found} == {
                    edge[:4] for edge in expected if edge[3] == max(one[3] for one in expected if one[:3] == edge[:3])
                }
            else:
                assert found == sorted(expected)
        elif action == "collect":
            table.collect(bound_now)
            twin.of = {key: version for key, version in twin.of.items() if version[1] > bound_now}
        elif action == "renumber":
            table.renumber(np.arange(len(SETS), dtype=np.int32))
        elif action == "load":
            live = table.live(ABSENT_VERSION)
            table.load(table.columns(live), live if identity == "id" else None)
        table._check()


def test_sets_have_new_numbers():
    table, zero = EdgeTable("triple"), np.zeros(2, np.int32)
    chunk = Chunk(zero, np.array([1, 2], np.int32), zero, np.array([5, 6]), np.zeros(2, np.uint8), zero)
    applied(table, chunk, zero, np.array([3, 1], np.int32), zero, np.zeros(2, np.int64), one_by_one=False)
    table.renumber(np.array([0, 2, 0, 1], np.int32))
    table._check()
    assert table.all_columns()[4].tolist() == [1, 2]


def test_single_tuples_after_a_collection_find_what_is_left():
    table = EdgeTable("triple")
    single = SingleTuple()

    def insert(vertex: int, timestamp: int, lower: int) -> int:
        single.fill(vertex, vertex, 0, timestamp, False)
        return table.apply_one(single, derived_set=0, all_derived=0, lower=lower, is_plain=True, sets=FLAT)[0]

    insert(1, 2, -10)
    insert(0, 5, -10)
    table.collect(3)
    assert insert(0, 7, 3) == 5
    table._check()


def test_more_sets_than_two_bytes_can_tell():
    count = 70_000
    table, number, bound = EdgeTable("triple"), np.arange(count, dtype=np.int32), np.full(count, ABSENT_VERSION)
    chunk = Chunk(number, number % 97, number % 3, number.astype(np.int64), np.zeros(count, np.uint8), number)
    flags = {"is_plain": np.ones(count, np.uint8), "is_read": IS_READ, "is_ordered": IS_ORDERED}
    sets = np.zeros(count + 1, np.int64), np.zeros(0, np.int32)
    for derived_set in (number, number[::-1].copy()):
        table.apply(chunk, view(chunk), number, derived_set=derived_set, all_derived=number, bound=bound, sets=sets, **flags)
    table.collect(35_000)
    live = table.columns(table.live(35_000))
    assert live[4].tolist() == number[::-1][35_001:].tolist()
    assert live[1].tolist() == chunk.label[35_001:].tolist()
