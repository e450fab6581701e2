"""Columns of queries in SPARQL, whose values are vertices, counts, or other computed values.

Vertices have the type of the stream, counts are integers, and other computed values are texts: the lexical form of a
literal.  Internally all of them are terms: IRIs as they are, literals in N-Triples form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Literal, Protocol, Self

import numpy as np
import pyarrow as pa

from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.names.list_terms import display_list, display_text
from rpq.stream.names.terms import LIST_TYPE, lexical_form

ColumnKind = Literal["vertex", "count", "text", "value", "time", "result"]
"""Vertices have the type of the input, counts are integers, text is the lexical form of a computed value.

The values of edges have the types of their properties, or that of timestamps, and so do results, which are aggregates of
them (`ValueColumns`)."""

WITNESS_COLUMNS = ("path", "path_times")
"""The columns of witnesses: a path as JSON, and the times of its edges."""

_OF_TERMS = {b"holds": b"terms"}
_WIDE = Context(prec=80)
_FEW_TERMS = 16
"""The number of terms up to which a regular expression is faster than a kernel."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:(T[0-9:]{8})(?:\.([0-9]+))?)?(Z|[+-][0-9]{2}:[0-9]{2})?")
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_OF_LISTS = f'"^^<{LIST_TYPE}>'


class Texts(Protocol):
    """The terms of ids in rows. Rows of queries that have equal ones, and equal columns, are put together."""

    def texts(self, ids: np.ndarray) -> list[str | None]:
        """Return the terms of a few ids, None for unbound ones. O(ids)."""

    def terms(self, ids: np.ndarray) -> pa.Array:
        """Return the terms of ids as an array of texts, null for unbound ones. O(ids)."""


class TypedColumns(tuple[str, ...]):
    """The names of columns with their `kinds`; equal names with different kinds are not equal.

    >>> TypedColumns("xy", ("vertex", "count")) == TypedColumns("xy", ("vertex", "text"))
    False
    """

    kinds: tuple[ColumnKind, ...]

    def __new__(cls, names: Sequence[str], kinds: Sequence[ColumnKind]) -> Self:
        made = super().__new__(cls, names)
        made.kinds = tuple(kinds)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedColumns) and tuple(self) == tuple(other) and self.kinds == other.kinds

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.kinds))

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], tuple[ColumnKind, ...]]]:
        return TypedColumns, (tuple(self), self.kinds)


class ValueColumns(TypedColumns):
    """The columns of a pattern, with the values of edges among them.

    `type_of` returns the type of a column of kind "value" or "result" by its name, None while it is not known. The running
    query sets it: the types are those that the stream has when they are asked for.
    """

    type_of: Callable[[str], pa.DataType | None]

    def __new__(cls, names: Sequence[str], kinds: Sequence[ColumnKind]) -> Self:
        made = super().__new__(cls, names, kinds)
        made.type_of = lambda name: None
        return made

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], tuple[ColumnKind, ...]]]:
        return ValueColumns, (tuple(self), self.kinds)


def value_type(columns: Sequence[str], place: int) -> pa.DataType | None:
    """Return the type of a column of kind "value" or "result", text while none of its values was seen; None for others."""
    if not isinstance(columns, ValueColumns) or columns.kinds[place] not in ("value", "result"):
        return None
    known = columns.type_of(columns[place])
    return pa.string() if known is None else known


def kinds_of(columns: Sequence[str]) -> tuple[ColumnKind, ...]:
    """Return the kinds of columns; untyped ones are vertices."""
    if isinstance(columns, TypedColumns):
        return columns.kinds
    vertex: ColumnKind = "vertex"
    return (vertex,) * len(columns)


def field_of(name: str, kind: ColumnKind, vertex: pa.DataType, *, terms: bool, value: pa.DataType | None = None) -> pa.Field:
    """Return the Arrow field of a column, for vertices of this type, and with computed values as terms or texts.

    `value` is the type of a property or of a timestamp.
    """
    if value is not None:
        return pa.field(name, value)
    if kind == "text":
        return pa.field(name, pa.string(), metadata=_OF_TERMS if terms else None)
    return pa.field(name, vertex if kind == "vertex" else pa.int64())


def holds_terms(field: pa.Field) -> bool:
    """Return whether a column has computed values as terms."""
    return bool(field.metadata) and field.metadata == _OF_TERMS


def without_terms(rows: pa.Table) -> pa.Table:
    """Replace the terms of a table by texts, their lexical forms.  O(rows)."""
    for place, field in enumerate(rows.schema):
        if holds_terms(field):
            texts = [None if term is None else lexical_form(term) for term in rows.column(place).to_pylist()]
            rows = rows.set_column(place, pa.field(field.name, pa.string()), pa.array(texts, pa.string()))
    return rows


def value_texts(values: pa.Array) -> list[str | None]:
    """Return values as texts, equal ones as equal texts, which `texts_to_values` reads.

    >>> value_texts(pa.array([-0.0, 0.5, float("nan"), None])), value_texts(pa.array([True, False]))
    (['0.0', '0.5', 'nan', None], ['true', 'false'])
    """
    kind = values.type
    if pa.types.is_list(kind):
        return [None if one is None else json.dumps(one, ensure_ascii=False) for one in values.to_pylist()]
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    found = values.to_pylist()
    if pa.types.is_string(kind):
        return found
    if pa.types.is_boolean(kind):
        return [None if one is None else "true" if one else "false" for one in found]
    if pa.types.is_floating(kind):
        return [None if one is None else repr(one + 0.0) for one in found]
    if pa.types.is_decimal(kind):
        return [None if one is None else format(_WIDE.normalize(_WIDE.add(one, 0)), "f") for one in found]
    return [None if one is None else str(one) for one in found]


def texts_to_values(texts: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """Return the values of a type with these texts; null where a text is none of its values.  O(total length).

    >>> texts_to_values(["5", "alice", None], pa.int64()).to_pylist()
    [5, None, None]
    >>> texts_to_values(['["Account"]', "[]", "alice"], pa.list_(pa.string())).to_pylist()
    [['Account'], [], None]
    """
    if pa.types.is_string(kind):
        return pa.array(texts, pa.string())
    if pa.types.is_list(kind):
        return _lists([_read_or_null(display_list, text) for text in texts], kind)
    if pa.types.is_boolean(kind):
        return pa.array([{"true": True, "false": False}.get(text or "") for text in texts], pa.bool_())
    if pa.types.is_floating(kind):
        return pa.array([_read_or_null(float, text) for text in texts], pa.float64(), from_pandas=False)
    if pa.types.is_decimal(kind):
        numbers = [_read_or_null(Decimal, text) for text in texts]
        fits = [one if one is not None and one.is_finite() and _fits(one, kind) else None for one in numbers]
        return pa.array(fits, kind)
    numbers = _integers(texts)
    if pa.types.is_timestamp(kind):
        numbers = [_time(text, kind.unit) if one is None else one for one, text in zip(numbers, texts, strict=True)]
    return pa.array(numbers, pa.int64()).cast(kind)


def _lists(lists: Sequence[list[Any] | None], kind: pa.DataType) -> pa.Array:
    """Return lists of values as an array of lists of a type."""
    elements = [element for one in lists for element in one or ()]
    of_elements = kind.value_type
    if pa.types.is_list(of_elements):
        values = _lists([one if isinstance(one, list) else None for one in elements], of_elements)
    else:
        values = texts_to_values([_element_text(one) for one in elements], of_elements)
    ends = np.cumsum([0, *(len(one or ()) for one in lists)], dtype=np.int32)
    mask = pa.array([one is None for one in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends), values, mask=mask).cast(kind)


def _element_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, (float, Decimal)) else json.dumps(value, ensure_ascii=False, default=str)


def _time(text: str | None, unit: str) -> int | None:
    """Return a date or a dateTime in a unit since 1970, rounded down, in UTC unless it has a zone; None for other texts."""
    found = None if text is None else _TIME.fullmatch(text)
    if found is None:
        return None
    day, time, part, zone = found.groups(default="")
    try:
        since = datetime.fromisoformat(f"{day}{time}{zone or 'Z'}" if time else f"{day}T00:00:00Z") - _BEGIN
    except ValueError:
        return None
    digits = _DIGITS[unit]
    number = (since.days * 86_400 + since.seconds) * 10**digits + int(part[:digits].ljust(digits, "0") or 0)
    return number if -(2**63) <= number < 2**63 else None


def _integers(texts: Sequence[str | None]) -> list[int | None]:
    """Return the integers of 64 bits with these texts; None where a text is none."""
    integers = [int(text) if text is not None and _INTEGER.fullmatch(text) else None for text in texts]
    return [one if one is not None and -(2**63) <= one < 2**63 else None for one in integers]


def _read_or_null(read: Callable[[str], Any], text: str | None) -> Any:
    try:
        return None if text is None else read(text)
    except (ValueError, ArithmeticError):
        return None


def _fits(number: Decimal, kind: pa.DataType) -> bool:
    try:
        pa.scalar(number, kind)
    except pa.ArrowException:
        return False
    return True


def terms_to_values(
    terms: pa.Array,
    kind: ColumnKind,
    vertex: pa.DataType,
    *,
    value: pa.DataType | None = None,
    times: Callable[[np.ndarray], pa.Array] | None = None,
) -> pa.Array:
    """Convert terms to the values of a column, null for unbound ones.  O(total length).

    `value` is the type of a property, `times` converts timestamps, which are integers without it.
    """
    if kind == "result" and pc.any(pc.ends_with(terms, _OF_LISTS)).as_py():
        return column_values(terms.to_pylist(), value)
    if kind in ("text", "result") and len(terms) > _FEW_TERMS and pa.types.is_string(terms.type):
        from rpq.rows.column_kernels import lexical_forms  # numba, which queries do not need before they run

        forms = lexical_forms(terms)
        if forms is not None:
            return forms if kind == "text" or value is None else texts_to_values(forms.to_pylist(), value)
    if kind == "result":
        return column_values(terms.to_pylist(), value)
    if kind == "value":
        return texts_to_values(terms.to_pylist(), pa.string() if value is None else value)
    if kind == "time":
        integers = texts_to_values(terms.to_pylist(), pa.int64())
        if times is None:
            return integers
        # Static edges have no time, nor have other terms than times.
        found = times(integers.fill_null(0).to_numpy(zero_copy_only=False))
        return found if not integers.null_count else pc.if_else(integers.is_valid(), found, pa.scalar(None, found.type))
    integer_vertices = pa.types.is_int64(vertex)
    if kind == "vertex" and not integer_vertices:
        return terms
    values = values_of_terms(terms.to_pylist(), kind, integer_vertices=integer_vertices)
    return pa.array(values, pa.string() if kind == "text" else pa.int64())


def column_values(terms: Sequence[str | None], kind: pa.DataType | None) -> pa.Array:
    r"""Return the values that literals stand for, and plain texts, in a type; as texts without one.  O(total length).

    Lists are texts in JSON, or lists of Arrow. A term that is none of the values of the type is null.

    >>> terms = ['"[1,{\\"vertex\\":\\"bob\\"}]"^^<urn:x-rpq:list>', '"2024-05-01"^^<http://www.w3.org/2001/XMLSchema#date>']
    >>> column_values(terms, pa.string()).to_pylist()
    ['[1, "bob"]', '2024-05-01']
    >>> column_values(terms[:1], pa.list_(pa.string())).to_pylist(), column_values(terms[1:], pa.timestamp("s"))[0].as_py()
    ([['1', 'bob']], datetime.datetime(2024, 5, 1, 0, 0))
    """
    kind = pa.string() if kind is None else kind
    texts = [None if term is None else lexical_form(term) for term in terms]
    if pa.types.is_string(kind):
        are_lists = [term is not None and term.endswith(_OF_LISTS) for term in terms]
        shown = [display_text(text) if text and one else text for text, one in zip(texts, are_lists, strict=True)]
        return pa.array(shown, pa.string())
    return texts_to_values(texts, kind)


def values_of_terms(terms: Sequence[str | None], kind: ColumnKind, *, integer_vertices: bool) -> Sequence[int | str | None]:
    """Convert terms to the values of a column, None for unbound ones.  O(total length).

    `integer_vertices` says whether the vertices of the stream are.

    >>> values_of_terms(['"3"^^<http://www.w3.org/2001/XMLSchema#integer>', None], "count", integer_vertices=False)
    [3, None]
    """
    if kind == "vertex" and not integer_vertices:
        return terms
    if kind == "count":
        return [None if term is None else _count_of_term(term) for term in terms]
    texts = [None if term is None else lexical_form(term) for term in terms]
    return texts if kind == "text" else _integers(texts)


@lru_cache(maxsize=4096)  # many groups have equal counts
def _count_of_term(term: str) -> int | None:
    """Return the integer of a term; None for others: among the terms may be those of other columns, such as sums."""
    return _integers([lexical_form(term)])[0]
