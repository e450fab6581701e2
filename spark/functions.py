"""Functions for programs that use data frames and SQL: a step of `DataFrame.transform`, and a table function.

This module imports batch jobs and streams, and neither imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import rpq
from rpq.spark.batch.replay import replay
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_version
from rpq.spark.stream.plan import ChangesOptions, rpq_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OF_STREAMS = {"checkpoint": None, "output": None, "max_delay": 0, "on_error": "stop"}
"""Options that only streams have, and their defaults."""
_OF_BOTH = ("partitions", "sequence", "time_unit", "memory_limit", "columns", "label", "sizes", "edges_from")


def changes(
    *queries: rpq.Query, nodes: DataFrame | None = None, **options: Unpack[ChangesOptions]
) -> Callable[[DataFrame], DataFrame]:
    """Return a step for `DataFrame.transform` that turns edges into the answer changes of `queries`.

    The options are those of `rpq_changes`, which evaluates a streaming data frame.  Other data frames are replayed, as by
    `replay`; for them `counts` has no effect, and `checkpoint`, `output`, `max_delay` and `on_error="skip"` are refused.
    `nodes` are records of nodes, for a replay alone.  The step raises `PipelineError` for unsuitable columns or options when
    it is applied.

    >>> import rpq
    >>> from rpq.spark import changes, open_session
    >>> query = rpq.Query("a2q/c2a*", window=rpq.Window(size="30d", slide="1d"))
    >>> edges = open_session().table("edges")  # doctest: +SKIP
    >>> edges.where("score > 0").transform(changes(query)).groupBy("source").count()  # doctest: +SKIP
    """

    def apply(edges: DataFrame) -> DataFrame:
        if edges.isStreaming and nodes is not None:
            raise PipelineError("nodes: streams on Spark have no records of nodes; replay a table with them")
        if edges.isStreaming:
            return rpq_changes(edges, *queries, **options)
        for name, default in _OF_STREAMS.items():
            if options.get(name, default) != default:
                raise PipelineError(f"{name} is an option of streams, but other edges are replayed: leave it out")
        shared: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_BOTH}
        return replay(edges.sparkSession, edges, *queries, edges=options.get("identity", "triple"), nodes=nodes, **shared)

    return apply


def register_functions(session: SparkSession) -> None:
    """Register the table function `rpq_changes` of SQL, which replays a query over a table.

    Its arguments are a table, the text of a query in any notation, and the size and the slide of its window: texts such as
    '30d', numbers in the unit of the timestamps, or intervals; SPARQL may declare its windows.  All further arguments are
    named.  Those about the table are `sequence`, `time_unit`, `memory_limit`, `columns`, `label` and `identity`, as for
    `rpq_changes`; those about the query are the options of `rpq.Query`, such as `sources => array('ann')`,
    `semantics => 'explicit'`, `select => array('x', 'z')` and `language => 'cypher'`.  The columns of the result are those
    of `replay`.

    One task sorts and reads the whole table, at 40 µs a row; `replay` and `changes` divide the work, and are faster.

    >>> from rpq.spark import open_session, register_functions
    >>> session = open_session()  # doctest: +SKIP
    >>> register_functions(session)  # doctest: +SKIP
    >>> session.sql("SELECT * FROM rpq_changes(TABLE(edges), 'a2q/c2a*', '30d', '1d')").show()  # doctest: +SKIP
    """
    check_version()
    from pyspark.sql.functions import udtf

    from rpq.spark.batch.table_function import RpqChanges

    function: Any = udtf(RpqChanges)
    session.udtf.register("rpq_changes", function)
