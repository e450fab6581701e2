"""The columns over which the filter of a pattern is evaluated, by the predicates of `rpq.language.predicate`."""

from __future__ import annotations

from collections.abc import Callable

from rpq.language.edge_variables import Filter, Value
from rpq.language.predicate import ColumnKind


def filter_kinds(
    filter: Filter, kind_of: Callable[[Value], ColumnKind], *, vertex: str = "untyped"
) -> dict[str, ColumnKind]:
    """Return the columns of a filter.

    `kind_of` returns those of properties and timestamps, `vertex` is the kind of vertices.
    """
    kinds = {
        value.column: ColumnKind(key=value.column, kind=vertex) if value.kind == "vertex" else kind_of(value)
        for value in filter.values
    }
    return kinds | {same.column: ColumnKind(key=same.column, kind="boolean") for same in filter.same}
