"""The notation of graph patterns: atoms with a dot between them, as in `?x a2q/c2a* ?y . ?y c2q ?z`.

    pattern   atom ('.' atom)* '.'?        a dot is followed by a blank, or by the end
    atom      term path term               a path as in `rpq.automata.parser`; blanks around it
    term      '?' name                     a variable
            | '_:' name                    a blank node: a variable that cannot be selected
            | name | '<…>' | '"…"'         a constant, the vertex with that name

In an expression a `?` before a letter begins a variable; the quantifier stands before a blank or an operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from rpq.automata.errors import ExpressionError
from rpq.automata.expressions import Expression, Inverse, Label
from rpq.automata.parser import parse_name, parse_prefix
from rpq.automata.symbols import bare_name_end, starts_name, write_name

MOST_ATOMS = 32


@dataclass(frozen=True)
class Variable:
    """A variable `?name`."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


@dataclass(frozen=True)
class Blank:
    """A blank node `_:name`: a variable that cannot be selected."""

    name: str

    def __str__(self) -> str:
        return f"_:{self.name}"


@dataclass(frozen=True)
class Constant:
    """The vertex with a name; of one that begins with `"` also the vertex that its lexical form names."""

    name: str

    def __str__(self) -> str:
        return self.name if self.name.startswith('"') else write_name(self.name)


Term = Variable | Blank | Constant


@dataclass(frozen=True)
class Atom:
    """A path expression between two terms.

    >>> [atom.edge for atom in parse_pattern("?x ^knows ?y . ?x knows* ?z")]
    [(Variable(name='y'), 'knows', Variable(name='x')), None]
    """

    subject: Term
    expression: Expression
    object: Term

    @cached_property
    def edge(self) -> tuple[Term, str, Term] | None:
        """The ends of an edge atom in the direction of its edges, and its label; None for a path atom."""
        if isinstance(self.expression, Label):
            return self.subject, self.expression.name, self.object
        if isinstance(self.expression, Inverse) and isinstance(self.expression.inner, Label):
            return self.object, self.expression.inner.name, self.subject
        return None

    def __str__(self) -> str:
        return f"{self.subject} {self.expression} {self.object}"


def never_simple(atoms: Iterable[Atom]) -> tuple[str, ...]:
    """Return a warning for each atom that joins a term with itself, which no simple path does.

    >>> never_simple(parse_pattern("?x transfer{3,4} ?x"))
    ('?x transfer{3,4} ?x never matches: no simple path leads from a vertex to itself; ask for walks (paths="walk")',)
    """
    return tuple(
        f'{atom} never matches: no simple path leads from a vertex to itself; ask for walks (paths="walk")'
        for atom in dict.fromkeys(atoms)
        if atom.subject == atom.object
    )


def parse_pattern(text: str) -> tuple[Atom, ...]:
    """The atoms of a pattern. Raises `ExpressionError`, which points to the column. O(length).

    >>> [str(atom) for atom in parse_pattern("?x a2q / c2a* ?y . ?y knows bob")]
    ['?x a2q/c2a* ?y', '?y knows bob']
    """
    atoms: list[Atom] = []
    place = _skip(text, 0)
    while place < len(text) or not atoms:
        if len(atoms) == MOST_ATOMS:
            _fail(text, place, "too many atoms", f"at most {MOST_ATOMS}")
        subject, place = _term(text, place, "the subject of an atom")
        expression, place = parse_prefix(text, _skip(text, place))
        object_, place = _term(text, _skip(text, place), "'/', '|', a quantifier (* + ? {n,m}), or the object of the atom")
        atoms.append(Atom(subject, expression, object_))
        place = _skip(text, place)
        if place < len(text):
            if text[place] != "." or not (text[place + 1 : place + 2].isspace() or place + 1 == len(text)):
                _fail(text, place, f"unexpected '{text[place]}'", "'.' and a blank before the next atom, or the end")
            place = _skip(text, place + 1)
    return tuple(atoms)


def _term(text: str, place: int, expected: str) -> tuple[Term, int]:
    character = text[place : place + 1]
    if character == "?" and starts_name(text[place + 1 : place + 2] or "."):
        end = bare_name_end(text, place + 1)
        return Variable(text[place + 1 : end]), end
    if text.startswith("_:", place):
        end = bare_name_end(text, place)
        if end == place + 2:
            _fail(text, end, "a blank node without a name", "a name after _:")
        return Blank(text[place + 2 : end]), end
    if not character:
        _fail(text, place, "the pattern ends too early" if text.strip() else "the pattern is empty", expected)
    name, end = parse_name(text, place)
    if name is None:
        _fail(text, place, f"unexpected '{character}'", f"{expected}: ?variable, _:blank, or a name")
    return Constant(name), end


def _skip(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place


def _fail(text: str, place: int, message: str, expected: str) -> NoReturn:
    raise ExpressionError(message, place + 1, expected, text)
