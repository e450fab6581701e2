"""A change of the shares or the queries of an existing stream, which continues from its checkpoint.

The positions of sources and sinks do not change.  A checkpoint moves in three steps, and a machine may fail after any of
them:

1. `rpq.json` records the new queries and shares, and the queries that the state still belongs to.
2. Spark changes the number of tasks of the state to that of the shares (`StreamingCheckpointManager.repartition`), in a
   micro-batch without tuples.  This micro-batch is added to the log of a file sink, which must contain every micro-batch.
3. The stream starts again.  The driver merges the windows in the states of the shares, and all shares begin with their
   edges of it in the next micro-batch (`rpq.spark.stream.window_log.MovedState`), which also removes the former state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import rpq
from rpq.language import kinds
from rpq.spark.columns import TRIPLES, EdgeModel, property_names, queries_in_unit, row_schema
from rpq.spark.division import check_sizes
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.session import share_count
from rpq.spark.stream import stream_identity
from rpq.spark.stream.stream_identity import check_missing_edges, check_supported
from rpq.spark.stream.window_log import MemoryChunks, MovedState, WindowLog
from rpq.stream.arrays.fields import EDGE
from rpq.stream.json_values import Damage, JsonValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rpq.spark.stream.processor import PartitionRecord

_REPARTITION_SPARK = "4.2"
SINK_LOG = "_spark_metadata"
"""The folder in an output in which Spark's file sink has its log."""

_ALREADY = "STATE_REPARTITION_INVALID_CHECKPOINT.SHUFFLE_PARTITIONS_ALREADY_MATCH"


def rescale(
    session: SparkSession,
    checkpoint: str,
    *queries: rpq.Query,
    partitions: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Change an existing stream to `partitions` shares, if given, and to `queries`, if there are any.

    `sizes` are the numbers of edges by label by which patterns are divided from now on, by default the previous numbers.

    The stream must not be running.  Rows continue as if nothing had happened: a query that stays gives the same rows as
    without the change, and a query that is left out gives no more rows.  A new query begins, in the first micro-batch that
    has tuples, with the answers over the edges in its window at the stream time before these tuples.  A changed query counts
    as left out and new.  A new query is refused if its window would contain edges that the stream did not keep.  The
    positions of the source and the sink do not change.  The stream must have passed its `checkpoint` (and, with a file sink,
    its `output`) to `rpq_changes`.

    Returns `shares` and `queries` (names), each as (before, now), the `sizes` from now on, and `added`.  Another number of
    shares needs Spark 4.2 or newer; queries and sizes can be changed on every Spark.  Raises `PipelineError` for unsuitable
    queries or checkpoints, and if a micro-batch has begun but not ended; to end it, start the stream once more unchanged.
    O(window × shares).

    >>> import rpq
    >>> from rpq.spark import open_session, rescale
    >>> rescale(open_session(), "state", partitions=5)["shares"]  # doctest: +SKIP
    (2, 5)
    """
    if queries:
        check_supported(queries, "id")  # before the checkpoint is read, which has the identity of edges
    check_classic(session, "rescale")
    content = stream_identity.read(session, checkpoint)
    if content is None:
        raise PipelineError(
            f"{checkpoint}: has no {stream_identity.FILE}, which records the queries and options of the stream; rpq_changes "
            "writes this file if it has the argument checkpoint"
        )
    identity, types = content["edges"], content["properties"]
    if queries:
        check_supported(queries, identity)
    before = parse_queries(content, checkpoint)
    now = queries_in_unit(queries, content["time_unit"]) if queries else before
    if unread := [name for name in property_names(now) if name not in types]:
        raise PipelineError(
            f"a query reads {', '.join(unread)}, and no query has read such properties of edges. Start a new stream for "
            "this query, which reads the data again"
        )
    # Refuses other columns: all rows of a sink have the same columns.
    row_schema([*before, *now], content["vertices"], types, is_time=content["is_time"])
    shares = share_count(session, partitions) if partitions is not None else int(content["shares"])
    if shares != content["shares"] and not _can_repartition(session):
        raise PipelineError(
            f"another number of shares needs Spark {_REPARTITION_SPARK} or newer, and this is Spark {session.version}: "
            "leave out partitions (--partitions), or continue the stream on a newer Spark first"
        )
    _check_finished(session, checkpoint)
    records = _records(session, checkpoint)
    following: dict[str, Any] = {**content, "queries": _query_json(now), "shares": shares}
    following["sizes"] = content["sizes"] if sizes is None else check_sizes(sizes)
    following["division"] = stream_identity.division_of(now, shares, following["sizes"])
    if types:
        read = {*property_names(now), *([EDGE] if identity == "id" else [])}
        following["properties"] = {name: kind for name, kind in types.items() if name in read}
    if records:
        former = _state_queries(records, content, checkpoint)
        added = _new_queries(now, former.queries)
        check_missing_edges(added, former.queries, time=next(iter(records.values())).time)
        following["before"] = {"identity": former.identity, "queries": _query_json(former.queries)}
    else:
        if content["max_delay"] and _latest(session, checkpoint, "commits") is not None:
            raise PipelineError(f"{checkpoint}: all tuples wait for max_delay; run the stream until some have been applied")
        added = ()
    stream_identity.replace(session, checkpoint, following)
    if records:
        _repartition(session, checkpoint, shares)
        complete_sink_log(session, checkpoint, following)
    return {
        "shares": (content["shares"], shares),
        "queries": ([query.name for query in before], [query.name for query in now]),
        "sizes": following["sizes"],
        "added": [query.name for query in added],
    }


class Move(NamedTuple):
    """The move of a stream to other shares or queries: the initial state of shares, and the keys whose state is removed."""

    state: MovedState
    retired_keys: tuple[int, ...]


def plan_move(
    session: SparkSession,
    checkpoint: str,
    content: Mapping[str, Any],
    queries: Sequence[rpq.Query],
    keys: Sequence[int],
    model: EdgeModel = TRIPLES,
) -> Move | None:
    """Return the move that is pending for a stream with these queries, keys and edges, or None if no move is pending.

    Raises `PipelineError` if the state is not that of one stream, and `StateFormatError` if it is damaged.
    """
    from rpq.spark.stream.processor import state_identity

    if "before" not in content:
        return None
    complete_sink_log(session, checkpoint, content)
    identity = state_identity(queries, len(keys), model.identity, content["sizes"])
    records = _records(session, checkpoint)
    has_moved = all(key in records and records[key].identity == identity for key in keys) and len(records) == len(keys)
    if has_moved or not records:
        stream_identity.replace(session, checkpoint, {**content, "before": None})
        return None
    former = _state_queries(records, content, checkpoint)
    of_former = {key: one for key, one in records.items() if one.identity == former.identity}
    key, record = next(iter(of_former.items()))
    columns = (*property_names(former.queries), *([EDGE] if model.has_ids else []))
    logs = []
    for one, its_record in of_former.items():
        chunks = MemoryChunks()
        for row in _read_state(session, checkpoint, "window").where(f"key.partition = {one}").toLocalIterator():
            chunks[row.user_map_key.bucket, row.user_map_key.part] = bytes(row.user_map_value.tuples)
        logs.append(
            WindowLog(
                chunks=chunks,
                queries=former.queries,
                model=replace(model, columns=columns),
                parts=its_record.log_parts(),
                order=its_record.order,
            )
        )
    waiting = []
    if content["max_delay"]:
        rows = _read_state(session, checkpoint, "waiting").where(f"key.partition = {key}").collect()
        waiting = [bytes(row.user_map_value.tuples) for row in sorted(rows, key=lambda row: row.user_map_key.part)]
    figures = {"version": record.version, "time": record.time, "tuples": record.tuples, "late": record.late}
    state = MovedState.from_logs(
        logs, waiting=waiting, figures=figures, identity=former.identity, added=_new_queries(queries, former.queries)
    )
    return Move(state, tuple(key for key in records if key not in keys))


def parse_queries(content: Mapping[str, Any], checkpoint: str) -> tuple[rpq.Query, ...]:
    """Return the queries in `rpq.json`, or in its part "before".  Raises `PipelineError` if they are damaged."""
    try:
        return tuple(kinds.read_query(JsonValue(one, f"queries[{name!r}]")) for name, one in content["queries"].items())
    except (Damage, rpq.QueryError, KeyError, AttributeError) as problem:
        raise PipelineError(f"{checkpoint}/{stream_identity.FILE} is damaged: {problem}") from problem


class _StateQueries(NamedTuple):
    """The queries that the state belongs to, and their identity (`rpq.spark.stream.processor.state_identity`)."""

    identity: str
    queries: tuple[rpq.Query, ...]


def _state_queries(records: Mapping[int, PartitionRecord], content: Mapping[str, Any], checkpoint: str) -> _StateQueries:
    """Return the queries that the state belongs to: the former queries, if the stream has not moved yet."""
    found = {record.identity for record in records.values()}
    if len(found) != 1:
        raise PipelineError(f"{checkpoint}: the state is of {len(found)} streams, not of one")
    (identity,) = found
    before = content.get("before")
    source = content if before is None or before["identity"] != identity else before
    return _StateQueries(identity, parse_queries(source, checkpoint))


def _new_queries(now: Sequence[rpq.Query], before: Sequence[rpq.Query]) -> tuple[rpq.Query, ...]:
    earlier = _query_json(before)
    return tuple(query for query in now if earlier.get(query.name) != _query_json([query])[query.name])


def _query_json(queries: Sequence[rpq.Query]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps({query.name: kinds.query_json(query) for query in queries}, default=str))
    return plain


def _records(session: SparkSession, checkpoint: str) -> dict[int, PartitionRecord]:
    """Return the record of each share by its key; the dictionary is empty before the first micro-batch has ended."""
    from rpq.spark.stream.processor import validate_record

    if _latest(session, checkpoint, "commits") is None:
        return {}
    rows = _read_state(session, checkpoint, "record").collect()
    return {int(row.key.partition): validate_record(tuple(row.value)) for row in rows}


def _read_state(session: SparkSession, checkpoint: str, name: str) -> Any:
    return session.read.format("statestore").option("stateVarName", name).load(checkpoint)


def _latest(session: SparkSession, checkpoint: str, log: str) -> int | None:
    """Return the number of the latest micro-batch in one of the logs of a checkpoint, or None."""
    folder = hadoop_files.join(checkpoint, log)
    if not hadoop_files.exists(session, folder):
        return None
    return max((int(name) for name in hadoop_files.list_names(session, folder) if name.isdecimal()), default=None)


def _check_finished(session: SparkSession, checkpoint: str) -> None:
    begun, ended = (_latest(session, checkpoint, log) for log in ("offsets", "commits"))
    if begun != ended:
        raise PipelineError(
            f"{checkpoint}: micro-batch {begun} has begun but not ended; to end it, start the stream once more unchanged"
        )


def _can_repartition(session: SparkSession) -> bool:
    """Return whether this Spark can change the number of tasks of a state."""
    return hasattr(session, "_streamingCheckpointManager")


def _repartition(session: SparkSession, checkpoint: str, shares: int) -> None:
    """Change the number of tasks of the state to the number of shares."""
    from pyspark.errors import PySparkException

    if not _can_repartition(session):
        return  # the shares are the same
    try:
        session._streamingCheckpointManager.repartition(checkpoint, shares)
    except PySparkException as error:
        if error.getCondition() != _ALREADY:
            raise


def complete_sink_log(session: SparkSession, checkpoint: str, content: Mapping[str, Any]) -> None:
    """Add the micro-batches without rows to the log of a file sink, which would be damaged if it lacked one."""
    output, latest = content["output"], _latest(session, checkpoint, "commits")
    if output is None or latest is None:
        return
    folder = hadoop_files.join(output, SINK_LOG)
    if not hadoop_files.exists(session, folder):
        return
    java: Any = session._jvm
    gateway: Any = session.sparkContext._gateway
    sinks = java.org.apache.spark.sql.execution.streaming.sinks
    log = sinks.FileStreamSinkLog(1, session._jsparkSession, folder, java.scala.Option.empty())
    known = log.getLatestBatchId()
    for number in range(int(known.get()) + 1 if known.isDefined() else 0, latest + 1):
        log.add(number, gateway.new_array(sinks.SinkFileStatus, 0))
