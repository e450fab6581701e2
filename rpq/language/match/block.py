"""A block of a MATCH text: the atoms, conditions and tests of one or more clauses, which become one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rpq.language.match.node_facts import atom_of_test, atom_of_value, column_of_labels, joined_test, labels_by_edges
from rpq.language.match.path_expressions import EdgeLabels
from rpq.language.match.scope import Scope
from rpq.language.pattern import Atom, Blank, Constant, Term, Variable, node_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Conjunction,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    LeftJoin,
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
    filter: Callable[[Operator, Scope, Any], Operator]
    """The rows for which a condition with computed values holds."""
    node_label: str | None
    """The label of the edges that give labels to nodes."""
    incoming: Operator | None = None
    """The rows of the parts of the text before the block."""
    required: list[str] = field(default_factory=list)
    """The names of the incoming rows that the block requires to be bound."""
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
    computed: list[Any] = field(default_factory=list)
    """Conditions that compute with values."""
    different_ends: list[frozenset[str]] = field(default_factory=list)
    """Pairs of nodes that a condition requires to differ."""

    @property
    def carried(self) -> frozenset[str]:
        """The columns of the incoming rows."""
        return frozenset() if self.incoming is None else algebra.possible_variables(self.incoming)

    def binds(self, name: str) -> bool:
        """Return whether its atoms and parts, or the incoming rows, bind a variable."""
        return name in self.carried or self.binds_itself(name)

    def binds_itself(self, name: str) -> bool:
        """Return whether its atoms and parts bind a variable."""
        return any(Variable(name) in (atom.subject, atom.object) for atom in self.atoms) or any(
            name in algebra.possible_variables(part) for part in self.parts
        )

    def operator(self) -> Operator:
        """Return the operator of the block."""
        parts = [*self.parts]
        if self.incoming is not None:
            rows = self.incoming
            for name in dict.fromkeys(self.required):
                rows = Filter(rows, FunctionCall("BOUND", (Variable(name),)))
            parts.insert(0, rows)
        of_parts = frozenset().union(*map(algebra.possible_variables, parts))
        own = {binding.internal for binding in self.scope.own.values()}
        # A name that an outer block binds is compared with its constant: `Extend` would leave the outer value in place.
        tabled = {name for name in self.constants if name in of_parts or name not in own | self.outer_names}
        fixed = {name: constant for name, constant in self.constants.items() if name not in tabled}
        facts = [atom_of_test(term, joined_test(trees).text) for term, trees in self.node_tests.items()]
        facts += [
            atom_of_value(Variable(name), name, property)
            for name, property in self.scope.node_values
            if node_column(name, property) not in of_parts
        ]
        read = [*map(WindowAtom, self.atoms), *facts]
        atoms = tuple(replace(one, atom=place_constants(one.atom, fixed)) for one in read)
        tables = [Values((name,), ((constant.name,),)) for name, constant in self.constants.items() if name in tabled]
        found = make_join(*([Conjunction(atoms)] if atoms or not parts else []), *parts, *tables)
        for name, constant in fixed.items():
            if name not in self.outer_names and any(Variable(name) in (one.atom.subject, one.atom.object) for one in read):
                found = Extend(found, name, constant)
        if self.node_label is not None:
            for name in dict.fromkeys(name for name, property in self.scope.node_values if property == "labels"):
                if column_of_labels(name) not in self.carried:
                    found = LeftJoin(found, labels_by_edges(name, self.node_label), None)
        for name in self.scope.guarded:
            found = Extend(found, guard_of(name), Variable(name))
        for condition in self.conditions:
            found = Filter(found, condition)
        for tree in self.computed:
            found = self.filter(found, self.scope, tree)
        for body, is_negated in self.tests:
            found = SemiJoin(found, body, is_negated)
        return found


def guard_of(name: str) -> str:
    """Return the name of a column that is bound where a column is, under a name that no body of EXISTS binds."""
    return f".bound {name}"


def place_constants(atom: Atom, constants: Mapping[str, Constant]) -> Atom:
    """Return an atom with constants in place of the variables that they fix."""
    ends = [constants.get(end.name, end) if isinstance(end, Variable) else end for end in (atom.subject, atom.object)]
    return replace(atom, subject=ends[0], object=ends[1])


def variable_name(term: Variable | Blank) -> str:
    """Return the name of a term among the variables of the algebra."""
    return str(term) if isinstance(term, Blank) else term.name
