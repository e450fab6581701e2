"""Comparisons of sums of values of edges, which a join can check as soon as it binds the edges.

A filter such as `?f.amount >= 0.9 * ?e.amount and (?x <> ?y or ?f.timestamp > ?e.timestamp)` implies its conjuncts, and
those that compare numbers imply a `LinearComparison`, here `0.9 * ?e.amount - ?f.amount <= 0`. It is evaluated with
floats and is only necessary: it refuses no binding that the filter accepts, so the filter is still evaluated, for
those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from rpq.language.edge_variables import Value
from rpq.language.pattern import edge_column
from rpq.language.where import Arithmetic, Between, Call, Comparison, Logical, Name, Node, WhereConstant
from rpq.stream.durations import DurationError, nanoseconds_of
from rpq.stream.names.edge_vertices import NANOSECONDS, NumberName


class LinearTerm(NamedTuple):
    """A factor of a number of the edge that a variable is bound to."""

    factor: float
    variable: str
    number: NumberName


class LinearComparison(NamedTuple):
    """The condition that the sum of terms and constants is at most 0, up to rounding.

    Neither terms with the same variable nor constants are summed up, because a filter may round after each operation: the
    error of its result depends on the absolute values of them all.
    """

    terms: tuple[LinearTerm, ...]
    constants: tuple[float, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables whose values it compares."""
        return frozenset(term.variable for term in self.terms)

    def renamed(self, name_of: Callable[[str], str]) -> LinearComparison:
        """Return the comparison with other names of variables."""
        return self._replace(terms=tuple(term._replace(variable=name_of(term.variable)) for term in self.terms))


def linear_comparisons(tree: Node | None, values: Mapping[str, Value]) -> Iterator[LinearComparison]:
    """Yield comparisons that a condition implies, over the columns of edges; `values` are those of names in the condition.

    >>> from rpq.language.where import parse_where
    >>> values = {f"{edge}.amount": Value("property", edge, "amount") for edge in "ef"}
    >>> (found,) = linear_comparisons(parse_where("f.amount > 0.9 * e.amount and f.amount <> 2").tree, values)
    >>> [term[:2] for term in found.terms]
    [(0.9, '.e'), (-1.0, '.f')]
    """
    match tree:
        case Logical("and", parts):
            for part in parts:
                yield from linear_comparisons(part, values)
        case Between(inner, low, high):
            yield from _at_most(low, inner, values)
            yield from _at_most(inner, high, values)
        case Comparison(sign, left, right):
            if sign in ("<", "<=", "=="):
                yield from _at_most(left, right, values)
            if sign in (">", ">=", "=="):
                yield from _at_most(right, left, values)


class _Sum(NamedTuple):
    terms: tuple[LinearTerm, ...] = ()
    constants: tuple[float, ...] = ()
    has_duration: bool = False
    """True if a constant is a duration, in nanoseconds."""

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.terms + other.terms, self.constants + other.constants, self.has_duration or other.has_duration)


def _at_most(less: Node, more: Node, values: Mapping[str, Value]) -> Iterator[LinearComparison]:
    """Yield comparisons that follow from one node being at most another."""
    if isinstance(less, Call) and less.function == "abs":
        (inner,) = less.arguments
        sums = [_sum(inner, values, factor) for factor in (1.0, -1.0)]
    else:
        sums = [_sum(less, values, 1.0)]
    bound = _sum(more, values, -1.0)
    for one in sums:
        if one is not None and bound is not None:
            found = one.plus(bound)
            if found.has_duration:
                if any(term.number.kind != "timestamp" for term in found.terms):
                    return
                found = found._replace(terms=tuple(term._replace(number=NANOSECONDS) for term in found.terms))
            if found.terms:
                yield LinearComparison(found.terms, found.constants)


def _sum(node: Node, values: Mapping[str, Value], factor: float) -> _Sum | None:
    """Return a factor of a node as a sum, None if it is none."""
    match node:
        case WhereConstant(str(text)):
            with suppress(DurationError):
                return _Sum((), (factor * nanoseconds_of(text),), True)
        case WhereConstant(number) if not isinstance(number, bool):
            with suppress(OverflowError):
                return _Sum((), (factor * float(number),))
        case Name(name) if name in values:
            value = values[name]
            if value.kind in ("property", "timestamp"):
                return _Sum((LinearTerm(factor, edge_column(value.variable), NumberName(value.kind, value.name)),))
        case Arithmetic("+" | "-", left, right):
            one, other = _sum(left, values, factor), _sum(right, values, factor if node.sign == "+" else -factor)
            return None if one is None or other is None else one.plus(other)
        case Arithmetic("*", WhereConstant(number), inner) | Arithmetic("*", inner, WhereConstant(number)):
            if not isinstance(number, (bool, str)):
                with suppress(OverflowError):
                    return _sum(inner, values, factor * float(number))
    return None
