"""A block of a MATCH text: the atoms, conditions and tests of one or more clauses, which become one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rpq.language.match.node_facts import atom_of_test, atom_of_value, joined_test
from rpq.language.match.path_expressions import EdgeLabels
from rpq.language.match.scope import Scope
from rpq.language.pattern import Atom, Blank, Constant, Term, Variable
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Conjunction,
    Extend,
    Filter,
    Formula,
    Operator,
    SemiJoin,
    Values,
    WindowAtom,
    make_join,
)
from rpq.language.where import Node


@dataclass
class BoundEdge:
    """The part of an edge pattern or a path that DIFFERENT EDGES compares with others."""

    labels: EdgeLabels
    variable: str | None
    """The internal name of the edge; None for a path."""
    at: int
    is_trail: bool = False
    """True if all pairs of the path are pairs of trails."""


@dataclass
class MatchBlock:
    """Atoms and conditions that are joined."""

    scope: Scope
    is_set: bool
    """True if the number of times that a binding occurs has no effect on the rows."""
    atoms: list[Atom] = field(default_factory=list)
    parts: list[Operator] = field(default_factory=list)
    conditions: list[Formula] = field(default_factory=list)
    tests: list[tuple[Operator, bool]] = field(default_factory=list)
    """The bodies of EXISTS, and whether each is negated."""
    constants: dict[str, Constant] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)
    """The variables among the constants whose names an outer block fixes."""
    deferred_conditions: list[Node] = field(default_factory=list)
    """Conditions inside nodes and edges, which may read all variables of the clause."""
    lone_nodes: list[str] = field(default_factory=list)
    """The internal names of nodes that stand alone."""
    node_tests: dict[Term, list[Node]] = field(default_factory=dict)
    """The conditions on the facts of nodes, by the names of properties and labels."""

    def binds(self, name: str) -> bool:
        """Return whether its atoms and parts bind a variable."""
        return any(Variable(name) in (atom.subject, atom.object) for atom in self.atoms) or any(
            name in algebra.possible_variables(part) for part in self.parts
        )

    def operator(self) -> Operator:
        """Return the operator of the block."""
        of_parts = frozenset().union(*map(algebra.possible_variables, self.parts))
        own = {binding.internal for binding in self.scope.own.values()}
        # A name that an outer block binds is compared with its constant: `Extend` would leave the outer value in place.
        tabled = {name for name in self.constants if name in of_parts or name not in own | self.outer_names}
        fixed = {name: constant for name, constant in self.constants.items() if name not in tabled}
        facts = [atom_of_test(term, joined_test(trees).text) for term, trees in self.node_tests.items()]
        facts += [atom_of_value(Variable(name), name, property) for name, property in self.scope.node_values]
        read = [*map(WindowAtom, self.atoms), *facts]
        atoms = tuple(replace(one, atom=place_constants(one.atom, fixed)) for one in read)
        tables = [Values((name,), ((constant.name,),)) for name, constant in self.constants.items() if name in tabled]
        found = make_join(*([Conjunction(atoms)] if atoms or not self.parts else []), *self.parts, *tables)
        for name, constant in fixed.items():
            if name not in self.outer_names and any(Variable(name) in (one.atom.subject, one.atom.object) for one in read):
                found = Extend(found, name, constant)
        for condition in self.conditions:
            found = Filter(found, condition)
        for body, is_negated in self.tests:
            found = SemiJoin(found, body, is_negated)
        return found


def place_constants(atom: Atom, constants: Mapping[str, Constant]) -> Atom:
    """Return an atom with constants in place of the variables that they fix."""
    ends = [constants.get(end.name, end) if isinstance(end, Variable) else end for end in (atom.subject, atom.object)]
    return replace(atom, subject=ends[0], object=ends[1])


def variable_name(term: Variable | Blank) -> str:
    """Return the name of a term among the variables of the algebra."""
    return str(term) if isinstance(term, Blank) else term.name
