"""Other shares, or other queries, for a stream that has begun: its checkpoint goes on where it is.

What sources have given and sinks were given stays as it is. A checkpoint moves in three steps, each of which may be the last
before a machine dies:

1. `rpq.json` says what is asked from now on, and of which queries the state still is.
2. Spark makes the tasks of the state as many as there are shares (`StreamingCheckpointManager.repartition`), in a
   micro-batch without tuples.  A file sink, which wants to know of every micro-batch, is told of that one.
3. The stream starts again.  The driver reads the state of one share, which has the whole window, and shares begin with it in
   the next micro-batch (`rpq.spark.moved_state`); that of before goes in the same one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import rpq
from rpq.files.json_values import Damage, JsonValue
from rpq.queries import kinds
from rpq.spark import hadoop_files, sink_log, stream_identity
from rpq.spark.change_schema import schema_of
from rpq.spark.classic import check_classic
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.kept_for_new import refuse_if_not_kept
from rpq.spark.moved_state import MovedState
from rpq.spark.slots import shares_of
from rpq.spark.unfit_for_streams import refuse_unfit
from rpq.spark.window_log import MemoryChunks, WindowLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rpq.spark.processor import Record

_ALREADY = "STATE_REPARTITION_INVALID_CHECKPOINT.SHUFFLE_PARTITIONS_ALREADY_MATCH"


def rescale(session: SparkSession, checkpoint: str, *queries: rpq.Query, partitions: int | None = None) -> dict[str, Any]:
    """Let a stream go on from its checkpoint with as many shares as `partitions` says, and with `queries` if there are any.

    The stream must not run. Rows go on as if nothing had been: a query that stays gives the rows that it would have given,
    one that goes says nothing more, and one that is new begins, in the first micro-batch that has tuples, with the answers
    over what its window holds, at the stream time before them; one that has changed counts as gone and new. A new query is
    refused whose window would hold edges that the stream did not keep. Whatever source and sink a stream has, their places
    are not touched; it must have named its `checkpoint` (and a file sink its `output`) to `rpq_changes`.

    Returns what there was and is: `shares` and `queries` (names), each (before, now), and `added`. Raises `PipelineError`
    where something does not fit, and where a micro-batch has begun and not ended, which the stream does if it is started as
    it was. O(window × shares).

    >>> import rpq
    >>> from rpq.spark import open_session, rescale
    >>> rescale(open_session(), "state", partitions=5)["shares"]  # doctest: +SKIP
    (2, 5)
    """
    check_classic(session)
    content = stream_identity.read(session, checkpoint)
    if content is None:
        raise PipelineError(
            f"{checkpoint}: has no {stream_identity.FILE}, which says what its rows depend on; rpq_changes writes it where "
            "it is given the checkpoint"
        )
    before = queries_in(content, checkpoint)
    now = in_numbers(queries, content["time_unit"]) if queries else before
    refuse_unfit(now)
    schema_of([*before, *now], content["vertices"])  # one sink has one set of columns
    shares = shares_of(session, partitions) if partitions is not None else int(content["shares"])
    _refuse_unfinished(session, checkpoint)
    records = _records(session, checkpoint)
    following: dict[str, Any] = {**content, "queries": _described(now), "shares": shares}
    if records:
        held = _held(records, content, checkpoint)
        added = _added(now, held.queries)
        refuse_if_not_kept(added, held.queries, time=next(iter(records.values())).time)
        following["before"] = {"identity": held.identity, "queries": _described(held.queries)}
    else:
        if content.get("max_delay") and _latest(session, checkpoint, "commits") is not None:
            raise PipelineError(f"{checkpoint}: all tuples wait for max_delay to pass; let the stream go on until some have")
        added = ()
    stream_identity.replace(session, checkpoint, following)
    if records:
        _repartition(session, checkpoint, shares)
        tell_file_sink(session, checkpoint, following)
    return {
        "shares": (content["shares"], shares),
        "queries": ([query.name for query in before], [query.name for query in now]),
        "added": [query.name for query in added],
    }


class Moving(NamedTuple):
    """A stream that goes on with others than its state is of: what shares begin with, and the keys whose state goes."""

    state: MovedState
    retired: tuple[int, ...]


def moving(
    session: SparkSession,
    checkpoint: str,
    content: Mapping[str, Any],
    queries: Sequence[rpq.Query],
    keys: Sequence[int],
) -> Moving | None:
    """What a stream with these queries, and shares with these keys, has to do to go on; None if that is done, or was never.

    Raises `PipelineError` and `StateFormatError` where the state is not what it should be.
    """
    from rpq.spark.processor import identity_of

    if "before" not in content:
        return None
    tell_file_sink(session, checkpoint, content)
    identity = identity_of(queries, len(keys))
    records = _records(session, checkpoint)
    if all(key in records and records[key].identity == identity for key in keys) and len(records) == len(keys):
        stream_identity.replace(session, checkpoint, {**content, "before": None})
        return None
    held = _held(records, content, checkpoint)
    key, record = next((key, one) for key, one in records.items() if one.identity == held.identity)
    chunks = MemoryChunks()
    for row in _variable(session, checkpoint, "window").where(f"key.partition = {key}").toLocalIterator():
        chunks[row.user_map_key.bucket, row.user_map_key.part] = bytes(row.user_map_value.tuples)
    waiting = []
    if content.get("max_delay"):
        rows = _variable(session, checkpoint, "waiting").where(f"key.partition = {key}").collect()
        waiting = [bytes(row.user_map_value.tuples) for row in sorted(rows, key=lambda row: row.user_map_key.part)]
    log = WindowLog(chunks=chunks, queries=held.queries, parts=record.log_parts(), order=record.order)
    figures = {"version": record.version, "time": record.time, "tuples": record.tuples, "late": record.late}
    state = MovedState.of(log, waiting=waiting, figures=figures, identity=held.identity, added=_added(queries, held.queries))
    return Moving(state, tuple(key for key in records if key not in keys))


def queries_in(content: Mapping[str, Any], checkpoint: str) -> tuple[rpq.Query, ...]:
    """The queries that `rpq.json`, or its part on what was before, has. Raises `PipelineError`."""
    try:
        return tuple(kinds.read(JsonValue(one, f"queries[{name!r}]")) for name, one in content["queries"].items())
    except (Damage, rpq.QueryError, KeyError, AttributeError) as problem:
        raise PipelineError(f"{checkpoint}/{stream_identity.FILE} is damaged: {problem}") from problem


class _Held(NamedTuple):
    """What the state is of."""

    identity: str
    queries: tuple[rpq.Query, ...]


def _held(records: Mapping[int, Record], content: Mapping[str, Any], checkpoint: str) -> _Held:
    """The queries that the state is of: those of before, where these have not moved yet."""
    found = {record.identity for record in records.values()}
    if len(found) != 1:
        raise PipelineError(f"{checkpoint}: the state is of {len(found)} streams, not of one")
    (identity,) = found
    before = content.get("before")
    source = content if before is None or before["identity"] != identity else before
    return _Held(identity, queries_in(source, checkpoint))


def _added(now: Sequence[rpq.Query], before: Sequence[rpq.Query]) -> tuple[rpq.Query, ...]:
    known = _described(before)
    return tuple(query for query in now if known.get(query.name) != _described([query])[query.name])


def _described(queries: Sequence[rpq.Query]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps({query.name: kinds.described(query) for query in queries}, default=str))
    return plain


def _records(session: SparkSession, checkpoint: str) -> dict[int, Record]:
    """The record of each share by its key; none before the first micro-batch has ended."""
    from rpq.spark.processor import checked_record

    if _latest(session, checkpoint, "commits") is None:
        return {}
    rows = _variable(session, checkpoint, "record").collect()
    return {int(row.key.partition): checked_record(tuple(row.value)) for row in rows}


def _variable(session: SparkSession, checkpoint: str, name: str) -> Any:
    return session.read.format("statestore").option("stateVarName", name).load(checkpoint)


def _latest(session: SparkSession, checkpoint: str, log: str) -> int | None:
    """The number of the latest micro-batch in one of the logs of a checkpoint."""
    folder = hadoop_files.inside(checkpoint, log)
    if not hadoop_files.exists(session, folder):
        return None
    return max((int(name) for name in hadoop_files.names_in(session, folder) if name.isdecimal()), default=None)


def _refuse_unfinished(session: SparkSession, checkpoint: str) -> None:
    begun, ended = (_latest(session, checkpoint, log) for log in ("offsets", "commits"))
    if begun != ended:
        raise PipelineError(
            f"{checkpoint}: micro-batch {begun} has begun and not ended; start the stream once more as it was, which ends it"
        )


def _repartition(session: SparkSession, checkpoint: str, shares: int) -> None:
    """Make the tasks of the state as many as there are shares."""
    from pyspark.errors import PySparkException

    try:
        session._streamingCheckpointManager.repartition(checkpoint, shares)
    except PySparkException as error:
        if error.getCondition() != _ALREADY:
            raise


def tell_file_sink(session: SparkSession, checkpoint: str, content: Mapping[str, Any]) -> None:
    """Tell a file sink of micro-batches that it was given no rows of: it takes its log for damaged where one is missing."""
    output, latest = content.get("output"), _latest(session, checkpoint, "commits")
    if output is None or latest is None:
        return
    if not hadoop_files.exists(session, hadoop_files.inside(output, sink_log.FOLDER)):
        return
    log = sink_log.SinkLog(session, output)
    for number in range(log.latest + 1, latest + 1):
        log.add(number)
