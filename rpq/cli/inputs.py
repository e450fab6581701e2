"""Ctrl-C and `kill` as a wish to end, not as an exception somewhere in the middle."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from queue import Empty, Queue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.cli.request import RunSettings
from rpq.errors import InputError
from rpq.queries.query import Query
from rpq.readers import Batch, ColumnNames, RdfReading, Reader, WhereError, open_reader, parse_where
from rpq.readers.column_names import did_you_mean
from rpq.readers.event_batches import in_whole_events
from rpq.readers.known_formats import format_named

if TYPE_CHECKING:
    from rpq.engine import Engine

Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""So long a wish to end may be overlooked while nothing comes in."""

_SIGNALS = ("SIGINT", "SIGTERM")


class Interrupted(Exception):
    """The wish to end, raised between two batches."""


class Interrupts:
    """Catches SIGINT and SIGTERM for the time of a `with` block.

    The first one sets `received`, for `check` to see; a second one does what it always does.  Outside of the main
    thread, where Python knows no signals, nothing is caught.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            pa.enable_signal_handlers(False)  # or Arrow cancels what it is reading
            for name in _SIGNALS:
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            self._give_back()
            pa.enable_signal_handlers(True)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self.received is not None:
            raise Interrupted

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]


def watched(items: Iterable[Item], interrupts: Interrupts, *, may_wait: bool) -> Iterator[Item]:
    """Yield the items; raise `Interrupted` instead of the next one if a signal has come.

    Where the next item may never come (`may_wait`) another thread waits for it.  A signal does not reliably end a
    blocking read: CPython may note it just before the read begins, or in another thread, and act on it after.
    """
    source = iter(_from_thread(items, interrupts) if may_wait else items)
    while True:
        interrupts.check()
        try:
            item = next(source)
        except StopIteration:
            return
        yield item


def _from_thread(items: Iterable[Item], interrupts: Interrupts) -> Iterator[Item]:
    queue: Queue[tuple[str, object]] = Queue(maxsize=1)

    def fetch() -> None:
        try:
            for item in items:
                queue.put(("item", item))
        except BaseException as error:
            queue.put(("error", error))
        else:
            queue.put(("end", None))

    # A daemon: where nothing comes any more, the process ends without it.
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


SHOWN = 20
"""So many labels have a message each: thousands of queries may have thousands."""

HINTS = 1000
"""So many labels of the input are kept, to say which one was meant."""


class LabelsSeen:
    """Watches the tuples of a run for the labels of its queries.

    O(rows) with a small constant a batch, nothing once all labels have been seen.  Memory: the labels of the queries,
    and `HINTS` of the input.
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        self._unseen = {label: None for query in queries for label in sorted(query.named_labels)}
        self._others: dict[str, None] = {}
        self._is_empty = True

    def observed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass batches on, having looked at their labels."""
        for batch in batches:
            self.see(batch.columns)
            yield batch

    def see(self, tuples: pa.RecordBatch) -> None:
        """Look at some tuples."""
        self._is_empty = False
        self.look_at(tuples.column("label"))

    @property
    def never_seen(self) -> list[str]:
        """The labels that no tuple had so far, by query."""
        return list(self._unseen)

    def warnings(self) -> list[str]:
        """A message for each of the first `SHOWN` of them; none where there was no tuple at all."""
        if self._is_empty:
            return []
        known = list(self._others)
        labels = list(self._unseen)
        messages = [f"no tuple has the label {label!r}{did_you_mean(label, known)}" for label in labels[:SHOWN]]
        return [*messages, f"no tuple has {len(labels) - SHOWN:,} more of the labels"] if len(labels) > SHOWN else messages

    def look_at(self, labels: pa.Array) -> None:
        """See the labels of some edges."""
        if not self._unseen:
            return
        if not pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_encode()
        names = labels.dictionary
        counts = np.bincount(labels.indices.to_numpy(zero_copy_only=False), minlength=len(names))
        for name in names.take(pa.array(np.flatnonzero(counts))).to_pylist():  # others were left out with their tuples
            self._unseen.pop(name, None)
            if len(self._others) < HINTS:
                self._others[name] = None


_NAMES = ["source", "target", "label"]
_HASHED = 1 << 20


def load_static(settings: RunSettings, engine: Engine | None, labels_seen: LabelsSeen) -> int:
    """Load the edges of all files, or see their labels alone where an engine has them; how many there were.

    Raises `InputError`, which names the file.
    """
    count = 0
    for number, path in enumerate(settings.static, 1):
        for edges in _edges_of(path, settings.static_format, number):
            if settings.drop_self_loops:
                edges = edges.filter(pc.not_equal(edges.column("source"), edges.column("target")))
            labels_seen.look_at(edges.column("label"))
            count += edges.num_rows
            if engine is None:
                continue
            try:
                engine.load_static(edges)
            except InputError as error:
                raise InputError(f"{path}: {error}", file=path, column=error.column) from error
    return count


def _edges_of(path: str, format: str, number: int) -> Iterator[pa.RecordBatch]:
    """The edges of a file in batches; times are not looked at, and a delete is an error."""
    columns = ColumnNames(timed=False, fixed=True) if format in ("edges", "jsonl") else None
    rdf = RdfReading(scope=f"s{number}.") if format == "rdf" else None
    for batch in open_reader(format, [path], columns=columns, rdf=rdf):
        names = batch.columns.schema.names
        if "delete" in names and pc.any(batch.columns.column("delete")).as_py():
            message = "deletes an edge; edges without time are there from the beginning to the end"
            raise InputError(f"{path}: {message}", file=path)
        yield pa.RecordBatch.from_arrays([batch.columns.column(name) for name in _NAMES], _NAMES)


def digests(paths: Sequence[str]) -> list[str]:
    """Each file with what tells its content from any other: rows depend on it, but it is read only once."""
    found = []
    for path in paths:
        files = [path] if os.path.isfile(path) else sorted(_inside(path))
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{os.path.relpath(file, path)}\0".encode(errors="surrogateescape"))
            try:
                with open(file, "rb") as opened:
                    while data := opened.read(_HASHED):
                        digest.update(data)
            except OSError as error:
                raise click.UsageError(f"--static {file}: cannot be read: {error.strerror or error}") from error
        found.append(f"{os.path.abspath(path)} ({digest.hexdigest()[:16]})")
    return found


def _inside(folder: str) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        yield from (os.path.join(root, name) for name in names)


@dataclass(frozen=True, kw_only=True)
class OpenedInput:
    """What is read, and the unit of its timestamps as the reader or else an option tells it."""

    settings: RunSettings
    reader: Reader
    time_unit: str | None

    def begun(self, queries: Sequence[Query], interrupts: Interrupts) -> BegunInput:
        """Begin to read, for queries whose labels are looked for, until an interrupt.

        The vertices of a pipe are not looked at where they are text anyway: its first line may be long in coming.
        """
        are_files = are_regular(self.settings.inputs)
        labels_seen = LabelsSeen(queries)
        batches = labels_seen.observed(watched(self.reader, interrupts, may_wait=not are_files))
        integers = False
        if are_files or self.settings.format == "jsonl":
            batches, integers = _peek(batches)
        if self.settings.events:
            batches = in_whole_events(batches)
        return BegunInput(batches=batches, integers=integers, labels_seen=labels_seen)


@dataclass(frozen=True, kw_only=True)
class BegunInput:
    """The tuples of an input, whether its vertices are integers, and the labels that have come so far."""

    batches: Iterator[Batch]
    integers: bool
    labels_seen: LabelsSeen


def opened_input(settings: RunSettings) -> OpenedInput:
    """Open what the settings speak of; a usage error, or another one of click's, if that cannot be."""
    try:
        reader = _open(settings)
    except InputError as error:
        if error.file is None:  # not about an input, but about what was asked for
            raise click.UsageError(str(error)) from error
        raise click.ClickException(str(error)) from error
    except WhereError as error:
        raise click.UsageError(str(error)) from error
    if settings.time_unit and reader.time_unit and settings.time_unit != reader.time_unit:
        raise click.UsageError(
            f"--time-unit {settings.time_unit}: the timestamps of this input are in {reader.time_unit}"
        )
    return OpenedInput(settings=settings, reader=reader, time_unit=settings.time_unit or reader.time_unit)


def are_regular(inputs: Sequence[str]) -> bool:
    """Whether all inputs are files and folders, which do not keep anybody waiting."""
    return all(path != "-" and (os.path.isfile(path) or os.path.isdir(path)) for path in inputs)


def _open(settings: RunSettings) -> Reader:
    is_rdf = settings.format == "rdf"
    if settings.events and not is_rdf and "columns" not in format_named(settings.format).options:
        raise click.UsageError(
            f"--events: tuples of the format {settings.format} have no events; expected edges or jsonl with a column event, "
            "or rdf, where an event is a graph"
        )
    try:
        has_events = settings.events is not None and not is_rdf
        columns = ColumnNames.parse(settings.columns, label=settings.label, has_events=has_events)
    except InputError as error:
        raise click.UsageError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    graph = settings.rdf_graph
    if settings.events and is_rdf:
        if graph == "stream":
            raise click.UsageError("--events: an event of RDF is a graph, which --rdf-graph stream says is a stream")
        graph = "event"
    given: dict[str, Any] = {"syntax": settings.rdf_syntax, "time": settings.rdf_time, "graph": graph}
    of_rdf = {name: value for name, value in given.items() if value is not None}
    if of_rdf and not is_rdf:
        options = " and ".join(f"--rdf-{name}" for name in of_rdf)
        raise click.UsageError(f"{options}: the format is {settings.format}; expected --format rdf")
    return open_reader(
        settings.format,
        settings.inputs,
        on_error=settings.on_error,
        limit=settings.limit,
        drop_self_loops=settings.drop_self_loops,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        time_unit=settings.time_unit,
        streams=settings.streams,
        rdf=RdfReading(**of_rdf) if of_rdf else None,
    )


def _peek(batches: Iterator[Batch]) -> tuple[Iterator[Batch], bool]:
    """Tell from the first batch whether vertices are integers, and give it back; errors come when it is read again."""
    try:
        first = next(batches, None)
    except (InputError, WhereError) as error:
        return _raising(error), False
    if first is None:
        return iter(()), False
    return chain([first], batches), pa.types.is_integer(first.columns.schema.field("source").type)


def _raising(error: Exception) -> Iterator[Batch]:
    raise error
    yield  # makes it a generator
