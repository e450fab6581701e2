"""Roots whose simple paths took more than the budget: the error that tells of one, and how they are read from a state."""

from __future__ import annotations

from collections.abc import Callable

from rpq.errors import ConflictBudgetError
from rpq.files.json_values import Damage, JsonValue
from rpq.queries.query import PatternQuery, Query, Vertex
from rpq.results.changes import SetAside


def budget_error(query: Query, report: SetAside) -> ConflictBudgetError | None:
    """The error that a root's going over its budget is, if the query wants one."""
    if query.on_budget != "error":
        return None
    place = "" if report.row is None else f"at tuple {report.row} of the batch, "
    advice = "" if isinstance(query, PatternQuery) else ', or accept this with on_budget="set_aside"'
    return ConflictBudgetError(
        f"query {report.query!r}: {place}at time {report.timestamp}, the simple paths from {report.root!r} took "
        f"{report.size:,} nodes; the budget is {query.simple_budget:,}. That root is set aside until its "
        f"conflicts have left the window. Raise simple_budget{advice}",
        query=report.query,
        root=report.root,
        row=report.row,
        size=report.size,
        budget=query.simple_budget,
    )


def aside_of(saved: JsonValue, id_of: Callable[[Vertex], int]) -> dict[int, int]:
    """The roots that were set aside, each with the size at which it was. Raises `Damage`."""
    pairs = [pair.tuple_of(2) for pair in saved]
    aside = {root.vertex(): size.whole(0) for root, size in pairs}
    if len(aside) < len(pairs):
        raise Damage("a root is set aside twice")
    found = {id_of(root): size for root, size in aside.items()}
    if min(found, default=0) < 0:
        raise Damage("a root is set aside that is no vertex")
    return found
