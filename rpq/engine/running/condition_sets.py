"""The conditions that tuples satisfy: all those of registered queries, evaluated over a chunk at once.

Each tuple gets the number of the set of *derived labels* that it has: the labels `ConditionLabel` whose label is its own
and whose condition its properties satisfy. Equal conditions of all queries are evaluated once. Conditions that compare one
property with a constant are found by search among the sorted constants, so that thousands of them cost a tuple what a few
do: a tuple falls at a constant or between two of them, and all tuples that fall there satisfy the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.distinct_values import distinct_values
from rpq.compiled.kernel_cache import njit
from rpq.errors import InputError, WhereError
from rpq.language.conditions import Condition, condition_of
from rpq.language.edge_variables import BindingFilter
from rpq.language.predicate import ColumnKind, Predicate, kind_of_type
from rpq.language.where import COMPARE, Name, WhereConstant
from rpq.language.where import Comparison as WhereComparison
from rpq.stream.arrays.properties import PropertyTypes
from rpq.stream.names.stream_labels import ConditionLabel

FEW = 8
"""Fewer comparisons of a property with constants are evaluated one by one."""

_SEARCHED = frozenset(COMPARE) - {"!="}
"""The comparisons that order decides; of other values than numbers, and of !=, conditions are evaluated as they are."""

_BITS = 12
"""Conditions that are evaluated one by one, of which one factor has the verdicts."""


class Comparison(NamedTuple):
    """A condition that compares a property with a number, in the type of the property."""

    name: str
    sign: str
    constant: float


def comparison_of(condition: Condition, types: PropertyTypes) -> Comparison | None:
    """Return the comparison of a condition that is one of an integer or a float; None for others."""
    tree = condition.where.tree
    if not (isinstance(tree, WhereComparison) and isinstance(tree.left, Name) and isinstance(tree.right, WhereConstant)):
        return None
    name, value = tree.left.name, tree.right.value
    kind = types.by_name.get(name)
    if isinstance(value, (bool, str)) or tree.sign not in _SEARCHED or kind is None or name in types.loose:
        return None
    if pa.types.is_floating(kind):  # beside floats a constant is the nearest float
        return Comparison(name, tree.sign, float(value))
    return Comparison(name, tree.sign, value) if pa.types.is_integer(kind) and isinstance(value, int) else None


class SortedConstants:
    """Conditions that compare one property with constants, and the place of a value among these.

    Place 2 i + 1 is that of constant i, place 2 i lies below it; a null and NaN, which satisfy none, have the last one.
    """

    def __init__(self, name: str, comparisons: Sequence[Comparison]) -> None:
        self.name = name
        self._constants = np.unique(np.array([one.constant for one in comparisons]))
        place = 2 * np.searchsorted(self._constants, np.array([one.constant for one in comparisons])) + 1
        self.places = 2 * len(self._constants) + 2
        last = self.places - 2
        low = {"<": 0 * place, "<=": 0 * place, "==": place, ">=": place, ">": place + 1}
        high = {"<": place - 1, "<=": place, "==": place, ">=": 0 * place + last, ">": 0 * place + last}
        signs = np.array([one.sign for one in comparisons])
        self._low = np.select([signs == sign for sign in low], list(low.values()))
        self._high = np.select([signs == sign for sign in high], list(high.values()))

    def find(self, values: pa.Array) -> np.ndarray:
        """Return the place of each value. O(values · log constants)."""
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        left = np.searchsorted(self._constants, numbers, "left")
        places: np.ndarray = left + np.searchsorted(self._constants, numbers, "right")
        is_none = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        places[is_none] = self.places - 1
        return places

    def matches(self, places: np.ndarray) -> np.ndarray:
        """Return which conditions values at these places satisfy: (value, condition). O(values · conditions)."""
        found: np.ndarray = (self._low <= places[:, None]) & (places[:, None] <= self._high)
        return found

    def match(self, place: int) -> np.ndarray:
        """Return the positions of the conditions that values at a place satisfy. O(conditions)."""
        found: np.ndarray = np.flatnonzero((self._low <= place) & (place <= self._high))
        return found


def searched_comparisons(
    comparisons: Sequence[Comparison | None],
) -> list[tuple[SortedConstants, np.ndarray]]:
    """Return the sorted constants of properties with which many conditions compare, each with the places of these."""
    by_property: dict[str, list[tuple[int, Comparison]]] = {}
    for place, one in enumerate(comparisons):
        if one is not None:
            by_property.setdefault(one.name, []).append((place, one))
    return [
        (SortedConstants(name, [one for _, one in mine]), np.array([place for place, _ in mine]))
        for name, mine in by_property.items()
        if len(mine) >= FEW
    ]


class _LabelConditions(NamedTuple):
    """The conditions on one label, and the factors that tell which of them a tuple satisfies."""

    texts: list[str]
    ids: list[int]
    """The ids of the derived labels."""
    single_positions: list[int]
    """Positions of the conditions that are evaluated one by one."""
    sorted_constants: list[tuple[SortedConstants, np.ndarray]]
    """The other conditions by property, with their positions."""
    sets: dict[tuple[int, ...], int]
    """The number of the set of derived labels by the values of the factors."""
    comparisons: list[Comparison] | None
    """The conditions as comparisons of properties with numbers; None where there are others."""


class _CompleteColumns(dict[str, pa.Array]):
    """Columns of properties and of timestamps, which are made when they are needed; those that are missing are null."""

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        timestamp: np.ndarray | None,
        count: int,
        types: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(columns)
        self._timestamp = timestamp
        self._count = count
        self._types = types

    def __missing__(self, name: str) -> pa.Array:
        if name == "timestamp":
            made = pa.nulls(self._count, pa.int64()) if self._timestamp is None else pa.array(self._timestamp)
        else:
            made = pa.nulls(self._count, self._types.get(name, pa.string()))
        self[name] = made
        return made


class ConditionSets:
    """The sets of derived labels that tuples have, by number; number 0 is the empty set.

    `ids_of` returns the ids of derived labels, new ones for those that have none. `count_non_numeric` receives a condition
    and the number of tuples in which it needs a number and finds a text that is none.
    """

    def __init__(
        self,
        *,
        ids_of: Callable[[Sequence[ConditionLabel]], list[int]],
        count_non_numeric: Callable[[str, int], None],
    ) -> None:
        self.types = PropertyTypes()
        self.properties: frozenset[str] = frozenset()
        """The names of the properties in conditions."""
        self._ids_of = ids_of
        self._count_non_numeric = count_non_numeric
        self._texts: frozenset[str] = frozenset()
        self._conditions_on: Callable[[str], Iterable[str]] = lambda label: ()
        self._of_label: dict[str, _LabelConditions] = {}
        self._predicates: dict[str, Predicate] = {}
        self._filters: list[BindingFilter] = []
        self.time_unit: str | None = None
        self.is_timed = False  # whether tuples have come, so that the unit of timestamps is known
        self._sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._flat = np.zeros(2, np.int64), np.zeros(0, np.int32)

    # --- conditions ------------------------------------------------------------------------------------------

    def set_conditions(
        self,
        texts: Iterable[str],
        conditions_on: Callable[[str], Iterable[str]],
        *,
        filters: Mapping[str, BindingFilter],
        values: Iterable[str],
    ) -> None:
        """Set all conditions, and the function that returns those on a label.

        `filters` by their texts have to fit the types of the properties as well; `values` are properties that are read
        whether conditions need them or not.

        Raises `WhereError` for one that does not fit the types of the properties.
        """
        distinct_texts = frozenset(texts)
        predicates = {text: self._predicates.get(text) or self._bound(text, self.types) for text in distinct_texts}
        _check_filters(filters.values(), self.kind_of, self.types)
        self._filters = [*filters.values()]
        self._texts, self._predicates = distinct_texts, predicates
        self.properties = frozenset(values).union(*(condition_of(text).properties for text in distinct_texts))
        self._conditions_on = conditions_on
        self._of_label.clear()

    def _bound(self, text: str, types: PropertyTypes) -> Predicate:
        """Return a condition over properties of these types; values of an unknown type are all null."""
        where = condition_of(text).where
        return Predicate(where, {name: self.kind_of(name, types, key=name) for name in where.names})

    def kind_of(self, name: str, types: PropertyTypes, *, key: str) -> ColumnKind:
        """Return the kind of a property, or of the timestamp, whose column has a key."""
        if name == "timestamp":
            return ColumnKind(key=key, kind="time" if self.is_timed else "unknown", unit=self.time_unit)
        if name in types.loose:
            return ColumnKind(key=key, kind="untyped")
        if name not in types.by_name:
            return ColumnKind(key=key, kind="unknown")
        kind, unit = kind_of_type(types.by_name[name])
        return ColumnKind(key=key, kind=kind, unit=unit)

    def read(
        self,
        data: object,
        *,
        count: int,
        problems: list[InputError],
        time_unit: str | None = None,
        is_timed: bool = True,
        more: Iterable[str] = (),
    ) -> dict[str, pa.Array]:
        """Return the columns of properties of data, and `more`, and bind conditions to their types where these are new.

        `time_unit` is the unit of timestamps, None for plain numbers; static edges do not determine it. Raises `InputError`
        for a column whose type does not fit a condition.
        """
        types = self.types.copy()
        columns = types.read(data, sorted(self.properties.union(more)), count=count, problems=problems)
        before = self.time_unit, self.is_timed
        after = (time_unit, True) if is_timed else before
        if types.names != self.types.names or after != before:
            self.time_unit, self.is_timed = after
            try:
                predicates = {text: self._bound(text, types) for text in self._texts}
                _check_filters(self._filters, self.kind_of, types)
                self._predicates = predicates
            except WhereError as error:
                self.time_unit, self.is_timed = before
                raise InputError(misfit(error, types)) from error
            self._of_label.clear()  # the types decide which conditions can be searched for
        self.types = types
        return columns

    def restore_types(self, types: PropertyTypes, time_unit: str | None, *, is_timed: bool) -> None:
        """Set the types of properties and the unit of timestamps. Raises `WhereError` where a condition does not fit."""
        self.types, self.time_unit, self.is_timed = types, time_unit, is_timed
        self._predicates = {text: self._bound(text, types) for text in self._texts}
        self._of_label.clear()

    # --- sets ------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of different sets so far."""
        return len(self._sets)

    def labels_of(self, number: int) -> tuple[int, ...]:
        """Return the ids of the derived labels of a set, sorted."""
        return self._sets[number]

    def number_of(self, labels: Iterable[int]) -> int:
        """Return the number of the set of these ids of derived labels."""
        key = tuple(sorted(labels))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sets)
            self._sets.append(key)
        return number

    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of each set in the list of all their labels, and its end (int64), and that list (int32).

        O(1) where there is no new set, else O(sets + labels).
        """
        first, labels = self._flat
        if (set_count := len(first) - 1) < len(self._sets):
            new = self._sets[set_count:]
            ends = first[-1] + np.cumsum([len(one) for one in new], dtype=np.int64)
            more = np.fromiter((label for one in new for label in one), np.int32, int(ends[-1] - first[-1]))
            self._flat = np.concatenate([first, ends]), np.concatenate([labels, more])
        return self._flat

    def texts_on(self, label: str) -> list[str]:
        """Return the conditions on a label."""
        return self._conditions_of_label(label).texts

    def whole_set(self, label: str) -> int:
        """Return the number of the set of all derived labels of a label."""
        return self.number_of(self._conditions_of_label(label).ids)

    def ids(self) -> list[int]:
        """Return the ids of all derived labels that are in a set, or will be in one."""
        of_labels = {number for conditions in self._of_label.values() for number in conditions.ids}
        return sorted(of_labels.union(*self._sets))

    def retain(self, numbers: np.ndarray) -> np.ndarray:
        """Forget all other sets than these and the empty one; return the new number of each old one."""
        remaining = [one for one in np.unique(numbers).tolist() if one]
        renumbered = np.zeros(len(self._sets), np.int32)
        renumbered[remaining] = np.arange(1, len(remaining) + 1)
        self._sets = [(), *(self._sets[one] for one in remaining)]
        self._numbers = {labels: number for number, labels in enumerate(self._sets)}
        self._flat = np.zeros(2, np.int64), np.zeros(0, np.int32)
        self._of_label.clear()
        return renumbered

    def set_of_one(
        self, label: np.ndarray, names: Sequence[object], values: Mapping[str, Any], timestamp: np.ndarray
    ) -> int:
        """Return the number of the set of one tuple like `sets_of`; each value has the type of its property."""
        conditions = self._conditions_of_label(str(names[label.item(0)]))
        if not conditions.texts:
            return 0
        if conditions.comparisons is None:
            columns = {name: pa.array([value], self.types.by_name[name]) for name, value in values.items()}
            return int(self.sets_of(label, names, columns, timestamp)[0])
        positions = [
            position
            for position, one in enumerate(conditions.comparisons)
            if (value := values.get(one.name)) is not None and COMPARE[one.sign](value, one.constant)
        ]
        return self.number_of(conditions.ids[position] for position in positions) if positions else 0

    def sets_of(
        self, label: np.ndarray, names: Sequence[object], columns: Mapping[str, pa.Array], timestamp: np.ndarray | None
    ) -> np.ndarray:
        """Return the number of the set of each tuple (int32). O(tuples · factors · log constants).

        `label` are the ids of plain labels, `names` the names of all ids, `columns` the properties that the tuples have.
        Edges without a time have no `timestamp`.
        """
        count = len(label)
        found = np.zeros(count, np.int32)
        complete = self.complete(columns, timestamp, count)
        verdicts: dict[str, np.ndarray] = {}
        for number in np.flatnonzero(np.bincount(label, minlength=1)).tolist():
            name = names[number]
            if not isinstance(name, str) or not name:
                continue
            conditions = self._conditions_of_label(name)
            if not conditions.texts:
                continue
            (size, code), *others = self._factors(conditions, complete, verdicts, count)
            for text in conditions.texts:
                self.count_non_numeric(text, label == number)
            keys: list[tuple[int, ...]] | None = None  # a code is the only value of its key
            for many, values in others:
                used, code = distinct_values(code * many + values, size * many)
                pairs = zip((used // many).tolist(), (used % many).tolist(), strict=True)
                keys = [(*((head,) if keys is None else keys[head]), tail) for head, tail in pairs]
                size = len(keys)
            is_present, sets = np.zeros(size, np.uint8), np.zeros(size, np.int32)
            note_codes(label, number, code, is_present)
            for one in np.flatnonzero(is_present).tolist():
                sets[one] = self._set_of(conditions, (one,) if keys is None else keys[one])
            write_sets(label, number, code, sets, found)
        return found

    def complete(
        self, columns: Mapping[str, pa.Array], timestamp: np.ndarray | None, count: int
    ) -> dict[str, pa.Array]:
        """Return the columns of all properties, and of timestamps; those that are missing are null, once they are needed."""
        return _CompleteColumns(columns, timestamp, count, self.types.by_name)

    def _conditions_of_label(self, label: str) -> _LabelConditions:
        """Return the conditions on a label. O(conditions), the first time."""
        found = self._of_label.get(label)
        if found is None:
            texts = sorted(self._conditions_on(label))
            ids = self._ids_of([ConditionLabel(label, text) for text in texts])
            comparisons = [comparison_of(condition_of(text), self.types) for text in texts]
            searched = searched_comparisons(comparisons)
            others = set(range(len(texts))).difference(*(positions.tolist() for _, positions in searched))
            compared = [one for one in comparisons if one is not None]
            found = self._of_label[label] = _LabelConditions(
                texts, ids, sorted(others), searched, {}, compared if len(compared) == len(texts) else None
            )
        return found

    def _factors(
        self,
        conditions: _LabelConditions,
        columns: Mapping[str, pa.Array],
        verdicts: dict[str, np.ndarray],
        count: int,
    ) -> Iterable[tuple[int, np.ndarray]]:
        """Yield the factors that decide on the conditions, each as its number of values and the value of each tuple."""
        for begin in range(0, len(conditions.single_positions), _BITS):
            bits = np.zeros(0, np.int64)
            some = conditions.single_positions[begin : begin + _BITS]
            for place, position in enumerate(some):
                text = conditions.texts[position]
                if text not in verdicts:
                    verdicts[text] = self.verdicts(text, columns, count)
                bits = bits | verdicts[text].astype(np.int64) << place if place else verdicts[text].astype(np.int64)
            yield 1 << len(some), bits
        for constants, _ in conditions.sorted_constants:
            yield constants.places, constants.find(columns[constants.name])

    def satisfy(self, text: str, columns: Mapping[str, pa.Array], timestamp: np.ndarray) -> np.ndarray:
        """Return which edges satisfy a condition that no query need have (bool). Raises `WhereError`."""
        count = len(timestamp)
        found: np.ndarray = self._bound(text, self.types).mask(self.complete(columns, timestamp, count), count)[0]
        return found

    def verdicts(self, text: str, columns: Mapping[str, pa.Array], count: int) -> np.ndarray:
        """Return which tuples satisfy a condition. Comparisons of numbers without nulls are evaluated without Arrow."""
        found = comparison_of(condition_of(text), self.types)
        if found is not None:
            values = columns[found.name]
            if not values.null_count:
                verdicts: np.ndarray = COMPARE[found.sign](values.to_numpy(), found.constant)
                return verdicts
        return self._predicates[text].mask(columns, count)[0]

    def count_non_numeric(self, text: str, among: np.ndarray) -> None:
        """Count tuples, `among` the last ones, in which a condition needs a number and finds a text that is none."""
        non_numeric = self._predicates[text].non_numeric
        if non_numeric is not None:
            self._count_non_numeric(text, int(np.count_nonzero(non_numeric & among)))

    def _set_of(self, conditions: _LabelConditions, key: tuple[int, ...]) -> int:
        """Return the number of the set of derived labels for the values of the factors."""
        number = conditions.sets.get(key)
        if number is None:
            values = iter(key)
            positions: list[int] = []
            for begin in range(0, len(conditions.single_positions), _BITS):
                bits = next(values)
                some = conditions.single_positions[begin : begin + _BITS]
                positions += [position for place, position in enumerate(some) if bits >> place & 1]
            for (constants, of_constants), value in zip(conditions.sorted_constants, values, strict=True):
                positions += of_constants[constants.match(value)].tolist()
            number = self.number_of(conditions.ids[one] for one in positions)
            conditions.sets[key] = number
        return number


@njit(cache=True, nogil=True)
def note_codes(label, number, code, is_present):
    """Note which codes tuples with a label have."""
    for i in range(len(label)):
        if label[i] == number:
            is_present[code[i]] = 1


@njit(cache=True, nogil=True)
def write_sets(label, number, code, sets, found):
    """Write the sets of tuples with a label, by code."""
    for i in range(len(label)):
        if label[i] == number:
            found[i] = sets[code[i]]


def _check_filters(filters: Iterable[BindingFilter], kind_of: Callable[..., ColumnKind], types: PropertyTypes) -> None:
    """Raise `WhereError` for a filter that does not fit the types of properties."""
    for one in filters:
        kinds = one.column_kinds(lambda value: kind_of(value.key or "timestamp", types, key=value.column))
        Predicate(one.where, kinds)


def misfit(error: WhereError, types: PropertyTypes) -> str:
    """Return the error of properties of these types in a condition or a filter, as text."""
    if "?" in error.text and (found := re.findall(r"\?\w+\.(\w+)", error.text)):
        types_text = ", ".join(f"column {name!r} is of type {kind}" for name, kind in types.names.items() if name in found)
        return f"the filter {error.text} does not fit the properties: {error.message}; {types_text or 'of timestamps'}"
    named = condition_of(error.text).properties
    types_text = ", ".join(f"column {name!r} is of type {kind}" for name, kind in types.names.items() if name in named)
    return f"the condition [{error.text}] does not fit the properties: {error.message}; {types_text or 'of timestamps'}"
