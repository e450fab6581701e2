"""When triples are, by a property of their graphs: `<graph> prov:generatedAtTime "2024-05-01T12:00:00Z"^^xsd:dateTime`.

Such a triple stands in the default graph or in the graph that it is about, before the other triples of the graph, among
them or behind them; it is no edge itself. Any other triple of the default graph belongs to the graph that is its subject.

Triples wait until the time of their graph has come, and what comes behind them waits with them, so that the order stays;
at most `MOST_WAITING` do. Of the names of graphs the last `MOST_GRAPHS` at least are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.readers.field_errors import FieldError, shown
from rpq.readers.rdf.time_terms import TimeTerms
from rpq.readers.rdf.triple_times import Told, Untimed, with_untimed

MOST_WAITING = 100_000
MOST_GRAPHS = 100_000


class ByProperty:
    """A property of its graph says the time of a triple."""

    def __init__(self, iri: str, terms: TimeTerms) -> None:
        self._property = iri
        self._terms = terms
        self._waiting: list[pa.RecordBatch] = []
        self._known: dict[str, int] = {}
        self._known_before: dict[str, int] = {}

    def of(self, statements: pa.RecordBatch) -> Iterator[Told]:
        while statements.num_rows:
            about = self._about(statements)
            problem = self._learn(statements, np.flatnonzero(about))
            end = statements.num_rows if problem is None else problem[0]
            edges = statements.slice(0, end).filter(pa.array(~about[:end]))
            if edges.num_rows:
                self._waiting.append(edges)
            yield from self._released(at_end=False)
            if problem is not None:
                yield Untimed(number=statements.column("number")[end].as_py(), message=problem[1])
            statements = statements.slice(end + 1)

    def rest(self) -> Iterator[Told]:
        yield from self._released(at_end=True)

    def _about(self, statements: pa.RecordBatch) -> np.ndarray:
        """Which statements say the time of their own graph, or of any from the default graph."""
        is_property = pc.equal(statements.column("predicate"), self._property)
        is_own = pc.fill_null(pc.equal(statements.column("graph"), statements.column("subject")), True)
        return np.asarray(pc.and_(is_property, is_own))

    def _learn(self, statements: pa.RecordBatch, rows: np.ndarray) -> tuple[int, str] | None:
        """Learn the times that statements in these rows say, up to one with which something is wrong: its row, and what."""
        times = statements.take(pa.array(rows))
        said = self._terms.times(times.column("object").to_pylist())
        for row, graph, time in zip(rows.tolist(), times.column("subject").to_pylist(), said, strict=True):
            if isinstance(time, FieldError):
                return row, f"the time of the graph {shown(graph)}: {time}"
            before = self._time_of(graph)
            if before is not None and before != time:
                return row, f"the graph {shown(graph)} has the time {before} already, and now {time}"
            if len(self._known) >= MOST_GRAPHS:
                self._known_before, self._known = self._known, {}
            self._known[graph] = time
        return None

    def _time_of(self, graph: str) -> int | None:
        time = self._known.get(graph)
        return self._known_before.get(graph) if time is None else time

    def _released(self, *, at_end: bool) -> Iterator[Told]:
        """What has a time, as far as nothing before it waits."""
        if not self._waiting:
            return
        waiting = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()[0]
        graph = pc.coalesce(waiting.column("graph"), waiting.column("subject"))
        encoded = graph.dictionary_encode()
        known = [self._time_of(name) for name in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy()
        has_time = np.array([time is not None for time in known])[codes]
        times = np.array([time or 0 for time in known], np.int64)[codes]
        if at_end:
            end = judged = len(codes)
        else:
            end = len(codes) if has_time.all() else int(np.argmin(has_time))
            judged = end
            if len(codes) - end > MOST_WAITING:  # the first waits for too long, and whatever else does in its half
                end = judged = end + (len(codes) - end) // 2
        problems = {row: self._missing(graph[row].as_py(), at_end) for row in np.flatnonzero(~has_time[:judged]).tolist()}
        self._waiting = [waiting.slice(end)] if end < len(codes) else []
        yield from with_untimed(waiting.slice(0, end), times[:end], graph.slice(0, end), problems)

    def _missing(self, graph: str, at_end: bool) -> str:
        where = "in the input" if at_end else f"before it, nor among the {MOST_WAITING:,} triples behind it"
        return f"the graph {shown(graph)} has no time: there is no triple {shown(graph)} {shown(self._property)} {where}"
