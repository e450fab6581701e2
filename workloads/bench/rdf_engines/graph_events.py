"""Events that are graphs, and windows over them, beside stores of RDF (Gillani, Picard, Laforest 2016, figure 5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import rpq
from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.bench.experiment import Experiment, ExperimentResult, Say, Settings
from rpq.workloads.bench.rdf_engines.comparison import (
    COLUMNS,
    HOW,
    QueryLine,
    compare_lines,
    kind_stream,
    plot_by,
    select_names,
)
from rpq.workloads.generate.rdf.taxi_trips import TRIPLES
from rpq.workloads.rivals.rdf_changes import RdfStream
from rpq.workloads.sparql_queries import named_sparql, sparql_names

LARGEST = 3_200_000
EVENTS = {"NY": (TRIPLES,), "SNB": (500, 30_000, LARGEST), "LS": (30_000,)}
"""The triples of an event, by queries; the answers of LS queries grow with the square of an event."""

WINDOWS = {
    **dict.fromkeys(("NY-Q1", "NY-Q2", "NY-Q3", "SNB-Q1", "SNB-Q2"), (100_000,)),
    "SNB-Q3": (10_000, 100_000, 1_000_000),
    **dict.fromkeys(("LS-Q1", "LS-Q2", "LS-Q3"), (10_000, 100_000)),
}
"""The triples in a window, by query."""

UPDATE, UPDATES = 500, 200
"""The triples of a slide, where the paper has 100 to 1,000, and the number of slides behind a full window."""


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each query and size."""
    return compare_lines(lines(settings), settings, say)


def lines(settings: Settings) -> Iterator[QueryLine]:
    """Yield the selected queries over single events and over windows; sizes are multiplied by `settings.scale`."""
    names = list(select_names(settings, [*sparql_names("taxi"), "SNB-Q1", "SNB-Q2", "SNB-Q3", "LS-Q1", "LS-Q2", "LS-Q3"]))
    for name in names:
        for size in EVENTS[name.partition("-")[0]]:
            yield _event_query(name, size if size == TRIPLES else max(1, round(size * settings.scale)), settings)
    for name in names:
        for size in WINDOWS[name]:
            yield _window(name, max(UPDATE, round(size * settings.scale)), settings)


def _event_query(name: str, size: int, settings: Settings) -> QueryLine:
    """Return the line of a query over whole events of some triples, as many as settings have edges, at least one."""
    definition = named_sparql(name)
    edges = max(1, round(settings.edges * settings.scale) // size) * size
    table, _, origin = kind_stream(definition.stream, edges, settings.seed)
    events = np.arange(edges) // size
    table = table.set_column(table.schema.get_field_index("event"), "event", pa.array(events).cast(pa.string()))
    query = SparqlQuery(definition.text, name=name, window=rpq.UnboundedWindow())
    return QueryLine(
        query=query,
        about=f"alone, events of {size:,}",
        stream=RdfStream(table=table, slides=events, are_graphs=True),
        origin=f"{origin}, in events of {size:,} triples",
    )


def _window(name: str, size: int, settings: Settings) -> QueryLine:
    """Return the line of a query over a window of some triples that moves by some more."""
    definition = named_sparql(name)
    edges = size + UPDATE * UPDATES
    table, _, origin = kind_stream(definition.stream, edges, settings.seed)
    table = table.drop_columns("event")
    times = table["timestamp"].to_numpy()
    # Times are whole seconds; a taxi trip of 24 triples comes nearly six times a second, an event of the network once.
    seconds = (int(times[-1]) - int(times[0]) + 1) / edges
    slide = max(1, round(UPDATE * seconds))
    window = rpq.Window(size=max(1, round(size * seconds / slide)) * slide, slide=slide)
    query = SparqlQuery(definition.text, name=name, window=window, semantics="explicit")
    return QueryLine(
        query=query,
        about=f"window of {size:,}",
        stream=RdfStream(table=table, slides=times // slide, first_slide=(int(times[0]) + window.size) // slide + 1),
        origin=f"{origin}, window {window.size} s, slide {slide} s",
    )


EXPERIMENT = Experiment(
    name="graph-events",
    title="Events that are graphs, alone and in windows, beside stores of RDF",
    how=HOW
    + " Alone: each event is a graph, which is evaluated and forgotten; this engine is pushed 8,192 triples or one event at "
    "a time, and a store is emptied before each event in one call. Windows: about 500 triples a slide.",
    paper="Gillani, Picard, Laforest (2016, figure 5): about ten times faster than Jena on events of 24 triples; Jena and "
    "Sesame time out on large events and large windows. The time of changes corresponds to insertion, figure 5(e).",
    columns=COLUMNS,
    measure=measure,
    plot=plot_by("line"),
    repeat=1,
    edges=300_000,
    seconds=2.0,
)
