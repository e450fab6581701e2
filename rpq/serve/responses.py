"""The contents of responses: answers in JSON, CSV and Arrow, witnesses, statistics and metrics."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, Raw

from rpq import Answers, Path, Step, Witness
from rpq.engine.machine_memory import peak_memory_bytes
from rpq.engine.statistics import engine_families, latency_family
from rpq.rows.table_formats import csv_lines, json_arrays
from rpq.serve import models
from rpq.serve.models import json_text, json_value
from rpq.serve.requests import describe_query

if TYPE_CHECKING:
    from rpq.serve.connections import Connections
    from rpq.serve.service import Service


@dataclass(frozen=True, kw_only=True)
class AnswersRead:
    """Some of the `total` answers of a query at a position."""

    columns: tuple[str, ...]
    answers: Answers
    total: int
    time: Any
    position: int

    @property
    def table(self) -> pa.Table:
        return self.answers.to_arrow()

    @property
    def about(self) -> dict[str, str]:
        """The text beside the rows, where a format has only rows."""
        cursor = self.answers.cursor
        about = {"total": str(self.total), "position": str(self.position)}
        return about if cursor is None else {**about, "cursor": cursor}


@dataclass(frozen=True)
class AnswerFormat:
    """A content type of answers and the function that encodes them; O(answers)."""

    media_type: str
    write: Callable[[AnswersRead], bytes]


def _as_json(answers: AnswersRead) -> bytes:
    if not answers.columns:  # an ASK that holds
        rows = [b"[]"] * len(answers.answers)
    elif all(_is_plain(column.type) for column in answers.table.columns):
        rows = [buffer.to_pybytes().rstrip(b"\n").replace(b"\n", b",") for buffer in json_arrays(answers.table)]
    else:
        values = zip(*(column.to_pylist() for column in answers.table.columns), strict=True)
        rows = [json_text([json_value(value) for value in row]) for row in values]
    content = models.Answers(
        columns=list(answers.columns),
        rows=[Raw(row) for row in rows],  # type: ignore[misc]
        cursor=answers.answers.cursor,
        total=answers.total,
        time=json_value(answers.time),
        position=answers.position,
    )
    return json_text(content)


def _as_csv(answers: AnswersRead) -> bytes:
    header = pa.table({str(number): [name] for number, name in enumerate(answers.columns)})
    table = answers.table
    texts = [column if _is_plain(column.type) else _as_text(column) for column in table.columns]
    body = pa.table(texts, names=table.column_names) if texts else table
    return b"".join(buffer.to_pybytes() for one in (header, body) for buffer in csv_lines(one))


def _is_plain(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    values = (json_value(value) for value in column.to_pylist())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _as_arrow(answers: AnswersRead) -> bytes:
    table = answers.table.replace_schema_metadata({f"rpq.{name}": value for name, value in answers.about.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


FORMATS = {
    "json": AnswerFormat("application/json", _as_json),
    "csv": AnswerFormat("text/csv; charset=utf-8", _as_csv),
    "arrow": AnswerFormat("application/vnd.apache.arrow.stream", _as_arrow),
}


def witness_model(witness: Path | Witness, *, time: Any, position: int) -> models.Witness:
    """Return a witness: its edges in the order of the walk and, for a pattern, the binding and the edges of each atom."""
    about: dict[str, Any] = {"time": json_value(time), "position": position}
    if isinstance(witness, Path):
        return models.Witness(edges=edges_of(witness), **about)
    atoms = [models.Atom(atom=atom.atom, edges=[_edge_of(step) for step in atom.steps]) for atom in witness.atoms]
    return models.Witness(
        edges=[edge for atom in atoms for edge in atom.edges],
        atoms=atoms,
        binding={name: json_value(value) for name, value in witness.binding},
        **about,
    )


def edges_of(path: Path) -> list[models.Edge]:
    """Return the edges of a path in its order."""
    times = path.timestamps or (None,) * len(path.labels)
    values = path.properties or (None,) * len(path.labels)
    steps = zip(path.vertices, path.labels, path.vertices[1:], times, values, strict=False)
    return [_edge_in_graph(*step) for step in steps]


def _edge_in_graph(first: Any, label: str, last: Any, time: Any, properties: Mapping[str, Any] | None) -> models.Edge:
    """Return an edge in its direction in the graph; a label ^a means that it was walked against it."""
    against = label.startswith("^")
    source, target = (last, first) if against else (first, last)
    return _edge(source, label[against:], target, time, properties)


def _edge_of(step: Step) -> models.Edge:
    return _edge(step.source, step.label, step.target, step.timestamp, step.properties)


def _edge(source: Any, label: str, target: Any, time: Any, properties: Mapping[str, Any] | None) -> models.Edge:
    """Return an edge, with its properties where it has some that queries read."""
    values = {name: json_value(value) for name, value in properties.items()} if properties else UNSET
    return models.Edge(source=source, target=target, label=label, timestamp=json_value(time), properties=values)


def vertex_of(text: str, *, is_integer: bool) -> int | str:
    """Return the vertex that a text denotes, in a stream whose vertices are integers or texts.

    >>> vertex_of("7", is_integer=True), vertex_of("7", is_integer=False)
    (7, '7')
    """
    try:
        return int(text) if is_integer else text
    except ValueError:
        return text


FRESH_SECONDS = 0.5
"""Minimum age of figures before they are computed again; those of a large index take a while."""

PATIENCE_SECONDS = 0.5
"""Maximum time for which a request waits for figures while the engine is busy; it then gets the last ones."""

RATE_SECONDS = 5.0
"""Period over which tuples per second are averaged."""


class ServingFigures:
    """The statistics and metrics of a service, which the engine's thread publishes on request.

    While the engine is busy, requests get what was published last.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.connections: Connections | None = None
        self._publication: asyncio.Future[None] | None = None
        self._of_engine: dict[str, Any] = {}
        self._of_queries: dict[str, dict[str, Any]] = {}
        self._queries: tuple[Any, ...] = ()
        self._publish()
        self._computed_at = -math.inf
        self._counted: list[tuple[float, int]] = [(time.monotonic(), 0)]

    async def _update(self) -> None:
        """Compute the figures again if they are too old."""
        if time.monotonic() - self._computed_at > FRESH_SECONDS:
            if self._publication is None or self._publication.done():
                self._publication = asyncio.ensure_future(self._service.call(self._publish, even_if_failed=True))
            await _wait_for(self._publication)

    def _publish(self) -> None:
        """Compute the figures. Called in the engine's thread."""
        engine = self._service.engine
        of_engine = asdict(engine.statistics())
        of_engine["time"] = engine.time
        self._of_queries = {query.name: asdict(engine.statistics(query.name)) for query in engine.queries}
        self._of_engine, self._queries = of_engine, engine.queries
        self._computed_at = time.monotonic()

    async def queries(self) -> models.Queries:
        """Return the descriptions of all queries."""

        def list_queries() -> None:
            self._service.require_engine()
            engine = self._service.engine
            names, known = [query.name for query in engine.queries], self._of_queries
            self._of_queries = {name: known.get(name) or asdict(engine.statistics(name)) for name in names}
            self._queries = engine.queries

        await self._update()
        await _wait_for(asyncio.ensure_future(self._service.call(list_queries, even_if_failed=True)))
        answers = {name: figures["answers_live"] for name, figures in self._of_queries.items()}
        return models.Queries(
            queries=[describe_query(one, answers=answers[one.name]) for one in self._queries if one.name in answers]
        )

    async def statistics(self) -> models.Statistics:
        """Return the statistics that the page shows."""
        await self._update()
        service, engine = self._service, self._of_engine
        now = time.monotonic()
        self._counted.append((now, service.tuples))
        while len(self._counted) > 2 and now - self._counted[1][0] > RATE_SECONDS:
            self._counted.pop(0)
        began, counted = self._counted[0]
        seconds = now - began
        latencies = np.array(service.latencies) * 1e3
        return models.Statistics(
            time=json_value(engine["time"]),
            time_unit=service.defaults.time_unit,
            position=service.position,
            tuples=service.tuples,
            late=service.late,
            seconds=round(now - service.began, 3),
            tuples_per_second=round((service.tuples - counted) / seconds, 1) if seconds > 0 else 0.0,
            latency_ms={
                name: round(float(np.quantile(latencies, part)), 3) if len(latencies) else None
                for name, part in {"p50": 0.5, "p99": 0.99, "max": 1.0}.items()
            },
            memory_bytes=resident_bytes(),
            edges=engine["edges_live"],
            vertices=engine["vertices_live"],
            followers=len(service.hub.followers),
            followers_dropped=service.hub.dropped,
            failure=service.failure,
            storage=next((one.reason for one in service.storage.outages), None),
            queries=[
                models.QueryFigures(
                    name=name,
                    answers=figures["answers_live"],
                    rows=figures["rows_added"] + figures["rows_removed"],
                    rows_added=figures["rows_added"],
                    rows_removed=figures["rows_removed"],
                    index_bytes=figures["index_bytes"],
                )
                for name, figures in self._of_queries.items()
            ],
        )

    async def metrics(self) -> tuple[bytes, str]:
        """Return the metrics in the format of Prometheus, and their content type."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import Collector

        await self._update()
        figures = self

        class Figures(Collector):
            def collect(self) -> Iterator[Any]:
                return figures._families()

        registry = CollectorRegistry()
        registry.register(Figures())
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def _families(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        service = self._service
        yield from engine_families(self._of_engine, self._of_queries)
        yield GaugeMetricFamily("rpq_memory_bytes", "resident memory of the process", value=resident_bytes())
        yield CounterMetricFamily("rpq_pushes", "pushes so far: the position", value=service.position)
        yield GaugeMetricFamily("rpq_followers", "followers of changes now", value=len(service.hub.followers))
        yield CounterMetricFamily("rpq_followers_dropped", "followers that were too slow", value=service.hub.dropped)
        if self.connections is not None:
            yield GaugeMetricFamily("rpq_connections", "connections that are open", value=self.connections.open)
            about = "connections that were refused because the limit was reached"
            yield CounterMetricFamily("rpq_connections_refused", about, value=self.connections.refused)
        about = "time for which the engine has been busy with one step"
        yield GaugeMetricFamily("rpq_busy_seconds", about, value=service.busy_seconds)
        has_failed = service.failure is not None
        yield GaugeMetricFamily("rpq_failed", "whether the engine failed and accepts no more tuples", value=int(has_failed))
        if service.storage.age is not None:
            age = service.storage.age
            yield GaugeMetricFamily("rpq_checkpoint_age_seconds", "time since the last checkpoint", value=age)
            about = "whether the journal or the checkpoint cannot be written now"
            yield GaugeMetricFamily("rpq_storage_unavailable", about, value=int(bool(service.storage.outages)))
            yield GaugeMetricFamily("rpq_journal_bytes", "size of the journal", value=service.storage.journal_bytes)
        about = "seconds from the arrival of a post until it was applied, and saved if there is a checkpoint"
        yield latency_family(service.latency, about)


async def _wait_for(publication: asyncio.Future[None]) -> None:
    """Wait for figures, but not long. Raises their error."""
    await asyncio.wait({publication}, timeout=PATIENCE_SECONDS)
    if publication.done():
        publication.result()


def resident_bytes() -> int:
    """Return the resident memory of this process; its peak if the system does not report the present value."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory_bytes()
