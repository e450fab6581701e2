"""The time of a triple: its position, the name of its graph, or a property of its graph.

Times are integers and xsd:dateTime, as literals or at the end of an IRI (`TimeTerms`).

A property of a graph is a triple `<graph> prov:generatedAtTime "2024-05-01T12:00:00Z"^^xsd:dateTime`. The triple is in the
default graph or in the graph itself, before, among or after the other triples of the graph; it is not an edge. Any other
triple of the default graph belongs to the graph that is its subject. Triples wait until the time of their graph is known,
and later triples wait with them to preserve the order; at most `MAX_WAITING` triples wait. The times of at least the last
`MAX_GRAPHS` graphs are stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.stream.arrays.fields import DEFAULT_UNIT, FieldError, TimeKind, check_time, quote_value, time_kind, times_of
from rpq.stream.names.terms import is_blank, is_literal, read_literal

_AT_THE_END = re.compile(r"(?:^|[/#:=])([+-]?\d{1,20}|\d{4}-\d\d-\d\d(?:[T ][^/#]*)?)$")
_INTEGER = re.compile(r"[+-]?\d{1,20}")
_EXPECTED = 'expected an integer or a time such as "2024-05-01T12:00:00Z"^^xsd:dateTime'

Kind = Literal["integers", "naive", "aware"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class TimeTerms:
    """A converter of the terms of one input to timestamps.

    The first term determines whether all are integers, times with a zone, or times without. `unit` is the unit of times;
    without a unit, the error for a time requests one. `kind` is None before the first term.
    """

    def __init__(self, *, unit: str | None = None, kind: Kind | None = None) -> None:
        self.unit = unit
        self.kind: Kind | None = kind

    def times(self, terms: list[str]) -> list[int | FieldError]:
        """Return the timestamp in each term, or an error."""
        found: list[int | FieldError] = []
        texts: dict[int, str] = {}
        for term in terms:
            try:
                text = time_text(term)
                number = self._integer(text) if self._kind_of(text) == "integers" else None
            except FieldError as error:
                found.append(error)
                continue
            if number is None:
                texts[len(found)] = text
            found.append(number or 0)
        if texts:
            for place, time in zip(texts, self._moments(list(texts.values())), strict=True):
                found[place] = time
        return found

    def _kind_of(self, text: str) -> Kind:
        """Return the kind of the input's times, which the first time determines."""
        if self.kind is None:
            self.kind = "integers" if _INTEGER.fullmatch(text) else time_kind(text)
            if self.kind is None:
                raise FieldError(f"{quote_value(text)} is not a time; {_EXPECTED}")
        return self.kind

    def _integer(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise FieldError(f"{quote_value(text)} is not an integer, but earlier times are integers")
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise FieldError(f"{text} does not fit 64 bits")
        return number

    def _moments(self, texts: list[str]) -> list[int | FieldError]:
        if self.unit is None:
            raise FieldError("the times of this input are dates; set their unit with --time-unit (time_unit=)")
        kind: TimeKind = "aware" if self.kind == "aware" else "naive"
        times = times_of(pa.array(texts), kind=kind, unit=self.unit) if all(map(str.isascii, texts)) else None
        if times is not None:
            return list(np.asarray(times).tolist())
        found: list[int | FieldError] = []
        for text in texts:
            try:
                found.append(check_time(text, "timestamp", kind=kind, unit=self.unit))
            except FieldError as error:
                found.append(error)
        return found


def time_text(term: str) -> str:
    """Return the text of a time in a term: the text of a literal, or the end of an IRI. Raises `FieldError`.

    >>> time_text('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), time_text("urn:rpq:insert:5"), time_text("http://t/2024-05-01")
    ('5', '5', '2024-05-01')
    """
    if is_literal(term):
        literal = read_literal(term)
        if literal is not None:
            return literal.text.strip()
    elif not is_blank(term):
        found = _AT_THE_END.search(unquote(term))
        if found is not None:
            return found[1]
    raise FieldError(f"{quote_value(term)} contains no time; {_EXPECTED}, or an IRI that ends in one")


def unit_of(kind: Kind | None, unit: str | None) -> str | None:
    """Return the unit of an input with times of this kind, or None for plain numbers and for an unknown unit."""
    return unit if kind is None else None if kind == "integers" else unit or DEFAULT_UNIT


@dataclass(frozen=True, kw_only=True)
class TimedStatements:
    """Statements with their times; `graph` is the name of the graph of each statement, null for the default graph."""

    statements: pa.RecordBatch
    timestamps: np.ndarray
    graph: pa.Array


@dataclass(frozen=True, kw_only=True)
class UntimedStatement:
    """A statement without a time: its number, and the reason."""

    number: int
    message: str


TimedResult: TypeAlias = TimedStatements | UntimedStatement


class TripleTimes(Protocol):
    """An assignment of times to the statements of an input; `finish` yields those that still wait at its end."""

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]: ...

    def finish(self) -> Iterator[TimedResult]: ...


class PositionTimes:
    """The n-th triple has the time n, counted over all inputs, which are read one after the other."""

    def __init__(self) -> None:
        self._count = 0

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]:
        times = np.arange(1, statements.num_rows + 1) + self._count
        self._count += statements.num_rows
        yield TimedStatements(statements=statements, timestamps=times, graph=statements.column("graph"))

    def finish(self) -> Iterator[TimedResult]:
        yield from ()


class FixedTimes:
    """All triples have one time, that of the document in which they come."""

    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]:
        times = np.full(statements.num_rows, self._timestamp, np.int64)
        yield TimedStatements(statements=statements, timestamps=times, graph=statements.column("graph"))

    def finish(self) -> Iterator[TimedResult]:
        yield from ()


class GraphPositionTimes:
    """The triples of the n-th graph have the time n; a graph is a run of consecutive triples with one graph name."""

    def __init__(self) -> None:
        self._count = 0
        self._last: str | None = None

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]:
        graph = pc.fill_null(statements.column("graph"), "")  # no name is empty
        encoded = graph.dictionary_encode()
        codes = encoded.indices.to_numpy()
        begins = np.append(True, codes[1:] != codes[:-1])
        begins[0] = graph[0].as_py() != self._last
        times = np.cumsum(begins) + self._count
        self._count, self._last = int(times[-1]), graph[-1].as_py()
        yield TimedStatements(statements=statements, timestamps=times, graph=statements.column("graph"))

    def finish(self) -> Iterator[TimedResult]:
        """End the current graph: the same name in another input is another graph."""
        self.begin_document()
        yield from ()

    def begin_document(self) -> None:
        """End the current graph: the same name in another document is another graph."""
        self._last = None


class GraphNameTimes:
    """The time of a triple is the name of its graph."""

    def __init__(self, terms: TimeTerms) -> None:
        self._terms = terms

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]:
        encoded = statements.column("graph").dictionary_encode()
        timestamps = self._terms.times(encoded.dictionary.to_pylist())
        codes = pc.fill_null(encoded.indices, len(timestamps)).to_numpy()
        problems = [*(str(one) if isinstance(one, FieldError) else None for one in timestamps), _NO_GRAPH]
        times = np.array([*(0 if isinstance(one, FieldError) else one for one in timestamps), 0], np.int64)[codes]
        is_bad = np.array([problem is not None for problem in problems])[codes]
        untimed = {row: str(problems[codes[row]]) for row in np.flatnonzero(is_bad).tolist()}
        yield from split_untimed(statements, times, statements.column("graph"), untimed)

    def finish(self) -> Iterator[TimedResult]:
        yield from ()


_NO_GRAPH = "is in the default graph, which has no name for the time"


def split_untimed(
    statements: pa.RecordBatch, times: np.ndarray, graph: pa.Array, problems: dict[int, str]
) -> Iterator[TimedResult]:
    """Yield statements with their times and, in order, those in `problems` (row → message) without a time."""
    start = 0
    numbers = statements.column("number")
    for row, message in [*sorted(problems.items()), (statements.num_rows, "")]:
        if start < row:
            length = row - start
            yield TimedStatements(
                statements=statements.slice(start, length), timestamps=times[start:row], graph=graph.slice(start, length)
            )
        if row < statements.num_rows:
            yield UntimedStatement(number=numbers[int(row)].as_py(), message=message)
        start = row + 1


MAX_WAITING = 100_000
MAX_GRAPHS = 100_000


class GraphPropertyTimes:
    """The time of a triple is a property of its graph."""

    def __init__(self, iri: str, terms: TimeTerms) -> None:
        self._property = iri
        self._terms = terms
        self._waiting: list[pa.RecordBatch] = []
        self._times: dict[str, int] = {}
        self._earlier_times: dict[str, int] = {}

    def assign(self, statements: pa.RecordBatch) -> Iterator[TimedResult]:
        while statements.num_rows:
            about = self._about(statements)
            problem = self._record_times(statements, np.flatnonzero(about))
            end = statements.num_rows if problem is None else problem[0]
            edges = statements.slice(0, end).filter(pa.array(~about[:end]))
            if edges.num_rows:
                self._waiting.append(edges)
            yield from self._release(at_end=False)
            if problem is not None:
                yield UntimedStatement(number=statements.column("number")[end].as_py(), message=problem[1])
            statements = statements.slice(end + 1)

    def finish(self) -> Iterator[TimedResult]:
        yield from self._release(at_end=True)

    def _about(self, statements: pa.RecordBatch) -> np.ndarray:
        """Return which statements set the time of their own graph or, from the default graph, of any graph."""
        is_property = pc.equal(statements.column("predicate"), self._property)
        is_own = pc.fill_null(pc.equal(statements.column("graph"), statements.column("subject")), True)
        return np.asarray(pc.and_(is_property, is_own))

    def _record_times(self, statements: pa.RecordBatch, rows: np.ndarray) -> tuple[int, str] | None:
        """Record the times in these rows up to the first bad one; return its row and the error."""
        times = statements.take(pa.array(rows))
        timestamps = self._terms.times(times.column("object").to_pylist())
        for row, graph, time in zip(rows.tolist(), times.column("subject").to_pylist(), timestamps, strict=True):
            if isinstance(time, FieldError):
                return row, f"the time of the graph {quote_value(graph)}: {time}"
            before = self._time_of(graph)
            if before is not None and before != time:
                return row, f"the graph {quote_value(graph)} already has the time {before}; found {time}"
            if len(self._times) >= MAX_GRAPHS:
                self._earlier_times, self._times = self._times, {}
            self._times[graph] = time
        return None

    def _time_of(self, graph: str) -> int | None:
        time = self._times.get(graph)
        return self._earlier_times.get(graph) if time is None else time

    def _release(self, *, at_end: bool) -> Iterator[TimedResult]:
        """Yield the waiting statements up to the first one whose time is unknown."""
        if not self._waiting:
            return
        waiting = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()[0]
        graph = pc.coalesce(waiting.column("graph"), waiting.column("subject"))
        encoded = graph.dictionary_encode()
        graph_times = [self._time_of(name) for name in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy()
        has_time = np.array([time is not None for time in graph_times])[codes]
        times = np.array([time or 0 for time in graph_times], np.int64)[codes]
        if at_end:
            end = judged = len(codes)
        else:
            numbers = waiting.column("number").to_numpy()  # equal within a line: a document stays whole
            end = len(codes) if has_time.all() else int(np.searchsorted(numbers, numbers[np.argmin(has_time)]))
            judged = end
            if len(codes) - end > MAX_WAITING:  # the first has waited too long: reject untimed statements of the first half
                end = judged = int(np.searchsorted(numbers, numbers[end + (len(codes) - end) // 2 - 1], "right"))
        untimed = np.flatnonzero(~has_time[:judged]).tolist()
        problems = {row: self._describe_missing(graph[row].as_py(), at_end) for row in untimed}
        self._waiting = [waiting.slice(end)] if end < len(codes) else []
        yield from split_untimed(waiting.slice(0, end), times[:end], graph.slice(0, end), problems)

    def _describe_missing(self, graph: str, at_end: bool) -> str:
        where = "in the input" if at_end else f"before it, nor among the {MAX_WAITING:,} triples after it"
        name, property_ = quote_value(graph), quote_value(self._property)
        return f"the graph {name} has no time: there is no triple {name} {property_} {where}"
