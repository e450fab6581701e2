"""`rpq demo`: a small stream, a path and a pattern over it, what comes out, and what to try next; or all on a page."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.options import WrittenFile
from rpq.files.destinations import STANDARD_OUTPUT

if TYPE_CHECKING:
    import pyarrow as pa

    import rpq

EXPRESSION = "a2q/c2a*"
PATTERN = "?critic a2q ?asker . ?rival a2q ?asker . ?critic c2a ?rival"
DAY = 86_400
WINDOW_DAYS, SLIDE_DAYS = 10, 1
SHOWN, LONGEST_SHOWN = 8, 5
LATEST_EDGES = 200
"""So many edges at the end of the stream bring the rows of which some are shown."""


@click.command("demo", short_help="Run a path and a pattern over a small stream made up for it.")
@click.option("--edges", type=click.IntRange(min=100), default=20_000, show_default=True, help="Length of the stream.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another stream.")
@click.option("--page", is_flag=True, help="Play the stream back on the page of a server, in place of showing rows.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="any", help="Of --page: the port to serve at."
)
@click.option(
    "--output",
    type=WrittenFile(),
    metavar="FILE",
    help="Keep the stream: .tsv, .csv or .parquet, in the format edges; "
    "- writes it to standard output, and does nothing else.",
)
def demo(edges: int, seed: int, page: bool, port: int, output: str | None) -> None:
    """Make a small stream like Stack Overflow's, run a path and a pattern over it, and show answers of both.

    With --page a server plays the stream back, and a browser shows the answers as they come and go (needs the extra serve).
    """
    from rich.console import Console

    import rpq
    from rpq.cli.options import check_files
    from rpq.cli.reporting import compiling_notice, notice_after
    from rpq.workloads.generate.interactions import Interactions, generate_interactions

    check_files(written=[("--output", output)])
    console = Console()
    stream = generate_interactions(Interactions(edges=edges, seed=seed))
    if output is not None:
        write_edges(stream, output)
    if output == STANDARD_OUTPUT:
        return
    if page:
        from rpq.workloads.demo_page import show_page

        sys.exit(show_page(stream, port=port))
    window = rpq.Window(size=WINDOW_DAYS * DAY, slide=SLIDE_DAYS * DAY)
    query, pattern = rpq.Query(EXPRESSION, window=window), rpq.Query(PATTERN, window=window)
    with notice_after(1.0, compiling_notice, shown=True):
        rpq.warm_up(query)
        rpq.warm_up(query, witness=True)
        rpq.warm_up(pattern)
    engine = rpq.Engine(query, pattern)
    changes = engine.push(stream)
    figures, of_path, of_pattern = (engine.statistics(name) for name in (None, query.name, pattern.name))
    console.print(
        f"\nThe stream: {edges:,} edges between users of a question-and-answer site, 120 days, seed {seed}.\n"
        "  a2q  from who answered to who had asked\n"
        "  c2a  from who commented to who had answered\n"
        "  c2q  from who commented to who had asked\n"
        f"A path:     [bold]{EXPRESSION}[/bold] over the last {WINDOW_DAYS} days, moving by {SLIDE_DAYS}: x answered a "
        "question of someone\n  who commented on an answer of someone who commented on … an answer of y.\n"
    )
    console.print(_table(_latest(query, stream)))
    console.print(
        f"\n{of_path.rows_added:,} rows: so often a pair became an answer.  {of_path.answers_live:,} pairs are answers now, "
        f"with {of_path.edges_live:,} edges in the window.\n\n"
        f"A pattern:  [bold]{PATTERN}[/bold]\n  over the same days, in the same engine: two people answered one who asks, "
        "and the one comments on an answer of the other.\n"
    )
    if of_pattern.rows_added:
        console.print(_table_of_pattern(changes.to_arrow(pattern.name)))
    console.print(
        f"\n{of_pattern.rows_added:,} rows: so often three people stood like this.  {of_pattern.answers_live:,} such threes "
        "are answers now.\n"
        f"{figures.engine_seconds:.2f} s in the engine for both: "
        f"{edges / max(figures.engine_seconds, 1e-9):,.0f} edges a second.\n"
    )
    click.echo(_next_steps(output, edges, seed))


def _latest(query: rpq.Query, stream: pa.Table) -> list[tuple[dict[str, Any], list[str]]]:
    """Some of the latest rows with their paths, one for each source, with paths that fit on a line."""
    import rpq

    engine = rpq.Engine(query, witness=True)
    start = max(0, stream.num_rows - LATEST_EDGES)
    engine.push(stream.slice(0, start), collect=False)
    rows = engine.push(stream.slice(start)).to_arrow(witness=True).to_pylist()
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for row in reversed(rows):
        path = json.loads(row["path"])
        if row["source"] not in found and 2 <= len(path) // 2 <= LONGEST_SHOWN:
            found[row["source"]] = (row, path)
    return list(found.values())[:SHOWN]


def _table(rows: list[tuple[dict[str, Any], list[str]]]) -> Any:
    """Rows as `rpq run --witness` writes them, with the path drawn."""
    from datetime import UTC, datetime

    from rich.table import Table

    latest = f"{datetime.fromtimestamp(rows[0][0]['timestamp'], UTC):%Y-%m-%d %H:%M}" if rows else ""
    table = Table(
        title="Some of the latest rows, and the path behind each",
        title_justify="left",
        caption=f"A timestamp is in seconds: the first one here is {latest}." if rows else "",
        caption_justify="left",
    )
    for name in ("timestamp", "source", "target", "path"):
        table.add_column(name)
    for row, path in rows:
        steps = [f"─{label}→ {vertex}" for label, vertex in zip(path[1::2], path[2::2], strict=True)]
        table.add_row(str(row["timestamp"]), row["source"], row["target"], " ".join([path[0], *steps]))
    return table


def _table_of_pattern(rows: pa.Table) -> Any:
    """The latest rows of the pattern, the last one first; its variables are the columns."""
    from rich.table import Table

    table = Table(title="Its latest rows", title_justify="left")
    columns = ("timestamp", *(name for name in rows.column_names if name not in ("query", "timestamp", "op")))
    for name in columns:
        table.add_column(name)
    for row in reversed(rows.slice(max(0, len(rows) - SHOWN)).to_pylist()):
        table.add_row(*(str(row[name]) for name in columns))
    return table


def _next_steps(output: str | None, edges: int, seed: int) -> str:
    """Commands to paste, each of which works alone and in any folder where the names in it mean what they mean here."""
    rpq = command_name()
    stream = f"--edges {edges} --seed {seed}"
    options = f"--time-unit s --window {WINDOW_DAYS}d --slide {SLIDE_DAYS}d"
    before, file = (f"{rpq} demo {stream} --output - | ", "-") if output is None else ("", shlex.quote(_as_value(output)))
    run = f"  {before}{rpq} run '%s' --input {file} {options} --output %s"
    keep = ["", "This stream as a file:", f"  {rpq} demo {stream} --output demo.tsv"] if output is None else []
    return "\n".join(
        [
            "Try next.  This query over this stream, all rows with a path each to a file:",
            run % (EXPRESSION, "rows.csv --witness"),
            "",
            "Another query, the first rows on the terminal:",
            run % ("(a2q|c2q)/^c2a", "- | head"),
            *keep,
            "",
            "The automaton behind the query, and all options:",
            f"  {rpq} explain '{EXPRESSION}'",
            f"  {rpq} run --help",
        ]
    )


def _as_value(path: str) -> str:
    """A path that is not taken for an option."""
    return os.path.join(os.curdir, path) if path.startswith("-") else path


def command_name() -> str:
    """How a shell calls the command that runs now: `rpq` where that is on the PATH, or the path of what was called."""
    called = sys.argv[0]
    if os.path.normpath(called).endswith(os.path.join("rpq", "cli", "__main__.py")):
        return f"{shlex.quote(sys.executable)} -m rpq.cli"
    if os.path.splitext(os.path.basename(called))[0] != "rpq" or not os.path.exists(called):
        return "rpq"
    on_path = shutil.which("rpq")
    if on_path is not None and os.path.samefile(on_path, called):
        return "rpq"
    return shlex.quote(os.path.abspath(called))


def write_edges(stream: pa.Table, path: str) -> None:
    """Write a stream in the format `edges`, as the ending of the name says; `click.UsageError` for another."""
    from rpq.files.destinations import WriteError
    from rpq.workloads.generate.writing import OutputError, write_stream

    try:
        write_stream(stream.to_batches(), path)
    except OutputError as error:
        raise click.UsageError(f"--output {error}") from error
    except WriteError as error:
        if error.errno == errno.EPIPE:  # who reads has enough
            return
        raise click.ClickException(str(error)) from error
    if path != STANDARD_OUTPUT:
        click.echo(f"wrote {path}", err=True)
