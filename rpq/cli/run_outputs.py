"""The outputs of a run: a sink for the rows of a single query or for each output of a file of queries, and late tuples.

Here sinks (`rpq.Sink`) become the output of a run (`RunOutput`): `SinkOutputs` cuts them back to a checkpoint, and
`CommittedOutputs` makes their rows final together with the position of the input.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np
import pyarrow as pa

from rpq.cli.checkpoint import differences
from rpq.cli.installed_sinks import InstalledSink, guarantee_of
from rpq.cli.options import is_local, output_key, shown_output
from rpq.cli.outputs.formats import (
    N_QUADS_ENDINGS,
    QUAD,
    RDF_ENDINGS,
    SinkError,
    check_edges,
    check_suffix,
)
from rpq.cli.outputs.sinks import QUERY_COLUMN, LateFile, RowSink, columns_of, open_sink
from rpq.cli.request import COMMAND, RunRequest, RunSettings
from rpq.errors import InputError
from rpq.kafka.topic_names import is_topic, one_topic
from rpq.language.query_file import QueryEntry
from rpq.rows.table_formats import MESSAGE, MessageTemplate
from rpq.rows.typed_columns import WITNESS_COLUMNS, without_terms
from rpq.run.loop import OutputError, RunOutput, SliceSource
from rpq.run.outbox import Batch, Outbox, Sending
from rpq.run.table_names import MAX_BYTES, is_table
from rpq.stream.sinks import SINK_GUARANTEES, Sink, SinkGuarantee, is_sink, is_webhook

if TYPE_CHECKING:
    from rpq.kafka.row_outputs import RowMessages
    from rpq.language.query import Query
    from rpq.rows.changes import Changes
    from rpq.run.table_output import TableSink


class QueryOutputs:
    """An output that divides rows among sinks by their queries; it `wants_terms` if one of the sinks does.

    `destinations` has the key in `sinks` for each query with an output; the rows of other queries are dropped.  A sink that
    queries share gets their rows in time order.  The position is a dictionary with the position of each sink.
    """

    def __init__(self, sinks: Mapping[str, RowSink], destinations: Mapping[str, str]) -> None:
        self._sinks = dict(sinks)
        numbers = {key: number for number, key in enumerate(self._sinks)}
        self._numbers = {query: numbers[key] for query, key in destinations.items()}
        self.wants_terms = any(sink.wants_terms for sink in self._sinks.values())

    @property
    def sinks(self) -> list[RowSink]:
        """The sinks, each of which must be closed or discarded."""
        return list(self._sinks.values())

    def write(self, rows: pa.Table) -> None:
        """Write each row to its output.  O(rows · log outputs), where only outputs that get rows count."""
        if not rows.num_rows:
            return
        queries = rows.column(QUERY_COLUMN).combine_chunks().dictionary_encode()
        number = np.array([self._numbers.get(name, -1) for name in queries.dictionary.to_pylist()])
        output = number[queries.indices.to_numpy(zero_copy_only=False)]
        order = np.argsort(output, kind="stable")
        numbers, first = np.unique(output[order], return_index=True)
        sinks = self.sinks
        for number, start, end in zip(numbers.tolist(), first.tolist(), [*first[1:].tolist(), len(order)], strict=True):
            if number >= 0:
                own = rows if end - start == len(order) else rows.take(pa.array(order[start:end]))
                sinks[number].write(own if sinks[number].wants_terms else without_terms(own))

    def position(self) -> dict[str, Any]:
        """Put everything on disk, and return the positions by key."""
        return {key: sink.position() for key, sink in self._sinks.items()}


class SinkOutputs(RunOutput):
    """The output of a run that writes rows to sinks and late tuples to a file, if requested; `begin` opens them.

    Files that grow (`grows`) are written in place, as `open_sink` describes.  `times` is the type of timestamps, if they are
    no numbers.  Where a run is divided, `parts` is a folder that gets the rows in place of the outputs, which append them.
    """

    def __init__(
        self,
        request: RunRequest,
        queries: Sequence[Query],
        *,
        grows: bool,
        times: pa.DataType | None = None,
        parts: str | None = None,
    ) -> None:
        self._request, self._queries, self._grows, self._times, self._parts = request, queries, grows, times, parts
        self.is_cut_back = {*sink_guarantees(request).values()} <= {"rewind"}
        self._rows: RowSink | QueryOutputs | TableSink | None = None
        self._late: LateFile | None = None
        self._message = message_of(request)

    def begin(self, position: Mapping[str, Any] | None, source: Any) -> None:
        """Open all outputs, resumed at a position."""
        before = position or {"output": None, "late_bytes": None}
        if (late := self._request.settings.late) is not None:
            further = self._request.further_columns
            of_file: dict[str, Any] = {"grows": self._grows, "position": before["late_bytes"]}
            part = None if self._parts is None else part_name(self._parts, "late")
            self._late = LateFile(late, **of_file, properties=further, times=self._times, part=part)
        self._rows = _open_rows(self._request, self._queries, before["output"], grows=self._grows, parts=self._parts)

    @property
    def has_destination(self) -> bool:
        """True if there is an output of rows."""
        return self._rows is not None

    def write(self, tuples: pa.RecordBatch, changes: Changes) -> None:
        """Write the rows of pushed tuples, and those of them that were late."""
        if self._late is not None:
            self._late.write(tuples, np.asarray(changes.late_rows))
        if self._rows is not None and len(changes):
            for rows in changes.tables(witness=self._request.settings.witness, terms=self._rows.wants_terms):
                self._rows.write(rows if self._message is None else self._message.with_messages(rows))

    def append(self, parts: str) -> None:
        """Append the rows and late tuples that are in a folder of parts."""
        if self._late is not None:
            self._late.sink.append(part_name(parts, "late"))
        for number, sink in enumerate(self._sinks()):
            sink.append(part_name(parts, number))

    def _sinks(self) -> list[Any]:
        return [] if self._rows is None else self._rows.sinks if isinstance(self._rows, QueryOutputs) else [self._rows]

    def position(self) -> dict[str, Any]:
        """Put everything on disk, and return the positions: of rows by name where there are several, and of late tuples."""
        return {
            "output": self._rows.position() if self._rows else None,
            "late_bytes": self._late.sink.position() if self._late else None,
        }

    def close(self, *, keeps_empty: bool = True) -> list[Exception]:
        """Complete every output with the rows so far, or discard one without rows unless it `keeps_empty` ones.

        Returns the errors of outputs that could not be completed.
        """
        errors: list[Exception] = []
        for output in [*([self._late.sink] if self._late else []), *self._sinks()]:
            try:
                if keeps_empty or output.rows:
                    output.close()
                else:
                    output.discard()
            except (OSError, OutputError) as error:
                errors.append(error)
                keeps_empty = keeps_empty and isinstance(error, BrokenPipeError)
        return errors


COMMIT_SECONDS = 0.5
"""The longest time for which rows wait to be committed while more tuples arrive."""


class CommittedOutputs(SinkOutputs):
    """The output of a run to sinks with the guarantees `commit` or `key`: rows become final as the source advances.

    A sink `commit` stores the position of the source with the rows.  What is sent to sinks `key` is in an outbox beside the
    checkpoint before, together with the position.  In either case a resumed run continues behind this position.  Commits
    are at most `COMMIT_SECONDS` apart; if the input `waits` for more, each slice is committed.
    """

    is_transactional = True

    def __init__(
        self,
        request: RunRequest,
        queries: Sequence[Query],
        *,
        times: pa.DataType | None,
        waits: bool,
        check: Callable[[], None],
        table: TableSink | None = None,
    ) -> None:
        super().__init__(request, queries, grows=False, times=times)
        self.is_cut_back = False
        self._check, self._table = check, table
        self._has_keys = table is None and "key" in sink_guarantees(request).values()
        checkpoint = request.settings.checkpoint
        self._outbox = Outbox(f"{checkpoint}.outbox") if self._has_keys and checkpoint is not None else None
        self._again: list[Sending] = []
        self._seconds = 0.0 if waits else COMMIT_SECONDS
        self._run = uuid.uuid4().hex[:16]
        self._waiting = self._number = self._committed = 0
        self._committed_at = 0.0

    def begin(self, position: Mapping[str, Any] | None, source: SliceSource) -> None:
        """Begin a new run, or find the last commit of the run of a checkpoint."""
        self._source = source
        self._rows = self._table or _open_rows(
            self._request, self._queries, None, grows=False, parts=None, check=self._check
        )
        self._committed = behind = source.sequence()
        before = None if position is None else position["output"]
        if before is not None:
            self._run, self._number = before["run"], before.get("number", 0)
        for sink in self._sinks():
            sink.begin(self._run, None if before is None else self._number if self._has_keys else behind)
        self._batch_rows = min(sink.batch_rows for sink in self._sinks())
        if before is not None and not self._has_keys:
            self._committed = self._sinks()[0].last_commit()
        if self._outbox is not None and before is None:
            self._outbox.create(self._run)
        elif self._outbox is not None:
            self._again = [one for one in self._outbox.open(self._run) if one.batches[0].number > self._number]
            self._committed = max((one.position for one in self._again), default=behind)
        if self._committed < behind:
            raise OutputError(
                f"{self._sinks()[0].name}: is at position {self._committed:,}, before position {behind:,} of the "
                "checkpoint: it is older, for example from a backup.  Remove the checkpoint, and start anew (a table "
                "with --replace)"
            )
        self._committed_at = time.monotonic()

    def last_commit(self) -> int:
        """Return the position of the last commit."""
        return self._committed

    def mark_committed(self) -> None:
        """Send the batches of the outbox again.  Raises `OutputError` unless the source is at the last commit."""
        if (position := self._source.sequence()) != self._committed:
            raise OutputError(
                f"{self._sinks()[0].name}: is at position {self._committed:,}, but the input ends at {position:,}; it is "
                "another input, or --limit is smaller"
            )
        for sending in self._again:
            self._send(sending.batches)
        self._again = []

    def invalid_tuple(self, tuples: pa.RecordBatch) -> InputError | None:
        """Return an error for the first tuple with a value that a table cannot store, or None."""
        return None if self._table is None else self._table.invalid_tuple(tuples)

    def write(self, tuples: pa.RecordBatch, changes: Changes) -> None:
        """Collect the rows of pushed tuples."""
        super().write(tuples, changes)
        self._waiting += len(changes)

    def is_due(self, *, quiet: bool) -> bool:
        """Return whether rows or the position have waited for long enough, or nothing arrives."""
        if self._waiting and (quiet or not self._seconds or self._waiting >= self._batch_rows):
            return True
        is_behind = bool(self._waiting) or self._source.sequence() != self._committed
        return is_behind and time.monotonic() - self._committed_at >= self._seconds

    def commit(self) -> None:
        """Make all rows final, together with the position of the source."""
        position = self._source.sequence()
        if self._waiting or position != self._committed:
            self._source.synchronise()
            if not self._has_keys:
                self._sinks()[0].commit(position)
            elif batches := [(place, rows) for place, sink in enumerate(self._sinks()) for rows in sink.take_batches()]:
                numbered = [Batch(place, number, rows) for number, (place, rows) in enumerate(batches, self._number + 1)]
                if self._outbox is not None:
                    self._outbox.add(Sending(position, numbered))
                self._send(numbered)
            self._committed, self._waiting = position, 0
        self._committed_at = time.monotonic()

    def _send(self, batches: Sequence[Batch]) -> None:
        sinks = self._sinks()
        for place, number, rows in batches:
            sinks[place].send(rows, number)
            self._number = number

    def position(self) -> dict[str, Any]:
        """Return the name of the run, with which its commits are found, and the number of the last batch."""
        return {"output": {"run": self._run, **({"number": self._number} if self._has_keys else {})}, "late_bytes": None}

    def forget_before_checkpoint(self) -> None:
        """Remove the batches of the outbox, all of which have been sent."""
        if self._outbox is not None:
            self._outbox.create(self._run)

    def close(self, *, keeps_empty: bool = True) -> list[Exception]:
        """Disconnect."""
        if self._outbox is not None:
            self._outbox.close()
        errors = super().close()
        self._rows = None
        return errors


def part_name(folder: str, output: int | Literal["late"]) -> str:
    """Return the name of the file in a folder of parts for an output, by its number."""
    return os.path.join(folder, f"part-{output}")


def output_names(request: RunRequest) -> set[str]:
    """Return the names of the outputs of rows."""
    return {entry.output for entry in request.entries if entry.output is not None}


def output_options(request: RunRequest) -> list[tuple[str, str | None]]:
    """Return the outputs of rows, each once, with the option or field that names it first."""
    if not request.names_queries:
        return [("--output", request.settings.output)]
    return [
        ("--output" if entry.place_of("output") is COMMAND else f"{entry.place_of('output')}, field output:", entry.output)
        for entry in _first_by_output(request).values()
    ]


def _open_rows(
    request: RunRequest,
    queries: Sequence[Query],
    position: Any,
    *,
    grows: bool,
    parts: str | None,
    check: Callable[[], None] = lambda: None,
) -> RowSink | QueryOutputs | None:
    if request.names_queries:
        return _open_query_outputs(request, position, grows=grows, parts=parts, check=check)
    if request.settings.output is None:
        return None
    (query,) = queries
    part = None if parts is None else part_name(parts, 0)
    return _open_one(request, request.settings.output, query.columns, position, grows=grows, part=part, check=check)


def _open_one(
    request: RunRequest,
    output: str,
    answers: Sequence[str],
    position: Any,
    *,
    grows: bool,
    part: str | None,
    check: Callable[[], None],
) -> RowSink:
    settings = request.settings
    of_rows: dict[str, bool] = {
        "witness": settings.witness, "message": settings.message is not None, "with_query": request.names_queries
    }  # fmt: skip
    if not is_sink(output):
        resumable = settings.checkpoint is not None
        return open_sink(output, answers, **of_rows, resumable=resumable, grows=grows, position=position, part=part)
    make = _webhook_maker(settings, check) if is_webhook(output) else None
    sink = InstalledSink(output, columns_of(answers, **of_rows), make)
    if guarantee_of(output) in ("rewind", "none"):
        sink.resume(position)
    return sink


def _webhook_maker(settings: RunSettings, check: Callable[[], None]) -> Callable[[str], Sink]:
    from rpq.run.webhook import WebhookOptions, WebhookSink, webhook_secret

    options = WebhookOptions(
        batch=settings.webhook_batch,
        body=None if settings.webhook_body is None else MessageTemplate(settings.webhook_body),
        secret=webhook_secret(settings.webhook_secret),
        give_up=settings.webhook_give_up,
        failed=settings.webhook_failed,
        witness=settings.witness,
    )
    return lambda url: WebhookSink(url, options, check=check)


def _open_query_outputs(
    request: RunRequest,
    positions: Mapping[str, Any] | None,
    *,
    grows: bool,
    parts: str | None,
    check: Callable[[], None],
) -> QueryOutputs | None:
    """Open the outputs of the queries of a file.  Returns None if no query has an output."""
    first = _first_by_output(request)
    if not first:
        return None
    _allow_open_files(len(first))
    sinks: dict[str, RowSink] = {}
    try:
        for number, (key, entry) in enumerate(first.items()):
            position = positions[key] if positions is not None else None
            part = None if parts is None else part_name(parts, number)
            sinks[key] = _open_one(
                request, str(entry.output), entry.columns, position, grows=grows, part=part, check=check
            )
    except BaseException:
        for sink in sinks.values():
            sink.discard()
        raise
    key_of = cache(output_key)
    return QueryOutputs(sinks, {entry.name: key_of(entry.output) for entry in request.entries if entry.output is not None})


def check_columns(request: RunRequest) -> None:
    """Raise a usage error if queries share an output but not their columns, or a column has the name of the witnesses."""
    if request.settings.witness:
        for columns in [entry.columns for entry in request.entries]:
            if taken := [name for name in WITNESS_COLUMNS if name in columns]:
                raise click.UsageError(
                    f"--witness: the columns of witnesses are called {' and '.join(WITNESS_COLUMNS)}; rename the variable "
                    f"?{taken[0]}, or select others"
                )
    _check_n_quads(request)
    _check_times(request)
    _check_message(request)
    _check_tables(request)
    first, key_of = _first_by_output(request), cache(output_key)
    for entry in request.entries:
        if entry.output is None or entry.columns == (one := first[key_of(entry.output)]).columns:
            continue
        output = shown_output(entry.output)
        raise click.UsageError(
            f"{entry.place_of('output')}, field output: {output} cannot contain the rows of both {one.name!r}, with the "
            f"columns {', '.join(one.columns)}, and {entry.name!r}, with {', '.join(entry.columns)}: give each its own "
            "output, or the same names of variables"
        )


def _check_n_quads(request: RunRequest) -> None:
    """Raise a usage error for N-Quads of answers that are no edges, or of witnesses."""
    for entry in request.entries:
        output, columns = entry.output, entry.columns
        if output is None or not is_local(output) or not output.lower().endswith(N_QUADS_ENDINGS):
            continue
        if request.settings.witness:
            raise click.UsageError(f"--witness: {output}: N-Quads have no column for a path; expected another format")
        try:
            check_edges(output, columns)
        except SinkError as error:
            raise click.UsageError(str(error)) from error
        if tuple(columns) == QUAD and entry.shows_removals:
            raise click.UsageError(
                f"{output}: N-Quads cannot show which quads are removed, as quads have their own graphs: write REGISTER "
                "ISTREAM <name> AS, or RSTREAM, before the query, or an output in another format, which has a column op"
            )


def _check_times(request: RunRequest) -> None:
    """Raise a usage error for times in ISO 8601 in a format of RDF."""
    if request.settings.times and (output := _rdf_output(request)) is not None:
        raise click.UsageError(
            f"--times {request.settings.times}: {output} is in a format of SPARQL or RDF, whose times are numbers; "
            "expected .csv, .jsonl or .parquet"
        )


def _rdf_output(request: RunRequest) -> str | None:
    """Return the first output in a format of SPARQL or RDF, or None."""
    files = filter(is_local, sorted(output_names(request)))
    return next((name for name in files if check_suffix(name).startswith(RDF_ENDINGS)), None)


def message_of(request: RunRequest) -> MessageTemplate | None:
    """Return the template of messages, if there is one."""
    return None if request.settings.message is None else MessageTemplate(request.settings.message)


def _check_message(request: RunRequest) -> None:
    """Raise a usage error for messages that are malformed, have unknown columns, or have no place in an output."""
    template, settings = message_of(request), request.settings
    if template is None:
        return
    if not output_names(request):
        raise click.UsageError("--message needs an --output: messages are a column of the rows; - is standard output")
    if (output := _rdf_output(request)) is not None:
        raise click.UsageError(
            f"--message: {output} is in a format of SPARQL or RDF, which has no such column; expected -, .csv, .jsonl or "
            ".parquet"
        )
    for columns in [entry.columns for entry in request.entries if entry.output is not None]:
        if MESSAGE in columns:
            raise click.UsageError(
                f"--message: the column of messages is called {MESSAGE}; rename the variable ?{MESSAGE}, or select others"
            )
        try:
            template.check((QUERY_COLUMN, *columns_of(columns, witness=settings.witness)))
        except ValueError as error:
            raise click.UsageError(f"--message: {error}") from error


def _check_tables(request: RunRequest) -> None:
    """Raise a usage error for answers that cannot be maintained in a table, and for columns that a table cannot have."""
    settings = request.settings
    for entry in request.entries:
        output, columns = entry.output, entry.columns
        if not is_table(output):
            continue
        label = shown_output(str(output))
        if settings.witness:
            raise click.UsageError(
                f"--witness: {label} contains the current answers, and a witness is a path at the time at which an answer "
                "began; expected a file or a topic"
            )
        if settings.message is not None:
            raise click.UsageError(
                f"--message: {label} contains answers, and a message describes a row + or -; expected a file, a topic, or "
                "an expression of SQL over the table"
            )
        if not entry.shows_removals:
            raise click.UsageError(
                f"{label}: rows + and - keep a table equal to the answer, and REGISTER writes only one of the two, or whole "
                "answers; leave out ISTREAM, DSTREAM and RSTREAM"
            )
        if not columns:
            raise click.UsageError(f"{label}: the answers have no columns to find a row by; select at least one")
        for column in columns:
            if column in ("times", "timestamp", *(["query"] if request.names_queries else [])):
                raise click.UsageError(
                    f"{label}: the table has a column {column} of its own; rename the variable ?{column}, or select others"
                )
            if len(column.encode()) > MAX_BYTES:
                raise click.UsageError(f"{label}: the column {column} has a name of more than {MAX_BYTES} bytes; rename it")
        if len({*columns}) < len(columns):
            raise click.UsageError(f"{label}: two columns have the same name: {', '.join(columns)}; rename one")


def sink_guarantees(request: RunRequest) -> dict[str, SinkGuarantee]:
    """Return the guarantees of the outputs that are webhooks or sinks of other packages.  Raises a usage error."""
    try:
        return {output: guarantee_of(output) for output in sorted(output_names(request)) if is_sink(output)}
    except InputError as error:
        raise click.UsageError(f"--output {error}") from error


def sink_outputs(
    request: RunRequest,
    queries: Sequence[Query],
    *,
    identity: Mapping[str, Any],
    unit: str | None,
    times: pa.DataType | None,
    check: Callable[[], None],
    waits: bool,
    grows: bool,
) -> SinkOutputs:
    """Return the output of a run whose rows do not go to topics.  Raises errors of click.

    `identity` is that of the run, and `times` the type of timestamps if they are no numbers.  If the input `waits` for more,
    each slice is committed.  Files are written in place if the output `grows`.
    """
    settings, guarantees = request.settings, sink_guarantees(request)
    table = _table_sink(request, queries, identity=identity, unit=unit, times=times, check=check)
    if table is not None or {"commit", "key"} & {*guarantees.values()}:
        return CommittedOutputs(request, queries, times=times, waits=waits, check=check, table=table)
    for output, guarantee in guarantees.items():
        if guarantee == "none" and settings.checkpoint is not None and not settings.quiet:
            click.echo(
                f"{shown_output(output)}: {SINK_GUARANTEES[guarantee]}.  A run that is resumed from {settings.checkpoint} "
                "writes the rows since the checkpoint again.",
                err=True,
            )
    return SinkOutputs(request, queries, grows=grows, times=times)


def _table_sink(
    request: RunRequest,
    queries: Sequence[Query],
    *,
    identity: Mapping[str, Any],
    unit: str | None,
    times: pa.DataType | None,
    check: Callable[[], None],
) -> TableSink | None:
    """Return the sink of tables; None if rows go elsewhere.  Raises errors of click."""
    outputs = {entry.name: entry.output for entry in request.entries}
    if not any(map(is_table, outputs.values())):
        return None
    from rpq.run.table_output import PostgresTables, TableSink, answer_tables

    if any(query.semantics != "explicit" for query in queries):
        raise click.UsageError(
            "--output postgresql://… needs --semantics explicit: with implicit ones, answers expire without a - row "
            "and would remain in the table"
        )
    if times is not None and times.unit == "ns":
        raise click.UsageError(
            "--times iso: the times of this input have nanoseconds, and those of PostgreSQL microseconds; leave it out"
        )
    output_of_query = ((query, outputs[query.name]) for query in queries)
    tables = answer_tables(
        ((query.name, query.columns, output) for query, output in output_of_query if output is not None),
        names_queries=request.names_queries,
    )
    return TableSink(
        tables,
        PostgresTables(
            tables,
            identity=identity,
            differences=partial(differences, unit=unit),
            times=times,
            replaces=request.settings.replace,
        ),
        label=tables[0].name.place if len(tables) > 1 else tables[0].name.label,
        check=check,
    )


def _first_by_output(request: RunRequest) -> dict[str, QueryEntry]:
    """Return the first query that names each output, by the output's key."""
    first: dict[str, QueryEntry] = {}
    key_of = cache(output_key)  # thousands of queries may have one output
    for entry in request.entries:
        if entry.output is not None:
            first.setdefault(key_of(entry.output), entry)
    return first


def _allow_open_files(count: int) -> None:
    """Raise the limit of open files of this process where `count` outputs need it."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 100  # inputs, libraries, the other outputs
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise click.UsageError(
            f"the queries have {count:,} outputs, but a process can open only {hard:,} files here; "
            "let queries share outputs: their rows have a column query"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def row_messages(request: RunRequest, queries: Sequence[Query]) -> RowMessages | None:
    """Return the conversion of rows to messages; None if rows go to files, or nowhere.  Raises errors of click."""
    settings = request.settings
    if settings.upsert and any(query.semantics != "explicit" for query in queries):
        raise click.UsageError(
            "--upsert needs semantics 'explicit': with 'implicit' no row reports an expired answer, which would remain in "
            "the topic"
        )
    if not any(map(is_topic, output_names(request))):
        return None
    from rpq.kafka.row_outputs import RowMessages, TopicDestination

    outputs = {entry.name: entry.output for entry in request.entries}
    with_query = request.names_queries
    destinations = {
        query.name: TopicDestination(
            topic=one_topic(output), columns=columns_of(
                query.columns, witness=settings.witness, with_query=with_query, message=settings.message is not None
            ),
        )
        for query in queries
        if (output := outputs[query.name]) is not None
    }
    return RowMessages(
        destinations=destinations, upsert=settings.upsert, witness=settings.witness, message=message_of(request)
    )
