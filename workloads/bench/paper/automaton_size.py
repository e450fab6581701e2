"""The size of the minimal automata of gMark's queries (figure 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq import automata
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings
from rpq.workloads.gmark.queries import random_queries
from rpq.workloads.gmark.schema import SOCIAL, Schema, read_schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES = 100


def measure(settings: Settings, say: Say) -> Outcome:
    """Measure the states of a hundred automata of query size 2 to 20."""
    records = gmark_queries(settings)
    by_size = [
        {
            "size": size,
            "queries": sum(record["size"] == size for record in records),
            "mean_states": sum(r["states"] for r in records if r["size"] == size)
            / sum(record["size"] == size for record in records),
            "most_states": max(record["states"] for record in records if record["size"] == size),
        }
        for size in sorted({record["size"] for record in records})
    ]
    checks = {
        "there are a hundred different queries": len({record["expression"] for record in records}) == QUERIES,
        # A single automaton may be larger: two consecutive stars over the same labels add states in the subset construction.
        "the automata of a size are no larger than that on average": all(
            record["mean_states"] <= record["size"] + 1 for record in by_size
        ),
    }
    return Outcome(records=by_size, streams=[], checks=checks, facts={"schema": _source(settings)})


def gmark_queries(settings: Settings, count: int = QUERIES) -> list[Record]:
    """Return random queries of the schema, with the states of their minimal automata."""
    found = random_queries(_schema(settings), count, seed=settings.seed)
    return [
        {"size": size, "expression": expression, "states": len(automata.compile(expression).accepting)}
        for size, expression in found
    ]


def _schema(settings: Settings) -> Schema:
    """Return the schema of the data set if it is present, otherwise that of the social network."""
    if settings.data is not None:
        for path in [*settings.data.glob("*network.xml"), *settings.data.glob("gmark/*network.xml")]:
            return read_schema(path)
    return SOCIAL


def _source(settings: Settings) -> str:
    return "the built-in social network" if _schema(settings) is SOCIAL else "the data set's network.xml"


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw states against the size of the query."""
    axes = figure.subplots()
    for key, label in (("mean_states", "mean"), ("most_states", "most")):
        axes.plot([r["size"] for r in records], [r[key] for r in records], "o-", label=label)
    axes.set(xlabel="size of the query", ylabel="states of the minimal automaton")
    axes.legend()


EXPERIMENT = Experiment(
    name="automata",
    title="States of the minimal automata of 100 gMark queries (figure 7)",
    how="Queries of size 2 to 20 (labels, and occurrences of * and +), grouped and starred as the paper says.",
    paper="The automata do not grow exponentially with the query, although they could.",
    columns=(
        Column(key="size", heading="size", format="d"),
        Column(key="queries", heading="queries", format="d"),
        Column(key="mean_states", heading="mean states", format=".1f"),
        Column(key="most_states", heading="most states", format="d"),
    ),
    measure=measure,
    plot=plot,
)
