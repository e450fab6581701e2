"""The edges that queries accept, so that all others are passed by: neither stored nor given ids for their names.

An atom of a pattern accepts the edges of its label whose ends are its constants: `?x a h7` those to h7, and a path
`?x b*/a h7` those of its last step. Where every atom of every query that reads a label names a constant for it, or joins a
vertex with itself, the label has a *filter*: an edge is of use only if some atom accepts it. An atom with two variables, the
inner steps of a path, and a count window, which numbers all inserts, accept everything. Labels are filtered by their text:
what a reader of a named stream accepts, readers of the merged stream do too.

All edges that the snapshot graph holds are accepted, so that a delete finds them: when less is accepted because a query has
gone, the engine drops the others. For queries that are registered later, the filter has with each accepted `Ends` the
largest timestamp of an insert that was passed by before these were accepted (`passed_before`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import first_candidate, id_at, ids_in, mix, new_table, next_candidate, put_new, table_size
from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound, view
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.numpy_arrays import integer_array, text_array
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.names.vertices import VertexDictionary, as_vertex, find_text

# Bits of `_Arrays.flags`, for each label: it has a filter, and the kinds of entries by which that accepts edges.
_FILTERED = 1
_SOURCES = 2
_TARGETS = 4
_LOOPS = 8

_ANY = -1
"""In place of the number of a constant."""


class _Arrays(NamedTuple):
    """The edges that labels with a filter accept: entries (label, source, target) in a hash table."""

    label: np.ndarray  # int32 an entry
    source: np.ndarray  # int32 an entry: the number of a constant, or _ANY
    target: np.ndarray  # int32 an entry
    table: np.ndarray  # int32, see `rpq/compiled/arrays/hashing.py`


class EdgeFilter:
    """The edges of each label that the queries of an engine accept, by label id.

    >>> edges = EdgeFilter()
    >>> edges.accept(0, [Ends(None, "h7")], passed_by=-(2**63))
    >>> edges.accept(1, [Ends(None, "h7"), ALL], passed_by=-(2**63))
    >>> [edges.accepts(label, "x", target) for label, target in ((0, "h7"), (0, "h8"), (1, "h8"))]
    [True, False, True]
    """

    def __init__(self) -> None:
        self._accepted_ends: dict[int, dict[Ends, int]] = {}  # label id to the accepted ends, each with `passed_before`
        self._flags = np.zeros(16, np.uint8)
        self.filtered_labels = 0
        """The number of labels with a filter."""
        self._constants: VertexDictionary | None = None  # None: to be made anew, with the arrays
        self._entries = 0
        self._waiting: list[tuple[int, Ends]] = []  # accepted, and not in the arrays yet
        self._leave_out: Any = None

    # --- accepted edges --------------------------------------------------------------------------------------

    def has_filter(self, label: int) -> bool:
        """Return whether some edges of a label may be passed by."""
        return label < len(self._flags) and bool(self._flags[label] & _FILTERED)

    def accepted_ends(self, label: int) -> Mapping[Ends, int]:
        """Return the accepted ends of a label, each with `passed_before`; none if no query reads the label."""
        return self._accepted_ends.get(label, {})

    def accept(self, label: int, ends: Iterable[Ends], *, passed_by: int) -> None:
        """Accept edges of a label from now on; `passed_by` is the largest timestamp of an insert passed by so far."""
        accepted = self.accepted_ends(label)
        if accepted:
            more = {one: self.passed_before(label, one, passed_by=passed_by) for one in ends if one not in accepted}
        else:
            more = dict.fromkeys(ends, passed_by)
        self._enter(label, more)

    def restore(self, label: int, accepted: Mapping[Ends, int]) -> None:
        """Set the accepted ends of a label, as `accepted` returned them."""
        self.forget([label])
        self._enter(label, accepted)

    def retract(self, label: int, ends: Iterable[Ends]) -> None:
        """Stop accepting some edges of a label. O(these), or O(label) with `ALL` or loops."""
        accepted = self._accepted_ends[label]
        has_filter = self.has_filter(label)
        had_loops = False
        for one in ends:
            del accepted[one]
            had_loops |= one.is_loop
        self._constants = None
        if not accepted or not has_filter or had_loops:  # the flags say of loops that they are accepted
            self.restore(label, dict(accepted))

    def _enter(self, label: int, more: Mapping[Ends, int]) -> None:
        if not more:
            return
        accepted = self._accepted_ends.setdefault(label, {})
        if label >= len(self._flags):
            self._flags = lengthen(self._flags, label + 1)
        accepted |= more
        self.filtered_labels -= self.has_filter(label)
        if ALL in accepted:
            self._flags[label] = 0
            return
        self.filtered_labels += 1
        flags = int(self._flags[label]) | _FILTERED
        for source, target, is_loop in more:
            flags |= _LOOPS * is_loop | _SOURCES * (source is not None) | _TARGETS * (target is not None)
        self._flags[label] = flags
        self._waiting += [(label, one) for one in more]

    def forget(self, labels: Iterable[int]) -> None:
        """Forget label ids that no query reads, or that another label gets."""
        for label in labels:
            if self._accepted_ends.pop(label, None) is not None:
                self._constants = None
                self.filtered_labels -= self.has_filter(label)
                self._flags[label] = 0

    def passed_before(self, label: int, needed: Ends, *, passed_by: int) -> int:
        """Return a timestamp up to which inserts that `needed` accepts may have been passed by, the smallest int64 for none.

        `passed_by` is the largest timestamp of an insert with the label that was passed by.
        """
        accepted = self.accepted_ends(label)
        return min([accepted[one] for one in needed.wider if one in accepted], default=passed_by)

    # --- tuples ----------------------------------------------------------------------------------------------

    def accepts(self, label: int, source: int | str, target: int | str) -> bool:
        """Return whether an edge of a label that some query reads is accepted. O(1)."""
        if not self.has_filter(label):
            return True
        # Plain tuples, which are equal to `Ends`, are made faster.
        accepted = cast(Mapping[tuple[str | None, str | None, bool], int], self._accepted_ends[label])
        first, last = str(source), str(target)
        return (
            (None, last, False) in accepted
            or (first, None, False) in accepted
            or (first, last, False) in accepted
            or (first == last and (None, None, True) in accepted)
        )

    def passed_by(self, label: np.ndarray, source: pa.Array, target: pa.Array) -> np.ndarray | None:
        """Return which edges are not accepted (uint8 a row), None where all are. O(rows)."""
        if not self.filtered_labels:
            return None
        inside = label < len(self._flags)
        if inside.all():
            flags = self._flags[label]
        else:
            flags = np.zeros(len(label), np.uint8)
            flags[inside] = self._flags[label[inside]]
        if not flags.any():
            return None
        constants, arrays = self._arrays_for("int64" if pa.types.is_integer(source.type) else "string")
        ends = constants.find(source, flags & _SOURCES), constants.find(target, flags & _TARGETS)
        if (flags & _LOOPS).any():
            is_loop = pc.equal(source, target).to_numpy(zero_copy_only=False)
            flags[is_loop & (flags & _LOOPS != 0)] = 0
        _find_unaccepted(view(arrays), len(arrays.table), label, *ends, flags)
        return flags

    def leave_out(self, texts: Any, label: np.ndarray, is_selected: np.ndarray) -> None:
        """Set `is_selected` (uint8) to 0 for tuples, the view of `TupleTexts`, with edges not accepted. O(tuples)."""
        if not self.filtered_labels:
            return
        constants, arrays = self._arrays_for("string")
        arguments = texts, self._flags, constants.view, view(arrays), len(arrays.table), label, is_selected
        if self._leave_out is None:
            self._leave_out = bound(_leave_out, *arguments)
        self._leave_out(*arguments)

    def _arrays_for(self, name: str) -> tuple[VertexDictionary, _Arrays]:
        """Return the constants that filters name and the entries, for vertices of a kind."""
        if self._constants is None or self._constants.kind != name:
            self._constants, self._entries = VertexDictionary(capacity=16), 0
            self._constants.kind = name
            label, source, target = np.zeros((3, 16), np.int32)
            self._arrays = _Arrays(label, source, target, new_table(16))
            accepted = self._accepted_ends.items()
            self._waiting = [(label, one) for label, ends in accepted if ALL not in ends for one in ends]
        if self._waiting:
            self._add(self._waiting)
            self._waiting = []
        return self._constants, self._arrays

    def _add(self, accepted: Sequence[tuple[int, Ends]]) -> None:
        """Add accepted ends to the arrays, except those with a constant that cannot be a vertex of the stream."""
        constants = self._constants
        assert constants is not None
        is_number = constants.kind == "int64"
        names = {name for _, one in accepted for name in (one.source, one.target) if name is not None}
        vertices = {name: as_vertex(name, constants.kind) for name in names}
        possible = [name for name, vertex in vertices.items() if not is_number or isinstance(vertex, int)]
        ends: list[Any] = [vertices[name] for name in possible]
        column = integer_array(ends) if is_number else text_array(ends)
        numbers: dict[str | None, int] = dict(
            zip(possible, constants.intern(column, np.ones(len(column), np.uint8))[0].tolist(), strict=True)
        )
        numbers[None] = _ANY
        entries = [
            (label, numbers[one.source], numbers[one.target])
            for label, one in accepted
            if one.source in numbers and one.target in numbers and (one.source, one.target) != (None, None)
        ]
        arrays, before = self._arrays, self._entries
        self._entries += len(entries)
        if self._entries > len(arrays.label):
            more = np.zeros(self._entries, np.int32)
            label, source, target = (np.concatenate([one, more]) for one in arrays[:3])
            arrays = _Arrays(label, source, target, arrays.table)
        arrays.label[before : self._entries] = [label for label, _, _ in entries]
        arrays.source[before : self._entries] = [source for _, source, _ in entries]
        arrays.target[before : self._entries] = [target for _, _, target in entries]
        if table_size(self._entries) > len(arrays.table):
            arrays, before = arrays._replace(table=new_table(len(arrays.label))), 0
        self._arrays = arrays
        _put_entries(view(arrays), len(arrays.table), before, self._entries)

    @property
    def nbytes(self) -> int:
        """The number of bytes in arrays."""
        if self._constants is None:
            return self._flags.nbytes
        return self._flags.nbytes + self._constants.nbytes + sum(array.nbytes for array in self._arrays)

    def _check(self) -> None:
        """Assert that the accepted ends, the flags and the arrays agree."""
        filtered = [label for label, ends in self._accepted_ends.items() if ALL not in ends]
        expected = [label for label in self._accepted_ends if self.has_filter(label)]
        assert filtered == expected, "a label has a filter, or has none"
        assert self.filtered_labels == len(filtered), "labels with filters are miscounted"
        if self._constants is not None:
            assert ids_in(self._arrays.table) == [*range(self._entries)], "the table and the entries differ"
            self._constants._check()


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(label, source, target):
    """Return the hash of an entry."""
    ends = np.uint64(source) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(target) * np.uint64(0xC2B2AE3D27D4EB4F)
    return mix(ends + np.uint64(label))


@njit(cache=True, nogil=True)
def _put_entries(arrays, room, first, end):
    """Put entries, which are not in the table, into it."""
    for entry in range(first, end):
        h = _hash(np.int64(arrays.label[entry]), np.int64(arrays.source[entry]), np.int64(arrays.target[entry]))
        put_new(arrays.table, room, h, entry)


@njit(cache=True, nogil=True)
def _has_entry(arrays, room, label, source, target):
    place = first_candidate(arrays.table, room, _hash(label, source, target))
    while place >= 0:
        entry = id_at(arrays.table, place)
        if arrays.label[entry] == label and arrays.source[entry] == source and arrays.target[entry] == target:
            return True
        place = next_candidate(arrays.table, room, place)
    return False


@njit(cache=True, nogil=True, forceinline=True)
def _accepts(arrays, room, label, u, v):
    """Return whether an entry accepts an edge between constants, or other vertices (-1)."""
    is_accepted = u >= 0 and _has_entry(arrays, room, label, u, np.int64(_ANY))
    is_accepted = is_accepted or (v >= 0 and _has_entry(arrays, room, label, np.int64(_ANY), v))
    return is_accepted or (u >= 0 and v >= 0 and _has_entry(arrays, room, label, u, v))


@njit(cache=True, nogil=True)
def _leave_out(texts, flags_of, constants, arrays, room, label, is_selected):
    """Set `is_selected` to 0 for tuples whose label has a filter, and whose edge no entry accepts."""
    for row in range(len(label)):
        number = np.int64(label[row])
        flags = np.int64(flags_of[number]) if number < len(flags_of) else np.int64(0)
        if flags == 0 or not is_selected[row]:
            continue
        u, v = np.int64(-1), np.int64(-1)
        start, other = np.int64(texts.source_ends[row]), np.int64(texts.target_ends[row])
        length, other_length = np.int64(texts.source_ends[row + 1]) - start, np.int64(texts.target_ends[row + 1]) - other
        if flags & _LOOPS and length == other_length:
            place = 0
            while place < length and texts.source[start + place] == texts.target[other + place]:
                place += 1
            if place == length:
                continue
        if flags & _SOURCES:
            u = find_text(constants, texts.source, start, length)
        if flags & _TARGETS:
            v = find_text(constants, texts.target, other, other_length)
        if not _accepts(arrays, room, number, u, v):
            is_selected[row] = 0


@njit(cache=True, nogil=True)
def _find_unaccepted(arrays, room, label, source, target, flags):
    """Set the flag of each row to whether no entry accepts it. A flag of 0 stays: such a row needs no entry."""
    for row in range(len(flags)):
        if flags[row] == 0:
            continue
        one, u, v = np.int64(label[row]), np.int64(source[row]), np.int64(target[row])
        flags[row] = 0 if _accepts(arrays, room, one, u, v) else 1
