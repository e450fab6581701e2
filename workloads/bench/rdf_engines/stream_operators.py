"""Joins, aggregates, DISTINCT, negation over windows of random edges, beside stores and Esper (Le-Phuoc 2016, figure 13).

The memory of joins of two to eight windows is table 2 of the paper. Figures 9 to 12, which are of single data structures of
its engine, have no counterpart: sizes of windows and numbers of keys are swept through whole queries instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import rpq
from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.bench.experiment import Experiment, ExperimentResult, Say, Settings
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.rdf_engines.comparison import COLUMNS, HOW, MEMORY, QueryLine, compare_lines, plot_by, select_names
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.rdf.terms import choose_terms, integers, numbered_iris
from rpq.workloads.generate.sampling import uniform
from rpq.workloads.rivals.rdf_changes import RdfStream

SLIDES = 100
"""The number of slides of a window, and of those that are measured at most."""

_KEY, _VALUE = range(2)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A query over edges of `labels` labels: `window` edges of each in a window, their sources drawn from `keys`."""

    name: str
    about: str
    text: str
    labels: int
    window: int
    keys: int
    epl: str = ""


def _epl(ways: int, select: str, tail: str = "") -> str:
    """Return a statement of Esper over windows of all slides that a window of this module has, and the current one."""
    windows = ", ".join(f"l{number}#time({SLIDES * 1_000 + 1} milliseconds) as e{number}" for number in range(ways))
    joins = " and ".join(f"e0.source = e{number}.source" for number in range(1, ways))
    return f"select irstream {select} from {windows}" + (f" where {joins}" if joins else "") + tail


def _epl_join(ways: int) -> str:
    return _epl(ways, "e0.source as c0, " + ", ".join(f"e{number}.value as c{number + 1}" for number in range(ways)))


def _join(ways: int, select: str = "*", tail: str = "") -> str:
    atoms = " . ".join(f"?x <urn:l{number}> ?y{number}" for number in range(ways))
    return f"SELECT {select} {{ {atoms} }}{tail}"


OPERATORS = (
    *(
        Operator(
            name=f"JOIN-{ways}", about=f"{ways} windows of 10,000", text=_join(ways), labels=ways, window=10_000,
            keys=10_000, epl=_epl_join(ways),
        )
        for ways in (2, 3, 4, 6, 8)
    ),
    *(
        Operator(
            name="JOIN-3", about=f"3 windows of {window:,}", text=_join(3), labels=3, window=window,
            keys=max(window, 10_000), epl=_epl_join(3),
        )
        for window in (1_000, 100_000)
    ),
    *(
        Operator(
            name="AVG", about=f"window of 100,000, {groups:,} groups", window=100_000, keys=groups, labels=1,
            text="SELECT ?x (AVG(?y) AS ?average) { ?x <urn:l0> ?y } GROUP BY ?x",
            epl=_epl(1, "e0.source as c0, avg(e0.value) as c1", " group by e0.source"),
        )
        for groups in (100, 10_000, 100_000)
    ),
    *(
        Operator(
            name=name, about=f"a join of 2 windows of 20,000, {answers:g} answers an edge", labels=2, window=20_000,
            keys=round(20_000 / answers), text=text, epl=_epl(2, select, " group by e0.source"),
        )
        for name, text, select in (
            ("MIN", _join(2, "?x (MIN(?y1) AS ?least)", " GROUP BY ?x"), "e0.source as c0, min(e1.value) as c1"),
            ("DISTINCT", _join(2, "DISTINCT ?x"), "e0.source as c0, count(*) as n"),
        )
        for answers in (0.1, 1, 10)
    ),
    Operator(
        name="NOT-EXISTS", about="window of 20,000 without partner in another", labels=2, window=20_000, keys=20_000,
        text="SELECT ?x ?y { ?x <urn:l0> ?y FILTER NOT EXISTS { ?x <urn:l1> ?z } }",
    ),
)  # fmt: skip


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each query."""
    return compare_lines(lines(settings), settings, say)


def lines(settings: Settings) -> Iterator[QueryLine]:
    """Yield the selected queries; windows and keys are multiplied by `settings.scale`."""
    names = set(select_names(settings, list(dict.fromkeys(operator.name for operator in OPERATORS))))
    for operator in OPERATORS:
        if operator.name in names:
            yield _line(operator, settings)


def _line(operator: Operator, settings: Settings) -> QueryLine:
    edges = max(SLIDES, round(operator.window * settings.scale)) * operator.labels
    keys = max(1, round(operator.keys * settings.scale))
    slide = edges // SLIDES
    # Twice the window; times are odd, so that no edge is at the boundary of a slide.
    number = np.arange(2 * edges)
    table = pa.table(
        {
            "source": numbered_iris("urn:x", (uniform(settings.seed, _KEY, number) * keys).astype(np.int64)),
            "target": integers((uniform(settings.seed, _VALUE, number) * 1e9).astype(np.int64)),
            "label": choose_terms([f"urn:l{label}" for label in range(operator.labels)], number),
            "timestamp": 2 * number + 1,
        }
    )
    window = rpq.Window(size=2 * slide * SLIDES, slide=2 * slide)
    query = SparqlQuery(operator.text, name=operator.name, window=window, semantics="explicit")
    full = Stream(name=operator.name, queries="", table=table.slice(0, edges), window=window, origin="")
    return QueryLine(
        query=query,
        about=operator.about,
        stream=RdfStream(table=table, slides=table["timestamp"].to_numpy() // window.slide, first_slide=SLIDES),
        origin=f"random: {2 * edges:,} edges of {operator.labels} labels, {keys:,} sources, seed {settings.seed}",
        epl=operator.epl,
        memory=lambda: resident_memory(query, full).beyond_kernels,
    )


EXPERIMENT = Experiment(
    name="stream-operators",
    title="Joins, aggregates, DISTINCT and negation over windows, beside stores of RDF and Esper",
    how=HOW
    + " Esper is given edges as objects of a number and a value, keeps the windows itself and gives each change to a "
    "listener; it has no DISTINCT over a join, for which it counts groups, and no negation that a later event takes back. A "
    "window moves by a hundredth of its length." + MEMORY,
    paper="CQELS (Le-Phuoc 2016, figure 13 and table 2): orders of magnitude faster than re-evaluation; ad-hoc code is "
    "faster on averages and on aggregates over joins with more than one answer an edge. Joins of 2 to 8 windows of 10,000 "
    "take 12 to 19 MB, in Esper 9 to 27 MB.",
    columns=COLUMNS,
    measure=measure,
    plot=plot_by("line"),
    repeat=1,
    seconds=2.0,
)
