"""When triples are: by their places, or by the names of their graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.readers.field_errors import FieldError
from rpq.readers.rdf.time_terms import TimeTerms


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Statements that have a time; `graph` names the graph that each belongs to, null for the default one."""

    statements: pa.RecordBatch
    timestamps: np.ndarray
    graph: pa.Array


@dataclass(frozen=True, kw_only=True)
class Untimed:
    """A statement without a time, by its number, and why."""

    number: int
    message: str


Told: TypeAlias = Timed | Untimed


class TripleTimes(Protocol):
    """Gives the statements of an input their times; `rest` gives those that wait for theirs when the input ends."""

    def of(self, statements: pa.RecordBatch) -> Iterator[Told]: ...

    def rest(self) -> Iterator[Told]: ...


class ByPosition:
    """The n-th triple has the time n; of several inputs, which are read one after the other, all count."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, statements: pa.RecordBatch) -> Iterator[Told]:
        times = np.arange(1, statements.num_rows + 1) + self._count
        self._count += statements.num_rows
        yield Timed(statements=statements, timestamps=times, graph=statements.column("graph"))

    def rest(self) -> Iterator[Told]:
        yield from ()


class ByGraphPosition:
    """The triples of the n-th graph have the time n: those of one graph that come one after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._last: str | None = None

    def of(self, statements: pa.RecordBatch) -> Iterator[Told]:
        graph = pc.fill_null(statements.column("graph"), "")  # no name is empty
        encoded = graph.dictionary_encode()
        codes = encoded.indices.to_numpy()
        begins = np.append(True, codes[1:] != codes[:-1])
        begins[0] = graph[0].as_py() != self._last
        times = np.cumsum(begins) + self._count
        self._count, self._last = int(times[-1]), graph[-1].as_py()
        yield Timed(statements=statements, timestamps=times, graph=statements.column("graph"))

    def rest(self) -> Iterator[Told]:
        """Begin a graph anew: what another input calls by the same name is another one."""
        self._last = None
        yield from ()


class ByGraphName:
    """The name of its graph is the time of a triple."""

    def __init__(self, terms: TimeTerms) -> None:
        self._terms = terms

    def of(self, statements: pa.RecordBatch) -> Iterator[Told]:
        encoded = statements.column("graph").dictionary_encode()
        said = self._terms.times(encoded.dictionary.to_pylist())
        codes = pc.fill_null(encoded.indices, len(said)).to_numpy()
        problems = [*(str(one) if isinstance(one, FieldError) else None for one in said), _NO_GRAPH]
        times = np.array([*(0 if isinstance(one, FieldError) else one for one in said), 0], np.int64)[codes]
        is_bad = np.array([problem is not None for problem in problems])[codes]
        untimed = {row: str(problems[codes[row]]) for row in np.flatnonzero(is_bad).tolist()}
        yield from with_untimed(statements, times, statements.column("graph"), untimed)

    def rest(self) -> Iterator[Told]:
        yield from ()


_NO_GRAPH = "is in the default graph, and the time is the name of the graph"


def with_untimed(
    statements: pa.RecordBatch, times: np.ndarray, graph: pa.Array, problems: dict[int, str]
) -> Iterator[Told]:
    """Statements with their times, and between them those that have none, by their rows."""
    start = 0
    numbers = statements.column("number")
    for row, message in [*sorted(problems.items()), (statements.num_rows, "")]:
        if start < row:
            length = row - start
            yield Timed(
                statements=statements.slice(start, length), timestamps=times[start:row], graph=graph.slice(start, length)
            )
        if row < statements.num_rows:
            yield Untimed(number=numbers[int(row)].as_py(), message=message)
        start = row + 1
