"""What options say of a query, and the query that an expression asks with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from rpq.queries.language import OF_PATHS, OF_PATTERNS

if TYPE_CHECKING:
    from rpq.queries.language import Language
    from rpq.queries.query import Query
    from rpq.stream.window import AnyWindow
    from rpq.stream.window_text import WindowTextError


OPTION_OF = {"sources": "--source", "targets": "--target", **{name: f"--{name}" for name in OF_PATTERNS}}
"""The options of the command by a query's words for them, where they go with one kind of queries."""

NOUN = {"path": "expression", "pattern": "pattern"}


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The options about queries.  `window` and `slide` are texts: what they mean depends on the input's time unit."""

    window: str | None = None
    slide: str | None = None
    paths: Literal["walk", "simple"] = "walk"
    simple_budget: int = 10_000_000
    on_budget: Literal["error", "set_aside"] = "error"
    semantics: Literal["implicit", "explicit"] | None = None
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    language: Language | None = None
    select: tuple[str, ...] | None = None
    distinct: bool = False
    matching: Literal["homomorphism", "isomorphism"] | None = None
    report: Literal["change", "slide", "time"] | None = None

    @property
    def of_one_kind(self) -> dict[str, Any]:
        """The options that are given and go with path queries alone or with patterns alone, by their names in a query."""
        names = (*OF_PATHS, *OF_PATTERNS)
        return {name: value for name in names if (value := getattr(self, name)) not in (None, (), False)}

    def refuse_missing(self, text: str | None = None, *, has_static: bool = False) -> None:
        """Raise a usage error where there is no window, or no slide for one of time.

        A text in SPARQL may declare all windows that it reads, or read edges without time alone.
        """
        from rpq.stream.window_text import kind_of_text

        if text is not None and self.window is None and self.slide is None and is_sparql(text, self.language):
            from rpq.sparql.algebra import reads_default
            from rpq.sparql.syntax.reading import read

            if has_static or not reads_default(read(text, paths=self.paths).body):
                return
            raise click.UsageError(
                "Missing option '--window', which what stands in no WINDOW <name> { … } reads (or --static, the edges "
                "without time)."
            )
        if self.window is None:
            raise click.UsageError("Missing option '--window'.")
        if self.slide is None and kind_of_text(self.window) == "time":
            raise click.UsageError("Missing option '--slide'.")

    def over(self, *, unit: str | None) -> AnyWindow:
        """The window in the stream's unit; a usage error for what is none."""
        from rpq.stream.window_text import WindowTextError, window_of

        try:
            return window_of(self.window, self.slide, unit=unit)
        except WindowTextError as error:
            raise _bad_window(error, unit) from error

    def refuse_windows(self, *, unit: str | None) -> None:
        """Refuse what is no window, or no part of one, as far as the options say it: queries may say the rest."""
        from rpq.stream.window_text import WindowTextError, kind_of_text, length_of

        if self.window is not None and (self.slide is not None or kind_of_text(self.window) != "time"):
            self.over(unit=unit)
            return
        try:
            if self.window is not None:
                length_of(self.window, unit=unit, field="window")
            if self.slide is not None:
                length_of(self.slide, unit=unit, field="slide")
        except WindowTextError as error:
            raise _bad_window(error, unit) from error

    def queries(self, expressions: Iterable[str], *, unit: str | None, integers: bool) -> list[Query]:
        """The queries that expressions ask, over a stream with this time unit and integers or texts as vertices."""
        from rpq.errors import QueryError
        from rpq.queries.query import query_in

        texts = list(expressions)
        if self.window is None and self.slide is None and all(is_sparql(text, self.language) for text in texts):
            window = None  # the text may declare all that it reads
        else:
            window = self.over(unit=unit)
        try:
            ends = {
                name: _vertices(OPTION_OF[name], given, integers)
                for name in OF_PATHS
                if (given := getattr(self, name)) != ()
            }
            asked = [
                query_in(
                    self.language,
                    expression,
                    window=window,
                    paths=self.paths,
                    simple_budget=self.simple_budget,
                    on_budget=self.on_budget,
                    **({} if self.semantics is None else {"semantics": self.semantics}),
                    **{**self.of_one_kind, **ends},
                )
                for expression in texts
            ]
            return [in_unit_of_stream(query, unit) for query in asked]
        except (QueryError, ValueError) as error:
            raise click.UsageError(str(error)) from error

    def refuse_misspelt(self, text: str) -> None:
        """Raise a usage error that points to what is not understood of a query, or names an option that does not fit it."""
        from rpq import automata
        from rpq.errors import QueryError
        from rpq.queries.language import language_of, unfit
        from rpq.queries.pattern import Pattern
        from rpq.sparql.syntax.reading import read

        language = self.language or language_of(text)
        try:
            if language == "path":
                automata.parse(text)
            elif language == "sparql":
                read(text, paths=self.paths)
            else:
                Pattern.read(text, self.select)
        except automata.ExpressionError as error:
            raise click.UsageError(f"the {NOUN[language]} is not understood\n{error}") from error
        except QueryError as error:
            option = "--" * str(error).startswith("select")
            raise click.UsageError(f"{option}{error}") from error
        if misfit := unfit(language, text, self.of_one_kind):
            raise click.UsageError(f"{OPTION_OF[misfit.option]} {misfit.reason}")
        if language != "path" and self.on_budget != "error":
            raise click.UsageError(
                f"--on-budget {self.on_budget} is an option of path queries: an answer to a pattern must not miss a path"
            )


def in_unit_of_stream(query: Query, unit: str | None) -> Query:
    """A query whose text declares windows in durations as one over numbers of the stream's unit. Raises `QueryError`."""
    from rpq.errors import QueryError
    from rpq.sparql.query import SparqlQuery

    if not isinstance(query, SparqlQuery) or not query.declares_durations:
        return query
    if unit is None:
        raise QueryError(
            "the text declares windows in durations (RANGE PT2H), and the unit of the timestamps is not known; --time-unit "
            "says it"
        )
    return query.in_unit(unit)


def has_default_window(query: Query) -> bool:
    """Whether a query has a window that its text does not declare; all but those in SPARQL have."""
    return bool(getattr(query, "has_default", True))


def is_sparql(text: str, language: Language | None) -> bool:
    """Whether a text is in SPARQL, in a notation or, with None, in the one that it is in."""
    from rpq.queries.language import language_of

    return (language or language_of(text)) == "sparql"


def _bad_window(error: WindowTextError, unit: str | None) -> click.UsageError:
    if error.is_missing:
        return click.UsageError(f"Missing option '--{error.field}'.")
    hint = "; --time-unit says the unit of the timestamps" if unit is None and "has a unit" in str(error) else ""
    return click.UsageError(f"--{error.field}: {error}{hint}")


def _vertices(option: str, texts: tuple[str, ...], integers: bool) -> frozenset[int | str] | None:
    if not texts:
        return None
    if not integers:
        return frozenset(texts)
    try:
        return frozenset(map(int, texts))
    except ValueError as error:
        raise click.UsageError(f"{option}: the vertices of this input are integers: {error}") from error
