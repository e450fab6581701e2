"""`rpq demo`: a small stream, a query over it, what comes out, and what to try next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rpq.cli.settings import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

EXPRESSION = "a2q/c2a*"
DAY = 86_400
WINDOW_DAYS, SLIDE_DAYS = 10, 1
SHOWN, LONGEST_SHOWN = 8, 5


@click.command("demo", short_help="Run a query over a small stream made up for it.")
@click.option("--edges", type=click.IntRange(min=100), default=20_000, show_default=True, help="Length of the stream.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another stream.")
@click.option(
    "--output", type=WrittenFile(), metavar="FILE", help="Keep the stream: .tsv, .csv or .parquet, in the format edges."
)
def demo(edges: int, seed: int, output: str | None) -> None:
    """Make a small stream like Stack Overflow's, run a query over it, and show answers and a path behind one."""
    from rich.console import Console

    import rpq
    from rpq.cli.paths import check_files
    from rpq.cli.progress import compiling_notice, notice_after
    from rpq.workloads.generate.interactions import Interactions, generate_interactions

    check_files(written=[("--output", output)])
    console = Console()
    stream = generate_interactions(Interactions(edges=edges, seed=seed))
    if output is not None:
        write_edges(stream, output)
    query = rpq.Query(EXPRESSION, window=rpq.Window(size=WINDOW_DAYS * DAY, slide=SLIDE_DAYS * DAY))
    with notice_after(1.0, compiling_notice, shown=True):
        rpq.warm_up(query)
    engine = rpq.Engine(query)
    changes = engine.push(stream)
    figures = engine.statistics()
    console.print(
        f"\nThe stream: {edges:,} edges between users of a question-and-answer site, 120 days, seed {seed}.\n"
        "  a2q  from who answered to who had asked\n"
        "  c2a  from who commented to who had answered\n"
        "  c2q  from who commented to who had asked\n"
        f"The query:  [bold]{EXPRESSION}[/bold] over the last {WINDOW_DAYS} days, moving by {SLIDE_DAYS}: x answered a "
        "question of someone\n  who commented on an answer of someone who commented on … an answer of y.\n"
    )
    console.print(_table(engine, changes))
    console.print(
        f"\n{len(changes):,} rows: so often a pair became an answer.  {figures.answers_live:,} pairs are answers now, "
        f"with {figures.edges_live:,} edges in the window.\n"
        f"{figures.engine_seconds:.2f} s in the engine: "
        f"{edges / max(figures.engine_seconds, 1e-9):,.0f} edges a second.\n"
    )
    console.print(_next_steps(output, seed), highlight=False, soft_wrap=True)


def _table(engine: Any, changes: Any) -> Any:
    """Some of the latest answers that still hold, one for each x, with paths that fit on a line."""
    from datetime import UTC, datetime

    from rich.table import Table

    rows = changes.to_arrow().slice(max(0, len(changes) - 5_000)).to_pylist()
    found = {}
    for row in reversed(rows):
        path = None if row["source"] in found else engine.witness(row["source"], row["target"])
        if path is not None and 2 <= len(path.labels) <= LONGEST_SHOWN:
            found[row["source"]] = (row, path)
    table = Table(title="Some of the latest answers, and a path behind each", title_justify="left")
    for name in ("since", "x", "y", "a path from x to y"):
        table.add_column(name)
    for row, path in list(found.values())[:SHOWN]:
        since = datetime.fromtimestamp(row["timestamp"], UTC).strftime("%Y-%m-%d %H:%M")
        steps = [f"{label}→ {vertex}" for label, vertex in zip(path.labels, path.vertices[1:])]
        table.add_row(
            since,
            str(row["source"]),
            str(row["target"]),
            " ".join([f"{path.vertices[0]}", *(f"─{step}" for step in steps)]),
        )
    return table


def _next_steps(output: str | None, seed: int) -> str:
    file = output or "demo.tsv"
    lines = ["Try next:"]
    if output is None:
        lines.append(f"  rpq demo --seed {seed} --output {file}" + " " * 22 + "keep this stream as a file")
    lines += [
        f"  rpq run '{EXPRESSION}' --input {file} --time-unit s --window 10d --slide 1d --output rows.csv --witness",
        f"  rpq run '(a2q|c2q)/^c2a' --input {file} --time-unit s --window 10d --slide 1d --output - | head",
        f"  rpq explain '{EXPRESSION}'" + " " * 42 + "the automaton behind it",
        "  rpq run --help",
    ]
    return "\n".join(lines)


def write_edges(stream: pa.Table, path: str) -> None:
    """Write a stream in the format `edges`, as the ending of the name says; `click.UsageError` for another."""
    from rpq.files import WriteError
    from rpq.workloads.generate.writing import OutputError, write_stream

    try:
        write_stream(stream.to_batches(), path)
    except OutputError as error:
        raise click.UsageError(f"--output {error}") from error
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {path}", err=True)
