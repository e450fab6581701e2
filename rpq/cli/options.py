"""The options that commands share, each written once; where they differ from command to command, they are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rpq.cli.option_types import Ahead, Names, WrittenFile

Command = Callable[..., Any]
Option = Callable[[Command], Command]

FORMATS = ("edges", "jsonl", "rdf", "stackoverflow", "ldbc", "yago", "gmark")
"""As the help lists them: the formats of this distribution."""

BY_LINES = tuple(format for format in FORMATS if format not in ("jsonl", "rdf"))
"""Those of which tasks on Spark can share a file."""


def together(*options: Option) -> Option:
    """Several options as one, which the help lists in this order."""

    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def several_inputs(help: str) -> Option:
    """`--input`, of files."""
    return click.option("--input", "inputs", multiple=True, required=True, metavar="FILE...", help=help)


def format_of(formats: tuple[str, ...]) -> Option:
    """`--format`, whose help names these."""
    return click.option("--format", default="edges", show_default=True, help=f"Their format: {', '.join(formats)}.")


of_rdf = together(
    click.option(
        "--rdf-syntax",
        type=click.Choice(["nt", "nq", "ttl", "trig", "jsonld", "rdf"]),
        help="Of the format rdf: its syntax.  [default: as the names of files end; nq]",
    ),
    click.option(
        "--rdf-time",
        metavar="WHAT",
        help="What says when a triple is: position (1, 2, …), graph-position, graph-name, or the IRI of a property of its "
        "graph.  [default: position]",
    ),
    click.option(
        "--rdf-graph", type=click.Choice(["stream", "event"]), help="What the graph of a triple is: its stream, its event."
    ),
)


events = click.option(
    "--events",
    type=click.Choice(["window", "alone"]),
    help="Tuples with the same event (a column event; of the format rdf the graph) come as one: into the window, or each "
    "event alone, with nothing kept between them.",
)


def max_ahead(help: str, *, default: str | None = None) -> Option:
    """`--max-ahead`."""
    return click.option("--max-ahead", type=Ahead(), default=default, show_default=default is not None, help=help)


def on_error(help: str, *, default: str = "stop") -> Option:
    """`--on-error`."""
    return click.option("--on-error", type=click.Choice(["stop", "skip"]), default=default, show_default=True, help=help)


drop_self_loops = click.option("--drop-self-loops", is_flag=True, help="Leave out edges from a vertex to itself.")


def window_and_slide(sizes: str) -> Option:
    """`--window` and `--slide`; `sizes` says what a size may be."""
    return together(
        click.option("--window", metavar="W", help=f"Size of the window: {sizes}."),
        click.option("--slide", metavar="S", help="How far the window moves at once; as --window."),
    )


def time_unit(when: str) -> Option:
    """`--time-unit`, which is needed only `when` it says."""
    return click.option(
        "--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help=f"Unit of the timestamps, {when}."
    )


paths = click.option(
    "--paths", type=click.Choice(["walk", "simple"]), default="walk", show_default=True, help="Which paths count."
)
budget_of_simple_paths = together(
    click.option(
        "--simple-budget",
        type=int,
        default=10_000_000,
        show_default=True,
        metavar="N",
        help="With simple paths: nodes that may be expanded for one root and one tuple or slide.",
    ),
    click.option(
        "--on-budget",
        type=click.Choice(["error", "set_aside"]),
        default="error",
        show_default=True,
        help="What to do where a root needs more: end, or go on without that root until its conflicts have left the window.",
    ),
)
semantics = click.option(
    "--semantics",
    type=click.Choice(["implicit", "explicit"]),
    help="Whether answers leave silently, or with a - row, when they expire.  [default: implicit]",
)
sources_and_targets = together(
    click.option("--source", "sources", multiple=True, metavar="V...", help="Only pairs from these vertices."),
    click.option("--target", "targets", multiple=True, metavar="V...", help="Only pairs to these vertices."),
)


language = click.option(
    "--language",
    type=click.Choice(["path", "pattern", "sparql"]),
    help="What EXPRESSION is: a path expression, a graph pattern, SPARQL.  [default: what it looks like]",
)
of_patterns = together(
    click.option("--select", type=Names(), metavar="X,Y...", help="Of a pattern: its columns.  [default: all variables]"),
    click.option("--distinct", is_flag=True, help="Of a pattern: an answer that comes of several bindings is one."),
    click.option(
        "--matching",
        type=click.Choice(["homomorphism", "isomorphism"]),
        help="Of a pattern: whether two variables may stand for one vertex, or not.  [default: homomorphism]",
    ),
    click.option(
        "--report",
        type=click.Choice(["change", "slide", "time"]),
        help="Of a pattern: rows at every change, or the net change of every slide or moment.  [default: change]",
    ),
)


def of_topics(seconds: Any, endpoint: Any) -> Option:
    """What is said of runs over topics of Kafka alone; lengths of time are of the type `seconds`, ports of `endpoint`."""
    return together(
        click.option(
            "--kafka-config", metavar="FILE", help="Of topics: name=value lines in librdkafka's names (TLS, SASL, group.id)."
        ),
        click.option(
            "--max-delay",
            type=seconds,
            default="1s",
            show_default=True,
            help="Of topics: so long a tuple waits, at most, for partitions that have nothing to read.",
        ),
        click.option("--upsert", is_flag=True, help="Of topics: a row that leaves is a tombstone (explicit)."),
        click.option("--until-end", is_flag=True, help="Of topics: end where they end, in place of waiting for more."),
        click.option(
            "--checkpoint-every",
            type=seconds,
            default="30s",
            show_default=True,
            help="Of topics: so often the --checkpoint is written.",
        ),
        click.option("--metrics", type=endpoint, help="Of topics: serve figures for Prometheus at this port."),
        click.option(
            "--log",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Of topics: how stderr tells what happens.",
        ),
    )


def stats(place: str = "") -> Option:
    """`--stats`; `place` is what else a file can be."""
    return click.option(
        "--stats", type=WrittenFile(), metavar="FILE.json", help=f"Where the figures of the summary go{place}."
    )


quiet = click.option("--quiet", is_flag=True, help="No progress, no summary.")
