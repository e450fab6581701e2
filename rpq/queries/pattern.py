"""A graph pattern as it was asked: its atoms, and which of its variables are the columns of its rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rpq import automata
from rpq.errors import ExpressionError, QueryError
from rpq.queries.pattern_text import Atom, Blank, Constant, Term, Variable, parse_pattern

_SIGN = re.compile(r"\?[\w:]|_:|\.\s")
_TAKEN = ("query", "timestamp", "op")
"""Columns that all rows have."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Atoms, and the columns.

    >>> Pattern.read("?x a ?y . ?y ^b _:z", None).columns
    ('x', 'y')
    """

    atoms: tuple[Atom, ...]
    columns: tuple[str, ...]

    @classmethod
    def read(cls, text: str, select: Sequence[str] | None) -> Pattern:
        """From a text, and what to select of it. Raises `QueryError`, with a pointer to the column for the text."""
        try:
            atoms = parse_pattern(text)
        except automata.ExpressionError as problem:
            raise ExpressionError(problem.message, problem.column, problem.expected, problem.expression) from None
        variables = tuple(dict.fromkeys(term.name for term in _terms(atoms) if isinstance(term, Variable)))
        if not variables:
            raise QueryError(f"the pattern {text} has no variable, so its rows have no columns; ASK says whether it holds")
        pattern = cls(atoms=atoms, columns=variables if select is None else _selected(select, variables, atoms))
        for name in pattern.columns:
            if name in _TAKEN:
                raise QueryError(f"all rows have a column called {name}: rename the variable ?{name}, or select others")
        return pattern

    @property
    def edge_labels(self) -> frozenset[str]:
        """The labels of the edge atoms."""
        return frozenset(atom.edge[1] for atom in self.atoms if atom.edge is not None)

    @property
    def path_expressions(self) -> tuple[str, ...]:
        """The expressions of the path atoms, each once."""
        return tuple(dict.fromkeys(str(atom.expression) for atom in self.atoms if atom.edge is None))

    @property
    def constants(self) -> list[Constant]:
        """The constants, as often as they stand in the pattern."""
        return [term for term in _terms(self.atoms) if isinstance(term, Constant)]


def looks_like_a_pattern(text: str) -> bool:
    """Whether there is a `?` before a letter, `_:`, or a dot before a blank in a text.

    >>> [looks_like_a_pattern(text) for text in ("a?/b*", "?x a ?y", "a b . c d e")]
    [False, True, True]
    """
    return _SIGN.search(text) is not None


def _selected(select: Any, variables: tuple[str, ...], atoms: Sequence[Atom]) -> tuple[str, ...]:
    if isinstance(select, (str, bytes)):
        raise QueryError(f"select is a collection of variables, as in ({select!r},), not one text")
    try:
        names = tuple(select)
    except TypeError:
        raise QueryError(f"select is a collection of variables, not {select!r}") from None
    if not names:
        raise QueryError("select names no variable: a row has at least one column")
    blanks = {term.name for term in _terms(atoms) if isinstance(term, Blank)}
    for name in names:
        if name in variables:
            continue
        if not isinstance(name, str):
            raise QueryError(f"select: a variable is named by text, not by {name!r}")
        if name.removeprefix("?") in variables:
            raise QueryError(f"select: variables are named without ?: {name.removeprefix('?')!r}, not {name!r}")
        if name.removeprefix("_:") in blanks:
            raise QueryError(f"select: {name!r} is a blank node, which cannot be selected; write a variable in its place")
        near = difflib.get_close_matches(name, variables, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its variables are {', '.join(map(repr, variables))}"
        raise QueryError(f"select: the pattern has no variable {name!r}; {hint}")
    if len(set(names)) < len(names):
        raise QueryError(f"select names a variable twice: {', '.join(map(repr, names))}")
    return names


def _terms(atoms: Sequence[Atom]) -> list[Term]:
    return [term for atom in atoms for term in (atom.subject, atom.object)]
