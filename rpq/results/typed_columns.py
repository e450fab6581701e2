"""Columns whose values are not all vertices: terms of a query, shown as what they are.

The rows of a query in SPARQL have vertices as the stream has them, counts as integers, and other computed values as text:
the lexical form of a literal. Until they are shown they are terms: IRIs as they are, literals in N-Triples form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, Self

import numpy as np
import pyarrow as pa

ColumnKind = Literal["vertex", "count", "text"]
"""Vertices have the type of the input, counts are integers, text is the lexical form of what was computed."""

Texts = Callable[[np.ndarray], list[str | None]]
"""Gives the terms of ids; None for one that is unbound."""

_OF_TERMS = {b"holds": b"terms"}
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_NUMBER = re.compile(r"-?[0-9]+")


class TypedColumns(tuple[str, ...]):
    """The names of columns, which have `kinds`: two with the same names and other kinds are not equal.

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
    """The kinds of columns: vertices, where none are given."""
    if isinstance(columns, TypedColumns):
        return columns.kinds
    vertex: ColumnKind = "vertex"
    return (vertex,) * len(columns)


def field_of(name: str, kind: ColumnKind, vertex: pa.DataType, *, terms: bool) -> pa.Field:
    """The Arrow field of a column, where vertices have this type and what was computed stays a term or does not."""
    if kind == "text":
        return pa.field(name, pa.string(), metadata=_OF_TERMS if terms else None)
    return pa.field(name, vertex if kind == "vertex" else pa.int64())


def holds_terms(field: pa.Field) -> bool:
    """Whether a column has what was computed as terms."""
    return bool(field.metadata) and field.metadata == _OF_TERMS


def without_terms(rows: pa.Table) -> pa.Table:
    """A table whose terms are texts, their lexical forms. O(rows)."""
    for place, field in enumerate(rows.schema):
        if holds_terms(field):
            texts = [None if term is None else lexical(term) for term in rows.column(place).to_pylist()]
            rows = rows.set_column(place, pa.field(field.name, pa.string()), pa.array(texts, pa.string()))
    return rows


def terms_to_values(terms: pa.Array, kind: ColumnKind, vertex: pa.DataType) -> pa.Array:
    """Terms as the values of a column, null for those that are unbound. O(total length)."""
    if kind == "vertex" and not pa.types.is_int64(vertex):
        return terms
    texts = terms.to_pylist()
    if kind == "text":
        return pa.array([None if text is None else lexical(text) for text in texts], pa.string())
    numbers = [None if text is None else lexical(text) for text in texts]
    return pa.array([int(one) if one is not None and _NUMBER.fullmatch(one) else None for one in numbers], pa.int64())


def lexical(term: str) -> str:
    r"""What a term says: of a literal what stands between the quotes, any other as it is.

    >>> lexical('"30"^^<http://www.w3.org/2001/XMLSchema#integer>'), lexical("bob")
    ('30', 'bob')
    """
    if not term.startswith('"'):
        return term
    found = _LITERAL.fullmatch(term)
    if found is None:
        return term
    return _ESCAPE.sub(_character, found[1]) if "\\" in found[1] else found[1]


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code is None:
        return _ESCAPES.get(escape[3], escape[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else escape[0]
