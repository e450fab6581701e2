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

    def refuse_missing(self) -> None:
        """Raise a usage error where there is no window, or no slide for one of time."""
        from rpq.stream.window_text import kind_of_text

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

        window = self.over(unit=unit)
        try:
            ends = {
                name: _vertices(OPTION_OF[name], given, integers)
                for name in OF_PATHS
                if (given := getattr(self, name)) != ()
            }
            return [
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
                for expression in expressions
            ]
        except (QueryError, ValueError) as error:
            raise click.UsageError(str(error)) from error

    def refuse_misspelt(self, text: str) -> None:
        """Raise a usage error that points to what is not understood of a query, or names an option that does not fit it."""
        from rpq import automata
        from rpq.errors import QueryError
        from rpq.queries.language import language_of, unfit
        from rpq.queries.pattern import Pattern
        from rpq.queries.query import NO_SPARQL

        language = self.language or language_of(text)
        if language == "sparql":
            raise click.UsageError(NO_SPARQL)
        try:
            if language == "path":
                automata.parse(text)
            else:
                Pattern.read(text, self.select)
        except automata.ExpressionError as error:
            raise click.UsageError(f"the {NOUN[language]} is not understood\n{error}") from error
        except QueryError as error:
            option = "--" * str(error).startswith("select")
            raise click.UsageError(f"{option}{error}") from error
        if misfit := unfit(language, text, self.of_one_kind):
            raise click.UsageError(f"{OPTION_OF[misfit.option]} {misfit.reason}")
        if language == "pattern" and self.on_budget != "error":
            raise click.UsageError(
                f"--on-budget {self.on_budget} is an option of path queries: an answer to a pattern must not miss a path"
            )


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
