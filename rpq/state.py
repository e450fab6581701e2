"""Saving an engine to a file and restoring it.

The state that is worth keeping is the window, not the index: the file holds the edges with their names, the
slide at which each expires from every query, the queries, the counters, and what was lost of each label. The index
is built anew. The file is one Arrow IPC file, whose metadata is JSON under the key `rpq`; its first field is
the version of the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import StateFormatError
from rpq.evaluation import Evaluation
from rpq.index import layout
from rpq.labels import NEVER_LOST
from rpq.query import Query
from rpq.window import Window

VERSION = 1
_KEY = b"rpq"
_OF_ROWS = ("ADDED", "REMOVED")
_OF_TUPLES = ("INSERTED", "REFRESHED", "DELETED", "ABSENT", "LATE", "IRRELEVANT")


def write_state(path: str, evaluation: Evaluation, about: dict[str, Any]) -> None:
    """Write a state, with what the engine adds `about` itself, to a file that appears whole or not at all.

    O(edges in the window).
    """
    graph, edges, vertices = evaluation.graph, evaluation.graph.edges, evaluation.vertices
    evaluation.collect()
    held = graph.live_edges()
    labels = evaluation.labels
    place = np.zeros(labels.room, np.int32)  # ids without gaps
    place[list(labels.ids.values())] = np.arange(len(labels))
    columns = {
        "source": vertices.names_of(edges.source[held]),
        "target": vertices.names_of(edges.target[held]),
        "label": pa.array(place[edges.label[held]]),
        "timestamp": pa.array(edges.timestamp[held]),
    }
    queries = []
    for number, running in enumerate(evaluation.running.values()):
        # Not derived from the timestamp: a query that started empty does not hold every edge.
        columns[f"expiry_{number}"] = pa.array(running.indexes[0].slides(held))
        queries.append(
            {
                **_described(running.query),
                "counters": {name: running.total(getattr(layout, name)) for name in _OF_ROWS}
                | {name: running.count(getattr(layout, name)) for name in _OF_TUPLES},
                "latency": _sparse(running.indexes[0].index.latency),
                "figures": {name: running.figures(name) for name in ("conflicts", "searches")},
                "set_aside": [
                    (evaluation.name_of(root), size) for index in running.simple for root, size in index.aside.items()
                ],
            }
        )
    content = {
        "version": VERSION,
        "time": graph.time,
        "kind": vertices.kind,
        "share": evaluation.share,
        "labels": list(labels.ids),
        "lost": graph.horizons.lost[list(labels.ids.values())].tolist(),
        "forgotten": labels.forgotten,
        "outcomes": graph.outcomes.tolist(),
        "queries": queries,
        **about,
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


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a file holds: the edges, and all else as `content`."""

    path: str
    edges: pa.Table
    content: dict[str, Any]

    @contextmanager
    def damage_reported(self) -> Iterator[None]:
        """Turn what goes wrong with content of the wrong shape into a `StateFormatError`."""
        try:
            yield
        except (KeyError, IndexError, AttributeError, TypeError, ValueError) as problem:
            raise _damaged(self.path, repr(problem)) from problem

    def queries(self) -> list[Query]:
        """The queries that were registered."""
        return [_query(described) for described in self.content["queries"]]

    def fill(self, evaluation: Evaluation) -> None:
        """Bring a new evaluation of these queries to where the saved one was. O(window · index)."""
        content, time, kind = self.content, self.content["time"], self.content["kind"]
        graph, vertices = evaluation.graph, evaluation.vertices
        evaluation.take_labels(content["labels"], content["lost"], forgotten=content.get("forgotten", NEVER_LOST))
        graph.outcomes[:] = content["outcomes"]
        if kind is not None:
            wanted = np.ones(len(self.edges), np.uint8)
            source, fresh_sources = vertices.intern(self.edges["source"].combine_chunks(), wanted)
            target, fresh_targets = vertices.intern(self.edges["target"].combine_chunks(), wanted)
            vertices.kind = kind
            label = self.edges["label"].to_numpy().astype(np.int32)
            edges = graph.enter(source, target, label, self.edges["timestamp"].to_numpy(), vertices.count)
            fresh = np.concatenate([fresh_sources, fresh_targets])
        if time is not None:
            graph.advance(time)
        for number, (running, described) in enumerate(zip(evaluation.running.values(), content["queries"], strict=True)):
            if time is not None and kind is not None:
                running.make_room(vertices, fresh, graph)
                slides = self.edges[f"expiry_{number}"].to_numpy()
                inside = slides > running.query.window.slide_number(time)
                chunk = graph.chunk_of(edges[inside])
            if kind is not None:
                aside = {vertices.id_of(root): size for root, size in described.get("set_aside", ())}
                for simple in running.simple:
                    simple.set_aside(aside)
            for index in running.indexes:
                if time is not None:
                    index.advance(time)
                    if kind is not None:
                        index.load(chunk, slides[inside], quiet=True)
                for name in _OF_TUPLES:
                    index.state[getattr(layout, name)] = described["counters"][name]
            for name in _OF_ROWS:
                running.indexes[0].state[getattr(layout, name)] = described["counters"][name]
            for i, simple in enumerate(running.simple):
                simple.set_figures(**{name: count if i == 0 else 0 for name, count in described["figures"].items()})
            for bucket, count in described["latency"]:
                running.indexes[0].index.latency[bucket] = count


def read_state(path: str) -> Saved:
    """Read a state. Raises `StateFormatError`, and `FileNotFoundError`."""
    try:
        with pa.OSFile(path, "rb") as file:
            table = pa.ipc.open_file(file).read_all()
        content = json.loads(table.schema.metadata[_KEY])
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError, OSError) as problem:
        raise _damaged(path, str(problem)) from problem
    if not isinstance(content, dict):
        raise _damaged(path, "it describes none")
    if content.get("version") != VERSION:
        raise StateFormatError(
            f"{path} has version {content.get('version')} of the format of saved states; this release reads version {VERSION}"
        )
    return Saved(path=path, edges=table, content=content)


def _damaged(path: str, problem: str) -> StateFormatError:
    return StateFormatError(f"{path} is no saved state of an engine, or it is damaged: {problem}")


def _described(query: Query) -> dict[str, Any]:
    def listed(vertices: Collection[int | str] | None) -> list[int | str] | None:
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
