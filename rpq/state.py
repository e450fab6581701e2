"""Saving an engine to a file and restoring it.

The state that is worth keeping is the window, not the index: the file holds the edges with their names, the
slide at which each expires from every query, the queries, the counters, and what was lost of each label. The index
is built anew. The file is one Arrow IPC file, whose metadata is JSON under the key `rpq`; its first field is
the version of the format.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.errors import StateFormatError
from rpq.index import layout
from rpq.query import Query
from rpq.window import Window

if TYPE_CHECKING:
    from rpq.engine import Engine

VERSION = 1
_KEY = b"rpq"
_COUNTERS = ("ADDED", "REMOVED", "INSERTED", "REFRESHED", "DELETED", "ABSENT", "LATE", "IRRELEVANT")


def save(engine: Engine, path: str, extra: dict[str, str]) -> None:
    """Write the state of an engine to a file that appears whole or not at all. O(edges in the window)."""
    graph, edges = engine._graph, engine._graph.edges
    engine._collect()
    held = graph.live_edges()
    labels = list(engine._labels)
    columns = {
        "source": engine._vertices.names_of(edges.source[held]),
        "target": engine._vertices.names_of(edges.target[held]),
        "label": pa.array(edges.label[held]),
        "timestamp": pa.array(edges.timestamp[held]),
    }
    queries = []
    for number, running in enumerate(engine._running.values()):
        # Not derived from the timestamp: a query that started empty does not hold every edge.
        columns[f"expiry_{number}"] = pa.array(running.indexes[0].slides(held))
        queries.append(
            {
                **_described(running.query),
                "counters": {name: running.total(getattr(layout, name)) for name in _COUNTERS[:2]}
                | {name: running.count(getattr(layout, name)) for name in _COUNTERS[2:]},
                "latency": _sparse(running.indexes[0].index.latency),
                "figures": {name: running.figures(name) for name in ("conflicts", "searches")},
                "set_aside": [
                    (engine._name_of(root), size) for index in running.simple for root, size in index.aside.items()
                ],
            }
        )
    content = {
        "version": VERSION,
        "time": graph.time,
        "kind": engine._vertices.kind,
        "time_unit": engine._time_unit,
        "share": engine._share,
        "seconds": engine._seconds,
        "labels": labels,
        "lost": graph.horizons.lost.tolist(),
        "outcomes": graph.outcomes.tolist(),
        "left": engine._left.tolist(),
        "queries": queries,
        "extra": extra,
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(content)})
    temporary = f"{path}.tmp"  # one name: what a killed save leaves, the next one takes
    try:
        with open(temporary, "wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def restore(
    engine_class: type[Engine], path: str, *, threads: int, memory_limit: int | None, witness: bool
) -> Engine:
    """An engine with the state of a file. O(window · index)."""
    table, content = _read(path)
    try:
        return _restored(engine_class, table, content, threads=threads, memory_limit=memory_limit, witness=witness)
    except (KeyError, IndexError, AttributeError, TypeError) as problem:
        raise StateFormatError(f"{path} is no saved state of an engine, or it is damaged: {problem!r}") from problem


def _restored(
    engine_class: type[Engine],
    table: pa.Table,
    content: dict[str, Any],
    *,
    threads: int,
    memory_limit: int | None,
    witness: bool,
) -> Engine:
    queries = [_query(described) for described in content["queries"]]
    engine = engine_class(
        *queries,
        threads=threads,
        memory_limit=memory_limit,
        witness=witness,
        time_unit=content["time_unit"],
        share=tuple(content["share"]),
    )
    engine.extra = content["extra"]
    engine._seconds = content["seconds"]
    engine._labels = {label: number for number, label in enumerate(content["labels"])}
    engine._set_queries()
    graph, vertices = engine._graph, engine._vertices
    graph.horizons.lost[:] = content["lost"]
    graph.outcomes[:] = content["outcomes"]
    engine._left[:] = content["left"]
    if content["kind"] is not None:
        wanted = np.ones(len(table), np.uint8)
        source, fresh_sources = vertices.intern(table["source"].combine_chunks(), wanted)
        target, fresh_targets = vertices.intern(table["target"].combine_chunks(), wanted)
        vertices.kind = content["kind"]
        label = table["label"].to_numpy().astype(np.int32)
        edges = graph.enter(source, target, label, table["timestamp"].to_numpy(), vertices.count)
        fresh = np.concatenate([fresh_sources, fresh_targets])
    if content["time"] is not None:
        graph.advance(content["time"])
    for number, (running, described) in enumerate(zip(engine._running.values(), content["queries"], strict=True)):
        if content["time"] is not None and content["kind"] is not None:
            running.make_room(vertices, fresh, graph)
            slides = table[f"expiry_{number}"].to_numpy()
            inside = slides > running.query.window.slide_number(content["time"])
            chunk = engine._chunk_of(edges[inside])
        if content["kind"] is not None:
            aside = {vertices.id_of(root): size for root, size in described.get("set_aside", ())}
            for index in running.simple:
                index.set_aside(aside)
        for index in running.indexes:
            if content["time"] is not None:
                index.advance(content["time"])
                if content["kind"] is not None:
                    index.load(chunk, slides[inside], quiet=True)
            for name in _COUNTERS[2:]:
                index.state[getattr(layout, name)] = described["counters"][name]
        for name in _COUNTERS[:2]:
            running.indexes[0].state[getattr(layout, name)] = described["counters"][name]
        for i, index in enumerate(running.simple):
            index.set_figures(**{name: count if i == 0 else 0 for name, count in described["figures"].items()})
        for bucket, count in described["latency"]:
            running.indexes[0].index.latency[bucket] = count
    return engine


def _described(query: Query) -> dict[str, Any]:
    def listed(vertices: frozenset[int | str] | None) -> list[int | str] | None:
        return None if vertices is None else sorted(vertices, key=lambda v: (isinstance(v, str), v))

    return {
        "expression": query.expression,
        "window": asdict(query.window),
        "name": query.name,
        "paths": query.paths,
        "semantics": query.semantics,
        "sources": listed(query.sources),
        "targets": listed(query.targets),
        "simple_budget": query.simple_budget,
        "on_budget": query.on_budget,
    }


def _query(described: dict[str, Any]) -> Query:
    fields = ("name", "paths", "semantics", "sources", "targets", "simple_budget", "on_budget")
    return Query(
        described["expression"], window=Window(**described["window"]), **{field: described[field] for field in fields if field in described}
    )


def _sparse(histogram: np.ndarray) -> list[tuple[int, int]]:
    return [(int(bucket), int(histogram[bucket])) for bucket in np.flatnonzero(histogram)]


def _read(path: str) -> tuple[pa.Table, dict[str, Any]]:
    try:
        with pa.OSFile(path, "rb") as file:
            table = pa.ipc.open_file(file).read_all()
        content = json.loads(table.schema.metadata[_KEY])
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError, OSError) as problem:
        raise StateFormatError(f"{path} is no saved state of an engine, or it is damaged: {problem}") from problem
    if not isinstance(content, dict):
        raise StateFormatError(f"{path} is no saved state of an engine: it describes none")
    if content.get("version") != VERSION:
        raise StateFormatError(
            f"{path} has version {content.get('version')} of the format of saved states; this release reads version {VERSION}"
        )
    return table, content
