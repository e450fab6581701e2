"""A graph pattern as it was asked: its atoms, and which of its variables are the columns of its rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from rpq import automata
from rpq.errors import ExpressionError, QueryError
from rpq.queries.centre import stands_in_all
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
        """From a text, and what to select of it. Raises `QueryError`, with a pointer to the column for the text.

        O(length); as long as somebody has the pattern of a text, reading it again is looking it up.
        """
        is_plain = select is None or (isinstance(select, (tuple, list)) and all(isinstance(name, str) for name in select))
        key = (text, None if select is None else tuple(select)) if is_plain else None
        if key is not None and (known := _known.get(key)) is not None:
            return known
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
        if key is not None:
            _known[key] = pattern
        return pattern

    @cached_property
    def edge_labels(self) -> frozenset[str]:
        """The labels of the edge atoms."""
        return frozenset(atom.edge[1] for atom in self.atoms if atom.edge is not None)

    @cached_property
    def centres(self) -> tuple[str, ...]:
        """The variables that stand in all atoms, each an edge, whether or not they are columns.

        >>> Pattern.read("?x a ?y . ?y b ?z", ("x", "z")).centres
        ('y',)
        """
        names = dict.fromkeys(term.name for term in _terms(self.atoms) if isinstance(term, Variable))
        return tuple(name for name in names if stands_in_all(self.atoms, name))

    @cached_property
    def path_expressions(self) -> tuple[str, ...]:
        """The expressions of the path atoms, each once."""
        return tuple(dict.fromkeys(str(atom.expression) for atom in self.atoms if atom.edge is None))

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, as often as they stand in the pattern."""
        return tuple(term for term in _terms(self.atoms) if isinstance(term, Constant))


_known: WeakValueDictionary[tuple[str, tuple[str, ...] | None], Pattern] = WeakValueDictionary()


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
