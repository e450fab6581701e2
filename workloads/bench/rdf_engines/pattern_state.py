"""The state of basic graph patterns by their class, beside a store of all edges of their labels (Gergatsoulis, Damigos).

The paper minimises what an engine must keep for patterns without variables (ground), around one variable (star), of stars
that share only constants (loosely connected), and of joined variables (connected); it has no measurements.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import rpq
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.rdf_engines.comparison import kind_stream, select_names
from rpq.workloads.sparql_queries import named_sparql

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATTERNS = ("GROUND", "STAR", "LOOSE", "CONNECTED")
MOMENTS = 64
"""The number of moments of the stream at which edges are counted."""

COLUMNS = (
    Column(key="query", heading="pattern"),
    Column(key="about", heading="what"),
    Column(key="edges", heading="edges", format=","),
    Column(key="all_edges", heading="all edges", format=","),
    Column(key="edge_part", heading="part of edges", format=".1%"),
    Column(key="bytes", heading="bytes", format=","),
    Column(key="all_bytes", heading="all bytes", format=","),
    Column(key="byte_part", heading="part of bytes", format=".1%"),
    Column(key="answers", heading="answers", format=","),
)


@dataclass(frozen=True, kw_only=True)
class State:
    """The largest number of stored edges at any of the moments, and the bytes of the saved state and answers at the end."""

    edges: int
    bytes: int
    answers: int


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each pattern."""
    table, _, origin = kind_stream("changing", max(MOMENTS, round(settings.edges * settings.scale)), settings.seed)
    table = table.drop_columns("event")
    records: list[Record] = []
    for name in select_names(settings, PATTERNS):
        say(f"{name} …")
        definition = named_sparql(name)
        query = _query(definition.text, name)
        labels = sorted(label for label in table["label"].unique().to_pylist() if query.reads(label))
        own = state([query], table)
        everything = state([_query(f"SELECT ?x ?y {{ ?x <{label}> ?y }}", label) for label in labels], table)
        records.append(
            {
                "query": name,
                "about": definition.about,
                "edges": own.edges,
                "all_edges": everything.edges,
                "edge_part": own.edges / everything.edges,
                "bytes": own.bytes,
                "all_bytes": everything.bytes,
                "byte_part": own.bytes / everything.bytes,
                "answers": own.answers,
            }
        )
        yield ExperimentResult(
            records=records,
            streams=[{"name": "changing", "origin": origin, "tuples": len(table)}],
            checks={"no pattern stores more than all edges": all(one["edges"] <= one["all_edges"] for one in records)},
        )


def state(queries: list[rpq.Query], table: pa.Table) -> State:
    """Push a stream with deletes through an engine with some queries; return its state."""
    engine = rpq.Engine(*queries)
    edges = 0
    for batch in table.to_batches(max_chunksize=-(-len(table) // MOMENTS)):
        engine.push(batch, collect=False)
        edges = max(edges, engine.statistics().edges_live)
    with tempfile.TemporaryDirectory(prefix="rpq-state-") as folder:
        path = Path(folder) / "engine.state"
        engine.save(path)
        size = path.stat().st_size
    return State(edges=edges, bytes=size, answers=sum(len(engine.answers(query.name)) for query in queries))


def _query(text: str, name: str) -> rpq.Query:
    return rpq.Query(text, name=name, window=rpq.UnboundedWindow(), semantics="explicit")


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the edges and the bytes of each pattern as parts of those of all edges."""
    axes = figure.subplots()
    for number, (key, label) in enumerate((("edge_part", "edges"), ("byte_part", "bytes"))):
        places = [place + 0.4 * (number - 0.5) for place in range(len(records))]
        axes.bar(places, [record[key] for record in records], 0.4, label=label)
    axes.set_xticks(range(len(records)), [record["query"] for record in records])
    axes.set_ylabel("part of a store of all edges of the labels")
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="pattern-state",
    title="State of basic graph patterns beside a store of all edges of their labels",
    how="A changing graph of 200 entities, of whose tuples a third are deletes, unbounded. Edges: the largest number that "
    "an engine stores at any of 64 moments. Bytes: of the saved state at the end, with names. All edges: an engine with a "
    "query for each label of the pattern, which stores all of its edges in the same layout. The figures do not depend on "
    "the load of the machine.",
    paper="Gergatsoulis, Damigos: a matrix of bits for ground patterns, the values of the central variable for stars and "
    "loosely connected patterns. No measurements.",
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=1,
)
