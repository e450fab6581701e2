"""The format `rdf`: N-Triples, N-Quads, Turtle, TriG, JSON-LD and RDF/XML, parsed by pyoxigraph.

The file name determines the syntax (`rpq.readers.rdf.rdf_syntax`); compression is recognised as in other formats. Statements
with times become tuples; bad statements stop the reading or are counted. If times are positions, inputs are read one after
the other and numbered consecutively; otherwise they are merged by the timestamps of their heads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.column_names import EVENT
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
)
from rpq.readers.rdf.blank_nodes import BlankNodes
from rpq.readers.rdf.rdf_syntax import SYNTAX_NAMES, RdfSyntax, pyoxigraph, syntax_by_name, syntax_of
from rpq.readers.rdf.statements import SCHEMA, BadStatement, Statements
from rpq.readers.rdf.times import (
    GraphNameTimes,
    GraphPositionTimes,
    GraphPropertyTimes,
    Kind,
    PositionTimes,
    TimedResult,
    TimeTerms,
    TripleTimes,
    UntimedStatement,
    unit_of,
)
from rpq.readers.source import STANDARD_INPUT, ByteSource
from rpq.stream.fields import STREAM

DELETE = "urn:rpq:delete"
"""Triples in the graph of this name are deleted; so are triples in a graph whose name continues it with a colon."""

POSITION, GRAPH_POSITION, GRAPH_NAME = "position", "graph-position", "graph-name"
TIME_SOURCES = (POSITION, GRAPH_POSITION, GRAPH_NAME)
"""The sources of the time of a triple, besides the IRI of a property."""


@dataclass(frozen=True, kw_only=True)
class RdfReading:
    """The options for reading RDF: its `syntax`, the source of the `time` of a triple, and the meaning of its `graph`.

    `syntax` is one of nt, nq, ttl, trig, jsonld, rdf, or None to derive it from file names. `time` is "position" (the n-th
    triple has the time n), "graph-position" (the triples of the n-th graph have the time n), "graph-name" (the name of the
    graph ends in the time), or the IRI of a property with the time of a graph. `graph` is "stream" or "event", the column
    for the name of the graph. Blank nodes of the n-th input are named `_:<scope>n.…`.

    Raises `InputError` for an unknown syntax, and for another `time`.

    >>> RdfReading(time="http://www.w3.org/ns/prov#generatedAtTime", graph="event").syntax is None
    True
    """

    syntax: str | None = None
    time: str = POSITION
    graph: Literal["stream", "event"] | None = None
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
        source: ByteSource,
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
        self._statements = Statements(source, syntax, batch_rows=batch_rows, literal_graphs=reading.time == GRAPH_NAME)
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

    @property
    def bytes_read(self) -> int:
        return self._source.position

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for read in self._statements:
            if isinstance(read, BadStatement):
                self._reject(read.message, read.line, ends=read.ends)
            else:
                columns = self._blanks.rename(read.columns[:-1])
                named = pa.RecordBatch.from_arrays([*columns, read.column("number")], schema=SCHEMA)
                yield from self._tuples_of(self._times.assign(named))
        yield from self._tuples_of(self._times.finish())

    def _tuples_of(self, results: Iterator[TimedResult]) -> Iterator[pa.RecordBatch]:
        for one in results:
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
    paths: Sequence[str],
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


def _open_input(
    path: str,
    reading: RdfReading,
    *,
    times: TripleTimes,
    scope: str = "",
    on_error: str = "skip",
    batch_rows: int = SAMPLE_TRIPLES,
    time_unit: str | None = None,
) -> RdfInput:
    return RdfInput(
        ByteSource(path),
        syntax=syntax_by_name(reading.syntax) if reading.syntax is not None else syntax_of(path),
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


def _first_kind(path: str, reading: RdfReading, time_unit: str | None) -> Kind | None:
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
