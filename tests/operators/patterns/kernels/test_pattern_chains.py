"""Chains of atoms that become one: the same solutions, and what stays as it is.

semantics.md S1
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

import rpq
from rpq import automata
from rpq.language import pattern
from rpq.language.pattern import parse_pattern
from rpq.operators.patterns.chains import merge_chains, single_atom_chains
from tests import reference_patterns as oracle
from tests.strategies.pattern_strategies import PATH_EXPRESSIONS


def merged_atoms(atoms: Sequence[pattern.Atom], columns: Sequence[str]) -> tuple[pattern.Atom, ...]:
    return tuple(chain.atom for chain in merge_chains(single_atom_chains(atoms), columns))


def merged(text: str, *columns: str) -> str:
    return " . ".join(map(str, merged_atoms(parse_pattern(text), columns)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?x a* ?m . ?m b* ?y", "?x a+/b+ ?y"),
        ("?x a ?m . ?m b+ ?y", "?x a/b+ ?y"),
        ("?x a+ ?m . ?y b ?m", "?x a+/^b ?y"),
        ("?m a+ ?x . ?m b ?y", "?x ^a+/b ?y"),
        ("?x a+ _:m . _:m b ?y", "?x a+/b ?y"),
        ("?x a ?m . ?m b ?y", "?x a/b ?y"),
        ("?x a+ ?m . ?m b ?n . ?n c ?y", "?x a+/b/c ?y"),
        ("ann a+ ?m . ?m b|d ?x . ?x c ?y", "ann a+/(b|d) ?x . ?x c ?y"),
        ("?x c ?y . ?x a+ ?m . ?m b* ?y . ?y d ?x", "?x c ?y . ?x a+/b+ ?y . ?y d ?x"),
        ("?x a+ ?m . ?m b+ ?n . ?n c ?y . ?n d ?y", "?x a+/b+ ?n . ?n c ?y . ?n d ?y"),
        ("ann a ?m . ?m b+ ?x . ?x c ?y", "ann a/b+ ?x . ?x c ?y"),
        ("?x b+ ?m . ?y a ?m . mod role ?y . ?x c ?y", "?x b+/^a ?y . mod role ?y . ?x c ?y"),
        ("?x a ?m . ?m b ?n . ?n c ann . ?z d ?u . ?u d bob", "?x a/b/c ann . ?z d/d bob"),
        ("?x !(a|^b)+ ?m . ?y c ?m", "?x !(a|^b)+/^c ?y"),
    ],
)
def test_chains_by_hand(text: str, expected: str) -> None:
    assert merged(text, "x", "y") == expected


@pytest.mark.parametrize(
    "text",
    [
        "?x a ?m . ?m b ?y . ?x c ?y",  # a join finds only what the third atom lets through
        "?x a+ ?m . ?m b ?y . ?x c ?y",
        "?x a ?m . ?m b ?y . ?y c ?z . ?z d+ ?y",
        "?x a+ ?m . ?m b ?y . ?m c ?y",  # somebody else reads it
        "?x a+ ?m . ?m b ?m . ?x c ?y",
        "?m a+ ?m . ?x c ?y",
        "?x a+ ?m . ?m b ?x . ?x c ?y",  # all pairs, to find those of x with itself
        "?x a+ ?y . ?y b+ ?z",  # y is a column
        "?x a+ ?m . ?y b ?z",  # nothing to join
        "?x a{0} ?m . ?m b ?y",  # never holds; no expression says that
        "?x (a|b)+ ?m . ?m a/(a|b){6} ?y",  # 128 states
        "?x (a|b)+ ?m . ?m a/(a|b){30} ?y",
    ],
)
def test_what_stays_as_it_is(text: str) -> None:
    assert merged(text, "x", "y") == " . ".join(map(str, parse_pattern(text)))


WINDOW = rpq.Window(size=10, slide=1)


def to_oracle(atoms: tuple[pattern.Atom, ...], columns: tuple[str, ...]) -> oracle.Pattern:
    def term(of: pattern.Term) -> oracle.Term:
        match of:
            case pattern.Variable(name):
                return oracle.Variable(name)
            case pattern.Blank(name):
                return oracle.Blank(name)
            case pattern.Constant(name):
                return oracle.Constant(name)
        raise TypeError(of)

    made = tuple(oracle.Atom(term(atom.subject), str(atom.expression), term(atom.object)) for atom in atoms)
    return oracle.Pattern(atoms=made, select=columns, distinct=True)


@st.composite
def patterns(draw: st.DrawFn) -> tuple[tuple[pattern.Atom, ...], tuple[str, ...]]:
    """Atoms that often are chains, in any order and direction, and columns that leave the middles out."""
    names = [pattern.Variable(name) for name in ("x", "m", "n", "k", "y")]
    line: list[pattern.Term] = [names[0], *draw(st.permutations(names[1:4])), names[4]][: draw(st.integers(2, 5))]
    expressions = st.sampled_from(["a", "b", "^a", "a*", "b?", *PATH_EXPRESSIONS]).map(automata.parse)
    atoms = []
    for begin, end in itertools.pairwise(line):
        ends = (begin, end) if draw(st.booleans()) else (end, begin)
        atoms.append(pattern.Atom(ends[0], draw(expressions), ends[1]))
    others = [pattern.Constant("0"), pattern.Constant('"0"'), pattern.Blank("m")]
    terms = st.sampled_from([*names, *others])
    more = draw(st.sampled_from((0, 0, 1, 2)))
    atoms += [pattern.Atom(draw(terms), draw(expressions), draw(terms)) for _ in range(more)]
    atoms = list(draw(st.permutations(atoms)))
    shown = {term.name for atom in atoms for term in (atom.subject, atom.object) if isinstance(term, pattern.Variable)}
    columns = draw(st.lists(st.sampled_from(sorted(shown)), min_size=1, max_size=2, unique=True).map(tuple))
    return tuple(atoms), columns
