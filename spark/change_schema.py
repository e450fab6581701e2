"""The columns of answer changes as Spark knows them."""

from __future__ import annotations

from collections.abc import Sequence

import rpq
from rpq.results.typed_columns import kinds_of
from rpq.spark.errors import PipelineError


def schema_of(queries: Sequence[rpq.Query], vertex: str) -> str:
    """The columns of the rows of these queries, in Spark's words; vertices are of type `vertex`, other values of theirs.

    Raises `PipelineError` where they have different columns: one data frame has one schema.

    >>> schema_of([rpq.Query("a", window=rpq.Window(size=1, slide=1))], "bigint")
    'query string, source bigint, target bigint, timestamp bigint, op string'
    """
    different = {query.columns: query.name for query in queries}
    if len(different) > 1:
        told = "; ".join(f"{name!r} has {', '.join(columns)}" for columns, name in different.items())
        raise PipelineError(f"the queries have different columns: {told}; run those with the same columns together")
    (columns,) = different
    types = {"vertex": vertex, "count": "bigint", "text": "string"}
    typed = [(name, types[kind]) for name, kind in zip(columns, kinds_of(columns), strict=True)]
    return ", ".join(
        [
            "query string",
            *(f"{name} {kind}" if name.isidentifier() else f"`{name}` {kind}" for name, kind in typed),
            "timestamp bigint",
            "op string",
        ]
    )
