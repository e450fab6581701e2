"""What options say of a query, and the query that an expression asks with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from rpq.queries.query import Query


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The options about queries.  `window` and `slide` are texts: what they mean depends on the input's time unit."""

    window: str | None = None
    slide: str | None = None
    paths: Literal["walk", "simple"] = "walk"
    simple_budget: int = 10_000_000
    on_budget: Literal["error", "set_aside"] = "error"
    semantics: Literal["implicit", "explicit"] = "implicit"
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def lengths(self, *, unit: str | None) -> dict[str, int]:
        """Window and slide, as far as they are given, in the stream's unit; a usage error for what is no length."""
        from rpq.stream.durations import DurationError, parse_duration

        lengths = {}
        for name, text in (("window", self.window), ("slide", self.slide)):
            if text is None:
                continue
            try:
                lengths[name] = parse_duration(text, unit=unit)
            except DurationError as error:
                hint = "" if unit else "; --time-unit says the unit of the timestamps"
                raise click.UsageError(f"--{name}: {error}{hint}") from error
        return lengths

    def queries(self, expressions: Iterable[str], *, unit: str | None, integers: bool) -> list[Query]:
        """The queries that expressions ask, over a stream with this time unit and integers or texts as vertices."""
        import rpq
        from rpq.errors import QueryError

        lengths = self.lengths(unit=unit)
        try:
            window = rpq.Window(size=lengths["window"], slide=lengths["slide"])
            sources = _vertices("--source", self.sources, integers)
            targets = _vertices("--target", self.targets, integers)
            return [
                rpq.Query(
                    expression,
                    window=window,
                    paths=self.paths,
                    simple_budget=self.simple_budget,
                    on_budget=self.on_budget,
                    semantics=self.semantics,
                    sources=sources,
                    targets=targets,
                )
                for expression in expressions
            ]
        except (QueryError, ValueError) as error:
            raise click.UsageError(str(error)) from error


def refuse_misspelt(expression: str) -> None:
    """Raise a usage error that points to what is not understood of an expression."""
    from rpq import automata

    try:
        automata.parse(expression)
    except automata.ExpressionError as error:
        raise click.UsageError(f"the expression is not understood\n{error}") from error


def _vertices(option: str, texts: tuple[str, ...], integers: bool) -> frozenset[int | str] | None:
    if not texts:
        return None
    if not integers:
        return frozenset(texts)
    try:
        return frozenset(map(int, texts))
    except ValueError as error:
        raise click.UsageError(f"{option}: the vertices of this input are integers: {error}") from error
