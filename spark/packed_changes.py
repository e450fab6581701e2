"""The plan of a stream: edges in envelopes, once for each share, to the stateful processor, which gives packed rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import rpq
from rpq.spark import envelopes, hadoop_files, packed_rows, stream_identity
from rpq.spark.carried import carried
from rpq.spark.classic import check_classic
from rpq.spark.edge_columns import edge_columns, names_given, without_bad
from rpq.spark.envelopes import Packer
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.packed_rows import AsFiles, AsStreams
from rpq.spark.partitions import partition_keys
from rpq.spark.rescaling import Moving, moving
from rpq.spark.slots import shares_of, task_threads, warn_of_shuffle_partitions
from rpq.spark.spark_session import STATE_STORE, STATE_STORE_KEY
from rpq.spark.stream_counts import observed
from rpq.spark.unfit_for_streams import refuse_unfit
from rpq.stream.durations import NANOSECONDS, DurationError, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PackedChanges(NamedTuple):
    """Answer changes as `rpq.spark.packed_rows` packs them."""

    rows: DataFrame
    vertex: str
    """The type of vertices."""
    is_time: bool
    """Whether timestamps, which are numbers here unless they are in files, were times."""


def packed_changes(
    edges: DataFrame,
    queries: Sequence[rpq.Query],
    *,
    partitions: int | None,
    sequence: str | None,
    time_unit: str,
    on_error: str,
    memory_limit: int | None,
    checkpoint: str | None,
    output: str | None,
    counts: str | None,
    max_delay: int | str,
    columns: str | None,
    label: str | None,
    as_files: bool,
) -> PackedChanges:
    """The plan; options are those of `rpq.spark.rpq_changes`, and `as_files` packs rows as the contents of files."""
    from rpq.spark.processor import AnswerChanges

    session = edges.sparkSession
    check_classic(session)
    refuse_unfit(queries)
    if on_error not in ("stop", "skip"):
        raise PipelineError(f"on_error is {on_error!r}; expected stop or skip")
    if session.conf.get(STATE_STORE_KEY, "") != STATE_STORE:
        raise PipelineError(
            f"the state needs RocksDB; set it with spark.conf.set({STATE_STORE_KEY!r}, {STATE_STORE!r}) "
            "or take the session of rpq.spark.open_session()"
        )
    shares = shares_of(session, partitions)
    names = names_given(columns, label)
    tuples, kind, is_time = edge_columns(edges, sequence=sequence, time_unit=time_unit, names=names)
    if on_error == "skip":
        tuples = without_bad(tuples)
    keys = partition_keys(shares)
    known = in_numbers(queries, time_unit if is_time else None)
    delay = _delay(max_delay, time_unit if is_time else None)
    moved: Moving | None = None
    if checkpoint is not None:
        about = stream_identity.described(
            known,
            shares=shares,
            vertices=kind,
            time_unit=time_unit if is_time else None,
            sequence=sequence,
            on_error=on_error,
            max_delay=delay,
            columns=None if names is None else {"label constant": label, **dict(sorted(names.renamed))},
            output=None if output is None else hadoop_files.qualified(session, output),
        )
        content = stream_identity.begin(session, checkpoint, about)
        moved = None if content is None else moving(session, checkpoint, content, known, keys)
    warn_of_shuffle_partitions(session, shares)
    microseconds = NANOSECONDS[time_unit] // NANOSECONDS["us"] if is_time else None
    processor = AnswerChanges(
        known,
        numbers={key: number for number, key in enumerate(keys)},
        threads=task_threads(session),
        memory_limit=memory_limit,
        counts=counts is not None,
        max_delay=delay,
        moved=None if moved is None else carried(session, moved.state),
        packing=AsFiles(microseconds=microseconds) if as_files else AsStreams(),
    )
    every = keys if moved is None else [*keys, *moved.retired]
    # What nobody reads tells the time at which it is applied, which is not known yet where it is to wait.
    packer = Packer(None if delay else known)
    packed = (
        _replicated(tuples.mapInArrow(packer, envelopes.SCHEMA), every)
        .groupBy("partition")
        .transformWithStateInPandas(
            processor,
            outputStructType=packed_rows.SCHEMA,
            outputMode="Append",
            timeMode="None",
        )
    )
    return PackedChanges(packed if counts is None else observed(packed, counts), kind, is_time)


def _replicated(packed: DataFrame, keys: list[int]) -> DataFrame:
    """Every envelope once for each partition."""
    from pyspark.sql import functions as sql

    every = sql.array(*[sql.lit(key).cast("int") for key in keys])
    return packed.select(sql.explode(every).alias("partition"), "edges")


def _delay(given: int | str, unit: str | None) -> int:
    """A delay in the integers of timestamps, which have a unit or are plain numbers."""
    try:
        delay = parse_duration(given, unit=unit) if isinstance(given, str) else operator.index(given)
    except (DurationError, TypeError) as error:
        raise PipelineError(f"max_delay is {given!r}: {error}") from error
    if delay < 0:
        raise PipelineError(f"max_delay is {given!r}; expected 0 or more")
    return delay
