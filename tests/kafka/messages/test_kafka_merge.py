"""Partitions become one stream: any way of reading them gives the order of (timestamp, partition, offset), and again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.kafka.message_reader import BadMessage
from rpq.kafka.partition_merge import LEAST, PartitionMerge, TopicPartition

P = [TopicPartition("t", number) for number in range(3)]


def columns_of(times: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array([f"s{time}" for time in times], pa.string()),
            "target": pa.array(["x"] * len(times)),
            "label": pa.array(["a"] * len(times)).dictionary_encode(),
            "timestamp": pa.array(times, pa.int64()),
        }
    )


class Read:
    """A merge, what has come out of it, and how far each partition was put in."""

    def __init__(self, parts: list[list[int | None]], **options) -> None:
        self.parts = parts
        self.now = 0.0
        self.states: list[str] = []
        options = {"max_delay": 1.0, **options}
        self.merge = PartitionMerge(
            {P[number]: (0, LEAST) for number in range(len(parts))},
            clock=lambda: self.now, report=lambda what, place: self.states.append(f"{what} {place.partition}"), **options,
        )  # fmt: skip
        self.rounds: list[tuple[list[tuple[int, int]], dict[TopicPartition, int]]] = []

    def put(self, number: int, count: int) -> None:
        """Put the next messages of a partition in: timestamps, None for a bad one."""
        start = self.merge.position(P[number])
        part = self.parts[number][start : start + count]
        if part:
            good = [(start + place, time) for place, time in enumerate(part) if time is not None]
            bad = {start + place: BadMessage(start + place, "") for place, time in enumerate(part) if time is None}
            batch = columns_of([time for _, time in good]) if good else None
            offsets = np.array([offset for offset, _ in good], np.int64)
            self.merge.add(P[number], batch, offsets, bad, start + len(part))
        if start + len(part) == len(self.parts[number]):
            self.merge.reached_end(P[number], len(self.parts[number]))

    def take(self, most: int = 1000, **options) -> None:
        while (released := self.merge.ready(most, **options)) is not None:
            self.note(released)
            if options.get("stop_at_bad") and released.bad:
                return

    def note(self, released) -> None:
        rows = [(int(line), int(offset)) for line, offset in zip(released.lines, released.offsets)]
        assert released.columns is None or released.columns.num_rows == len(rows)
        self.rounds.append((rows, released.ends, [one.message for one in released.bad]))

    @property
    def order(self) -> list[tuple[int, int]]:
        return [row for rows, *_ in self.rounds for row in rows]


def expected(parts: list[list[int | None]]) -> list[tuple[int, int]]:
    """The order by the largest timestamp so far, the partition and the offset."""
    keyed = []
    for number, part in enumerate(parts):
        front = LEAST
        for offset, time in enumerate(part):
            if time is not None:
                front = max(front, time)
                keyed.append((front, number, offset))
    return [(number, offset) for _, number, offset in sorted(keyed)]


messages = st.one_of(st.integers(0, 12), st.integers(0, 12), st.none())
partitions = st.lists(st.lists(messages, max_size=12), min_size=1, max_size=3)


@given(partitions, st.data())
def test_any_way_of_reading_gives_the_same_order_and_the_rounds_give_it_again(parts, data) -> None:
    read = Read(parts)
    while any(read.merge.position(P[number]) < len(part) for number, part in enumerate(parts)):
        number = data.draw(st.sampled_from(range(len(parts))))
        read.put(number, data.draw(st.integers(1, 5)))
        read.now += data.draw(st.sampled_from([0.0, 0.4, 3.0]))  # unread messages are waited for, however long it takes
        if all(line.at_end_since is None for line in read.merge._partitions.values()):
            read.take(data.draw(st.integers(1, 6)))
    read.merge.release_all()
    read.take(data.draw(st.integers(1, 6)))
    assert read.order == expected(parts)
    assert sum(len(bad) for *_, bad in read.rounds) == sum(part.count(None) for part in parts)
    ends = {place: end for _, moved, _ in read.rounds for place, end in moved.items()}
    assert ends == {P[number]: len(part) for number, part in enumerate(parts) if part}
    replay_by_rounds(parts, read)


def replay_by_rounds(parts, read: Read, *, of: int = 0) -> None:
    """A reader that begins where a round ended takes the others again, in the same order, whatever it reads first."""
    again = Read(parts)
    for number, part in enumerate(parts):
        again.put(number, len(part))
    for rows, moved, bad in read.rounds:
        released = again.merge.release_before(moved)
        again.note(released)
        assert again.rounds[-1][0] == rows and sorted(again.rounds[-1][2]) == sorted(bad)


@given(partitions, st.data())
def test_rounds_are_taken_again_in_the_same_order_where_partitions_were_idle(parts, data) -> None:
    read = Read(parts)
    while any(read.merge.position(P[number]) < len(part) for number, part in enumerate(parts)):
        number = data.draw(st.sampled_from(range(len(parts))))
        read.put(number, data.draw(st.integers(1, 4)))
        if data.draw(st.booleans()):
            read.merge.reached_end(P[number], read.merge.position(P[number]))
        read.now += data.draw(st.sampled_from([0.1, 1.2]))
        read.take(data.draw(st.integers(1, 6)))
    read.merge.release_all()
    read.take()
    assert sorted(read.order) == sorted(expected(parts))
    replay_by_rounds(parts, read)


def test_an_idle_partition_is_told_once_and_waited_for_again_when_it_is_back() -> None:
    #  partition 0:  1 · · · 5 · 7      partition 1:  (at its end) · · · · 6
    read = Read([[1, 5, 7], [6]])
    read.merge.reached_end(P[1], 0)
    read.put(0, 2)
    read.now = 0.9
    read.take()
    assert read.order == []
    read.now = 1.1
    read.take()
    assert read.order == [(0, 0), (0, 1)] and read.states == ["idle 1"]
    read.put(1, 1)
    read.put(0, 1)
    read.take()
    assert read.order == [(0, 0), (0, 1), (1, 0)] and read.states == ["idle 1", "back 1"]
    read.now = 2.2
    read.take()
    assert read.order[-1] == (0, 2)


def test_who_has_unread_messages_is_not_idle() -> None:
    read = Read([[1], []], is_at_end=lambda place, position: False)
    read.put(0, 1)
    read.merge.reached_end(P[1], 0)
    for read.now in range(10):
        read.take()
    assert read.order == [] and read.states == []


@pytest.mark.parametrize("first", [0, 1])
def test_what_comes_before_a_bad_message_goes_before_it_is_told(first: int) -> None:
    read = Read([[1, None, 3], [1, 2, 3]])
    for number in (first, 1 - first):
        read.put(number, 3)
    read.merge.release_all()
    read.take(stop_at_bad=True)
    assert read.order == [(0, 0)] and read.rounds[-1][2] == [1]


@pytest.mark.parametrize("stops", [False, True])
def test_the_deletes_of_a_bad_message_come_with_it_unless_it_ends_the_run(stops: bool) -> None:
    read = Read([[1, 2, 3]])
    read.merge.add(P[0], columns_of([1, 2, 3]), np.array([0, 1, 2]), {1: BadMessage(1, "")}, 3)
    read.merge.release_all()
    read.take(stop_at_bad=stops)
    assert read.order == ([(0, 0)] if stops else [(0, 0), (0, 1), (0, 2)])
    assert [bad for *_, bad in read.rounds if bad] == [[1]]
