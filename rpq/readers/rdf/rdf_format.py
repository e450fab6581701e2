"""The format `rdf`: N-Triples, N-Quads, Turtle, TriG, JSON-LD and RDF/XML, parsed by pyoxigraph.

The file name determines the syntax (`rpq.readers.rdf.rdf_syntax`); compression is recognised as in other formats. Statements
with times become tuples; bad statements stop the reading or are counted. If times are positions, inputs are read one after
the other and numbered consecutively; otherwise they are merged by the timestamps of their heads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.column_names import EVENT
from rpq.readers.edges import InMemorySource
from rpq.readers.input_format import Format
from rpq.readers.inputs import (
    BATCH_ROWS,
    REJECTION_MESSAGES,
    Input,
    InputsReader,
    SingleStreamInput,
    check_arguments,
    concatenate_inputs,
    merge_by_heads,
    order_rows,
)
from rpq.readers.open_source import OpenSource
from rpq.readers.rdf.blank_nodes import BlankNodes
from rpq.readers.rdf.canonical_lines import IRI
from rpq.readers.rdf.growth import GrowthError, check_entities, check_json_growth
from rpq.readers.rdf.rdf_syntax import SYNTAX_NAMES, RdfSyntax, pyoxigraph, syntax_by_name, syntax_of
from rpq.readers.rdf.statements import SCHEMA, BadStatement, Statements
from rpq.readers.rdf.times import (
    FixedTimes,
    GraphNameTimes,
    GraphPositionTimes,
    GraphPropertyTimes,
    Kind,
    PositionTimes,
    TimedResult,
    TimedStatements,
    TimeTerms,
    TripleTimes,
    UntimedStatement,
    unit_of,
)
from rpq.readers.source import STANDARD_INPUT, ByteSource, check_size
from rpq.stream.arrays.fields import STREAM

DELETE = "urn:rpq:delete"
"""Triples in the graph of this name are deleted; so are triples in a graph whose name continues it with a colon."""

POSITION, GRAPH_POSITION, GRAPH_NAME = "position", "graph-position", "graph-name"
TIME_SOURCES = (POSITION, GRAPH_POSITION, GRAPH_NAME)
"""The sources of the time of a triple, besides the IRI of a property."""


@dataclass(frozen=True, kw_only=True)
class RdfReading:
    """The options for reading RDF: its `syntax`, the source of the `time` of a triple, and the meaning of its `graph`.

    `syntax` is one of nt, nq, ttl, trig, jsonld, ndjsonld, rdf, or None to derive it from file names. `time` is "position"
    (the n-th triple has the time n), "graph-position" (the triples of the n-th graph have the time n), "graph-name" (the
    name of the graph ends in the time), or the IRI of a property with the time of a graph. `graph` is "stream" or "event",
    the column for the name of the graph. Relative IRIs refer to `base`. Blank nodes of the n-th input are named
    `_:<scope>n.…`.

    Raises `InputError` for an unknown syntax, for another `time`, and for a base that is not an absolute IRI.

    >>> RdfReading(time="http://www.w3.org/ns/prov#generatedAtTime", graph="event").syntax is None
    True
    """

    syntax: str | None = None
    time: str = POSITION
    graph: Literal["stream", "event"] | None = None
    base: str | None = None
    scope: str = "f"

    def __post_init__(self) -> None:
        if self.syntax is not None and self.syntax not in SYNTAX_NAMES:
            raise InputError(f"unknown syntax of RDF {self.syntax!r}: expected one of {', '.join(SYNTAX_NAMES)}")
        if self.time not in TIME_SOURCES and ":" not in self.time:
            raise InputError(
                f"the source of the time of a triple is {self.time!r}: expected {', '.join(TIME_SOURCES)}, "
                "or the IRI of a property"
            )
        if self.graph not in (None, STREAM, EVENT):
            raise InputError(f"the column for the name of a graph is {self.graph!r}: expected {STREAM} or {EVENT}")
        if self.base is not None and re.fullmatch(IRI, self.base) is None:
            raise InputError(f"the base of relative IRIs is {self.base!r}; expected an absolute IRI: http://example.org/")

    @property
    def has_graph_times(self) -> bool:
        """True if the input contains times, which have a kind and a unit.

        >>> RdfReading().has_graph_times, RdfReading(time="graph-name").has_graph_times
        (False, True)
        """
        return self.time not in (POSITION, GRAPH_POSITION)


class RdfInput:
    """The tuples of one input of RDF, in the order of its triples.

    With `on_error="stop"` an error raises `InputError` after the tuples before it; with `"skip"` it is counted in
    `rejected`. An input that cannot be read any further raises in either case.
    """

    def __init__(
        self,
        source: ByteSource | InMemorySource | OpenSource,
        *,
        syntax: RdfSyntax,
        reading: RdfReading,
        times: TripleTimes,
        scope: str,
        on_error: str,
        batch_rows: int,
        time_unit: str | None,
    ) -> None:
        self._source = source
        self._syntax = syntax
        self._reading = reading
        self._times = times
        self._stop = on_error == "stop"
        self._statements = Statements(
            source,
            syntax,
            batch_rows=batch_rows,
            base=reading.base,
            literal_graphs=reading.time == GRAPH_NAME,
        )
        self._scope = scope
        self._blanks = BlankNodes(
            scope,
            are_generated=not syntax.is_line_based,
            are_local=syntax.has_local_blanks,
            labels=self._statements.labels,
        )
        self.name = source.name
        self.bytes_total = source.size
        self.time_unit = time_unit
        self.rejected = 0
        self.rejections: list[str] = []
        self.warnings: list[str] = []
        self.filtered = 0
        self.undecided = 0
        self._bad_documents: set[int] = set()

    @property
    def bytes_read(self) -> int:
        return self._source.position

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for read in self._statements:
            if isinstance(read, BadStatement):
                self._reject(read.message, read.line, ends=read.ends)
            else:
                for part in self._documents_of(read) if self._syntax.has_documents else (read,):
                    columns = self._blanks.rename(part.columns[:-1])
                    named = pa.RecordBatch.from_arrays([*columns, part.column("number")], schema=SCHEMA)
                    yield from self._tuples_of(self._times.assign(named))
        yield from self._tuples_of(self._times.finish())

    def _documents_of(self, read: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a batch one by one, or at once if none has blank nodes or positions of graphs."""
        blanks = (pc.any(pc.starts_with(read.column(place), "_:")).as_py() for place in (0, 2, 3))
        if self._reading.time != GRAPH_POSITION and not any(blanks):
            yield read
            return
        numbers = read.column("number").to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(starts):
            self._blanks = BlankNodes(f"{self._scope}.{numbers[start]}", are_generated=True, are_local=False)
            if isinstance(self._times, GraphPositionTimes):
                self._times.begin_document()
            yield read.slice(start, end - start)

    def _tuples_of(self, results: Iterator[TimedResult]) -> Iterator[pa.RecordBatch]:
        for one in self._of_whole_documents(results) if self._syntax.has_documents else results:
            if isinstance(one, UntimedStatement):
                self._reject(one.message, self._line_of(one.number), number=one.number)
                continue
            statements = one.statements
            columns = {
                "source": statements.column("subject"),
                "target": statements.column("object"),
                "label": statements.column("predicate").dictionary_encode(),
                "timestamp": pa.array(one.timestamps, pa.int64()),
            }
            delete = pc.fill_null(pc.match_substring_regex(statements.column("graph"), f"^{DELETE}(?::|$)"), False)
            if delete.true_count:
                columns["delete"] = delete
            if self._reading.graph is not None:
                columns[self._reading.graph] = one.graph.dictionary_encode()
            yield pa.RecordBatch.from_pydict(columns)

    def _of_whole_documents(self, results: Iterator[TimedResult]) -> Iterator[TimedResult]:
        """Yield results without documents in which a statement has no time; one error stands for a document."""
        found = list(results)
        fresh = {one.number for one in found if isinstance(one, UntimedStatement)} - self._bad_documents
        self._bad_documents |= fresh
        for one in found:
            if isinstance(one, UntimedStatement):
                if one.number in fresh:
                    fresh.remove(one.number)
                    yield one
                continue
            numbers = one.statements.column("number").to_numpy()
            is_good = ~np.isin(numbers, [*self._bad_documents])
            if is_good.all():
                yield one
            elif is_good.any():
                mask = pa.array(is_good)
                yield TimedStatements(
                    statements=one.statements.filter(mask), timestamps=one.timestamps[is_good], graph=one.graph.filter(mask)
                )

    def _line_of(self, number: int) -> int | None:
        """Return the line of a statement, or None after the first rejections, which are the only ones with messages."""
        return self._statements.line_of(number) if len(self.rejections) < REJECTION_MESSAGES else None

    def _reject(self, message: str, line: int | None, *, ends: bool = False, number: int | None = None) -> None:
        place = f"{self.name}:{line}" if line is not None else self.name
        if line is None and number is not None:
            place += f": triple {number + 1:,}"
        if self._stop or ends:
            raise InputError(f"{place}: {message}", file=self.name, line=line)
        self.rejected += 1
        if len(self.rejections) < REJECTION_MESSAGES:
            self.rejections.append(f"{place}: {message}")


SAMPLE_TRIPLES = 1_000
"""The number of triples at the beginning of a file that are searched for the first time."""


def open_rdf(
    paths: Sequence[str | OpenSource],
    *,
    on_error: str = "stop",
    batch_rows: int = BATCH_ROWS,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
    rdf: RdfReading | None = None,
) -> InputsReader[Input]:
    """Open inputs of RDF as one stream of tuples; `rdf` contains the reading options.

    Times that are dates become integers in `time_unit`, by default microseconds; a pipe requires it. Raises `InputError`
    for a missing input, for inputs that do not fit together, and if pyoxigraph is not installed.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    pyoxigraph()
    reading = rdf or RdfReading()
    if reading.graph == "stream" and streams is not None and any(streams):
        raise InputError("both the inputs and the graphs are assigned to streams; use one of the two")
    positions: TripleTimes = PositionTimes() if reading.time == POSITION else GraphPositionTimes()
    inputs: list[Input] = []
    for number, path in enumerate(paths, 1):
        if isinstance(path, OpenSource) and path.delivers == "edges":
            raise InputError(f"{path.name}: delivers edges, not text; leave out --format rdf", file=path.name)
        times, unit = positions, None
        if reading.has_graph_times:
            kind = _first_kind(path, reading, time_unit)
            unit = unit_of(kind, time_unit)
            times = _times(reading, TimeTerms(unit=unit, kind=kind))
        one = _open_input(
            path,
            reading,
            times=times,
            scope=f"{reading.scope}{number}",
            on_error=on_error,
            batch_rows=batch_rows,
            time_unit=unit,
        )
        stream = streams[number - 1] if streams is not None else None
        inputs.append(one if stream is None else SingleStreamInput(one, stream))
    combine = merge_by_heads if reading.has_graph_times else concatenate_inputs
    return InputsReader(inputs, combine=combine, batch_rows=batch_rows)


RDF = Format(name="rdf", open=open_rdf)


class RdfDocuments:
    """A reader of documents that arrive one by one, as posts or messages.

    The first time decides whether all times are integers or dates. `reading` has the options; if times are positions, each
    document needs a timestamp. Blank nodes of different documents are different nodes.

    >>> documents = RdfDocuments(RdfReading(time="graph-name"))
    >>> documents.read(b"<x:a> <x:p> <x:b> <x:t/7> .", syntax="nq", name="the body", scope="d1").to_pylist()
    [{'source': 'x:a', 'target': 'x:b', 'label': 'x:p', 'timestamp': 7, 'delete': False}]
    """

    def __init__(self, reading: RdfReading, *, time_unit: str | None = None, kind: Kind | None = None) -> None:
        pyoxigraph()
        self.reading = reading
        self.kind = kind
        """The kind of the times so far; None before the first time."""
        self._time_unit = time_unit
        self._lock = Lock()

    def read(
        self,
        data: bytes,
        *,
        syntax: str,
        name: str,
        scope: str,
        timestamp: int | None = None,
        most_bytes: int | None = None,
    ) -> pa.RecordBatch | None:
        """Return the tuples of a document, or None if it has none. With a `timestamp`, it is the time of all of them.

        Raises `InputError` with the line of a bad statement; then no statement of the document is read.  Raises
        `InputSizeError` as soon as its tuples have over `most_bytes`. O(bytes).
        """
        if syntax == "rdf":
            check_entities(data, name=name)
        if syntax == "jsonld":
            try:
                check_json_growth(data, most_bytes=most_bytes)
            except GrowthError as error:
                place = name if error.line is None else f"{name}:{error.line}"
                raise InputError(f"{place}: {error}", file=name, line=error.line) from None
        terms = TimeTerms(unit=self._time_unit, kind=self.kind)
        if timestamp is not None:
            times: TripleTimes = FixedTimes(timestamp)
        elif self.reading.has_graph_times:
            times = _times(self.reading, terms)
        else:
            raise InputError(f"{name}: {NO_TIME}")
        document = RdfInput(
            InMemorySource(data, name=name),
            syntax=syntax_by_name(syntax),
            reading=self.reading,
            times=times,
            scope=scope,
            on_error="stop",
            batch_rows=BATCH_ROWS,
            time_unit=terms.unit,
        )
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in document:
            batches.append(_with_deletes(batch))
            size += batch.nbytes
            if most_bytes is not None:
                check_size(size, most_bytes=most_bytes, name=name)
        with self._lock:  # several threads may read documents
            if terms.kind is not None and self.kind not in (None, terms.kind):
                raise InputError(f"{name}: its times are {terms.kind}, but those of earlier documents {self.kind}")
            self.kind = terms.kind or self.kind
        if len(batches) < 2:
            return batches[0] if batches else None
        return order_rows(batches, np.zeros(sum(map(len, batches)), np.int8))


NO_TIME = (
    "the triples have no time: --rdf-time says where it is, as graph-name or the IRI of a property of graphs such as "
    "http://www.w3.org/ns/prov#generatedAtTime; or the document comes with a timestamp"
)


def _with_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return tuples with a column delete behind the timestamps, as all batches of a document have it."""
    if "delete" in batch.schema.names:
        return batch
    columns = {name: batch.column(name) for name in ("source", "target", "label", "timestamp")}
    columns["delete"] = pa.array(np.zeros(len(batch), np.bool_))
    return pa.RecordBatch.from_pydict(columns | {name: batch.column(name) for name in batch.schema.names})


def _open_input(
    path: str | OpenSource,
    reading: RdfReading,
    *,
    times: TripleTimes,
    scope: str = "",
    on_error: str = "skip",
    batch_rows: int = SAMPLE_TRIPLES,
    time_unit: str | None = None,
) -> RdfInput:
    return RdfInput(
        ByteSource(path) if isinstance(path, str) else path,
        syntax=syntax_by_name(reading.syntax) if reading.syntax is not None else syntax_of(os.fspath(path)),
        reading=reading,
        times=times,
        scope=scope,
        on_error=on_error,
        batch_rows=batch_rows,
        time_unit=time_unit,
    )


def _times(reading: RdfReading, terms: TimeTerms) -> TripleTimes:
    if reading.time == GRAPH_NAME:
        return GraphNameTimes(terms)
    return GraphPropertyTimes(reading.time.removeprefix("<").removesuffix(">"), terms)


def _first_kind(path: str | OpenSource, reading: RdfReading, time_unit: str | None) -> Kind | None:
    """Return the kind of the times at the beginning of a file, or None for a pipe or a beginning without times."""
    if path == STANDARD_INPUT or not os.path.isfile(path):
        return None
    terms = TimeTerms(unit=time_unit or "s")
    count = 0
    try:
        for batch in _open_input(path, replace(reading, graph=None), times=_times(reading, terms)):
            count += batch.num_rows
            if terms.kind is not None or count >= SAMPLE_TRIPLES:
                break
    except InputError:
        pass
    return terms.kind
