"""Windows in durations, where an engine will see timestamps as numbers of one unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rpq
from rpq.queries.readings import readings_of
from rpq.spark.errors import PipelineError


def in_numbers(queries: Sequence[rpq.Query], unit: str | None) -> tuple[rpq.Query, ...]:
    """The queries with windows in the unit of the timestamps, which is None where these are plain numbers.

    Raises `PipelineError` for windows that are not of time, durations over plain numbers, and streams by name.
    """
    for query in queries:
        for reading in readings_of(query):
            _refuse_if_unfit(query.name, reading.window, unit)
            if reading.stream is not None:
                raise PipelineError(
                    f"query {query.name!r} reads the stream {reading.stream!r} alone, and tuples on Spark come without the "
                    "name of a stream: leave out ON, or tell streams apart by their labels"
                )
    return tuple(_in_unit(query, unit or "ns") for query in queries)


def _refuse_if_unfit(name: str, window: Any, unit: str | None) -> None:
    if window.kind != "time":
        raise PipelineError(
            f"query {name!r} is asked over {window}: partitions divide a window of time, "
            "rpq.Window(size=…, slide=…); an engine takes the others"
        )
    if unit is None and window.unit is not None:
        raise PipelineError(
            f"the window of query {name!r} is in durations ({window}), but timestamps are plain numbers: "
            "give the window in these numbers, or timestamps as timestamps"
        )


def _in_unit(query: Any, unit: str) -> rpq.Query:
    """The query; one that declares windows of its own has them all in the unit."""
    changed: rpq.Query = query.in_unit(unit) if hasattr(query, "readings") else query.over(query.window.in_unit(unit))
    return changed
