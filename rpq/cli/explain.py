"""`rpq explain`: the meaning of an expression or a pattern to the engine, as text and as a drawing.

Drawings are made by Graphviz where its program `dot` is installed, otherwise by matplotlib.  The functions that use
matplotlib import it when they are called.
"""

from __future__ import annotations

import io
import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rpq.cli import options as shared
from rpq.cli.options import WrittenFile, shown_output
from rpq.cli.request import COMMAND, read_query_entries
from rpq.errors import install_command
from rpq.language.options import OPTIONS, WrittenOptions
from rpq.language.query import cost_text
from rpq.language.query_file import QueryEntry, QueryFileError, query_entry
from rpq.stream.window import kind_of_text

if TYPE_CHECKING:
    from rpq.engine.explanation import Drawing, QueryExplanation
    from rpq.language.query import Query
    from rpq.language.readings import Identity


@click.command("explain", short_help="Show how a query is understood and evaluated.")
@click.argument("expression", required=False)
@click.option("--queries", metavar="FILE", help="File with queries (as for rpq run --queries), instead of EXPRESSION.")
@click.option(
    "--dot",
    metavar="FILE",
    help="File for the automaton or pattern in Graphviz's language; with -, standard output contains nothing else.",
)
@click.option(
    "--svg",
    type=WrittenFile(),
    metavar="FILE",
    help="File for a drawing of the automaton or pattern (needs Graphviz or matplotlib).",
)
@click.option(
    "--png",
    type=WrittenFile(),
    metavar="FILE",
    help="File for a drawing of the automaton or pattern (needs Graphviz or matplotlib).",
)
@click.option(
    "--edges",
    type=click.Choice(["triple", "parallel", "id"]),
    help="Which inserts are the same edge (as for rpq run); the explanation shows it.",
)
@shared.query_options("", "paths", "language", "node_label", "parameters")
def explain(
    expression: str | None,
    queries: str | None,
    dot: str | None,
    svg: str | None,
    png: str | None,
    edges: Identity | None,
    **options: Any,
) -> None:
    """Show EXPRESSION as it was parsed, and its minimal deterministic automaton.

    For a graph pattern, such as ?x a2q ?y . ?y c2q ?z, show the atoms, the relations that they read, and the order in which
    variables are bound when an edge of each changes. For SPARQL and MATCH, show the algebra.

    Write -- before an EXPRESSION that begins with a -.  With --queries, the queries are shown one after the other, after all
    of them have been checked.
    """
    given = WrittenOptions(**options).given_options
    if queries is not None:
        if given:
            flag = OPTIONS[next(iter(given))].flag
            raise click.UsageError(f"{flag} is for EXPRESSION; in the file of --queries, write it as a field of a query")
        _explain_file(expression, queries, dot, [path for path in (svg, png) if path is not None], edges)
        return
    if expression is None:
        raise click.UsageError("Missing argument 'EXPRESSION' (or --queries FILE).")
    try:
        query = query_entry({"query": expression, **given}, place=COMMAND).parsed
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    is_drawn = query.notation in ("path", "pattern")
    written = [f"--{name}" for name, path in (("dot", dot), ("svg", svg), ("png", png)) if path is not None]
    if written and not is_drawn:
        raise click.UsageError(f"{written[0]}: a query in SPARQL or MATCH has no drawing; its algebra is shown as text")
    explanation = _explain(query, edges)
    paths = [f"paths        {query.paths}"] if "paths" in given else []
    if is_drawn:
        _output(explanation, paths, dot=dot, drawings=((svg, "svg"), (png, "png")))
    else:
        click.echo("\n".join([*paths, str(explanation)]))


def _output(
    explanation: Any, options: Sequence[str], *, dot: str | None, drawings: Sequence[tuple[str | None, str]]
) -> None:
    """Print an explanation and its graph in Graphviz's language, and write the files that options name.

    `options` are lines about the query; `drawings` are paths with the kind of image, svg or png.
    """
    from rpq.cli.options import check_files

    check_files(written=[("--dot", dot), *((f"--{kind}", path) for path, kind in drawings)])
    graph, drawing = explanation.to_dot(), explanation.drawing()
    if dot == "-":
        click.echo(graph, nl=False)
    else:
        click.echo(_text_of(explanation, options))
        if dot is None:
            click.echo(f"\nthe {drawing.kind} in Graphviz's language\n\n{graph}", nl=False)
        else:
            _write(dot, graph.encode())
    for path, kind in drawings:
        if path is not None:
            try:
                _write(path, draw_graph(graph, drawing, kind))
            except DrawingError as error:
                raise click.ClickException(str(error)) from error


def _explain(query: Query, edges: Identity | None) -> QueryExplanation:
    """Return the explanation of a query without a window. Raises a usage error for one that cannot be evaluated."""
    from rpq.engine.explanation import explain_without_window
    from rpq.errors import QueryError
    from rpq.language.readings import describe_identity

    try:
        return explain_without_window(query, identity="" if edges is None else describe_identity(edges))
    except QueryError as error:
        raise click.UsageError(str(error)) from error


def _text_of(explanation: Any, options: Sequence[str]) -> str:
    """Return an explanation with lines about the query: behind those about the text of a path, before any others."""
    if hasattr(explanation, "options"):
        return str(replace(explanation, options=tuple(options)))
    return "\n".join([*options, str(explanation)])


def _explain_file(
    expression: str | None, queries: str, dot: str | None, drawings: list[str], edges: Identity | None
) -> None:
    """Print the explanations of all queries of a file; `dot` is a file for all their graphs, one after the other."""
    from rpq.cli.options import check_files
    from rpq.cli.reporting import printable

    if expression is not None:
        raise click.UsageError("EXPRESSION and --queries cannot be combined; give one of them")
    if drawings:
        raise click.UsageError(f"{drawings[0]}: draws one query; expected EXPRESSION, or --dot, which writes all queries")
    entries = read_query_entries(queries)
    check_files(written=[("--dot", dot)], read=[("--queries", queries)])
    explained = [_explain(query.parsed, edges) for query in entries]
    graphs = "".join(one.to_dot() for one in explained if hasattr(one, "to_dot"))
    if dot == "-":
        click.echo(graphs, nl=False)
        return
    for number, (query, one) in enumerate(zip(entries, explained, strict=True)):
        if number:
            click.echo()
        click.echo(f"query        {printable(query.name)}")
        click.echo(_text_of(one, _options(query)))
    if dot is not None:
        _write(dot, graphs.encode())


def _options(query: QueryEntry) -> list[str]:
    """Return a line for each option of a query."""
    ends = [
        (field, f"{len(vertices):,}: {' '.join(map(str, [*vertices][:8]))}{' …' * (len(vertices) > 8)}")
        for field, vertices in (("sources", query.sources), ("targets", query.targets))
        if vertices is not None
    ]
    window = query.window
    if window is not None and kind_of_text(window) != "unbounded":
        window = f"{window}, slide {query.slide or 'not given'}"
    entries = [("window", window), ("paths", query.paths), ("semantics", query.parsed.semantics), *ends]
    entries += [("length", "the smallest number of edges of a path" if query.parsed.has_length else None)]
    entries += [("cost", None if query.parsed.cost is None else cost_text(query.parsed.cost))]
    order, report = query.parsed.time_order, query.given_options.get("report")
    entries += [("order", None if order is None else order.text), ("report", report)]
    entries += [("hold", query.parsed.hold)]
    entries += [("output", query.output and shown_output(query.output))]
    return [f"{name:<13}{value}" for name, value in entries if value is not None]


def _write(path: str, data: bytes) -> None:
    from rpq.files.destinations import open_replacement

    try:
        with open_replacement(path) as file:
            file.write(data)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {path}", err=True)


RADIUS = 0.22


class DrawingError(Exception):
    """A drawing that cannot be made: neither Graphviz nor matplotlib is installed, or Graphviz failed."""


def draw_graph(dot: str, drawing: Drawing, kind: str) -> bytes:
    """Return an image of a drawing, made by Graphviz from its language, or else by matplotlib. Raises `DrawingError`."""
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run([program, f"-T{kind}"], input=dot.encode(), capture_output=True, check=False)
        if done.returncode:
            raise DrawingError(f"Graphviz failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DrawingError(
            f"a drawing needs Graphviz (its program `dot`) or matplotlib ({install_command('plot')}); "
            "--dot FILE writes it for Graphviz"
        ) from error
    figure = Figure()
    (_fill_automaton if drawing.kind == "automaton" else _fill_pattern)(figure, drawing)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=150)
    return out.getvalue()


def _fill_automaton(figure: Any, drawing: Drawing) -> None:
    """Draw an automaton into an empty figure."""
    places = [node.place for node in drawing.nodes]
    width = 1 + max(x for x, _ in places)
    height = 1 + max(abs(y) for _, y in places) * 2
    figure.set_size_inches(1.6 * width + 0.8, 1.4 * height + 0.4)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-0.9, width - 0.3)
    axes.set_ylim(-height / 2 - 0.4, height / 2 + 0.4)
    for node in drawing.nodes:
        draw_circle(axes, node.place, RADIUS)
        if node.shape == "double":
            draw_circle(axes, node.place, RADIUS * 0.8)
        axes.text(*node.place, node.text, ha="center", va="center")
    x, y = places[0]
    draw_arrow(axes, (x - 3 * RADIUS, y), (x, y), "", bend=0.0, shrink=(0, 1))
    ends = {(arrow.start, arrow.end) for arrow in drawing.arrows}
    for arrow in drawing.arrows:
        start, end = places[arrow.start], places[arrow.end]
        if arrow.start == arrow.end:
            draw_loop(axes, start, arrow.text)
        else:
            bend = 0.25 if end[0] - start[0] != 1 or (arrow.end, arrow.start) in ends else 0.0
            draw_arrow(axes, start, end, arrow.text, bend=bend)


def draw_circle(axes: Any, place: tuple[float, float], radius: float) -> None:
    """Draw a circle."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, radius, fill=False))


def draw_arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    label: str,
    *,
    bend: float,
    shrink: tuple[float, float] = (1, 1),
    style: str = "solid",
) -> None:
    """Draw an arrow with a label beside it; `shrink` is the gap at its two ends, in radii."""
    from matplotlib.patches import FancyArrowPatch

    length = math.dist(start, end)
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    ends = [
        (point[0] + sign * RADIUS * near * along[0], point[1] + sign * RADIUS * near * along[1])
        for point, sign, near in ((start, 1, shrink[0]), (end, -1, shrink[1]))
    ]
    axes.add_patch(
        FancyArrowPatch(
            ends[0],
            ends[1],
            arrowstyle="-|>",
            mutation_scale=12,
            color="black",
            connectionstyle=f"arc3,rad={-bend}",
            linestyle=style,
        )
    )
    middle = [(start[axis] + end[axis]) / 2 for axis in (0, 1)]
    off = bend * length / 2 + 0.1
    axes.text(
        middle[0] - along[1] * off,
        middle[1] + along[0] * off,
        label,
        ha="center",
        va="center",
        fontsize=9,
        parse_math=False,
    )


def draw_loop(axes: Any, place: tuple[float, float], label: str, *, style: str = "solid") -> None:
    """Draw an arrow from a place to itself, above it."""
    from matplotlib.patches import FancyArrowPatch

    x, y = place
    ends = [(x - RADIUS * 0.6, y + RADIUS * 0.8), (x + RADIUS * 0.6, y + RADIUS * 0.8)]
    axes.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color="black", connectionstyle="arc3,rad=-1.6")
    )
    axes.text(x, y + RADIUS * 2.6, label, ha="center", va="center", fontsize=9, parse_math=False)


def _fill_pattern(figure: Any, drawing: Drawing) -> None:
    """Draw a pattern: its terms on a circle, its atoms as arrows, dashed for paths.

    Terms are in the order of the text.  Several arrows between the same two terms bend away from each other.
    """
    places = [node.place for node in drawing.nodes]
    reach = max(max(map(abs, place)) for place in places) + 0.9
    figure.set_size_inches(1.6 * reach + 0.8, 1.6 * reach + 0.8)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    drawn: Counter[frozenset[int]] = Counter()
    for arrow in drawing.arrows:
        style = "dashed" if arrow.is_dashed else "solid"
        start, end = places[arrow.start], places[arrow.end]
        ends = frozenset((arrow.start, arrow.end))
        if arrow.start == arrow.end:
            draw_loop(axes, start, arrow.text, style=style)
        else:
            draw_arrow(axes, start, end, arrow.text, bend=0.25 * drawn[ends], shrink=(1.3, 1.3), style=style)
        drawn[ends] += 1
    for name, place, shape in drawing.nodes:
        box = {
            "boxstyle": f"{'square' if shape == 'box' else shape},pad=0.3",
            "facecolor": "white",
            "linestyle": ":" if name.startswith("_:") else "-",
        }
        axes.text(*place, name, ha="center", va="center", bbox=box, parse_math=False)
