"""Whether a stream has kept all edges that the windows of new queries would hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rpq
from rpq.queries.readings import readings_of
from rpq.spark.errors import PipelineError


def refuse_if_not_kept(added: Sequence[rpq.Query], before: Sequence[rpq.Query], *, time: int) -> None:
    """Raise `PipelineError` if a window of an added query would hold edges that the queries before it did not keep.

    Of edges that nobody reads a stream on Spark keeps nothing, not even when they came; so a label must have been read, over
    a window that reaches as far back.
    """
    kept = [reading for query in before for reading in readings_of(query)]
    for query in added:
        for reading in readings_of(query):
            bound = _lower_bound(reading, time)
            for label in _labels([*kept, reading]):
                if not reading.labels.has(label):
                    continue
                readers = [one for one in kept if one.labels.has(label)]
                if not readers:
                    raise _refusal(query, f"edges that no query has read ({_said(label, kept, reading)})")
                if min(_lower_bound(one, time) for one in readers) > bound:
                    longest = min(readers, key=lambda one: _lower_bound(one, time))
                    raise _refusal(
                        query,
                        f"edges from {bound + 1} on ({_said(label, kept, reading)}), and the stream, which reads them over "
                        f"{longest.window}, has them from {_lower_bound(longest, time) + 1} on",
                    )


def _lower_bound(reading: Any, time: int) -> int:
    """Edges with later timestamps are in the window of a reading: all are, where that has no bounds."""
    window = reading.window
    return -(2**63) if isinstance(window, rpq.UnboundedWindow) else int(window.lower_bound(time))


def _labels(readings: Sequence[Any]) -> list[str]:
    """All labels that are named, and one that is not."""
    named = {label for reading in readings for label in reading.labels.named}
    return [*sorted(named), _other(named)]


def _other(named: set[str]) -> str:
    return max(named, default="") + "?"


def _said(label: str, kept: Sequence[Any], reading: Any) -> str:
    named = {one for each in (*kept, reading) for one in each.labels.named}
    return f"label {label!r}" if label in named else "labels that nobody names"


def _refusal(query: rpq.Query, why: str) -> PipelineError:
    return PipelineError(
        f"query {query.name!r} cannot begin here: its window would hold {why}. "
        "Begin another stream for it, which reads the data again"
    )
