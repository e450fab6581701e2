"""Columns of queries in SPARQL, whose values are vertices, counts, or other computed values.

Vertices have the type of the stream, counts are integers, and other computed values are texts: the lexical form of a
literal.  Internally all of them are terms: IRIs as they are, literals in N-Triples form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from rpq.automata.symbols import lexical_form

ColumnKind = Literal["vertex", "count", "text"]
"""Vertices have the type of the input, counts are integers, text is the lexical form of a computed value."""

Texts = Callable[[np.ndarray], list[str | None]]
"""A function that returns the terms of ids, None for unbound ones."""

_OF_TERMS = {b"holds": b"terms"}
_NUMBER = re.compile(r"-?[0-9]+")


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


def kinds_of(columns: Sequence[str]) -> tuple[ColumnKind, ...]:
    """Return the kinds of columns; untyped ones are vertices."""
    if isinstance(columns, TypedColumns):
        return columns.kinds
    vertex: ColumnKind = "vertex"
    return (vertex,) * len(columns)


def field_of(name: str, kind: ColumnKind, vertex: pa.DataType, *, terms: bool) -> pa.Field:
    """Return the Arrow field of a column, for vertices of this type, and with computed values as terms or texts."""
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


def terms_to_values(terms: pa.Array, kind: ColumnKind, vertex: pa.DataType) -> pa.Array:
    """Convert terms to the values of a column, null for unbound ones.  O(total length)."""
    integer_vertices = pa.types.is_int64(vertex)
    if kind == "vertex" and not integer_vertices:
        return terms
    values = values_of_terms(terms.to_pylist(), kind, integer_vertices=integer_vertices)
    return pa.array(values, pa.string() if kind == "text" else pa.int64())


def values_of_terms(
    terms: Sequence[str | None], kind: ColumnKind, *, integer_vertices: bool
) -> Sequence[int | str | None]:
    """Convert terms to the values of a column, None for unbound ones.  O(total length).

    `integer_vertices` says whether the vertices of the stream are.

    >>> values_of_terms(['"3"^^<http://www.w3.org/2001/XMLSchema#integer>', None], "count", integer_vertices=False)
    [3, None]
    """
    if kind == "vertex" and not integer_vertices:
        return terms
    texts = [None if term is None else lexical_form(term) for term in terms]
    if kind == "text":
        return texts
    return [int(text) if text is not None and _NUMBER.fullmatch(text) else None for text in texts]
