"""The merge of partitions into one stream, in the order of (timestamp, topic, partition, offset), with a bounded delay.

Inside a partition the order is that of its offsets: a tuple older than one before it comes right after that one, as in a
file.  So the position of a tuple is determined by the largest timestamp up to it in its partition, and no later tuple of a
partition comes before the largest timestamp read from it so far.  A tuple is released when no later tuple of any partition
can come before it.

The merge always waits for a partition with unread messages.  For a partition that has been read to its end, it waits until
tuples of others have been waiting for the delay.  Then the partition is idle: the merge continues without it, and its later
tuples come out of order, or late, depending on the window.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.kafka.message_reader import BadMessage
from rpq.readers.inputs import order_rows
from rpq.stream.nodes.node_rows import are_records, node_table, tuples_of

LEAST = np.iinfo(np.int64).min


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass
class _Piece:
    """Tuples that were read at once from a partition, their offsets, and for each tuple the largest timestamp up to it."""

    columns: pa.RecordBatch
    keys: np.ndarray
    offsets: np.ndarray

    def split(self, count: int) -> tuple[_Piece, _Piece]:
        return (
            _Piece(self.columns.slice(0, count), self.keys[:count], self.offsets[:count]),
            _Piece(self.columns.slice(count), self.keys[count:], self.offsets[count:]),
        )


@dataclass
class _Partition:
    """A partition: its waiting tuples and bad messages, and the offset up to which it was read.

    `front` is the largest timestamp that was read, `released_front` the largest that was released.  The first `progress[1]`
    tuples of the message at the offset `progress[0]` were released already.
    """

    place: TopicPartition
    position: int
    front: int = LEAST
    released_front: int = LEAST
    pieces: deque[_Piece] = field(default_factory=deque)
    bad: deque[tuple[int, int, BadMessage]] = field(default_factory=deque)
    rows: int = 0
    at_end_since: float | None = None
    is_idle: bool = False
    progress: tuple[int, int] = (-1, 0)

    def add(self, columns: pa.RecordBatch | None, offsets: np.ndarray, bad: Mapping[int, BadMessage], position: int) -> None:
        """Add tuples, and bad messages by their offsets."""
        keys = np.empty(0, np.int64)
        if columns is not None and columns.num_rows:
            times = columns.column("timestamp").to_numpy()
            keys = np.maximum(np.maximum.accumulate(times), self.front)
            keys = keys[np.searchsorted(offsets, offsets, side="right") - 1]  # the tuples of a message come together
            piece = _Piece(columns, keys, offsets)
            if int(offsets[0]) == self.progress[0]:
                piece = piece.split(self.progress[1])[1]
            self.pieces += [piece] if len(piece.keys) else []
            self.rows += len(piece.keys)
        for offset in sorted(bad):
            before = int(np.searchsorted(offsets, offset)) if len(keys) else 0
            self.bad.append((offset, int(keys[before - 1]) if before else self.front, bad[offset]))
        if len(keys):
            self.front = int(keys[-1])
        self.position = position

    def end(self) -> int:
        """Return the offset of the first waiting message or, if none waits, of the next message to be read."""
        waiting = [int(self.pieces[0].offsets[0])] if self.pieces else []
        waiting += [self.bad[0][0]] if self.bad else []
        return min(waiting, default=self.position)

    def whole_messages(self, count: int) -> int:
        """Return the smallest number of waiting tuples that includes the first `count` and divides no message."""
        first = 0
        for piece in self.pieces:
            if first < count <= first + len(piece.keys):
                last = piece.offsets[count - first - 1]
                return first + int(np.searchsorted(piece.offsets, last, side="right"))
            first += len(piece.keys)
        return count

    def count_before(self, end: int, inside: int) -> int:
        """Return the number of waiting tuples before an offset, including the first `inside` tuples of the message there."""
        count = sum(int(np.searchsorted(piece.offsets, end)) for piece in self.pieces)
        return count + inside - (self.progress[1] if self.progress[0] == end else 0) if inside else count

    def take(self, count: int) -> list[_Piece]:
        """Remove and return the first waiting tuples."""
        pieces: list[_Piece] = []
        while count:
            piece = self.pieces.popleft()
            if len(piece.keys) > count:
                piece, rest = piece.split(count)
                self.pieces.appendleft(rest)
            count -= len(piece.keys)
            pieces.append(piece)
        if pieces:
            self.rows -= sum(len(piece.keys) for piece in pieces)
            self.released_front = int(pieces[-1].keys[-1])
        return pieces


@dataclass(frozen=True, kw_only=True)
class MergedTuples:
    """The next tuples of the merge: `columns` in order (None if there are no tuples), and bad messages among them.

    For each partition that the tuples advance, `ends` has the offset after them and `fronts` the largest timestamp so far.
    If only the first tuples of the message at that offset were released, `inside` has their number.  `offsets` has the
    offset of each row, and `lines` the number of its partition in `places`.
    """

    columns: pa.RecordBatch | None
    offsets: np.ndarray
    lines: np.ndarray
    places: tuple[TopicPartition, ...]
    bad: tuple[BadMessage, ...]
    ends: dict[TopicPartition, int]
    fronts: dict[TopicPartition, int]
    inside: Mapping[TopicPartition, int] = field(default_factory=dict)

    def inside_before(
        self, row: int, ends: Mapping[TopicPartition, int], before: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int]:
        """Return the number of tuples of the messages at `ends` that come before a row, for each partition with such tuples.

        `before` has for each partition its offset before these tuples, and the number of tuples of the message at that
        offset that were released earlier.
        """
        found = {}
        for place, end in ends.items():
            is_here = (self.lines[:row] == self.places.index(place)) & (self.offsets[:row] == end)
            offset, inside = before.get(place, (end, 0))
            if count := int(is_here.sum()) + (inside if offset == end else 0):
                found[place] = count
        return found

    def ends_before(self, row: int) -> dict[TopicPartition, int]:
        """Return the `ends` of partitions as they are before this row."""
        ends = dict(self.ends)
        for number in np.unique(self.lines[row:]).tolist():
            ends[self.places[number]] = int(self.offsets[row:][self.lines[row:] == number].min())
        return ends

    def ends_before_bad(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return these ends, moved before the bad messages, at which reading stops."""
        found = dict(ends)
        for bad in self.bad:
            place, offset = TopicPartition(bad.message.topic(), bad.message.partition()), bad.message.offset()
            found[place] = min(found.get(place, offset), offset)
        return found

    @property
    def size(self) -> int:
        """The number of tuples."""
        return len(self.lines)

    def place_of(self, row: int) -> str:
        """Return a description of where the message of a row is, for people."""
        return f"at offset {self.offsets[row]} of {self.places[int(self.lines[row])]}"

    def rejection(self, row: int, reason: str) -> BadMessage:
        """Return the bad message for a tuple that the engine rejects; its value is the tuple."""
        assert self.columns is not None
        place, offset = self.places[int(self.lines[row])], int(self.offsets[row])
        columns = self.columns.slice(row, 1)
        [values] = (node_table(columns) if are_records(columns) else tuples_of(columns)).to_pylist()
        values = {name: value for name, value in values.items() if not name.startswith("\0")}
        message = SimpleNamespace(
            topic=lambda: place.topic,
            partition=lambda: place.partition,
            offset=lambda: offset,
            key=lambda: None,
            value=lambda: json.dumps(values, ensure_ascii=False).encode(),
            headers=lambda: None,
        )
        return BadMessage(message, reason)


class PartitionMerge:
    """A merge of partitions; `places` has the offset and the largest timestamp at which each of them begins.

    If `inside` has a number for a partition, the merge begins behind that many tuples of the message at the offset.

    - Input: `add`, `reached_end`, `join`
    - Output: `ready` returns tuples that can be released, `release_before` those before given offsets; `release_all` ends
      all waiting
    - State: `places`, `position`, `waiting`, `waits`
    """

    def __init__(
        self,
        places: Mapping[TopicPartition, tuple[int, int]],
        *,
        max_delay: float,
        inside: Mapping[TopicPartition, int] | None = None,
        report: Callable[[str, TopicPartition], None] = lambda what, place: None,
        is_at_end: Callable[[TopicPartition, int], bool] = lambda place, position: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = {
            place: _Partition(
                place, offset, front=front, released_front=front, progress=(offset, (inside or {}).get(place, 0))
            )
            for place, (offset, front) in sorted(places.items())
        }
        self._max_delay = max_delay
        self._report = report
        self._is_at_end = is_at_end
        self._clock = clock
        self._waiting_since: float | None = None

    @property
    def places(self) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions)

    def position(self, place: TopicPartition) -> int:
        """Return the offset of the next message to be read."""
        return self._partitions[place].position

    def waiting_count(self, place: TopicPartition) -> int:
        """Return the number of waiting tuples of a partition."""
        return self._partitions[place].rows

    @property
    def has_waiting(self) -> bool:
        """True if any tuple or bad message waits."""
        return any(line.pieces or line.bad for line in self._partitions.values())

    def release_all(self) -> None:
        """Stop waiting for partitions: all of them have ended."""
        for line in self._partitions.values():
            line.is_idle = True

    def join(self, place: TopicPartition) -> None:
        """Add a new partition."""
        self._partitions = dict(sorted({**self._partitions, place: _Partition(place, 0)}.items()))

    def add(
        self,
        place: TopicPartition,
        columns: pa.RecordBatch | None,
        offsets: np.ndarray,
        bad: Mapping[int, BadMessage],
        position: int,
    ) -> None:
        """Add tuples with their offsets, and bad messages by offset, which were read from a partition up to `position`."""
        line = self._partitions[place]
        if line.is_idle:
            line.is_idle = False
            if self._max_delay:
                self._report("back", place)
        line.at_end_since = None
        line.add(columns, offsets, bad, position)
        if self._waiting_since is None and (line.pieces or line.bad):
            self._waiting_since = self._clock()

    def reached_end(self, place: TopicPartition, position: int) -> None:
        """Record that a partition has no more messages, for now."""
        line = self._partitions[place]
        line.position = max(line.position, position)
        if line.at_end_since is None:
            line.at_end_since = self._clock()

    def _bound(self) -> tuple[int, int] | None:
        """Return the (timestamp, number of a partition) before which no tuple can come; None if all are idle."""
        fronts = [(line.front, number) for number, line in enumerate(self._partitions.values()) if not line.is_idle]
        return min(fronts, default=None)

    def _mark_idle(self) -> None:
        """Mark partitions as idle for which others have been waiting long enough."""
        now = self._clock()
        if not self.has_waiting:
            self._waiting_since = None
            return
        if self._waiting_since is None:
            self._waiting_since = now
        for line in sorted(self._partitions.values(), key=lambda line: line.front):
            bound = self._bound()
            if bound is None or self._partitions[self.places[bound[1]]] is not line:
                continue
            if self._releasable(bound):
                return
            if line.at_end_since is None or now - max(line.at_end_since, self._waiting_since) < self._max_delay:
                return
            if len(self._partitions) > 1 and not self._is_at_end(line.place, line.position):
                line.at_end_since = None
                return
            line.is_idle = True
            if self._max_delay:
                self._report("idle", line.place)

    def _releasable(self, bound: tuple[int, int] | None) -> bool:
        for number, line in enumerate(self._partitions.values()):
            first = line.pieces[0].keys[0] if line.pieces else line.bad[0][1] if line.bad else None
            if first is not None and (bound is None or (int(first), number) <= bound):
                return True
        return False

    def ready(self, tuple_limit: int, *, stop_at_bad: bool = False) -> MergedTuples | None:
        """Release at most `tuple_limit` tuples, or return None. With `stop_at_bad`, stop after a bad message."""
        self._mark_idle()
        bound = self._bound()
        if not self._releasable(bound):
            return None
        limit = (np.iinfo(np.int64).max, len(self._partitions)) if bound is None else bound
        stop: tuple[int, int, int] | None = None
        if stop_at_bad:
            numbered = [(number, line.bad[0]) for number, line in enumerate(self._partitions.values()) if line.bad]
            firsts = [(key, number, offset) for number, (offset, key, _) in numbered]
            stop = min((first for first in firsts if first[:2] <= limit), default=None)
        counts = []
        for number, line in enumerate(self._partitions.values()):
            count = sum(_count_up_to(piece.keys, limit, number) for piece in line.pieces)
            if stop is not None:
                count = min(count, sum(_count_before_bad(piece, stop, number) for piece in line.pieces))
            counts.append(count)
        released = self._release(counts, tuple_limit=tuple_limit, limit=limit, stop=stop)
        self._waiting_since = self._clock() if self.has_waiting else None
        return released

    def release_before(
        self, ends: Mapping[TopicPartition, int], inside: Mapping[TopicPartition, int] | None = None
    ) -> MergedTuples | None:
        """Release all tuples before these offsets, in order; return None as long as not all of them were read.

        Of the message at such an offset, the first `inside` tuples are released, counted from the first of the message.
        """
        within = inside or {}
        if any(self._partitions[place].position < end + (place in within) for place, end in ends.items()):
            return None
        counts = []
        for line in self._partitions.values():
            end = ends.get(line.place)
            counts.append(0 if end is None else line.count_before(end, within.get(line.place, 0)))
        released = self._release(counts, tuple_limit=None, limit=None, stop=None, ends=ends)
        for place, count in within.items():
            self._partitions[place].progress = ends[place], count
        return replace(released, inside=within)

    def _release(
        self,
        counts: Sequence[int],
        *,
        tuple_limit: int | None,
        limit: tuple[int, int] | None,
        stop: tuple[int, int, int] | None,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> MergedTuples:
        lines = list(self._partitions.values())
        before = [line.end() for line in lines]
        if tuple_limit is not None and sum(counts) > tuple_limit:
            counts, last = _count_of_first(lines, counts, tuple_limit)
            counts = [line.whole_messages(count) for line, count in zip(lines, counts, strict=True)]
            limit = last if limit is None else min(limit, last)
        numbers, pieces = [], []
        for number, (line, count) in enumerate(zip(lines, counts, strict=True)):
            for piece in line.take(count):
                numbers.append(number)
                pieces.append(piece)
        bad: list[tuple[int, int, int, BadMessage]] = []
        for number, line in enumerate(lines):
            first = int(line.pieces[0].offsets[0]) if line.pieces else line.position
            first += stop is not None  # a bad message may have deletes, which wait
            until = first if ends is None else min(first, ends.get(line.place, 0))
            while line.bad and line.bad[0][0] < until and (limit is None or (line.bad[0][1], number) <= limit):
                if stop is not None and (line.bad[0][1], number, line.bad[0][0]) != stop:
                    break
                offset, key, one = line.bad.popleft()
                line.released_front = max(line.released_front, key)
                bad.append((key, number, offset, one))
        moved = {line.place: line.end() for line, start in zip(lines, before, strict=True) if line.end() != start}
        if ends is not None:
            moved = dict(ends)
        columns, offsets, of_lines = _merge_pieces(pieces, numbers)
        return MergedTuples(
            columns=columns,
            offsets=offsets,
            lines=of_lines,
            places=self.places,
            bad=tuple(one for *_, one in sorted(bad, key=lambda entry: entry[:3])),
            ends=moved,
            fronts={place: self._partitions[place].released_front for place in moved},
        )


def _count_up_to(keys: np.ndarray, limit: tuple[int, int], number: int) -> int:
    """Return the number of a partition's keys up to a limit, included."""
    return int(np.searchsorted(keys, limit[0], side="right" if number <= limit[1] else "left"))


def _count_before_bad(piece: _Piece, stop: tuple[int, int, int], number: int) -> int:
    """Return the number of tuples of a piece that come before a bad message."""
    key, line, offset = stop
    if number == line:
        return int(np.searchsorted(piece.offsets, offset))
    return int(np.searchsorted(piece.keys, key, side="right" if number < line else "left"))


def _count_of_first(
    lines: Sequence[_Partition], counts: Sequence[int], tuple_limit: int
) -> tuple[list[int], tuple[int, int]]:
    """Return how many of the first `tuple_limit` tuples are of each partition, and the position of the last of these."""
    keys, owners = [], []
    for number, (line, count) in enumerate(zip(lines, counts, strict=True)):
        of_line = np.concatenate([piece.keys for piece in line.pieces])[:count] if count else np.empty(0, np.int64)
        keys.append(of_line)
        owners.append(np.full(len(of_line), number))
    all_keys, all_owners = np.concatenate(keys), np.concatenate(owners)
    first = np.argsort(all_keys, kind="stable")[:tuple_limit]
    last = int(first[-1])
    return np.bincount(all_owners[first], minlength=len(lines)).tolist(), (int(all_keys[last]), int(all_owners[last]))


def _merge_pieces(pieces: Sequence[_Piece], numbers: Sequence[int]) -> tuple[pa.RecordBatch | None, np.ndarray, np.ndarray]:
    """Merge pieces, and return the rows with the offset of each and the number of its partition."""
    if not pieces:
        return None, np.empty(0, np.int64), np.empty(0, np.int64)
    lines = np.repeat(np.array(numbers, np.int64), [len(piece.keys) for piece in pieces])
    if len(pieces) == 1:
        return pieces[0].columns, pieces[0].offsets, lines
    keys = np.concatenate([piece.keys for piece in pieces])
    offsets = np.concatenate([piece.offsets for piece in pieces])
    columns = order_rows([piece.columns for piece in pieces], keys)
    order = np.argsort(keys, kind="stable")
    return columns, offsets[order], lines[order]
