"""`rpq explain`: what an expression or a pattern means to the engine, as text and as a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from rpq.cli.option_types import WrittenFile
from rpq.stream.window_text import kind_of_text

if TYPE_CHECKING:
    from rpq import automata
    from rpq.patterns.explained import Explanation
    from rpq.queries.query_file import AskedQuery
    from rpq.sparql.explanation import SparqlExplanation


@click.command("explain", short_help="Show how a path expression or a graph pattern is understood.")
@click.argument("expression", required=False)
@click.option("--queries", metavar="FILE", help="In place of EXPRESSION: a file of queries, as of rpq run --queries.")
@click.option(
    "--dot",
    metavar="FILE",
    help="Write automaton or pattern in Graphviz's language here; - writes that alone to standard output.",
)
@click.option("--svg", type=WrittenFile(), metavar="FILE", help="Draw automaton or pattern (needs Graphviz or matplotlib).")
@click.option("--png", type=WrittenFile(), metavar="FILE", help="Draw automaton or pattern (needs Graphviz or matplotlib).")
def explain(expression: str | None, queries: str | None, dot: str | None, svg: str | None, png: str | None) -> None:
    """Show EXPRESSION as it was parsed, and its minimal deterministic automaton.

    Of a graph pattern, ?x a2q ?y . ?y c2q ?z, show the atoms, the relations that they read, and in which order variables are
    bound when an edge of each changes.

    An EXPRESSION that starts with a - goes behind --.  Of --queries each is shown in turn, once all are understood.
    """
    from rpq import automata
    from rpq.cli.named_files import check_files
    from rpq.queries.language import language_of

    if queries is not None:
        _explain_file(expression, queries, dot, [path for path in (svg, png) if path is not None])
        return
    if expression is None:
        raise click.UsageError("Missing argument 'EXPRESSION' (or --queries FILE).")
    if language_of(expression) == "pattern":
        _explain_pattern(expression, dot, svg, png)
        return
    if language_of(expression) == "sparql":
        drawings = [f"--{name}" for name, path in (("dot", dot), ("svg", svg), ("png", png)) if path is not None]
        if drawings:
            raise click.UsageError(f"{drawings[0]}: a query in SPARQL has no drawing; its algebra is shown as text")
        click.echo(str(_explained_sparql(expression)))
        return
    try:
        tree = automata.parse(expression)
        dfa = automata.compile(expression)
    except automata.ExpressionError as error:
        raise click.UsageError(f"the expression is not understood\n{error}") from error
    check_files(written=[("--dot", dot), ("--svg", svg), ("--png", png)])
    if dot == "-":
        click.echo(dfa.to_dot(), nl=False)
    else:
        click.echo(describe(tree, dfa))
        if dot is None:
            click.echo(f"\nthe automaton in Graphviz's language\n\n{dfa.to_dot()}", nl=False)
        else:
            _write(dot, dfa.to_dot().encode())
    for path, kind in ((svg, "svg"), (png, "png")):
        if path is not None:
            from rpq.cli.drawing import CannotDraw, draw

            try:
                _write(path, draw(dfa, kind))
            except CannotDraw as error:
                raise click.ClickException(str(error)) from error


def _explained_sparql(text: str, paths: Literal["walk", "simple"] = "walk") -> SparqlExplanation:
    """What a query in SPARQL means; of its windows those that the text declares."""
    from dataclasses import replace

    from rpq.errors import QueryError
    from rpq.sparql.explanation import explain_query
    from rpq.sparql.query import SparqlQuery
    from rpq.stream.window import Window

    try:
        explanation = explain_query(SparqlQuery(text, window=Window(size=1, slide=1), paths=paths), "")
    except QueryError as error:
        raise click.UsageError(str(error)) from error
    return replace(explanation, windows=tuple(one for one in explanation.windows if one[0] != "default"))


def _explain_pattern(text: str, dot: str | None, svg: str | None, png: str | None) -> None:
    """Show a graph pattern, and draw it where that is asked for."""
    from rpq import automata
    from rpq.cli.named_files import check_files
    from rpq.errors import QueryError
    from rpq.patterns.explained import explain_pattern
    from rpq.queries.pattern import Pattern

    try:
        explanation = explain_pattern(Pattern.read(text, None), text)
    except automata.ExpressionError as error:
        raise click.UsageError(f"the pattern is not understood\n{error}") from error
    except QueryError as error:
        raise click.UsageError(str(error)) from error
    check_files(written=[("--dot", dot), ("--svg", svg), ("--png", png)])
    if dot == "-":
        click.echo(explanation.to_dot(), nl=False)
    else:
        click.echo(str(explanation))
        if dot is None:
            click.echo(f"\nthe pattern in Graphviz's language\n\n{explanation.to_dot()}", nl=False)
        else:
            _write(dot, explanation.to_dot().encode())
    for path, kind in ((svg, "svg"), (png, "png")):
        if path is not None:
            from rpq.cli.drawing import CannotDraw
            from rpq.cli.pattern_drawing import draw_pattern

            try:
                _write(path, draw_pattern(explanation, kind))
            except CannotDraw as error:
                raise click.ClickException(str(error)) from error


def _explain_file(expression: str | None, queries: str, dot: str | None, drawings: list[str]) -> None:
    """Show all queries of a file; their automata in Graphviz's language, one behind the other, only where asked for."""
    from rpq import automata
    from rpq.cli.asked import entries_of
    from rpq.cli.named_files import check_files
    from rpq.cli.summary import printable

    if expression is not None:
        raise click.UsageError("EXPRESSION and --queries are two things to explain; give one")
    if drawings:
        raise click.UsageError(f"{drawings[0]}: a drawing is of one automaton; --dot takes those of many queries")
    asked = entries_of(queries)
    check_files(written=[("--dot", dot)], read=[("--queries", queries)])
    explained = [query.dfa or _explained(query) for query in asked]
    graphs = "".join(one.to_dot() for one in explained if hasattr(one, "to_dot"))
    if dot == "-":
        click.echo(graphs, nl=False)
        return
    for number, (query, one) in enumerate(zip(asked, explained, strict=True)):
        if number:
            click.echo()
        click.echo(f"query        {printable(query.name)}")
        if query.dfa is not None:
            click.echo(describe(automata.parse(query.expression), query.dfa, options=_options(query)))
        else:
            click.echo("\n".join([*_options(query), str(one)]))
    if dot is not None:
        _write(dot, graphs.encode())


def _options(query: AskedQuery) -> list[str]:
    """What a query asks beside its expression, a line each."""
    ends = [
        (field, f"{len(vertices):,}: {' '.join(map(str, vertices[:8]))}{' …' * (len(vertices) > 8)}")
        for field, vertices in (("sources", query.sources), ("targets", query.targets))
        if vertices is not None
    ]
    window = query.window
    if window is not None and kind_of_text(window) != "unbounded":
        window = f"{window}, slide {query.slide or 'not given'}"
    semantics = query.semantics or "implicit"
    asked = [("window", window), ("paths", query.paths), ("semantics", semantics), *ends, ("report", query.report)]
    return [f"{name:<13}{value}" for name, value in [*asked, ("output", query.output)] if value is not None]


def _explained(asked: AskedQuery) -> Explanation | SparqlExplanation:
    """What a pattern of a file means, or a query in SPARQL."""
    if asked.language == "sparql":
        return _explained_sparql(asked.expression, asked.paths)
    from rpq.patterns.explained import explain
    from rpq.queries.language import OF_PATTERNS
    from rpq.queries.query import PatternQuery
    from rpq.stream.window import Window

    options = {name: value for name in OF_PATTERNS if (value := getattr(asked, name)) is not None}
    any_window = Window(size=1, slide=1)
    return explain(PatternQuery(asked.expression, window=any_window, paths=asked.paths, **options))


def describe(tree: automata.Expression, dfa: automata.DFA, *, options: list[str] | None = None) -> str:
    """Everything but the drawing, in lines of text; `options` are lines about a query beside its expression."""
    states = len(dfa.accepting)
    return "\n".join(
        [
            f"expression   {tree}",
            "language     a path expression",
            *(options or []),
            "",
            *outline(tree),
            "",
            f"minimal automaton: {states} state{'s' * (states != 1)}, → starts, * accepts",
            "",
            dfa.to_text(),
            "",
            *_remarks(dfa),
        ]
    )


def outline(tree: automata.Expression, depth: int = 1) -> list[str]:
    """The tree of an expression, a node a line.

    >>> from rpq import automata
    >>> print("\\n".join(outline(automata.parse("a/b{2,}"))))
      Concatenation
        Label a
        Repetition 2 to any number of times
          Label b
    """
    from rpq import automata

    kind, indent = type(tree).__name__, "  " * depth
    parts = getattr(tree, "parts", None) or ((tree.inner,) if hasattr(tree, "inner") else ())
    if not parts:
        detail = f" {tree}"
    elif isinstance(tree, automata.Repetition):
        maximum = "any number of" if tree.maximum is None else tree.maximum
        detail = f" {tree.minimum} to {maximum} times"
    else:
        detail = ""
    return [f"{indent}{kind}{detail}", *(line for part in parts for line in outline(part, depth + 1))]


def _remarks(dfa: automata.DFA) -> list[str]:
    lines = []
    if dfa.is_empty:
        lines.append("no path matches: the language is empty")
    if dfa.accepts_empty:
        lines += [
            "empty word       accepted, but the empty path is never an answer: (x, x) needs a cycle",
        ]
    else:
        lines.append("empty word       not accepted")
    if dfa.simple_equals_walk:
        lines.append(
            "simple = walk    yes, on every graph: simple paths give the pairs of walks without the pairs (x, x)"
        )
    else:
        lines.append("simple = walk    no: on some graphs a pair is joined by a walk, but by no simple path")
    if _has_conflicts(dfa):
        in_doubt = "pairs that a conflict puts in doubt need a search each"
        lines.append(f"conflicts        possible: with --paths simple, {in_doubt}")
    else:
        lines.append("conflicts        none on any graph: simple paths cost what walks cost")
    return lines


def _has_conflicts(dfa: automata.DFA) -> bool:
    from rpq.paths.program import Compiled

    return len(Compiled(dfa).program.later_state) > 0


def _write(path: str, data: bytes) -> None:
    from rpq.files.destinations import replacing

    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {path}", err=True)
