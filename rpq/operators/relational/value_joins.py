"""Joins by value: a row of the left meets a row of the right if a comparison between their values holds.

The condition of a filter between two parts, such as `?f > ?m * 1.8`, decides which rows meet. A product with a filter above
it looks at all pairs; here the rows of each side are stored by the value that is compared, in sorted order, so that a
change finds its partners by search.

Values with a common order have a `place` (`comparison_place`): of two values of one kind, that with the smaller key is the
smaller one. Values whose keys are equal, and terms without a place, are compared one by one. Rows of the two sides must also
agree on shared columns, which are the key of the index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rpq.language.sparql.algebra import Call, Formula
from rpq.language.sparql.algebra_text import formula_text
from rpq.language.sparql.values.operators import are_comparable, compares, comparison_place
from rpq.operators.relational.formula_columns import ValueColumn
from rpq.operators.relational.joins import Agreement, Key
from rpq.operators.relational.nodes import Node
from rpq.operators.relational.term_ids import TermIds
from rpq.rows.weighted_rows import Row, WeightedRows

MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that holds of two values in the other order."""

_Rows = dict[Row, int]


@dataclass(frozen=True)
class Comparison:
    """A comparison of a formula over the left side with a formula over the right side."""

    sign: str
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return formula_text(Call(self.sign, (self.left, self.right)))

    def mirrored(self) -> Comparison:
        """Return the same comparison with the sides exchanged."""
        return Comparison(MIRRORED[self.sign], self.right, self.left)


class ValueIndex:
    """A bag of rows that are found by a value. A change takes O(log values)."""

    def __init__(self, sorted_dictionary: Callable[[], Any]) -> None:
        self._sorted_dictionary = sorted_dictionary
        self._kinds: dict[Any, Any] = {}  # kind -> key, in order -> term -> rows
        self._others: dict[str, _Rows] = {}  # of terms without a place
        self.different = 0
        """The number of different rows."""

    def add(self, term: str, row: Row, weight: int) -> None:
        """Add to the count of a row, which may be negative within an event."""
        place = comparison_place(term)
        if place is None:
            terms = self._others
        else:
            kind, key = place
            if kind not in self._kinds:
                self._kinds[kind] = self._sorted_dictionary()
            terms = self._kinds[kind].setdefault(key, {})
        rows = terms.setdefault(term, {})
        before = rows.get(row, 0)
        after = before + weight
        self.different += (after != 0) - (before != 0)
        if after:
            rows[row] = after
            return
        rows.pop(row, None)
        if not rows:
            del terms[term]
            if place is not None and not terms:
                del self._kinds[kind][key]
                if not self._kinds[kind]:
                    del self._kinds[kind]

    def rows_of(self, term: str) -> _Rows:
        """Return the rows with a term and their counts."""
        place = comparison_place(term)
        if place is None:
            return self._others.get(term, _NOTHING)
        return self._kinds.get(place[0], _NOTHING).get(place[1], _NOTHING).get(term, _NOTHING)

    def entries(self) -> Iterator[tuple[str, _Rows]]:
        """Yield all terms with their rows."""
        for keys in self._kinds.values():
            for terms in keys.values():
                yield from terms.items()
        yield from self._others.items()

    def partners(self, sign: str, term: str) -> Iterator[_Rows]:
        """Yield the rows whose value v satisfies `term sign v`. O(log values) and the rows, plus values without a place."""
        place = comparison_place(term)
        if place is None:
            yield from (rows for other, rows in self.entries() if compares(sign, term, other))
            return
        kind, key = place
        keys = self._kinds.get(kind)
        if keys is not None:
            if sign in ("<", "<="):
                beyond: Iterable[Any] = keys.irange(key, None, inclusive=(False, False))
            elif sign in (">", ">="):
                beyond = keys.irange(None, key, inclusive=(False, False))
            else:
                beyond = ()
            for other_key in beyond:
                yield from keys[other_key].values()
            yield from (rows for other, rows in keys.get(key, _NOTHING).items() if compares(sign, term, other))
        yield from (rows for other, rows in self.entries_beside(kind) if compares(sign, term, other))

    def entries_beside(self, kind: Any) -> Iterator[tuple[str, _Rows]]:
        """Yield terms without a common order with a kind, which may nevertheless be comparable to its values."""
        yield from self._others.items()
        for other, keys in self._kinds.items():
            if other != kind and are_comparable(kind, other):
                for terms in keys.values():
                    yield from terms.items()

    def outermost(self, sign: str, kind: Any) -> Any:
        """Return the largest key of a kind if `sign` looks for larger values, else the smallest one; None without values."""
        keys = self._kinds.get(kind)
        if not keys:
            return None
        return keys.peekitem(-1 if sign in ("<", "<=") else 0)[0]

    def terms_between(self, kind: Any, lowest: Any, highest: Any) -> Iterator[str]:
        """Yield the terms of a kind with keys from `lowest` to `highest`; None is beyond all keys."""
        keys = self._kinds.get(kind)
        if keys is not None:
            for key in keys.irange(lowest, highest):
                yield from keys[key]

    def changed_counts(self, sign: str, changes: Sequence[tuple[str, int]]) -> Iterator[tuple[_Rows, int]]:
        """Yield rows whose number of partners changes, with the difference, if values come and go on the other side.

        `changes` are the terms v of the other side with their weights; a row with the value u has a partner where
        `u sign v`. Between two neighbours among the changed keys, all rows have the same difference, and are looked at only
        if that is not 0.
        """
        by_kind: dict[Any, dict[Any, list[tuple[str, int]]]] = {}
        others = []
        for term, weight in changes:
            place = comparison_place(term)
            if place is None:
                others.append((term, weight))
            else:
                by_kind.setdefault(place[0], {}).setdefault(place[1], []).append((term, weight))
        for kind, keys in self._kinds.items():
            beside = [*others]
            for other, changed in by_kind.items():
                if other != kind and are_comparable(kind, other):
                    beside += [change for one in changed.values() for change in one]
            if beside:
                for terms in keys.values():
                    yield from _differences(sign, terms, beside)
            if kind in by_kind:
                yield from _ordered_differences(sign, keys, by_kind[kind])
        yield from _differences(sign, self._others, changes)

    def ids(self) -> Iterator[int]:
        """Yield the ids in the rows."""
        for _, rows in self.entries():
            for row in rows:
                yield from row

    def check(self) -> None:
        """Assert that every row stands at the place of its value, as often as counted."""
        number = 0
        for kind, keys in self._kinds.items():
            assert keys, f"{kind} has no values"
            for key, terms in keys.items():
                assert terms and all(comparison_place(term) == (kind, key) for term in terms), (kind, key, terms)
        assert all(comparison_place(term) is None for term in self._others)
        for term, rows in self.entries():
            assert rows and all(count > 0 for count in rows.values()), (term, rows)
            number += len(rows)
        assert number == self.different, (number, self.different)


_NOTHING: dict[Any, Any] = {}


def _differences(sign: str, terms: dict[str, _Rows], changes: Sequence[tuple[str, int]]) -> Iterator[tuple[_Rows, int]]:
    for term, rows in terms.items():
        difference = sum(weight for other, weight in changes if compares(sign, term, other))
        if difference:
            yield rows, difference


def _ordered_differences(
    sign: str, keys: Any, changed: dict[Any, list[tuple[str, int]]]
) -> Iterator[tuple[_Rows, int]]:
    """Yield the rows under `keys` whose number of partners changes with values of their own kind."""
    bounds = sorted(changed)
    if sign == "=":
        for bound in bounds:
            yield from _differences(sign, keys.get(bound, _NOTHING), changed[bound])
        return
    sums = [0]
    for bound in bounds:
        sums.append(sums[-1] + sum(weight for _, weight in changed[bound]))

    def beyond(place: int) -> int:
        """Return the sum of the weights that a value between the bounds `place - 1` and `place` has as partners."""
        return sums[place] if sign in (">", ">=") else sums[-1] - sums[place]

    for place, (lowest, highest) in enumerate(pairwise([None, *bounds, None])):
        difference = beyond(place)
        if difference:
            for key in keys.irange(lowest, highest, inclusive=(False, False)):
                yield from ((rows, difference) for rows in keys[key].values())
    for place, bound in enumerate(bounds):
        definite = sums[place] if sign in (">", ">=") else sums[-1] - sums[place + 1]
        for term, rows in keys.get(bound, _NOTHING).items():
            difference = definite + sum(weight for other, weight in changed[bound] if compares(sign, term, other))
            if difference:
                yield rows, difference


class _ByValueNode(Node):
    """An operator over two sides whose rows are stored by the values of a comparison, for each key of shared columns."""

    def __init__(
        self,
        columns: Sequence[str],
        sure: Iterable[str],
        left: Node,
        right: Node,
        comparison: Comparison,
        terms: TermIds,
        agreement: Agreement,
    ) -> None:
        super().__init__(columns, frozenset(sure), left, right)
        from sortedcontainers import SortedDict  # of the extra `sparql`

        self._sorted_dictionary = SortedDict
        self._comparison = comparison
        self._agreement = agreement
        self._left_values = ValueColumn(comparison.left, left.columns, terms)
        self._right_values = ValueColumn(comparison.right, right.columns, terms)
        self._lefts: dict[Key, ValueIndex] = {}
        self._rights: dict[Key, ValueIndex] = {}

    def begin(self) -> WeightedRows:
        self._lefts.clear()
        self._rights.clear()
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        output: list[tuple[int, Row, int]] = []
        events: dict[int, tuple[list[Any], list[Any]]] = {}
        sides = (self._left_values, self._agreement.key_of_left), (self._right_values, self._agreement.key_of_right)
        for side, (change, (values, key_of)) in enumerate(zip(changes, sides, strict=True)):
            net = change.net()
            for (event, row, weight), term in zip(net.changes(), values.of(net.rows), strict=True):
                if event not in events:
                    events[event] = [], []
                events[event][side].append((key_of(row), term, row, weight))
        for event, (lefts, rights) in sorted(events.items()):
            output += [(event, row, weight) for row, weight in self._change_event(lefts, rights) if weight]
        return WeightedRows.of(output, self.width)

    @abstractmethod
    def _change_event(
        self, lefts: Sequence[tuple[Key, str | None, Row, int]], rights: Sequence[tuple[Key, str | None, Row, int]]
    ) -> Iterator[tuple[Row, int]]:
        """Apply the net changes of an event: (key, value, row, weight). Yield the changes of the output."""

    def _add(self, side: dict[Key, ValueIndex], key: Key, term: str, row: Row, weight: int) -> None:
        index = side.get(key)
        if index is None:
            index = side[key] = ValueIndex(self._sorted_dictionary)
        index.add(term, row, weight)
        if not index.different:
            del side[key]

    def forget(self, fresh: np.ndarray) -> None:
        self._left_values.forget(fresh)
        self._right_values.forget(fresh)

    @property
    def entries(self) -> int:
        return sum(index.different for side in (self._lefts, self._rights) for index in side.values())

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._left_values.nbytes + self._right_values.nbytes

    def ids(self) -> Iterable[int]:
        for side in (self._lefts, self._rights):
            for key, index in side.items():
                yield from key if isinstance(key, tuple) else (key,)
                yield from index.ids()

    def _describe(self, name: str) -> str:
        key = "".join(f"?{column}, " for column in self._agreement.key)
        how = "search by value" if self._comparison.sign == "=" else "search in order"
        return f"{name} on {key}{self._comparison} ({how})"

    def describe_state(self) -> str:
        return "both sides, by the compared values"

    def _check(self) -> None:
        for side in (self._lefts, self._rights):
            for index in side.values():
                assert index.different > 0
                index.check()


class ValueJoinNode(_ByValueNode):
    """Join with a filter: the rows of both sides that agree on shared columns and satisfy a comparison.

    On bags: Filter(C, Ω1 ⋈ Ω2), which is bilinear as the join is: Δ = ΔL ⋈ R + (L + ΔL) ⋈ ΔR. If no column of the right
    `is_needed`, the output has the columns of the left, each row as often as it has partners. An event that moves a value on
    the right, such as a mean, then concerns only the rows between the old value and the new one.
    """

    def __init__(self, left: Node, right: Node, comparison: Comparison, terms: TermIds, *, is_right_needed: bool) -> None:
        agreement = Agreement(left, right)
        columns = agreement.columns if is_right_needed else left.columns
        super().__init__(columns, agreement.sure, left, right, comparison, terms, agreement)
        self._is_right_needed = is_right_needed

    def _change_event(
        self, lefts: Sequence[tuple[Key, str | None, Row, int]], rights: Sequence[tuple[Key, str | None, Row, int]]
    ) -> Iterator[tuple[Row, int]]:
        sign, joined = self._comparison.sign, self._agreement.joined
        for key, term, row, weight in lefts:
            if term is None:  # a comparison with an error is no reason for a row
                continue
            if key in self._rights:
                partners = self._rights[key].partners(sign, term)
                if self._is_right_needed:
                    yield from ((joined(row, one), weight * count) for rows in partners for one, count in rows.items())
                else:
                    yield row, weight * sum(count for rows in partners for count in rows.values())
            self._add(self._lefts, key, term, row, weight)
        if self._is_right_needed:
            for key, term, row, weight in rights:
                if term is None:
                    continue
                if key in self._lefts:
                    for rows in self._lefts[key].partners(MIRRORED[sign], term):
                        yield from ((joined(one, row), weight * count) for one, count in rows.items())
                self._add(self._rights, key, term, row, weight)
            return
        by_key: dict[Key, list[tuple[str, int]]] = {}
        for key, term, _, weight in rights:
            if term is not None:
                by_key.setdefault(key, []).append((term, weight))
                self._add(self._rights, key, term, (), weight)
        for key, changes in by_key.items():
            if key in self._lefts:
                for rows, difference in self._lefts[key].changed_counts(sign, changes):
                    yield from ((row, difference * count) for row, count in rows.items())

    def describe(self) -> str:
        return self._describe("join" if self._is_right_needed else "rows with partners")


class ValueExistsNode(_ByValueNode):
    """EXISTS and NOT EXISTS with a comparison: the rows of the left with a partner on the right, or without one.

    On bags, with the counts of the left. Rows with one key and one value have their partners in common, so whether they have
    any is stored once for them. A value that comes or goes on the right matters only to values between the outermost ones
    before and after it: of `?g > ?f`, those between the two largest ?g.
    """

    def __init__(self, left: Node, right: Node, comparison: Comparison, terms: TermIds, *, is_negated: bool) -> None:
        super().__init__(left.columns, left.sure, left, right, comparison, terms, Agreement(left, right))
        self._is_negated = is_negated
        self._has_partner: dict[Key, dict[str, bool]] = {}

    def begin(self) -> WeightedRows:
        self._has_partner.clear()
        return super().begin()

    def _change_event(
        self, lefts: Sequence[tuple[Key, str | None, Row, int]], rights: Sequence[tuple[Key, str | None, Row, int]]
    ) -> Iterator[tuple[Row, int]]:
        by_key: dict[Key, list[tuple[str, int]]] = {}
        for key, term, _, weight in rights:
            if term is not None:
                by_key.setdefault(key, []).append((term, weight))
        for key, changes in by_key.items():
            for term in self._change_right(key, changes):
                has_partner = self._finds_partner(key, term)
                states = self._has_partner[key]
                if states[term] != has_partner:
                    states[term] = has_partner
                    sign = 1 if has_partner != self._is_negated else -1
                    yield from ((row, sign * count) for row, count in self._lefts[key].rows_of(term).items())
        for key, term, row, weight in lefts:
            if term is None:
                if self._is_negated:
                    yield row, weight
                continue
            states = self._has_partner.setdefault(key, {})
            if term not in states:
                states[term] = self._finds_partner(key, term)
            if states[term] != self._is_negated:
                yield row, weight
            self._add(self._lefts, key, term, row, weight)
            if key not in self._lefts:
                del self._has_partner[key]
            elif not self._lefts[key].rows_of(term):
                del states[term]

    def _finds_partner(self, key: Key, term: str) -> bool:
        right = self._rights.get(key)
        return right is not None and next(right.partners(self._comparison.sign, term), None) is not None

    def _change_right(self, key: Key, changes: Sequence[tuple[str, int]]) -> list[str]:
        """Apply changes of the right; return the values of the left whose state may have changed."""
        sign, left = self._comparison.sign, self._lefts.get(key)
        places = {comparison_place(term) for term, _ in changes}
        kinds = {place[0] for place in places if place is not None}

        def outermost(kind: Any) -> Any:
            return self._rights[key].outermost(sign, kind) if key in self._rights else None

        before = {kind: outermost(kind) for kind in kinds}
        for term, weight in changes:
            self._add(self._rights, key, term, (), weight)
        if left is None:
            return []
        states = self._has_partner[key]
        if None in places:
            return [*states]
        concerned: list[str] = []
        for kind in kinds:
            concerned += [term for term, _ in left.entries_beside(kind)]
            if sign == "=":
                bounds = [(place[1], place[1]) for place in places if place is not None and place[0] == kind]
            else:
                ends = before[kind], outermost(kind)
                known = [end for end in ends if end is not None]
                # Without a value before or after, every value up to the other end may have lost or found its partner.
                is_open = len(known) < 2
                looks_up = sign in ("<", "<=")
                lowest = None if is_open and looks_up else min(known, default=None)
                highest = None if is_open and not looks_up else max(known, default=None)
                bounds = [(lowest, highest)]
            for lowest, highest in bounds:
                concerned += left.terms_between(kind, lowest, highest)
        return [*dict.fromkeys(concerned)]

    @property
    def entries(self) -> int:
        return super().entries + sum(map(len, self._has_partner.values()))

    def describe(self) -> str:
        return self._describe("not exists" if self._is_negated else "exists")

    def _check(self) -> None:
        super()._check()
        assert self._has_partner.keys() == self._lefts.keys()
        for key, states in self._has_partner.items():
            terms = dict(self._lefts[key].entries())
            assert states.keys() == terms.keys(), (key, states, terms)
            for term, state in states.items():
                assert state == self._finds_partner(key, term), (key, term, state)
