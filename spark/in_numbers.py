"""Windows in durations, where an engine will see timestamps as numbers of one unit."""

from __future__ import annotations

from collections.abc import Sequence

import rpq
from rpq.spark.errors import PipelineError


def in_numbers(queries: Sequence[rpq.Query], unit: str | None) -> tuple[rpq.Query, ...]:
    """The queries with windows in the unit of the timestamps, which is None where these are plain numbers."""
    for query in queries:
        if query.window.kind != "time":
            raise PipelineError(
                f"query {query.name!r} is asked over {query.window}: partitions divide a window of time, "
                "rpq.Window(size=…, slide=…); an engine takes the others"
            )
        if unit is None and query.window.unit is not None:
            raise PipelineError(
                f"the window of query {query.name!r} is in durations ({query.window}), but timestamps are plain numbers: "
                "give the window in these numbers, or timestamps as timestamps"
            )
    return tuple(query.over(query.window.in_unit(unit or "ns")) for query in queries)
