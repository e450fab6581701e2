"""The input of a run: files as a source, topics by their options, static edges, missing labels, and signals that end it.

SIGINT and SIGTERM are requests to end, which are checked between batches; they raise no exception in the middle of one.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from itertools import count as count_from
from queue import Empty, Queue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.cli.request import RunSettings
from rpq.errors import InputError, RpqError, did_you_mean
from rpq.kafka.topic_names import is_topic, one_cluster, topics_in
from rpq.language.edge_variables import labels_of_end
from rpq.language.query import Query
from rpq.readers import Batch, ColumnNames, EdgeRules, Reader, WhereError, open_reader, parse_where
from rpq.readers.batch import align_to_events
from rpq.readers.format_registry import format_by_name
from rpq.readers.node_files import NodeFile, NodeFileColumns, NodeMerge
from rpq.readers.open_source import Mark, OpenSource, open_source
from rpq.readers.selection import LimitReader
from rpq.readers.text.changes import SOURCE_TIME
from rpq.run.checkpoint import AnotherRunError
from rpq.run.loop import MAX_MESSAGES, SliceSource, cut_slices, push_accepted, push_part
from rpq.stream.arrays.fields import DEFAULT_UNIT, EDGE
from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array
from rpq.stream.names.stream_labels import EdgeEnd, NodeLabel, text_of
from rpq.stream.nodes.node_rows import described_record
from rpq.stream.sources import GUARANTEES, SOURCES

if TYPE_CHECKING:
    from rpq.engine.engine import Engine
    from rpq.kafka.client import ClientSettings
    from rpq.kafka.schema_registry import SchemaRegistry
    from rpq.kafka.topic_reader import TopicInput
    from rpq.readers import RdfReading
    from rpq.readers.rdf.rdf_format import RdfDocuments

Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""The interval in seconds at which signals are checked while no input arrives."""

REMINDER_SECONDS = 1.0
"""The seconds after a signal in which a run ends, or else says what it waits for."""

_SIGNALS = ("SIGINT", "SIGTERM")


class Interrupted(Exception):
    """A request to end, raised between two batches."""


class Interrupts:
    """A context manager that catches SIGINT and SIGTERM.

    The first signal sets `received`, which `check` tests; a second one has its usual effect, also where it was ignored, as
    SIGINT is in the background of a script.  If the run has not ended a second later, as when its output is a pipe that is
    not read, a message says so.  Outside of the main thread, where Python receives no signals, nothing is caught.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[int, object] = {}
        self._alarm_before: object = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            pa.enable_signal_handlers(False)  # otherwise Arrow cancels its reads
            for name in _SIGNALS:
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before:
            self._restore_handlers()
            self._cancel_reminder()
            pa.enable_signal_handlers(True)

    def check(self) -> None:
        """Raise `Interrupted` if a signal was received."""
        if self.received is not None:
            raise Interrupted

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._restore_handlers(ignores=False)
        if hasattr(signal, "setitimer"):  # a thread cannot be started here: the interrupted code may be starting one
            self._alarm_before = signal.signal(signal.SIGALRM, self._remind)
            signal.setitimer(signal.ITIMER_REAL, REMINDER_SECONDS)

    def _remind(self, number: int, frame: FrameType | None) -> None:
        """Write that the run has not ended yet, straight to the descriptor: the interrupted code may be writing."""
        again = "Ctrl-C" if self.received == signal.SIGINT else "signal"
        message = (
            "interrupted: the run ends when its last rows are written; if the output is a pipe, its reader has to read "
            f"them; another {again} ends it at once\n"
        )
        with suppress(AttributeError, OSError, ValueError):  # there may be no standard error
            on_line = "\n" if sys.stderr.isatty() else ""  # behind the progress
            os.write(sys.stderr.fileno(), f"{on_line}{message}".encode())

    def _cancel_reminder(self) -> None:
        if self._alarm_before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._alarm_before)  # type: ignore[arg-type]
            self._alarm_before = None

    def _restore_handlers(self, *, ignores: bool = True) -> None:
        """Restore the handlers that there were; without `ignores`, those of signals that were ignored end the process."""
        for number, handler in self._before.items():
            if handler is None:
                handler = signal.SIG_DFL
            elif handler == signal.SIG_IGN and not ignores:
                handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler)  # type: ignore[arg-type]


def interruptible(items: Iterable[Item], interrupts: Interrupts, *, may_wait: bool) -> Iterator[Item]:
    """Yield the items; raise `Interrupted` in place of the next one if a signal was received.

    Where the next item may never arrive (`may_wait`), another thread waits for it.  A signal does not reliably end a
    blocking read: CPython may note it just before the read begins, or in another thread, and act on it afterwards.
    """
    source = iter(_read_in_thread(items, interrupts) if may_wait else items)
    while True:
        interrupts.check()
        try:
            item = next(source)
        except StopIteration:
            return
        yield item


def _read_in_thread(items: Iterable[Item], interrupts: Interrupts) -> Iterator[Item]:
    queue: Queue[tuple[str, object]] = Queue(maxsize=1)

    def fetch() -> None:
        try:
            for item in items:
                queue.put(("item", item))
        except BaseException as error:
            queue.put(("error", error))
        else:
            queue.put(("end", None))

    # A daemon thread: the process can end while it waits for input.
    threading.Thread(target=fetch, name="input", daemon=True).start()
    while True:
        try:
            kind, value = queue.get(timeout=POLL_SECONDS)
        except Empty:
            interrupts.check()
            continue
        if kind == "end":
            return
        if kind == "error":
            raise value  # type: ignore[misc]
        yield value  # type: ignore[misc]


MAX_LABEL_WARNINGS = 20
"""The number of labels that have a warning of their own: thousands of queries may have thousands of labels."""

HINTS = 1000
"""The number of labels of the input that are kept in order to suggest a spelling."""


def _labels_named(query: Query, *, has_nodes: bool) -> set[str]:
    """Return the labels that a query names in tuples; those in the expression of an edge variable are among them.

    Where it `has_nodes`, records may give the labels of nodes in place of edges with the node label of MATCH.
    """
    named = {label for label in query.named_labels if not isinstance(label, NodeLabel)}
    if has_nodes and query.notation in ("gql", "cypher"):
        named -= {query.node_label}
    return {text for label in named for text in (labels_of_end(label) if isinstance(label, EdgeEnd) else {text_of(label)})}


class LabelMonitor:
    """A record of the labels of the queries that have not occurred in any tuple, which are often misspelt.

    O(rows) for each batch with a small constant, O(1) once all labels have occurred.  Memory: the labels of the queries,
    and `HINTS` labels of the input.
    """

    def __init__(self, queries: Iterable[Query], *, has_nodes: bool = False) -> None:
        named = (sorted(_labels_named(query, has_nodes=has_nodes)) for query in queries)
        self._missing_labels = {label: None for labels in named for label in labels}
        self._other_labels: dict[str, None] = {}
        self._is_empty = True

    def monitor(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches after checking their labels."""
        for batch in batches:
            self.check(batch.columns)
            yield batch

    def check(self, tuples: pa.RecordBatch) -> None:
        """Check the labels of tuples."""
        self._is_empty = False
        self.check_labels(tuples.column("label"))

    @property
    def missing_labels(self) -> list[str]:
        """The labels that have not occurred in any tuple, in the order of the queries."""
        return list(self._missing_labels)

    def warnings(self) -> list[str]:
        """Return a message for each of the first missing labels, or no messages if there was no tuple."""
        if self._is_empty:
            return []
        other_labels = list(self._other_labels)
        labels = list(self._missing_labels)
        shown, hidden_count = labels[:MAX_LABEL_WARNINGS], len(labels) - MAX_LABEL_WARNINGS
        messages = [f"no tuple has the label {label!r}{did_you_mean(label, other_labels)}" for label in shown]
        return [*messages, f"no tuple has {hidden_count:,} more of the labels"] if hidden_count > 0 else messages

    def check_labels(self, labels: pa.Array) -> None:
        """Check the labels of edges."""
        if not self._missing_labels:
            return
        if not pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_encode()
        names = labels.dictionary
        counts = np.bincount(numpy_array(labels.indices.drop_null()), minlength=len(names))
        for name in names.take(arrow_array(np.flatnonzero(counts))).to_pylist():  # the others belong to filtered tuples
            self._missing_labels.pop(name, None)
            if len(self._other_labels) < HINTS:
                self._other_labels[name] = None


_NAMES = ["source", "target", "label"]
_READ_BYTES = 1 << 20


def load_static(
    settings: RunSettings, engine: Engine | None, labels: LabelMonitor, *, properties: Sequence[str] = ()
) -> int:
    """Load the static edges of all files into the engine, with these properties, and return their number.

    If `engine` is None, as for an engine that was restored with its static edges, only their labels are checked.  Raises
    `InputError` with the file's name.
    """
    count = 0
    if engine is not None:
        for name in dict.fromkeys(name for name in settings.static_graphs if name is not None):
            engine.load_static([], graph=name)  # the graph exists even if all its files are empty
    if settings.edges == "id":
        properties = (*properties, EDGE)
    graphs = settings.static_graphs or (None,) * len(settings.static)
    for number, path, graph in sorted(zip(count_from(1), settings.static, graphs), key=lambda one: one[2] is None):
        for edges in _read_static_edges(settings, path, number, properties=properties):
            if settings.drop_self_loops:
                edges = edges.filter(pc.not_equal(edges.column("source"), edges.column("target")))
            labels.check_labels(edges.column("label"))
            if EDGE in edges.schema.names and edges.column(EDGE).null_count == edges.num_rows:
                edges = edges.drop_columns([EDGE])  # static edges may have ids, all in a file or none
            count += edges.num_rows
            if engine is None:
                continue
            try:
                engine.load_static(edges, graph=graph)
            except InputError as error:
                raise InputError(f"{path}: {error}", file=path, column=error.column) from error
    return count


def _read_static_edges(
    settings: RunSettings, path: str, number: int, *, properties: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the edges of a file, which may lack properties, in batches; times are ignored, and a delete is an error."""
    format = settings.static_format
    if format == "edges":
        from rpq.readers.rdf.rdf_syntax import syntax_by_ending

        syntax = syntax_by_ending(path)
        if syntax is not None and "json" not in syntax.name:  # JSON may be lines of edges
            raise InputError(f"{path}: is {syntax.title}, as its name says; expected --static-format rdf", file=path)
    is_named = format in ("edges", "jsonl")
    columns = ColumnNames(timed=False, fixed=True, properties=tuple(properties), trim=settings.trim) if is_named else None
    rdf = _rdf_reading(scope=f"s{number}.", base=settings.rdf_base) if format == "rdf" else None
    for batch in open_reader(format, [path], columns=columns, rdf=rdf):
        names = batch.columns.schema.names
        if "delete" in names and pc.any(batch.columns.column("delete")).as_py():
            message = "deletes an edge; static edges cannot be deleted"
            raise InputError(f"{path}: {message}", file=path)
        yield batch.columns.select([*_NAMES, *(name for name in properties if name in names)])


def digests(paths: Sequence[str]) -> list[str]:
    """Return each path with a digest of its content, on which the rows of the run depend."""
    found = []
    for path in paths:
        files = [path] if os.path.isfile(path) else sorted(_files_below(path))
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{os.path.relpath(file, path)}\0".encode(errors="surrogateescape"))
            try:
                with open(file, "rb") as opened:
                    while data := opened.read(_READ_BYTES):
                        digest.update(data)
            except OSError as error:
                raise click.UsageError(f"--static {file}: cannot be read: {error.strerror or error}") from error
        found.append(f"{os.path.abspath(path)} ({digest.hexdigest()[:16]})")
    return found


def _files_below(folder: str) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        yield from (os.path.join(root, name) for name in names)


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """The reader of an input, and the unit of its timestamps, from the reader or else from an option."""

    settings: RunSettings
    reader: Reader
    time_unit: str | None
    sources: tuple[OpenSource, ...] = ()
    has_nodes: bool = False
    """True if records of nodes are merged with the tuples."""

    def start(self, queries: Sequence[Query], interrupts: Interrupts) -> StartedInput:
        """Begin to read until a signal, and check which labels of the queries occur.

        The first batch determines whether vertices are integers.  Where the vertices of a pipe are texts in any case, the
        start does not wait for this batch, because the first line may take long to arrive.
        """
        are_files = are_regular(self.settings.inputs)
        labels = LabelMonitor(queries, has_nodes=bool(self.settings.nodes))
        read = self.sources[0].count(self.reader) if self._may_resume else self.reader
        batches = labels.monitor(interruptible(read, interrupts, may_wait=not are_files))
        integers = False
        if not self.sources and (are_files or self.settings.format == "jsonl"):
            batches, integers = _peek(batches)
        if self.settings.events:
            batches = align_to_events(batches)
        return StartedInput(
            batches=batches, integers=integers, labels=labels, source=self.sources[0] if self._may_resume else None
        )

    @property
    def _may_resume(self) -> bool:
        """True if a run continues at a position of its source, instead of reading the input again from the beginning.

        The position of several inputs is not known, as their tuples are merged, nor that of RDF, whose graphs, prefixes and
        blank nodes can have begun anywhere before.
        """
        is_alone = len(self.settings.inputs) == 1 and self.settings.format != "rdf" and not self.has_nodes
        return is_alone and any(source.guarantee != "replay" for source in self.sources)

    def check_checkpoint(self) -> None:
        """Raise a usage error if a run over these sources could not be resumed; otherwise print its guarantee."""
        if self.settings.checkpoint is None:
            return
        for source in self.sources:
            if source.guarantee != "none":
                continue
            what = f"{source.name}: {GUARANTEES['none']}"
            if not self._may_resume:
                reason = "RDF" if self.settings.format == "rdf" else "several inputs"
                raise click.UsageError(
                    f"--checkpoint: {what}, and a run over {reason} has no position from which it could be resumed; leave "
                    "out --checkpoint, or read this input alone, as edges or jsonl"
                )
            if not self.settings.quiet:
                click.echo(
                    f"{what}.  A run that is resumed from {self.settings.checkpoint} continues with the records that arrive "
                    "then; those since the checkpoint are lost (at most once).",
                    err=True,
                )

    def check_transactions(self) -> None:
        """Raise a usage error for a checkpoint beside commits if a source cannot repeat the records committed after it."""
        if self.settings.checkpoint is None:
            return
        for source in self.sources:
            if source.guarantee == "none":
                raise click.UsageError(
                    f"--checkpoint: {source.name}: {GUARANTEES['none']}, so a resumed run could not determine which records "
                    "have their rows in the output; leave out --checkpoint, or write to a file"
                )

    def refuse_missing(self, interrupts: Interrupts) -> None:
        """Raise an exception of click if the first tuple cannot be read, because columns are missing or wrong.

        An error in the columns is reported before one in the windows, whose time unit depends on the columns.
        """
        may_wait = not are_regular(self.settings.inputs)
        try:
            first = next(interruptible(self.reader, interrupts, may_wait=may_wait), None)
        except InputError as error:
            raise click.ClickException(str(error)) from error
        except Interrupted:
            return
        if first is None and self.reader.rejections:
            raise click.ClickException(self.reader.rejections[0])


@dataclass(frozen=True, kw_only=True)
class StartedInput:
    """The tuples of an input, whether its vertices are integers, and the labels that have occurred so far."""

    batches: Iterator[Batch]
    integers: bool
    labels: LabelMonitor
    source: OpenSource | None = None
    """The source at whose positions a run is resumed."""


def open_input(settings: RunSettings, *, properties: Sequence[str] = ()) -> RunInput:
    """Open the input that the settings name, with the columns of these properties of edges.

    Raises a usage error, or another exception of click's.
    """
    try:
        inputs = [open_source(path) for path in settings.inputs]
        reader = _open(settings, inputs, properties)
    except InputError as error:
        if error.file is None:  # an error of the options, not of an input
            raise click.UsageError(str(error)) from error
        raise click.ClickException(str(error)) from error
    except WhereError as error:
        raise click.UsageError(str(error)) from error
    if settings.time_unit and reader.time_unit and settings.time_unit != reader.time_unit:
        raise click.UsageError(f"--time-unit {settings.time_unit}: the timestamps of this input are in {reader.time_unit}")
    timed = [one for one in node_files(settings, settings.time_unit or reader.time_unit) if one.has_times]
    if timed:
        reader = NodeMerge(reader, timed)
    if settings.nodes and (limit := _limit_of(settings)) is not None:
        reader = LimitReader(reader, limit)  # behind the last tuple there is no record
    sources = tuple(one for one in inputs if isinstance(one, OpenSource))
    unit = settings.time_unit or reader.time_unit
    return RunInput(settings=settings, reader=reader, time_unit=unit, sources=sources, has_nodes=bool(timed))


def _limit_of(settings: RunSettings) -> int | None:
    """Return how many tuples a reader reads; the run itself limits a source."""
    return None if any(map(SOURCES.has, settings.inputs)) else settings.limit


def node_files(settings: RunSettings, unit: str | None) -> list[NodeFile]:
    """Return the files of nodes, for a stream with this unit of time.  Raises errors of click."""
    try:
        columns = NodeFileColumns.parse(
            settings.node_columns,
            properties=node_properties(settings),
            time_format=settings.time_format,
            trim=settings.trim,
        )
    except InputError as error:
        raise click.UsageError(f"--node-columns: {error}") from error
    try:
        files = [NodeFile(path, columns, unit=unit, on_error=settings.on_error) for path in settings.nodes]
        for one in files:
            one.check_unit()
    except InputError as error:
        raise click.ClickException(str(error)) from error
    return files


def node_properties(settings: RunSettings) -> list[str] | None:
    """Return the properties of nodes that are kept, None for all."""
    return None if settings.node_properties is None else names_in(settings.node_properties)


def names_in(text: str) -> list[str]:
    """Return the names of a list with commas.

    >>> names_in("amount, rate")
    ['amount', 'rate']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def load_nodes(settings: RunSettings, engine: Engine, *, unit: str | None, integers: bool) -> tuple[int, list[str]]:
    """Load the records of all files of nodes without times into an engine.

    Return the number of bad records, which `--on-error skip` leaves out, and the first messages.  Raises `InputError`.
    """
    rejected, messages = 0, list[str]()
    for file in (one for one in node_files(settings, unit) if not one.has_times):
        for batch in file.batches(integers=integers):
            for pushed in push_accepted(lambda rows: push_part(engine, rows), batch):
                error = pushed.error
                if error is None:
                    continue
                if not isinstance(error, InputError) or not pushed.rejected_rows:
                    raise error
                message = f"{file.name}: " + str(error).removeprefix(f"row {error.row}: ")
                if settings.on_error == "stop":
                    raise InputError(message, file=file.name, column=error.column) from error
                rejected += 1
                messages.append(message)
        rejected += file.input.rejected
        messages += file.input.rejections
    return rejected, messages[:MAX_MESSAGES]


def rules_of(settings: RunSettings, properties: Sequence[str] = ()) -> EdgeRules | None:
    """Return the rules of `--edges-from` or `--changes`, if one is given.  Raises a usage error.

    `properties` are those of edges, and `edge` where they have ids.
    """
    if settings.changes is not None and settings.events is not None:
        raise click.UsageError("--events: the change of a row is not an event; leave out --events or --changes")
    if settings.edges_from is None and settings.rules is None:
        if settings.changes is None:
            return None
        try:
            names = ColumnNames.parse(settings.columns, label=settings.label, properties=tuple(properties))
            return EdgeRules.of_columns(names, changes=settings.changes, timestamp=SOURCE_TIME)
        except InputError as error:
            raise click.UsageError(f"--columns: {error}") from error
    for option, value in (("--columns", settings.columns), ("--label", settings.label)):
        if value is not None:
            raise click.UsageError(f"{option}: --edges-from names the columns and labels of edges; leave out one of the two")
    try:
        rules = replace(settings.rules or EdgeRules.read(str(settings.edges_from)), changes=settings.changes)
        if settings.events is None:
            rules.check_no_events()
        return rules
    except InputError as error:
        raise click.UsageError(f"--edges-from {error}") from error


def are_regular(inputs: Sequence[str]) -> bool:
    """Return whether all inputs are files and folders, whose content can be read without waiting."""
    return all(path != "-" and (os.path.isfile(path) or os.path.isdir(path)) for path in inputs)


def _open(settings: RunSettings, inputs: Sequence[Any], properties: Sequence[str]) -> Reader:
    rules = rules_of(settings, properties)
    is_rdf = settings.format == "rdf"
    if settings.events and not is_rdf and "columns" not in format_by_name(settings.format).options:
        raise click.UsageError(
            f"--events: tuples of the format {settings.format} have no events; expected edges or jsonl with a column event, "
            "or rdf, where a graph is an event"
        )
    try:
        has_events = settings.events is not None and not is_rdf
        columns = ColumnNames.parse(
            settings.columns,
            label=settings.label,
            has_events=has_events,
            properties=properties,
            time_format=settings.time_format,
            text_vertices=settings.vertices == "text",
            trim=settings.trim,
        )
    except InputError as error:
        raise click.UsageError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    if settings.changes is not None:
        columns = replace(columns, renamed=(), constant_label=None)  # of the rows, which the rules make edges of
    graph = settings.rdf_graph
    if settings.events and is_rdf:
        if graph == "stream":
            raise click.UsageError(
                "--events: in RDF each graph is an event, and --rdf-graph stream makes it a stream; leave out one of the two"
            )
        graph = "event"
    of_rdf = {**_rdf_options(settings), **({} if graph is None else {"graph": graph})}
    if not is_rdf and settings.static_format == "rdf":
        of_rdf.pop("base", None)
    if of_rdf and not is_rdf:
        options = " and ".join(f"--rdf-{name}" for name in of_rdf)
        raise click.UsageError(f"{options}: the format is {settings.format}; expected --format rdf")
    return open_reader(
        settings.format,
        inputs,
        on_error=settings.on_error,
        limit=None if settings.nodes else _limit_of(settings),
        drop_self_loops=settings.drop_self_loops,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        time_unit=settings.time_unit,
        streams=settings.streams,
        rdf=_rdf_reading(**of_rdf) if of_rdf else None,
        rules=rules,
    )


def rdf_documents(settings: RunSettings) -> RdfDocuments:
    """Return the reader of documents of RDF that come one by one.  Raises a usage error."""
    from rpq.readers.rdf.rdf_format import RdfDocuments

    if settings.rdf_graph == "event":
        raise click.UsageError("--rdf-graph event: a post or a message is not part of an event; expected stream, or files")
    try:
        return RdfDocuments(_rdf_reading(**_rdf_options(settings)), time_unit=settings.time_unit)
    except InputError as error:
        raise click.UsageError(str(error)) from error


def _rdf_options(settings: RunSettings) -> dict[str, Any]:
    """Return the options `--rdf-…` that were given."""
    names = ("syntax", "time", "graph", "base")
    return {name: value for name in names if (value := getattr(settings, f"rdf_{name}")) is not None}


def _rdf_reading(**options: Any) -> RdfReading:
    """Return options for reading RDF, whose modules only such a run imports."""
    from rpq.readers import RdfReading

    return RdfReading(**options)


def _peek(batches: Iterator[Batch]) -> tuple[Iterator[Batch], bool]:
    """Return the batches, and whether vertices are integers; an error of the first batch is raised when it is read."""
    try:
        first = next(batches, None)
    except (InputError, WhereError) as error:
        return _raise_later(error), False
    if first is None:
        return iter(()), False
    return chain([first], batches), pa.types.is_integer(first.columns.schema.field("source").type)


def _raise_later(error: Exception) -> Iterator[Batch]:
    raise error
    yield  # makes it a generator


@dataclass(frozen=True, kw_only=True)
class FileSlice:
    """A slice of an input: the columns of its tuples."""

    columns: pa.RecordBatch
    bad: tuple[()] = ()

    @property
    def size(self) -> int:
        """The number of tuples."""
        return int(self.columns.num_rows)

    def place_of(self, row: int) -> str:
        """Return the values of a tuple, or of a record of a node, for a message."""
        if (record := described_record(self.columns, row)) is not None:
            return record
        return f"at the tuple {' '.join(map(str, tuple_values(self.columns, row)))}"

    def rejection(self, row: int, reason: str) -> RejectedRow:
        """Return a tuple that the engine rejects, with the reason."""
        return RejectedRow(self.place_of(row), reason)


class RejectedRow(NamedTuple):
    """A tuple that the engine rejects: its values, and the reason."""

    place: str
    reason: str


class FileSource(SliceSource):
    """The source of a run over files.  Its position is the number of `tuples` consumed, and the last of them.

    The position in an installed source has a mark of it besides, unless it is read again from its beginning.  From the
    first batch on, `integers` says whether vertices are integers.  No event is divided between slices.
    """

    def __init__(
        self,
        started: StartedInput,
        settings: RunSettings,
        *,
        queries: Sequence[Query],
        reader: Reader,
        has_types: bool = True,
    ) -> None:
        self.stops, self.has_events = settings.on_error == "stop", settings.events is not None
        self.tuples = self.bytes_read = 0
        self.has_types, self.integers = has_types, started.integers
        self._source = started.source
        self._reader = reader
        self._batches = started.batches
        self._checkpoint = settings.checkpoint
        self._last: list[Any] | None = None
        self._slide_length = min((query.window.slide for query in queries if query.window.kind == "time"), default=None)

    def begin(self, position: Mapping[str, Any] | None) -> None:
        """Skip the tuples before a position. Raises `AnotherRunError` if the last one has changed."""
        if position is None:
            if self._source is not None:
                self._source.begin(Mark(), self._counts)
            return
        count, expected = position["tuples"], position["last"]
        left = count
        if self._source is not None and (mark := position.get("mark")) is not None:
            is_lost = self._source.guarantee == "none"
            if is_lost:
                mark = replace(mark, tuples=count)
            self._source.begin(mark, self._counts)
            left -= mark.tuples
            if not left:
                self.tuples, self._last = count, expected
                return
        last: list[Any] | None = None
        while left:
            batch = next(self._batches, None)
            if batch is None:
                raise AnotherRunError(
                    f"{self._checkpoint}: the run has read {count:,} tuples, but the input has only {count - left:,}; it is "
                    "another input, or --limit is smaller"
                )
            columns = self._split(batch, left)
            left -= columns.num_rows
            last = tuple_values(columns, columns.num_rows - 1)
        if last != expected:
            raise AnotherRunError(
                f"{self._checkpoint}: the last tuple that the run has read was {expected}, but tuple {count:,} of the input "
                f"is {last}; it is another input"
            )
        self.tuples, self._last = count, last

    def _split(self, batch: Batch, row_limit: int) -> pa.RecordBatch:
        """Return the first tuples of a batch; its others are read next."""
        columns = batch.columns.slice(0, row_limit)
        if columns.num_rows < batch.columns.num_rows:
            rest = replace(batch, columns=batch.columns.slice(columns.num_rows))
            self._batches = chain([rest], self._batches)
        return columns

    def replay_until(self, last: int) -> Iterator[FileSlice]:
        """Yield the tuples from the position to the one with the number `last`, or to the end of the input."""
        while self.tuples < last and (batch := next(self._batches, None)) is not None:
            yield self._slice(self._split(batch, last - self.tuples))

    def _slice(self, columns: pa.RecordBatch) -> FileSlice:
        """Return a slice of tuples."""
        self.integers = pa.types.is_integer(columns.schema.field("source").type)
        return FileSlice(columns=columns)

    def slices(self, slice_limit: Callable[[], int]) -> Iterator[FileSlice]:
        """Yield slices of at most `slice_limit()` tuples, or of one event, to the end of the input."""
        for batch in self._batches:
            self.bytes_read = batch.bytes_read
            for columns in cut_slices(batch.columns, slice_limit, has_events=self.has_events):
                yield self._slice(columns)

    def advance(self, part: FileSlice, until: int | None) -> None:
        """Move the position behind a slice, or to its row `until`."""
        if count := part.size if until is None else until:
            self.tuples += count
            self._last = tuple_values(part.columns, count - 1)
        if self._source is not None:
            self._source.mark_before(self.tuples)  # which forgets the marks before

    def position(self) -> dict[str, Any]:
        """Return the number of tuples consumed, and the last of them."""
        position = {"tuples": self.tuples, "last": self._last}
        return position if self._source is None else {**position, "mark": self._source.mark_before(self.tuples)}

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of records that the reader has left out, by reason."""
        counts = self._counts() if self._source is None else self._source.counts()
        return dict(zip(("rejected", "filtered", "undecided"), counts, strict=True))

    def _counts(self) -> tuple[int, int, int]:
        return self._reader.rejected, self._reader.filtered, self._reader.undecided

    def sequence(self) -> int:
        """Return the number of tuples consumed."""
        return self.tuples

    def milestone(self, engine: Engine | None) -> int | None:
        """Return the number of the current slide; the number of tuples where no window slides with time."""
        now = None if engine is None else engine._now  # as an integer, whatever the type of timestamps
        return None if now is None else self.tuples if self._slide_length is None else now // self._slide_length


def tuple_values(columns: pa.RecordBatch, row: int) -> list[Any]:
    """Return a tuple as JSON values: source, target, label, timestamp, op."""
    values = [columns.column(name)[row].as_py() for name in ("source", "target", "label", "timestamp")]
    delete = "delete" in columns.schema.names and columns.column("delete")[row].as_py()
    return [*values, "-" if delete else "+"]


def topics_and_clients(
    settings: RunSettings, *, properties: Sequence[str] = ()
) -> tuple[TopicInput, ClientSettings]:
    """Return the topics that the options name, with these properties of edges, and the settings of clients.

    Raises errors of click.
    """
    from rpq.kafka.client import ClientSettings, client, read_settings

    try:
        client()
    except RpqError as error:
        raise click.ClickException(str(error)) from error
    try:
        config = settings.kafka_config
        topics = topic_input_of(settings, properties)
        return topics, ClientSettings(topics.brokers, read_settings(config) if isinstance(config, str) else config)
    except (WhereError, RpqError) as error:
        raise click.UsageError(str(error)) from error


def topic_input_of(settings: RunSettings, properties: Sequence[str]) -> TopicInput:
    """Return the topics and how to read their messages.  Raises `InputError` and `WhereError`."""
    from rpq.kafka.message_reader import MessageColumns
    from rpq.kafka.topic_reader import TopicInput, reader_of

    rules = rules_of(settings, properties)
    try:
        names = ColumnNames.parse(
            settings.columns,
            label=settings.label,
            properties=properties,
            time_format=settings.time_format,
            text_vertices=settings.vertices == "text",
            trim=settings.trim,
        )
        if settings.changes is not None:
            names = replace(names, renamed=(), constant_label=None)
        unit = settings.time_unit or (DEFAULT_UNIT if settings.changes is not None else None)
        columns = MessageColumns.from_names(names, unit, rules=rules)
    except InputError as error:
        raise InputError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    streams: dict[str, str | None] = {}
    for number, uri in enumerate(settings.inputs):
        stream = settings.streams[number] if number < len(settings.streams) else None
        for topic in topics_in(uri).topics:
            if topic in streams:
                raise InputError(f"--input: the topic {topic} is given twice")
            streams[topic] = stream
    topics = TopicInput(
        brokers=one_cluster(settings.inputs)[0].brokers,
        topics=streams,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        only_json=settings.format == "jsonl",
        rdf=rdf_documents(settings).reading if settings.format == "rdf" else None,
        rules=rules,
        registry=_schema_registry(settings),
        max_delay=settings.max_delay,
        on_error="skip" if is_topic(settings.on_error) else settings.on_error,
        until_end=settings.until_end,
    )
    if topics.rdf is not None or topics.rules is not None:
        for stream in streams.values():
            reader_of(topics, stream)  # which checks the options
    return topics


def _schema_registry(settings: RunSettings) -> SchemaRegistry | None:
    """Return the schema registry that the options name.  Raises `InputError` and `KafkaError`."""
    from rpq.kafka.client import read_settings
    from rpq.kafka.schema_registry import RDF_HAS_NO_REGISTRY, SCHEMA_TYPES, SchemaRegistry

    if settings.schema_registry is None:
        for option, is_given in (
            (f"--format {settings.format}", settings.format in SCHEMA_TYPES),
            ("--schema-registry-config", settings.schema_registry_config is not None),
        ):
            if is_given:
                raise InputError(f"{option}: needs a schema registry; expected --schema-registry URL, too")
        return None
    if settings.format == "rdf":
        raise InputError(f"--schema-registry: {RDF_HAS_NO_REGISTRY}")
    if isinstance(settings.schema_registry, SchemaRegistry):
        return settings.schema_registry
    config = {} if settings.schema_registry_config is None else read_settings(settings.schema_registry_config)
    kind: Any = settings.format if settings.format in SCHEMA_TYPES else None
    return SchemaRegistry(settings.schema_registry, config, format=kind)
