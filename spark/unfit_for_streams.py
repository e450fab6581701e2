"""Queries that a stream on Spark cannot answer, because its state does not have what they need."""

from __future__ import annotations

from collections.abc import Sequence

import rpq
from rpq.spark.errors import PipelineError


def refuse_unfit(queries: Sequence[rpq.Query]) -> None:
    """Raise `PipelineError` for no query, two of one name, and what needs more than the window to go on."""
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    names = [query.name for query in queries]
    if len(set(names)) < len(names):
        raise PipelineError(f"two queries have the same name: {', '.join(names)}; give them different ones")
    if any(query.paths == "simple" and query.on_budget == "set_aside" for query in queries):
        raise PipelineError(
            "on_budget is 'set_aside': a worker that rebuilds its index from the window does not know which roots were; "
            "leave it at 'error', with a larger simple_budget"
        )
    for query in queries:
        if (report := getattr(query, "report", "change")) != "change":
            raise PipelineError(
                f"query {query.name!r}: report={report!r} does not run on a stream of Spark, whose state does not have the "
                "report before; leave it at 'change'"
            )
