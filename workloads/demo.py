"""`rpq demo`: a small stream, a path and a pattern over it, their results, and commands to try next.

With `--page` a server plays the stream back, and a browser shows the server's page.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import socket
import sys
import tempfile
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.options import WrittenFile
from rpq.files.destinations import STANDARD_OUTPUT

if TYPE_CHECKING:
    import pyarrow as pa

    import rpq

QUERIES = """\
[defaults]
semantics = "explicit"

[[query]]
name = "Whom does an answer reach, reply by reply?"
query = "answered/replied*"
window = "36h"
slide = "6h"

[[query]]
name = "Who replies to a rival who answered the same person?"
query = "?critic answered ?asker . ?rival answered ?asker . ?critic replied ?rival"
window = "10d"
slide = "1d"

[[query]]
name = "Who replies to somebody whom the other answered?"
query = "replied/^answered"
window = "2d"
slide = "6h"
"""
"""The first queries of the page: a path, a pattern, and a path against the direction of an edge, by descriptive names."""

VERBS = {"a2q": "answered", "c2a": "replied", "c2q": "commented"}
"""Readable names of the labels: a reply is a comment on an answer, from its author to the author of the answer."""

FIRST_NAMES = (
    "Ada Aiko Alma Amir Anna Arjun Asha Bao Bela Bruno Carla Chidi Clara Dana Dario Edda Elif Emil Esra Farid Finn Gita "
    "Greta Hana Hugo Ida Ines Ivan Jana Jin Juan Kaya Kofi Lara Leo Lena Lina Luca Maja Mara Mei Milo Mina Nadia Nia Noor "
    "Olga Omar Otto Pia Priya Rafa Rosa Sami Sara Tariq Tess Uma Vera Yuki"
).split()
INITIALS = "ABCDEFGHIJKLMNOPRSTUVWXYZ"

SPEED = 21_600
"""Seconds of the stream per second of playback: its 120 days take eight minutes, and a window of 36 hours six seconds."""

RETENTION = "10d"
"""The length of the window of queries that are written on the page."""

START_SECONDS = 300.0
"""The longest wait for the server, which may have to compile kernels."""


def show_page(stream: pa.Table, *, port: int) -> int:
    """Serve the stream until Ctrl-C; return the exit status. Raises click's exceptions."""
    from rpq.cli import main
    from rpq.workloads.generate.writing import write_stream

    port = port or _free_port()
    with tempfile.TemporaryDirectory(prefix="rpq-demo-") as folder:
        queries, tuples = os.path.join(folder, "queries.toml"), os.path.join(folder, "stream.tsv")
        with open(queries, "w", encoding="utf-8") as file:
            file.write(QUERIES)
        write_stream(with_people(stream).to_batches(), tuples)
        click.echo(f"The page: http://127.0.0.1:{port}/  (Ctrl-C ends it)")
        click.echo("People of a question-and-answer site answer questions and reply to answers: who is joined by that?")
        if _shows_windows():
            threading.Thread(target=_open_once_it_answers, args=(port,), daemon=True).start()
        arguments = [
            "serve", "--queries", queries, "--input", tuples, "--playback-speed", str(SPEED), "--time-unit", "s",
            "--keep", RETENTION, "--port", str(port),
        ]  # fmt: skip
        try:
            main.main(arguments, prog_name="rpq", standalone_mode=False)
        except SystemExit as ended:
            # Ctrl-C is the normal end of the demo.
            return 0 if ended.code == 130 else int(ended.code or 0)
    return 0


def with_people(stream: pa.Table) -> pa.Table:
    """Return the stream with names of people instead of `u0`, `u1`, …, and with verbs as labels."""
    import pyarrow as pa

    names = {name: person(int(name[1:])) for end in ("source", "target") for name in stream[end].unique().to_pylist()}
    for column, words in (("source", names), ("target", names), ("label", VERBS)):
        codes = stream[column].combine_chunks().dictionary_encode()
        named = pa.array([words[word] for word in codes.dictionary.to_pylist()], pa.string()).take(codes.indices)
        stream = stream.set_column(stream.schema.get_field_index(column), column, named)
    return stream


def person(number: int) -> str:
    """Return the name of a user, different for each number.

    >>> person(0), person(1), person(60)
    ('Ada A.', 'Aiko B.', 'Ada B.')
    """
    turn, place = divmod(number, len(FIRST_NAMES))
    more, turn = divmod(turn, len(INITIALS))
    initial = INITIALS[(turn + place) % len(INITIALS)]
    return f"{FIRST_NAMES[place]} {initial}." if more == 0 else f"{FIRST_NAMES[place]} {initial}. {more + 1}"


def _free_port() -> int:
    """Return a free port."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _shows_windows() -> bool:
    """Return whether a user is at the terminal, with a desktop on which a browser can open."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _open_once_it_answers(port: int) -> None:
    """Open the page in the browser of the system as soon as the server answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            # The socket listens before the engine is ready; the browser waits until the engine answers.
            import webbrowser

            webbrowser.open(f"http://127.0.0.1:{port}/")
            return


EXPRESSION = "a2q/c2a*"
PATTERN = "?critic a2q ?asker . ?rival a2q ?asker . ?critic c2a ?rival"
DAY = 86_400
WINDOW_DAYS, SLIDE_DAYS = 10, 1
SHOWN, LONGEST_SHOWN = 8, 5
LATEST_EDGES = 200
"""The number of edges at the end of the stream whose rows are candidates to be shown."""


@click.command("demo", short_help="Run a path and a pattern over a small generated stream.")
@click.option("--edges", type=click.IntRange(min=100), default=20_000, show_default=True, help="Number of edges.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random numbers.")
@click.option("--page", is_flag=True, help="Play the stream back on the page of a server, instead of showing rows.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="any", help="With --page: the port of the server."
)
@click.option(
    "--output",
    type=WrittenFile(),
    metavar="FILE",
    help="Write the stream as .tsv, .csv or .parquet, in the format edges; "
    "- writes the stream to standard output, and does nothing else.",
)
def demo(edges: int, seed: int, page: bool, port: int, output: str | None) -> None:
    """Generate a small stream like Stack Overflow's, run a path and a pattern over it, and show answers of both.

    With --page a server plays the stream back, and a browser shows answers as they begin and end (needs the extra serve).
    """
    from rich.console import Console

    import rpq
    from rpq.cli.options import check_files
    from rpq.cli.reporting import compile_each
    from rpq.engine.compilation import WarmUp
    from rpq.workloads.generate.interactions import Interactions, generate_interactions

    check_files(written=[("--output", output)])
    console = Console()
    stream = generate_interactions(Interactions(edges=edges, seed=seed))
    if output is not None:
        write_edges(stream, output)
    if output == STANDARD_OUTPUT:
        return
    if page:
        sys.exit(show_page(stream, port=port))
    window = rpq.Window(size=WINDOW_DAYS * DAY, slide=SLIDE_DAYS * DAY)
    query, pattern = rpq.Query(EXPRESSION, window=window), rpq.Query(PATTERN, window=window)
    console.print(
        f"\nThe stream: {edges:,} edges between users of a question-and-answer site, 120 days, seed {seed}.\n"
        "  a2q  from the author of an answer to the author of the question\n"
        "  c2a  from the author of a comment to the author of the answer\n"
        "  c2q  from the author of a comment to the author of the question\n"
        f"A path:     [bold]{EXPRESSION}[/bold] over the last {WINDOW_DAYS} days, moving by {SLIDE_DAYS}: x answered a "
        "question of someone\n  who commented on an answer of someone who commented on … an answer of y.\n"
    )
    kernels = compile_each([WarmUp(query, witness=True), WarmUp(pattern)])
    next(kernels)
    console.print(_table(_latest(query, stream)))
    next(kernels)
    engine = rpq.Engine(query, pattern)
    changes = engine.push(stream)
    figures, of_path, of_pattern = (engine.statistics(name) for name in (None, query.name, pattern.name))
    console.print(
        f"\n{of_path.rows_added:,} rows, one whenever a pair became an answer.  {of_path.answers_live:,} pairs are answers "
        f"now, with {of_path.edges_live:,} edges in the window.\n\n"
        f"A pattern:  [bold]{PATTERN}[/bold]\n  over the same days, in the same engine: two people answered the same asker, "
        "and one of them comments on an answer of the other.\n"
    )
    if of_pattern.rows_added:
        console.print(_table_of_pattern(changes.to_arrow(pattern.name)))
    console.print(
        f"\n{of_pattern.rows_added:,} rows, one whenever three people became an answer.  {of_pattern.answers_live:,} are "
        "answers now.\n"
        f"{figures.engine_seconds:.2f} s in the engine for both: "
        f"{edges / max(figures.engine_seconds, 1e-9):,.0f} edges a second.\n"
    )
    click.echo(_next_steps(output, edges, seed))


def _latest(query: rpq.Query, stream: pa.Table) -> list[tuple[dict[str, Any], list[str]]]:
    """Return some of the latest rows with their paths, one for each source, with paths that fit on a line."""
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
    """Return a table of the rows of `rpq run --witness`, with paths as arrows."""
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
    """Return the latest rows of the pattern, the last one first; its variables are the columns."""
    from rich.table import Table

    table = Table(title="Its latest rows", title_justify="left")
    columns = ("timestamp", *(name for name in rows.column_names if name not in ("query", "timestamp", "op")))
    for name in columns:
        table.add_column(name)
    for row in reversed(rows.slice(max(0, len(rows) - SHOWN)).to_pylist()):
        table.add_row(*(str(row[name]) for name in columns))
    return table


def _next_steps(output: str | None, edges: int, seed: int) -> str:
    """Return commands to paste; each works independently of the others, in any folder where the file name is the same."""
    rpq = command_name()
    stream = f"--edges {edges} --seed {seed}"
    options = f"--time-unit s --window {WINDOW_DAYS}d --slide {SLIDE_DAYS}d"
    before, file = (f"{rpq} demo {stream} --output - | ", "-") if output is None else ("", shlex.quote(_as_value(output)))
    run = f"  {before}{rpq} run '%s' --input {file} {options} --output %s"
    keep = ["", "Write this stream to a file:", f"  {rpq} demo {stream} --output demo.tsv"] if output is None else []
    return "\n".join(
        [
            "Try next.  Write all rows of this query, each with a path, to a file:",
            run % (EXPRESSION, "rows.csv --witness"),
            "",
            "Show the first rows of another query:",
            run % ("(a2q|c2q)/^c2a", "- | head"),
            *keep,
            "",
            "Show the automaton of the query, and all options:",
            f"  {rpq} explain '{EXPRESSION}'",
            f"  {rpq} run --help",
        ]
    )


def _as_value(path: str) -> str:
    """Return a path in a form that cannot be parsed as an option."""
    return os.path.join(os.curdir, path) if path.startswith("-") else path


def command_name() -> str:
    """Return the command to show in a shell: `rpq` if it is on the PATH, otherwise the path of the running program."""
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
    """Write a stream in the format `edges`, by the ending of the name.  Raises `click.UsageError` for another ending."""
    from rpq.files.destinations import WriteError
    from rpq.workloads.generate.writing import OutputError, write_stream

    try:
        write_stream(stream.to_batches(), path)
    except OutputError as error:
        raise click.UsageError(f"--output {error}") from error
    except WriteError as error:
        if error.errno == errno.EPIPE:  # the reader has closed the pipe
            return
        raise click.ClickException(str(error)) from error
    if path != STANDARD_OUTPUT:
        click.echo(f"wrote {path}", err=True)
