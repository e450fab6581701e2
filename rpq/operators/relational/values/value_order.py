"""The order of terms in MIN, MAX and SAMPLE as pairs of integers, which kernels compare.

The *label* of a term is (high, rank). For a number, `high` is the nearest double, as an integer in the same order. Above all
numbers are strings, by their first bytes, moments, by their seconds, and the other classes of `order_key`, each with one
number. Terms with an equal `high` are *tied*. Many strings, IRIs and moments are tied: kernels rank them (`text_order`).
Few other terms are, such as two spellings of a number, or numbers that differ beyond a double: Python sorts these by
`order_key`. Ranks have gaps, so that a new term gets a rank between two others; without a gap, tied terms are numbered
again. Either way the order of two terms never changes, so structures that kernels ordered by labels remain ordered.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, insort
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.language.sparql.values.moments import MOMENTS
from rpq.language.sparql.values.operators import order_key, value_of_key
from rpq.operators.relational.values.formula_columns import nearest_reals
from rpq.operators.relational.values.term_ids import FIRST, TermIds
from rpq.operators.relational.values.text_order import OTHER, Keys, TextOrder, key_of, read_names
from rpq.rows.weighted_rows import UNBOUND

_UNKNOWN = np.iinfo(np.int64).min
"""The rank of an id without a label."""
_MISSING = _UNKNOWN + 1
"""The rank of an id that is about to get a label."""
_NO_ROOM = -1
"""The result of a search for unlabelled ids if one of them is beyond the arrays."""

GAP = 1 << 32
"""The distance between the labels of neighbours when all are numbered again."""
_SINGLE = 4
"""The number of ids up to which they are labelled one by one, because arrays would be slower."""
_FEW = 16
"""New terms are inserted one by one if they are fewer than the tied terms by this factor."""

_BLANKS = np.iinfo(np.int64).min
_NOT_A_NUMBER = 0x7FF8 << 48
_STRINGS = 0x7FF9 << 48
_MOMENTS = 0x7FFB << 48
_MOMENT_TYPES = sorted(MOMENTS)
_BITS_OF_SECONDS = 44
_DAY = 86_400
"""Moments are from year 1 to year 9999, and up to 14 hours away from these by their zone."""
_OTHERS = {3: 0x7FFA << 48, 5: 0x7FFC << 48}
"""`high` of booleans and other terms, by their class in `order_key`."""
_FIRST_DATE_TIME = _MOMENTS + (_MOMENT_TYPES.index("dateTime") << _BITS_OF_SECONDS) + _DAY
_LARGEST = np.iinfo(np.int64).max


def label_between(below: int | None, above: int | None) -> int | None:
    """Return a label between those of two neighbours, either of which may be missing, or None without a gap (Dietz 1982).

    >>> label_between(0, 8), label_between(7, 8), label_between(None, None)
    (4, None, 0)
    """
    if below is None:
        label = 0 if above is None else above - GAP
    else:
        label = below + GAP if above is None else (below + above) // 2
    return None if label == below or abs(label) >= _LARGEST // 2 else label


def new_labels(count: int) -> np.ndarray:
    """Return ascending labels (int64) with gaps."""
    return (np.arange(count) - count // 2) * GAP


class TermLabels(NamedTuple):
    """The labels of ids: of vertices, and of other terms from `FIRST` on."""

    high: np.ndarray  # int64 a vertex
    rank: np.ndarray  # int64 a vertex
    term_high: np.ndarray  # int64 a term
    term_rank: np.ndarray  # int64 a term
    value: np.ndarray  # int64 a vertex: the number of its value, equal for equal values, among those with an equal `high`
    term_value: np.ndarray  # int64 a term
    room: np.ndarray  # int64[2]: vertices and terms for which there is room


class ValueOrder:
    """The labels of the terms that `include` received."""

    def __init__(self, terms: TermIds) -> None:
        self._terms = terms
        high, rank, term_high, term_rank = (np.full(1, empty, np.int64) for empty in (0, _UNKNOWN, 0, _UNKNOWN))
        values = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._labels = TermLabels(high, rank, term_high, term_rank, *values, room=np.ones(2, np.int64))
        self.view = view(self._labels)
        self._ids_by_high: dict[int, int] = {}
        """The id of the first term with a `high`."""
        self._ties: dict[int, list[tuple[Any, int]]] = {}
        """By `high`: (order key, id) of tied terms in order."""
        self._keys: dict[int, Any] = {}
        """The order keys of tied terms, by id."""
        self._values: dict[int, dict[Any, int]] = {}
        """By `high` of tied terms: the numbers of their values."""
        self._texts = TextOrder(_MOMENTS)
        """The strings, IRIs and moments, tied or not."""

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        of_ties = 100 * len(self._ids_by_high) + 300 * len(self._keys) + self._texts.nbytes
        return sum(array.nbytes for array in self._labels) + of_ties

    def include(self, ids: np.ndarray) -> None:
        """Assign labels to the terms of ids (int32). O(ids), plus the sorting of new terms."""
        if not len(ids):
            return
        missing = np.empty(len(ids), np.int32)
        if (count := find_unlabelled_ids(self.view, ids, missing)) == _NO_ROOM:
            self._make_room(ids)
            count = find_unlabelled_ids(self.view, ids, missing)
        if not count:
            return
        missing = missing[:count].astype(np.int64)
        if len(missing) <= _SINGLE:
            self._label_singly(missing)
            return
        is_vertex = missing < FIRST
        if is_vertex.any():
            self._label(missing[is_vertex], self._terms.names(missing[is_vertex]))
        if not is_vertex.all():
            self._label(missing[~is_vertex], pa.array(self._terms.texts(missing[~is_vertex]), pa.string()))

    def _make_room(self, ids: np.ndarray) -> None:
        needed = int(ids.max()) + 1
        is_term = needed > FIRST
        if is_term:
            of_vertices = ids[ids < FIRST]
            sizes = [int(of_vertices.max(initial=-1)) + 1, needed - FIRST]
        else:
            sizes = [needed, 0]
        labels = self._labels
        for size, which in zip(sizes, ("", "term_"), strict=True):
            have = len(getattr(labels, f"{which}high"))
            if size > have:
                more = max(size, 2 * have) - have
                labels = lengthen_fields(labels, more, **{f"{which}high": 0, f"{which}rank": _UNKNOWN, f"{which}value": 0})
        if labels is not self._labels:
            labels.room[:] = len(labels.rank), len(labels.term_rank)
            self._labels = labels
            self.view = view(labels)

    def _label(self, ids: np.ndarray, names: pa.Array) -> None:
        """Assign labels to new terms with these names: kernels read numbers, texts and moments, Python the others."""
        highs = _sortable_integers(nearest_reals(names))
        are_numbers = highs != _NOT_A_NUMBER
        if not are_numbers.all():
            others = ids[~are_numbers]
            kinds, of_others, keys = read_names(names.filter(pa.array(~are_numbers)), _STRINGS, _FIRST_DATE_TIME)
            are_read = kinds != OTHER
            if are_read.any():
                self._insert_texts(others[are_read], of_others[are_read], keys.select(are_read))
            if not are_read.all():
                self._label_singly(others[~are_read])
            ids, highs = ids[are_numbers], highs[are_numbers]
        if len(ids):
            self._set(ids, highs, np.zeros(len(ids), np.int64))
            self._rank(ids.tolist(), highs.tolist(), {})

    def _label_singly(self, ids: np.ndarray) -> None:
        """Assign labels to new terms, one by one."""
        texts: dict[int, tuple[int, bytes]] = {}
        for identity, text in zip(ids.tolist(), self._terms.texts(ids), strict=True):
            key = order_key(str(text))
            high = _high(key)
            if _is_text(high):
                texts[identity] = high, key_of(key)
                continue
            highs, ranks, place = self._place(identity)
            highs[place], ranks[place] = high, 0
            self._rank([identity], [high], {identity: key})
        if texts:
            of_texts, keys = zip(*texts.values(), strict=True)
            self._insert_texts(np.array([*texts], np.int64), np.array(of_texts, np.int64), Keys.from_list([*keys]))

    def _insert_texts(self, ids: np.ndarray, highs: np.ndarray, keys: Keys) -> None:
        self._set(ids, highs, 0)
        ranked, ranks, values = self._texts.insert(ids, highs, keys, GAP)
        self._set(ranked, None, ranks, values)

    def _set(
        self, ids: np.ndarray, highs: np.ndarray | None, ranks: np.ndarray | int, values: np.ndarray | None = None
    ) -> None:
        """Write labels. Without `highs` or `values`, these parts do not change."""
        labels = self._labels
        is_term = ids >= FIRST
        ranks = np.broadcast_to(ranks, len(ids))
        for some, first, high, rank, value in (
            (~is_term, 0, labels.high, labels.rank, labels.value),
            (is_term, FIRST, labels.term_high, labels.term_rank, labels.term_value),
        ):
            places = ids[some] - first
            rank[places] = ranks[some]
            if highs is not None:
                high[places] = highs[some]
            if values is not None:
                value[places] = values[some]

    # --- ties ------------------------------------------------------------------------------------------------

    def _rank(self, ids: list[int], highs: list[int], key_of_term: dict[int, Any]) -> None:
        """Assign ranks to the new terms that are tied. `key_of_term` has the order keys of some terms."""
        tied_ids: dict[int, list[int]] = {}
        for identity, high in zip(ids, highs, strict=True):
            if self._ids_by_high.setdefault(high, identity) != identity:
                tied_ids.setdefault(high, []).append(identity)
        for high, some in tied_ids.items():
            tied = self._ties.get(high)
            if tied is None:
                tied = self._ties[high] = []
                some.append(self._ids_by_high[high])
            others = [identity for identity in some if identity not in key_of_term]
            texts = self._terms.texts(np.array(others, np.int64))
            key_of_term.update((identity, order_key(str(text))) for identity, text in zip(others, texts, strict=True))
            entries = [(key_of_term[identity], identity) for identity in some]
            self._keys.update((identity, key) for key, identity in entries)
            self._number_values(high, entries)
            if len(entries) * _FEW < len(tied):
                for entry in entries:
                    self._insert(tied, entry)
            else:
                tied.extend(entries)
                tied.sort()
                self._number(tied)

    def _number_values(self, high: int, entries: list[tuple[Any, int]]) -> None:
        """Assign numbers to the values of tied terms (order key, id)."""
        numbers = self._values.setdefault(high, {})
        for key, identity in entries:
            labels = self._labels
            number = numbers.setdefault(value_of_key(key), len(numbers))
            if identity < FIRST:
                labels.value[identity] = number
            else:
                labels.term_value[identity - FIRST] = number

    def _insert(self, tied: list[tuple[Any, int]], entry: tuple[Any, int]) -> None:
        """Insert a term among tied terms."""
        insort(tied, entry)
        place = bisect_left(tied, entry)
        below = None if place == 0 else self.label(tied[place - 1][1])[1]
        above = None if place == len(tied) - 1 else self.label(tied[place + 1][1])[1]
        rank = label_between(below, above)
        if rank is None:
            self._number(tied)
        else:
            self._set(np.array([entry[1]], np.int64), None, rank)

    def _number(self, tied: list[tuple[Any, int]]) -> None:
        ids = np.array([identity for _, identity in tied], np.int64)
        self._set(ids, None, new_labels(len(ids)))

    # --- ids that denote other terms -------------------------------------------------------------------------

    def discard_ids(self, new_ids: np.ndarray) -> None:
        """Discard the labels of ids, which now denote other terms."""
        if not self._ids_by_high and not len(self._texts):
            return
        if len(new_ids) <= _SINGLE:
            for identity in new_ids.tolist():
                high, rank, place = self._place(identity)
                if place < len(rank) and rank[place] != _UNKNOWN:
                    if _is_text(of_place := high.item(place)):
                        one = slice(place, place + 1)
                        self._texts.remove(np.array([identity], np.int64), high[one], rank[one])
                    else:
                        self._drop_tied_term(identity, of_place)
                    rank[place] = _UNKNOWN
            return
        labels = self._labels
        for first, end, high, rank in (
            (0, FIRST, labels.high, labels.rank),
            (FIRST, _LARGEST, labels.term_high, labels.term_rank),
        ):
            places = new_ids[(new_ids >= first) & (new_ids < end)] - first
            places = places[places < len(rank)]
            places = np.unique(places[rank[places] != _UNKNOWN])
            self._leave(first + places, high[places], rank[places])
            rank[places] = _UNKNOWN

    def _leave(self, ids: np.ndarray, highs: np.ndarray, ranks: np.ndarray) -> None:
        are_texts = _are_texts(highs)
        if are_texts.any():
            self._texts.remove(ids[are_texts], highs[are_texts], ranks[are_texts])
            ids, highs = ids[~are_texts], highs[~are_texts]
        for identity, high in zip(ids.tolist(), highs.tolist(), strict=True):
            self._drop_tied_term(identity, high)

    def _drop_tied_term(self, identity: int, high: int) -> None:
        """Discard a term that Python ranked."""
        key = self._keys.pop(identity, None)
        if key is None:
            del self._ids_by_high[high]
            return
        tied = self._ties[high]
        del tied[bisect_left(tied, (key, identity))]
        if tied:
            self._ids_by_high[high] = tied[0][1]
        else:
            del self._ties[high], self._ids_by_high[high], self._values[high]

    def check(self, ids: np.ndarray) -> None:
        """Assert that the labels of these ids have the order of their terms."""
        self._texts._check()
        ids = np.unique(ids)
        ids = ids[ids != UNBOUND]
        keys = [order_key(str(text)) for text in self._terms.texts(ids)]
        labels = [self.label(identity) for identity in ids.tolist()]
        assert all(rank not in (_UNKNOWN, _MISSING) for _, rank in labels), "a value has no label"
        by_key = sorted(range(len(keys)), key=keys.__getitem__)
        assert sorted(range(len(labels)), key=labels.__getitem__) == by_key, "labels are out of order"
        for one, other in pairwise(by_key):
            order = compare_terms(self.view, int(ids[one]), int(ids[other]), True)
            assert order == (0 if value_of_key(keys[one]) == value_of_key(keys[other]) else -1), "values are out of order"

    def label(self, identity: int) -> tuple[int, int]:
        """Return the label of the term of an id, which must have one."""
        high, rank, place = self._place(identity)
        return int(high[place]), int(rank[place])

    def _place(self, identity: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the arrays with the parts of the label of an id, and its place in them."""
        labels = self._labels
        if identity < FIRST:
            return labels.high, labels.rank, identity
        return labels.term_high, labels.term_rank, identity - FIRST


def _is_text(high: int) -> bool:
    """Return whether this is the upper part of the label of a string, an IRI or a moment."""
    return high >= _STRINGS and (high < _OTHERS[3] or _MOMENTS <= high < _OTHERS[5])


def _are_texts(highs: np.ndarray) -> np.ndarray:
    """Return whether these are the upper parts of labels of strings, IRIs and moments."""
    found: np.ndarray = (highs >= _STRINGS) & ((highs < _OTHERS[3]) | (highs >= _MOMENTS) & (highs < _OTHERS[5]))
    return found


def _sortable_integers(reals: np.ndarray) -> np.ndarray:
    """Return integers (int64) in the order of doubles; NaN becomes `_NOT_A_NUMBER`."""
    bits = (reals + 0.0).view(np.int64)  # + 0.0 turns the negative zero into the positive one
    bits = np.where(bits < 0, bits ^ _LARGEST, bits)
    return np.where(np.isnan(reals), _NOT_A_NUMBER, bits)


def _high(key: tuple[Any, ...]) -> int:
    """Return the upper part of the label of a term with this order key."""
    match key:
        case (0, *_):
            return _BLANKS
        case (1, 0, amount, _):
            return _high_of_real(float(amount))
        case (1, 2, *_):
            return _NOT_A_NUMBER
        case (1, sign, *_):
            return _high_of_real(sign * math.inf)
        case (2, text, _):
            return _STRINGS + int.from_bytes(text.encode("utf-8", "surrogatepass")[:6].ljust(6, b"\0"), "big")
        case (4, type_, instant, _):
            return _MOMENTS + (_MOMENT_TYPES.index(type_) << _BITS_OF_SECONDS) + math.floor(instant) + _DAY
    return _OTHERS[key[0]]


def _high_of_real(real: float) -> int:
    """Return the sortable integer of one double that is not NaN, as `_sortable_integers` does."""
    bits: int = struct.unpack("<q", struct.pack("<d", real + 0.0))[0]
    return bits if bits >= 0 else bits ^ _LARGEST


@njit(cache=True, nogil=True)
def find_unlabelled_ids(labels, ids, missing):
    """Write each id without a label once to `missing`. Return their number, or `_NO_ROOM` without any effect."""
    found = 0
    for i in range(len(ids)):
        identity = np.int64(ids[i])
        if identity >= (labels.room[0] if identity < FIRST else labels.room[1] + FIRST):
            return _NO_ROOM
    for i in range(len(ids)):
        identity = np.int64(ids[i])
        if identity == UNBOUND:
            continue
        if identity < FIRST:
            if labels.rank[identity] != _UNKNOWN:
                continue
            labels.rank[identity] = _MISSING
        else:
            if labels.term_rank[identity - FIRST] != _UNKNOWN:
                continue
            labels.term_rank[identity - FIRST] = _MISSING
        missing[found] = identity
        found += 1
    return found


@njit(cache=True, nogil=True, forceinline=True)
def is_before(labels, one, other):
    """Return whether a term is before another, by their ids."""
    if one < FIRST:
        high, rank = labels.high[one], labels.rank[one]
    else:
        high, rank = labels.term_high[one - FIRST], labels.term_rank[one - FIRST]
    if other < FIRST:
        return high < labels.high[other] or (high == labels.high[other] and rank < labels.rank[other])
    place = other - FIRST
    return high < labels.term_high[place] or (high == labels.term_high[place] and rank < labels.term_rank[place])


@njit(cache=True, nogil=True)
def compare_terms(labels, one, other, by_value):
    """Return how two terms compare, by their ids: -1 if the first is before the other, 0 or 1. `by_value`, equals give 0."""
    if one < FIRST:
        high, rank, value = labels.high[one], labels.rank[one], labels.value[one]
    else:
        high, rank, value = labels.term_high[one - FIRST], labels.term_rank[one - FIRST], labels.term_value[one - FIRST]
    if other < FIRST:
        other_high, other_rank, other_value = labels.high[other], labels.rank[other], labels.value[other]
    else:
        place = other - FIRST
        other_high, other_rank, other_value = labels.term_high[place], labels.term_rank[place], labels.term_value[place]
    if high != other_high:
        return np.int64(-1) if high < other_high else np.int64(1)
    if one == other or (by_value and value == other_value):
        return np.int64(0)
    return np.int64(-1) if rank < other_rank else np.int64(1)
