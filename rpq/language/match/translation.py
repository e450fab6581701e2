"""From the syntax tree of a MATCH text to the algebra of `rpq.language.sparql.algebra`.

Each clause becomes a block: pattern atoms, with the conditions on their bindings. An edge that is bound is a vertex between
two atoms, as in patterns with edge variables (`rpq.language.edge_variables`). A quantified path is one path atom. Blocks of
MATCH are joined, OPTIONAL MATCH is a `LeftJoin`, EXISTS a `SemiJoin`, and RETURN groups, selects and makes distinct.

Parallel edges are rows of their own, so every edge without a quantifier is bound, unless nobody can see how often a row
occurs: under RETURN DISTINCT without aggregates, in EXISTS and behind ANY edges are bound only where something reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, Literal, NoReturn

from rpq import automata
from rpq.automata.expressions import Label
from rpq.errors import did_you_mean
from rpq.language import edge_variables
from rpq.language.conditions import TAKEN, check_types, condition_text, parse_expression
from rpq.language.edge_variables import SameTerm, Value, filter_of
from rpq.language.match.labels import EdgeLabels, chain_text, edge_labels, repeated_text, step_text
from rpq.language.match.syntax import (
    Aggregated,
    Dialect,
    EdgePattern,
    Element,
    Exists,
    GraphPattern,
    Group,
    Item,
    LabelTree,
    MatchText,
    NodePattern,
    PathPattern,
    Quantifier,
    match_error,
)
from rpq.language.pattern import MOST_ATOMS, Atom, Blank, Constant, Term, Variable, edge_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Aggregate,
    AggregateName,
    Call,
    Conjunction,
    Distinct,
    EdgeCondition,
    EdgeValue,
    Extend,
    Filter,
    Formula,
    LeftJoin,
    Operator,
    Project,
    SemiJoin,
    SparqlQuestion,
    Values,
    WindowAtom,
    make_join,
    make_union,
)
from rpq.language.sparql.values.typed_values import integer_term
from rpq.language.where import Comparison, In, IsNull, Logical, Name, Node, Not, Where, WhereError, parse_where
from rpq.language.where import Literal as Given
from rpq.stream.stream_labels import EDGE_ENDS, EdgeEnd

_NAME = re.compile(r"\w+")
_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)", re.IGNORECASE)
_ALONE = "a condition inside a path behind ANY reads the path alone: write it in WHERE, or the path edge by edge"
_RESERVED = ("query", "timestamp", "op")

ColumnSource = Literal["vertex", "number", "timestamp", "property", "count", "sum", "avg", "ends"]
"""The content of a column: a vertex, a value of an edge, or an aggregate; "ends" is a least or greatest value."""


@dataclass(frozen=True)
class Column:
    """A column of RETURN: its name, what it has, and the value of which it is that."""

    name: str
    source: ColumnSource
    value: Value | None


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The algebra of a MATCH text, and what it reads of edges."""

    question: SparqlQuestion
    columns: tuple[Column, ...]
    filters: tuple[edge_variables.Filter, ...]
    properties: frozenset[str]
    """The properties of edges that columns and filters read."""
    has_edge_variables: bool
    differs: bool
    """True if some clause asks for different edges."""


@dataclass(frozen=True)
class _Binding:
    """The meaning of a name: a vertex, an edge, or something inside a quantified path."""

    kind: Literal["vertex", "edge", "inner"]
    internal: str
    constant: Constant | None = None


class _Scope:
    """The names that can be used at a place, by what they stand for."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self._outer = outer
        self.own: dict[str, _Binding] = {}

    def get(self, name: str) -> _Binding | None:
        """Return what a name stands for, None if it is unknown."""
        found = self.own.get(name)
        return self._outer.get(name) if found is None and self._outer is not None else found

    def names(self) -> list[str]:
        """Return all names."""
        return [*self.own, *(self._outer.names() if self._outer is not None else ())]


@dataclass
class _BoundEdge:
    """An edge pattern without a quantifier, or a path behind ANY or with one, as far as DIFFERENT EDGES looks at it."""

    labels: EdgeLabels
    variable: str | None
    """The internal name of the edge; None for a path."""
    at: int
    is_trail: bool = False
    """True if all pairs of the path are pairs of trails."""


@dataclass
class _Block:
    """Atoms and conditions that are joined."""

    scope: _Scope
    is_set: bool
    """True if nobody can see how often a binding occurs."""
    atoms: list[Atom] = field(default_factory=list)
    parts: list[Operator] = field(default_factory=list)
    conditions: list[Formula] = field(default_factory=list)
    tests: list[tuple[Operator, bool]] = field(default_factory=list)
    """The bodies of EXISTS, and whether each is negated."""
    constants: dict[str, Constant] = field(default_factory=dict)
    inherited: set[str] = field(default_factory=set)
    """The variables among the constants whose names an outer block fixes."""
    deferred: list[Node] = field(default_factory=list)
    """Conditions inside nodes and edges, which may read all variables of the clause."""
    lone: list[tuple[str, str, int]] = field(default_factory=list)
    """Nodes that stand alone: internal names, names, and places."""

    def operator(self) -> Operator:
        """Return the operator of the block."""
        of_parts = frozenset().union(*map(algebra.possible_variables, self.parts))
        own = {known.internal for known in self.scope.own.values()}
        # A name that an outer block binds is compared with its constant: `Extend` would leave the outer value in place.
        tabled = {name for name in self.constants if name in of_parts or name not in own | self.inherited}
        fixed = {name: constant for name, constant in self.constants.items() if name not in tabled}
        atoms = tuple(WindowAtom(_placed(atom, fixed)) for atom in self.atoms)
        tables = [Values((name,), ((constant.name,),)) for name, constant in self.constants.items() if name in tabled]
        found = make_join(*([Conjunction(atoms)] if atoms or not self.parts else []), *self.parts, *tables)
        for name, constant in fixed.items():
            if name not in self.inherited and any(Variable(name) in (atom.subject, atom.object) for atom in self.atoms):
                found = Extend(found, name, constant)
        for condition in self.conditions:
            found = Filter(found, condition)
        for body, is_negated in self.tests:
            found = SemiJoin(found, body, is_negated)
        return found


def _placed(atom: Atom, constants: Mapping[str, Constant]) -> Atom:
    """Return an atom with constants in place of the variables that they fix."""
    ends = [constants.get(end.name, end) if isinstance(end, Variable) else end for end in (atom.subject, atom.object)]
    return replace(atom, subject=ends[0], object=ends[1])


def translate(tree: MatchText, *, dialect: Dialect, node_label: str, paths: str, is_triple: bool = False) -> Translation:
    """Return the algebra of a text. Raises `MatchError` at the place of what is refused. O(size²).

    With `is_triple` there are no parallel edges with one label, so an edge that nobody reads need not be bound.

    >>> from rpq.language.match.syntax import parse
    >>> from rpq.language.sparql.algebra_text import algebra_text
    >>> text = "MATCH ANY (a)-[:transfer]->+(b) RETURN a, b"
    >>> print(algebra_text(translate(parse(text), dialect="gql", node_label="type", paths="walk").question.body))
    project ?a ?b  binds a, b
      conjunction  binds a, b
        ?a transfer+ ?b
    """
    return _Translator(tree, dialect, node_label, paths, is_triple=is_triple).translation()


class _Translator:
    """The translation of one text."""

    def __init__(self, tree: MatchText, dialect: Dialect, node_label: str, paths: str, *, is_triple: bool) -> None:
        self._tree = tree
        self._text = tree.text
        self._dialect = dialect
        self._node_label = node_label
        self._ends = EDGE_ENDS[2:] if paths == "simple" else EDGE_ENDS[:2]
        self._is_triple = is_triple
        self._used: set[str] = set()
        self._numbers = 0
        self._atoms = 0
        self._filters: list[edge_variables.Filter] = []
        self._properties: set[str] = set()
        self._has_edges = False
        self._differs = False
        self._read_names = frozenset(_names_read(tree))

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self._text, at, message)

    def translation(self) -> Translation:
        tree = self._tree
        aggregates = any(isinstance(item.value, Aggregated) for item in tree.items)
        scope = _Scope()
        block = _Block(scope, is_set=tree.is_distinct and not aggregates)
        optional: list[tuple[GraphPattern, tuple[str, ...]]] = []
        perhaps_null: set[str] = set()
        for clause in tree.clauses:
            if clause.is_optional:
                optional.append((clause.pattern, tuple(scope.own)))
                perhaps_null.update(name for name, _ in _variables_of(clause.pattern.paths) if name not in scope.own)
            else:
                self._check_sure(clause.pattern, perhaps_null)
                self._add_pattern(block, clause.pattern)
        if len(optional) == len(tree.clauses):
            self._fail(tree.clauses[0].at, "OPTIONAL MATCH is refused as the first clause: write a MATCH before it")
        self._check_lone(block)
        found = block.operator()
        of_optional: dict[str, _Binding] = {}
        for pattern, before in optional:
            found = self._optional(
                found, pattern, {name: scope.own[name] for name in before}, of_optional, is_set=block.is_set
            )
        scope.own |= of_optional
        return self._returned(found, scope)

    def _check_sure(self, pattern: GraphPattern, perhaps_null: Collection[str]) -> None:
        """Refuse what an OPTIONAL MATCH binds in a later MATCH. Without it the order of the two does not matter."""
        for name, at in _mentioned_in(pattern.paths, pattern.where):
            if name in perhaps_null:
                self._fail(
                    at,
                    f"{name} is bound by an OPTIONAL MATCH before, and nothing matches where it is null: write MATCH in "
                    "place of OPTIONAL MATCH, or the condition in the WHERE of the OPTIONAL MATCH",
                )

    # --- names -----------------------------------------------------------------------------------------------------

    def _internal(self, name: str) -> str:
        """Return a name for a variable, which no other variable of the query has."""
        internal = name
        while internal in self._used:
            self._numbers += 1
            internal = f"{name}.{self._numbers}"
        self._used.add(internal)
        return internal

    def _fresh(self) -> str:
        self._numbers += 1
        return self._internal(str(self._numbers))

    def _check_name(self, name: str, at: int) -> None:
        if _NAME.fullmatch(name) is None:
            self._fail(at, f"the variable `{name}` is refused: names of variables are letters, digits and _")

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, block: _Block, node: NodePattern, *, is_lone: bool = False) -> Term:
        """Return the term of a node, whose labels and conditions become those of the block; a lone one has no edge."""
        term: Term = Blank(self._fresh())
        name = node.variable
        if name is not None:
            self._check_name(name, node.at)
            known = block.scope.get(name)
            if known is None:
                internal = self._internal(name)
                known = block.scope.own[name] = _Binding("vertex", internal)
            if known.kind != "vertex":
                what = "an edge" if known.kind == "edge" else "inside a path whose ends alone are told"
                self._fail(node.at, f"{name} is {what}, and a node too: rename one of them")
            if known.constant is not None and known.internal not in block.constants:
                block.constants[known.internal] = known.constant
                block.inherited.add(known.internal)
            term = Variable(known.internal)
        for given in node.properties:
            if given.name != "id":
                self._refuse_node_property(node.variable or "", given.name, given.at)
            value = given.value.value
            if isinstance(value, (bool, float)):
                self._fail(given.at, f"id is the name of a vertex, a text or an integer, not {value}")
            constant = Constant(str(value))
            if constant.name.startswith('"'):
                self._fail(given.at, 'a vertex whose name begins with " is refused here: write a.id = … in WHERE')
            if isinstance(term, Blank):
                term = constant
                continue
            assert isinstance(term, Variable)
            if block.constants.setdefault(term.name, constant) != constant:
                self._fail(given.at, f"{name} has two ids, {block.constants[term.name].name!r} and {constant.name!r}")
            known = block.scope.own.get(name or "")
            if known is not None:
                block.scope.own[name or ""] = replace(known, constant=constant)
        if node.label is not None:
            self._add_labels(block, term, node.label, node.at, is_lone=is_lone)
        block.deferred += _conjuncts(node.where)
        return term

    def _refuse_node_property(self, name: str, attribute: str, at: int) -> NoReturn:
        self._fail(
            at,
            f"{name}.{attribute} is refused: a node has no property but id, its name; what is known of it are edges, as in "
            f"({name})-[:{attribute}]->(value)",
        )

    def _add_labels(self, block: _Block, term: Term, label: LabelTree, at: int, *, is_lone: bool) -> None:
        """Add the condition that a node has labels: edges of the node-label relation, which count once.

        One label of several is a test of values that edges give, but of a lone node it gives the values.
        """
        if label.operator == "&":
            for part in label.parts:
                self._add_labels(block, term, part, at, is_lone=is_lone)
            return
        names = [part.name for part in label.parts] if label.operator == "|" else [label.name]
        if label.operator not in ("name", "|") or any(part.operator != "name" for part in label.parts):
            self._fail(
                at,
                "& below | in the labels of a node is refused: write WHERE a:A OR a:B&C"
                if label.operator == "|" and all(part.operator in ("name", "&") for part in label.parts)
                else "! and % in the labels of a node are refused: write :A, :A|B or :A&B, and NOT EXISTS {(a:A)}",
            )
        atoms = [Atom(term, Label(self._node_label), Constant(name)) for name in names]
        if len(atoms) == 1:
            self._add_atom(block, atoms[0], at)
            return
        self._atoms += len(atoms)
        if is_lone and not isinstance(term, Constant):
            found = make_union(*(Conjunction((WindowAtom(atom),)) for atom in atoms))
            block.parts.append(Distinct(Project(found, (_variable_name(term),))))
            return
        bodies = [Conjunction((WindowAtom(_placed(atom, block.constants)),)) for atom in atoms]
        block.tests.append((make_union(*bodies), False))

    def _add_atom(self, block: _Block, atom: Atom, at: int) -> None:
        self._atoms += 1
        if self._atoms > MOST_ATOMS:
            self._fail(at, f"too many edges and labels: at most {MOST_ATOMS}")
        block.atoms.append(atom)

    def _check_lone(self, block: _Block) -> None:
        """Refuse nodes that stand in no edge."""
        for internal, name, at in block.lone:
            known = any(Variable(internal) in (atom.subject, atom.object) for atom in block.atoms)
            known |= any(internal in algebra.possible_variables(part) for part in block.parts)
            if not known:
                self._fail(
                    at,
                    f"({name}) stands in no edge: nodes are known by their edges: write one, as in ({name})-->()",
                )

    # --- patterns --------------------------------------------------------------------------------------------------

    def _add_pattern(self, block: _Block, pattern: GraphPattern) -> None:
        """Add the paths and the conditions of a clause to a block."""
        for part in self._add_paths(block, pattern):
            self._add_condition(block, part)

    def _add_paths(self, block: _Block, pattern: GraphPattern) -> list[Node]:
        """Add the paths of a clause to a block; return its conditions."""
        differs = self._dialect == "cypher" if pattern.different_edges is None else pattern.different_edges
        self._differs |= differs
        edges: list[_BoundEdge] = []
        overlapping = self._overlapping(pattern.paths) if differs else frozenset()
        for place, path in enumerate(pattern.paths):
            if path.is_any:
                self._check_alone(path, pattern.paths[place + 1 :], block.scope)
            self._add_path(block, path, edges, overlapping)
        if differs:
            self._separate(block, edges)
        conditions = [*block.deferred, *_conjuncts(pattern.where)]
        block.deferred = []
        return conditions

    def _overlapping(self, paths: Sequence[PathPattern]) -> frozenset[int]:
        """Return the places of edges that may be one edge with another of these paths."""
        steps = [one for path in paths for one in path.elements if isinstance(one, EdgePattern) and one.quantifier is None]
        labels = [self._labels(step) for step in steps]
        pairs = combinations(range(len(steps)), 2)
        return frozenset(
            steps[place].at for one, other in pairs if labels[one].overlaps(labels[other]) for place in (one, other)
        )

    def _separate(self, block: _Block, edges: Sequence[_BoundEdge]) -> None:
        """Add the conditions that edges of a clause are different."""
        for one, other in combinations(edges, 2):
            if not one.labels.overlaps(other.labels):
                continue
            if one.variable is None or other.variable is None:
                path = one if one.variable is None else other
                self._fail(
                    path.at,
                    "different edges are refused where a quantified path may share a label with another edge of its clause: "
                    + self._without_difference(),
                )
            self._add_inequality(block, one.variable, other.variable, "number")
        for edge in edges:
            if edge.variable is None and not edge.is_trail:
                self._fail(
                    edge.at,
                    "different edges are refused on this path, whose pairs may need an edge twice: one directed edge with "
                    f"{{1,m}} or + has the same pairs either way; {self._without_difference()}",
                )

    def _without_difference(self) -> str:
        return "write the paths in clauses of their own, or REPEATABLE ELEMENTS behind MATCH"

    def _add_inequality(self, block: _Block, one: str, other: str, kind: Literal["vertex", "number"]) -> None:
        same = SameTerm(Value(kind, one), Value(kind, other))
        tree = Not(Name(same.column, column=1), column=1)
        text = f"{one} <> {other}"
        self._add_filter(block, edge_variables.Filter(text, Where(text, tree, frozenset({same.column})), (), (same,)))

    def _add_filter(self, block: _Block, filter: edge_variables.Filter) -> None:
        self._filters.append(filter)
        self._properties |= {value.name for value in filter.values if value.kind == "property"}
        block.conditions.append(EdgeCondition(filter))

    def _add_path(self, block: _Block, path: PathPattern, edges: list[_BoundEdge], overlapping: frozenset[int]) -> None:
        """Add a path to a block, and its edges to those of the clause."""
        nodes, connectors = self._alternating(path)
        if not connectors:
            (node,) = nodes
            self._node(block, node, is_lone=True)
            if node.label is None:
                known = block.scope.get(node.variable or "")
                internal = "" if known is None else known.internal
                block.lone.append((internal, node.variable or "", node.at))
            return
        quantified = [one for one in connectors if one.quantifier is not None]
        self._check_mode(path, connectors, quantified)
        if path.is_any:
            self._add_any(block, path, nodes, connectors, edges)
            return
        if quantified and not block.is_set:
            quantifier = quantified[0].quantifier
            assert quantifier is not None
            self._fail(
                quantifier.at,
                "a quantified path means pairs of vertices here: write ANY before it, RETURN DISTINCT without aggregates, "
                "or EXISTS { … } around it",
            )
        self._add_steps(block, path, nodes, connectors, edges, overlapping)

    def _add_steps(
        self,
        block: _Block,
        path: PathPattern,
        nodes: Sequence[NodePattern],
        connectors: Sequence[EdgePattern | Group],
        edges: list[_BoundEdge],
        overlapping: frozenset[int] = frozenset(),
    ) -> None:
        """Add each edge and each quantified path of a path on its own."""
        terms = [self._node(block, nodes[0])]
        mine: list[_BoundEdge] = []
        is_trail = path.mode == "TRAIL" and len(connectors) > 1
        if is_trail:
            overlapping |= self._overlapping([path])
        for connector, node in zip(connectors, nodes[1:], strict=True):
            self._declare_edge(block, connector)
            terms.append(self._node(block, node))
            mine.append(self._add_step(block, terms[-2], connector, terms[-1], must_bind=connector.at in overlapping))
        edges += mine
        if is_trail:
            self._separate(block, mine)
        if path.mode in ("ACYCLIC", "SIMPLE") and not any(one.quantifier for one in connectors):
            self._separate_nodes(block, terms, path)

    def _separate_nodes(self, block: _Block, terms: Sequence[Term], path: PathPattern) -> None:
        places = range(len(terms))
        for one, other in combinations(places, 2):
            if path.mode == "SIMPLE" and (one, other) == (0, len(terms) - 1):
                continue
            names = [self._name_of_term(block, terms[place], path) for place in (one, other)]
            self._add_inequality(block, names[0], names[1], "vertex")

    def _name_of_term(self, block: _Block, term: Term, path: PathPattern) -> str:
        if isinstance(term, Constant):
            self._fail(path.at, f"{path.mode} with a node without a name that has an id is refused: name the node")
        return _variable_name(term)

    def _check_mode(self, path: PathPattern, connectors: Sequence[Any], quantified: Sequence[Any]) -> None:
        """Refuse path modes that are not evaluated."""
        if path.mode in (None, "WALK") or not quantified:
            return
        if path.mode == "TRAIL":
            if not all(map(_has_trails, connectors)) or self._has_common_labels(connectors):
                self._fail(
                    path.at,
                    "TRAIL is refused on this path: it is evaluated where it has the same pairs as WALK, on directed edges "
                    "with + or {1,m} that have no label in common; leave TRAIL out",
                )
            return
        kind = "simple" if path.mode == "ACYCLIC" else "simple_cycle"
        self._fail(
            path.at,
            f'{path.mode} is refused on a quantified path in MATCH: write a path query or a pattern with paths="{kind}", or '
            "leave it out",
        )

    def _has_common_labels(self, connectors: Sequence[EdgePattern]) -> bool:
        """Return whether two edges of a path may be one edge."""
        return any(one.overlaps(other) for one, other in combinations(map(self._labels, connectors), 2))

    def _alternating(self, path: PathPattern) -> tuple[list[NodePattern], list[EdgePattern | Group]]:
        """Return the nodes of a path and what connects each with the next; nodes that are not written have no name."""
        nodes: list[NodePattern] = []
        connectors: list[EdgePattern | Group] = []
        for element in path.elements:
            if isinstance(element, NodePattern):
                if len(nodes) > len(connectors):
                    self._fail(element.at, "two nodes stand side by side: write an edge between them")
                nodes.append(element)
                continue
            if len(nodes) == len(connectors):
                nodes.append(_nameless(element.at))
            connectors.append(element)
        if len(nodes) == len(connectors):
            nodes.append(_nameless(path.at))
        return nodes, connectors

    # --- edges -----------------------------------------------------------------------------------------------------

    def _labels(self, edge: EdgePattern) -> EdgeLabels:
        labels = edge_labels(edge.label, self._node_label)
        if labels.is_empty:
            self._fail(edge.at, "no edge has all of these labels: an edge has one label")
        return labels

    def _declare_edge(self, block: _Block, connector: EdgePattern | Group) -> None:
        """Make the variable of an edge known, and those inside a group."""
        if isinstance(connector, Group):
            self._declare_inner(block, connector)
            return
        name, at = connector.variable, connector.at
        if name is not None:
            self._check_name(name, at)
            known = block.scope.get(name)
            if known is not None:
                what = {"vertex": "a node", "edge": "an edge", "inner": "inside a path"}[known.kind]
                advice = "name them apart, and compare them in WHERE" if known.kind == "edge" else "rename one of them"
                self._fail(at, f"{name} is an edge here, and {what} already: {advice}")
            kind: Literal["edge", "inner"] = "edge" if connector.quantifier is None else "inner"
            block.scope.own[name] = _Binding(kind, self._internal(name))

    def _declare_inner(self, block: _Block, element: Element) -> None:
        """Make the variables inside a path whose ends alone are told known. Nothing compares them, so each stands once."""
        if isinstance(element, Group):
            for part in element.elements:
                self._declare_inner(block, part)
        elif element.variable is not None:
            if block.scope.get(element.variable) is not None:
                self._fail(
                    element.at,
                    f"{element.variable} is inside a path whose ends alone are told, and stands in another place as well, "
                    "which nothing would compare: name them apart, or write the path edge by edge",
                )
            block.scope.own[element.variable] = _Binding("inner", element.variable)

    def _own_conditions(self, edge: EdgePattern) -> tuple[str, list[Node]]:
        """Return the condition on an edge by itself, as a text, and the conditions that read something else as well."""
        own: list[Node] = [
            Comparison("==", Name(given.name, column=given.at + 1), given.value, column=given.at + 1)
            for given in edge.properties
        ]
        others: list[Node] = []
        for part in _conjuncts(edge.where):
            bare = None if edge.variable is None else _bare(part, edge.variable)
            (others if bare is None else own).append(part if bare is None else bare)
        for name in (node for part in own for node in _nodes(part) if isinstance(node, Name)):
            if name.name in TAKEN:
                self._fail(
                    name.column - 1, f"{name.name!r} is no property of an edge; there are timestamp and its properties"
                )
        if not own:
            return "", others
        whole = own[0] if len(own) == 1 else Logical("and", tuple(own), column=own[0].column)
        return self._condition_text(whole), others

    def _condition_text(self, tree: Node) -> str:
        """Return a condition in the normal form of those in brackets. Raises `MatchError` for a misfit of types."""
        try:
            check_types(Where("", tree, frozenset(node.name for node in _nodes(tree) if isinstance(node, Name))))
        except WhereError as error:
            self._fail(error.column - 1, error.message)
        return condition_text(tree)

    def _add_step(
        self,
        block: _Block,
        source: Term,
        connector: EdgePattern | Group,
        target: Term,
        *,
        must_bind: bool,
    ) -> _BoundEdge:
        """Add an edge or a quantified path between two terms."""
        if isinstance(connector, Group) or connector.quantifier is not None:
            text, labels = self._step(connector)
            self._add_atom(block, Atom(source, self._expression(text, connector.at), target), connector.at)
            return _BoundEdge(labels, None, connector.at, is_trail=_has_trails(connector))
        labels = self._labels(connector)
        condition, others = self._own_conditions(connector)
        expression = self._expression(step_text(labels, connector.direction, condition), connector.at)
        name = connector.variable
        is_read = name is not None and (name in self._read_names or bool(others))
        is_alone = self._is_triple and connector.direction != "either" and not labels.is_negated and len(labels.names) == 1
        if (block.is_set or is_alone) and not is_read and not must_bind:
            if name is not None:
                block.scope.own[name] = replace(block.scope.own[name], kind="inner")
            self._add_atom(block, Atom(source, expression, target), connector.at)
            return _BoundEdge(labels, None, connector.at, is_trail=True)
        self._has_edges = True
        internal = self._fresh() if name is None else block.scope.own[name].internal
        edge, text = Variable(edge_column(internal)), str(expression)
        self._add_atom(block, Atom(source, Label(EdgeEnd(text, self._ends[0])), edge), connector.at)
        self._atoms -= 1
        self._add_atom(block, Atom(edge, Label(EdgeEnd(text, self._ends[1])), target), connector.at)
        block.deferred += others
        return _BoundEdge(labels, internal, connector.at)

    def _step(self, connector: EdgePattern | Group) -> tuple[str, EdgeLabels]:
        """Return the expression of an edge or a quantified path, and the labels of its edges."""
        quantifier = connector.quantifier
        if quantifier is not None:
            self._check_quantifier(quantifier)
        if isinstance(connector, EdgePattern):
            labels = self._labels(connector)
            condition, others = self._own_conditions(connector)
            if others:
                self._fail(
                    others[0].column - 1,
                    "a condition inside a quantified path reads its own edge alone: write other conditions in the WHERE of "
                    "the clause, or write the edges one by one",
                )
            return repeated_text(step_text(labels, connector.direction, condition), quantifier), labels
        if connector.where is not None:
            self._fail(
                connector.at, "WHERE behind the path of a quantified group is refused: write it inside the edge it is on"
            )
        inner = PathPattern(False, None, connector.elements, connector.at)
        nodes, steps = self._alternating(inner)
        if not steps:
            self._fail(connector.at, "a quantified path has at least one edge")
        for node in nodes:
            if not node.is_bare:
                self._fail(node.at, "the nodes inside a quantified path are bare: labels and conditions stand outside it")
        texts = [self._step(step) for step in steps]
        labels = texts[0][1]
        for _, more in texts[1:]:
            labels = labels | more
        return repeated_text(chain_text([text for text, _ in texts]), quantifier), labels

    def _check_quantifier(self, quantifier: Quantifier) -> None:
        if quantifier.is_cypher and self._dialect != "cypher":
            least, most = quantifier.least, "" if quantifier.most is None else str(quantifier.most)
            instead = f"{{{least}}}" if quantifier.most == least else f"{{{least},{most}}}"
            if (least, quantifier.most) == (1, None):
                instead = "+"
            self._fail(
                quantifier.at,
                f"{quantifier.text} is written as in Cypher, where the edges of a clause are different: write {instead} "
                "behind the edge, as in -[:a]->" + instead + ', or pass language="cypher"',
            )

    def _expression(self, text: str, at: int) -> automata.Expression:
        try:
            return parse_expression(text)
        except automata.ExpressionError as error:
            self._fail(at, f"the path {text} is not understood: {error.message}")

    # --- ANY -------------------------------------------------------------------------------------------------------

    def _add_any(
        self,
        block: _Block,
        path: PathPattern,
        nodes: Sequence[NodePattern],
        connectors: Sequence[EdgePattern | Group],
        edges: list[_BoundEdge],
    ) -> None:
        """Add the pairs of the ends of a path."""
        source = self._node(block, nodes[0])
        inner = _Block(_Scope(block.scope), is_set=True)
        for node in nodes[1:-1]:
            if node.variable is not None and block.scope.get(node.variable) is not None:
                self._fail(
                    node.at,
                    f"{node.variable} is inside a path behind ANY, and known outside it: divide the path there, as in "
                    f"ANY (a)-[…]->+({node.variable}), ANY ({node.variable})-[…]->+(b)",
                )
        first, last = replace(nodes[0], label=None, properties=(), where=None), nodes[-1]
        target = self._node(block, last)
        is_plain = all(node.is_bare for node in nodes[1:-1]) and path.mode in (None, "WALK", "TRAIL")
        patterns = [one for one in connectors if isinstance(one, EdgePattern)]  # TRAIL over a group has been refused
        is_plain &= path.mode != "TRAIL" or not self._has_common_labels(patterns)
        is_plain |= len(connectors) == 1 and path.mode != "ACYCLIC"
        is_plain &= not any(
            isinstance(one, EdgePattern) and one.quantifier is None and self._own_conditions(one)[1] for one in connectors
        )
        if is_plain:
            for element in (*nodes[1:-1], *connectors):
                self._declare_inner(block, element)
            steps = [self._step(one) for one in connectors]
            labels = [of_step for _, of_step in steps]
            expression = self._expression(chain_text([text for text, _ in steps]), path.at)
            self._add_atom(block, Atom(source, expression, target), path.at)
        else:
            if first.variable is None or last.variable is None:
                self._fail(
                    path.at,
                    "the ends of a path behind ANY need names where its edges or inner nodes have conditions or must differ",
                )
            ends = [first, *nodes[1:-1], replace(last, label=None, properties=(), where=None)]
            found: list[_BoundEdge] = []
            self._add_steps(inner, path, ends, connectors, found)
            inner.inherited.clear()  # the ends are columns of the part, whose values join it
            self._add_inner_conditions(inner)
            body = inner.operator()
            bound = algebra.possible_variables(body)
            names = dict.fromkeys(
                term.name for term in (source, target) if isinstance(term, Variable) and term.name in bound
            )
            block.parts.append(Distinct(Project(body, tuple(names))))
            block.scope.own |= {name: _Binding("inner", name) for name in inner.scope.own}
            labels = [edge.labels for edge in found]
        is_trail = len(connectors) == 1 and _has_trails(connectors[0])
        edges.append(_BoundEdge(reduce(or_, labels), None, path.at, is_trail=is_trail))

    def _check_alone(self, path: PathPattern, later: Sequence[PathPattern], scope: _Scope) -> None:
        """Refuse conditions inside a path behind ANY that read what a later path of its clause binds."""
        own = {name for name, _ in _variables_of([path])}
        names = {name for name, _ in _variables_of(later)} - own
        last = len(path.elements) - 1
        inner = [
            replace(one, where=None) if place in (0, last) and isinstance(one, NodePattern) else one
            for place, one in enumerate(path.elements)
        ]
        for name, at in _mentioned_in([replace(path, elements=tuple(inner))]):
            if name in names and scope.get(name) is None:
                self._fail(at, _ALONE)

    def _add_inner_conditions(self, inner: _Block) -> None:
        """Add the conditions inside a path behind ANY, which read nothing else."""
        bound = algebra.possible_variables(inner.operator())
        known = [one for name in inner.scope.names() if (one := inner.scope.get(name)) is not None]
        outer = {edge_column(one.internal) if one.kind == "edge" else one.internal for one in known} - bound
        for part in inner.deferred:
            for name in (node for node in _nodes(part) if isinstance(node, Name)):
                if algebra.column_of_value(self._value(inner.scope, name)) not in bound:
                    self._fail(name.column - 1, _ALONE)
            before = len(inner.tests)
            self._add_condition(inner, part)
            for body, _ in inner.tests[before:]:
                if not outer.isdisjoint(algebra.mentioned_variables(body)):
                    self._fail(next(node.column for node in _nodes(part) if isinstance(node, Exists)) - 1, _ALONE)
        inner.deferred = []

    # --- conditions ------------------------------------------------------------------------------------------------

    def _add_condition(self, block: _Block, condition: Node) -> None:
        """Add the conjuncts of a condition to a block."""
        for part in _conjuncts(condition):
            negated, inner = False, part
            while isinstance(inner, Not) and not isinstance(inner.inner, IsNull):
                negated, inner = not negated, inner.inner
            choices = _disjuncts(inner)
            if all(isinstance(one, Exists) for one in choices):
                bodies = [self._exists(block.scope, one) for one in choices]
                block.tests.append((bodies[0] if len(bodies) == 1 else make_union(*bodies), negated))
                continue
            if self._is_id(block, part):
                continue
            self._add_filter(block, self._filter(block.scope, part))

    def _is_id(self, block: _Block, part: Node) -> bool:
        """Return whether a conjunct fixes the name of a vertex of the block, which is noted as its constant then."""
        if not (isinstance(part, Comparison) and part.sign == "==" and isinstance(part.left, Name)):
            return False
        name, dot, attribute = part.left.name.partition(".")
        value = part.right.value if isinstance(part.right, Given) else None
        known = block.scope.own.get(name)
        if not dot or attribute != "id" or known is None or known.kind != "vertex" or not isinstance(value, str):
            return False
        if _NUMBER.match(value) or value.startswith('"') or block.constants.get(known.internal) is not None:
            return False
        if not any(Variable(known.internal) in (atom.subject, atom.object) for atom in block.atoms) or block.parts:
            return False
        constant = block.constants[known.internal] = Constant(value)
        block.scope.own[name] = replace(known, constant=constant)
        return True

    def _exists(self, outer: _Scope, exists: Exists) -> Operator:
        """Return the body of an EXISTS."""
        if exists.node is not None and self._value(outer, exists.node).kind != "vertex":
            at, name = exists.node.column - 1, exists.node.name
            self._fail(at, f"{name} is an edge, whose labels stand in its brackets, as in -[{name}:KNOWS|HATES]->")
        block = _Block(_Scope(outer), is_set=True)
        self._add_pattern(block, exists.pattern)
        self._check_lone(block)
        for node in (part for value in exists.returned for part in _nodes(value)):
            if isinstance(node, Aggregated):
                advice = "it has a row even without a match; leave RETURN out"
                self._fail(node.column - 1, f"the aggregate {node.function} in EXISTS is refused: {advice}")
            if isinstance(node, Name) and block.scope.get(node.name.partition(".")[0]) is None:
                self._value(block.scope, node)
        return block.operator()

    def _value(self, scope: _Scope, name: Name) -> Value:
        """Return the value that a name in a condition or in RETURN stands for."""
        variable, dot, attribute = name.name.partition(".")
        at, known = name.column - 1, scope.get(variable)
        if known is None:
            names = scope.names()
            hint = did_you_mean(variable, names) or (f"; there are {', '.join(names)}" if names else "")
            self._fail(at, f"there is no variable {variable}{hint}")
        if known.kind == "inner":
            self._fail(
                at,
                f"{variable} is inside a path whose ends alone are told (a quantified one, or one behind ANY): read it in "
                "the WHERE inside its own brackets, or write the path edge by edge",
            )
        if known.kind == "vertex":
            if dot and attribute != "id":
                self._refuse_node_property(variable, attribute, at)
            return Value("vertex", known.internal)
        if not dot:
            return Value("number", known.internal)
        if attribute == "timestamp":
            return Value("timestamp", known.internal)
        if attribute in TAKEN:
            self._fail(at, f"{attribute!r} is no property of an edge; there are {variable}.timestamp and its properties")
        return Value("property", known.internal, attribute)

    def _filter(self, scope: _Scope, condition: Node) -> edge_variables.Filter:
        """Return a condition as a filter over the bindings of a block."""
        known: dict[str, Value] = {}
        for node in _nodes(condition):
            if isinstance(node, (Exists, Aggregated)):
                what = f"the aggregate {node.function}" if isinstance(node, Aggregated) else "EXISTS"
                if isinstance(node, Exists) and node.node is not None:
                    what = "a label of a node"
                advice = (
                    "write it as a condition of its own, joined by AND, or by OR with others of its kind; NOT stands "
                    "before all of it"
                    if isinstance(node, Exists)
                    else "aggregates stand in RETURN; filter rows of groups after collecting them"
                )
                self._fail(node.column - 1, f"{what} inside a condition is refused: {advice}")
            if isinstance(node, Name):
                value = self._value(scope, node)
                known[value.column] = value
        tree = _renamed(
            condition, {node: self._value(scope, node).column for node in _nodes(condition) if isinstance(node, Name)}
        )
        try:
            text = condition_text(tree)
            return filter_of(parse_where(text), known)
        except WhereError as error:
            self._fail(condition.column - 1, error.message.replace("?", ""))

    # --- OPTIONAL MATCH --------------------------------------------------------------------------------------------

    def _optional(
        self,
        left: Operator,
        pattern: GraphPattern,
        sure: Mapping[str, _Binding],
        of_optional: dict[str, _Binding],
        *,
        is_set: bool,
    ) -> Operator:
        """Return the left join with an optional clause, and add its names to `of_optional`; `sure` are those before all."""
        scope = _Scope()
        scope.own = {**sure, **of_optional}
        block = _Block(_Scope(scope), is_set)
        conditions = self._add_paths(block, pattern)
        block.inherited.clear()  # nodes with a constant are columns, which its own inequalities read and which join it
        self._check_lone(block)
        of_block = algebra.possible_variables(block.operator())
        for name, known in of_optional.items():
            internal = edge_column(known.internal) if known.kind == "edge" else known.internal
            if internal in of_block:
                self._fail(
                    pattern.at,
                    f"{name} is bound by an OPTIONAL MATCH before, and may be null: write both paths in one OPTIONAL MATCH",
                )
        across: list[Node] = []
        for part in conditions:
            read = {self._value(block.scope, node) for node in _nodes(part) if isinstance(node, Name)}
            columns = {algebra.column_of_value(value) for value in read}
            is_exists = any(isinstance(node, Exists) for node in _nodes(part))
            if columns <= of_block or is_exists:
                self._add_condition(block, part)
            else:
                across.append(part)
        condition: Formula | None = None
        if across:
            whole = across[0] if len(across) == 1 else Logical("and", tuple(across), column=across[0].column)
            filter = self._filter(block.scope, whole)
            self._filters.append(filter)
            self._properties |= {value.name for value in filter.values if value.kind == "property"}
            condition = EdgeCondition(filter)
        right = block.operator()
        for body, _ in block.tests:
            missing = algebra.mentioned_variables(body) & algebra.possible_variables(left)
            if not missing <= algebra.possible_variables(right):
                self._fail(
                    pattern.at, "EXISTS in an OPTIONAL MATCH reads the nodes of that clause alone: write a node in it"
                )
        of_optional |= {
            name: replace(known, constant=None) for name, known in block.scope.own.items() if name not in scope.own
        }
        return LeftJoin(left, right, condition)

    # --- RETURN ----------------------------------------------------------------------------------------------------

    def _returned(self, inner: Operator, scope: _Scope) -> Translation:
        items = self._tree.items
        columns: list[Column] = []
        internals: list[str] = []
        keys: list[str] = []
        aggregates: dict[str, Aggregate] = {}
        finals: list[tuple[str, Formula]] = []
        is_grouped = any(isinstance(item.value, Aggregated) for item in items)
        for number, item in enumerate(items):
            name = item.name or item.text
            if name in _RESERVED:
                self._fail(item.at, f"all rows have a column called {name}: write AS and another name behind it")
            if name in [one.name for one in columns]:
                self._fail(item.at, f"two columns are called {name}: write AS and another name behind one of them")
            if isinstance(item.value, Aggregated):
                inner, column = self._aggregated(inner, scope, item.value, name, f".column {number}", aggregates, finals)
                columns.append(column)
                internals.append(f".column {number}")
                continue
            value = self._item_value(scope, item)
            inner, internal = self._extended(inner, value)
            if internal in internals:
                inner, internal = Extend(inner, f".column {number}", Variable(internal)), f".column {number}"
            columns.append(Column(name, value.kind, value))
            internals.append(internal)
            keys.append(internal)
        if is_grouped:
            inner = algebra.Group(inner, tuple(keys), tuple(aggregates.items()))
            for internal, formula in finals:
                inner = Extend(inner, internal, formula)
        body: Operator = Project(inner, tuple(internals))
        if self._tree.is_distinct:
            body = Distinct(body)
        question = SparqlQuestion(text=self._text, form="select", body=body, columns=tuple(internals))
        return Translation(
            question=question,
            columns=tuple(columns),
            filters=tuple(self._filters),
            properties=frozenset(self._properties),
            has_edge_variables=self._has_edges,
            differs=self._differs,
        )

    def _item_value(self, scope: _Scope, item: Item) -> Value:
        if not isinstance(item.value, Name):
            self._fail(
                item.at,
                f"{item.text} in RETURN is refused: return variables, properties of edges and aggregates of them, and "
                "compute with the rows",
            )
        return self._value(scope, item.value)

    def _extended(self, inner: Operator, value: Value, *, is_summed: bool = False) -> tuple[Operator, str]:
        """Return an operator with a value as a column, and the name of the column."""
        if value.kind == "vertex":
            return inner, value.variable
        if value.kind == "property":
            self._properties.add(value.name)
        # A property may be called number.
        what = f"{value.name} of" if value.kind == "property" else f"{value.kind} of the edge"
        name = f".{what} {value.variable}{' as a number' if is_summed else ''}"
        if name not in algebra.possible_variables(inner):
            inner = Extend(inner, name, EdgeValue(value, is_summed))
        return inner, name

    def _aggregated(
        self,
        inner: Operator,
        scope: _Scope,
        item: Aggregated,
        name: str,
        internal: str,
        aggregates: dict[str, Aggregate],
        finals: list[tuple[str, Formula]],
    ) -> tuple[Operator, Column]:
        """Return the operator below the group with the argument of an aggregate, and the column of the aggregate."""
        if item.argument is None:
            aggregates[internal] = Aggregate("COUNT", None, False)
            return inner, Column(name, "count", None)
        if not isinstance(item.argument, Name):
            self._fail(
                item.column - 1,
                f"{item.function} of a computed value is refused: it takes a variable, or a property of an edge",
            )
        value = self._value(scope, item.argument)
        if value.kind == "number" and item.function != "count":
            self._fail(item.column - 1, f"{item.function} of an edge is refused: take one of its properties")
        if value.kind == "timestamp" and item.function in ("sum", "avg"):
            self._fail(
                item.column - 1,
                f"{item.function} of timestamps is refused: take min or max of them, or {item.function} of a property",
            )
        inner, column = self._extended(inner, value, is_summed=item.function != "count")
        argument = Variable(column)
        if item.function == "count":
            aggregates[internal] = Aggregate("COUNT", argument, item.is_distinct)
            return inner, Column(name, "count", value)
        if item.function in ("min", "max"):
            function: AggregateName = "MIN" if item.function == "min" else "MAX"
            aggregates[internal] = Aggregate(function, argument, item.is_distinct, skips_unbound=True)
            return inner, Column(name, "ends", value)
        # Nulls are skipped: they count as 0 in the sum, and not at all in the number of values.
        zero = Constant(integer_term(0))
        total, count = f"{internal} sum", f"{internal} count"
        aggregates[total] = Aggregate("SUM", Call("COALESCE", (argument, zero)), item.is_distinct)
        if item.function == "sum" and self._dialect == "cypher":
            finals.append((internal, Variable(total)))
            return inner, Column(name, "sum", value)
        aggregates[count] = Aggregate("COUNT", argument, item.is_distinct)
        if item.function == "sum":
            nothing = Variable(f"{internal} nothing")
            is_some = Call(">", (Variable(count), zero))
            finals.append((internal, Call("IF", (is_some, Variable(total), nothing))))
            return inner, Column(name, "sum", value)
        finals.append((internal, Call("/", (Variable(total), Variable(count)))))
        return inner, Column(name, "avg", value)


# --- trees of conditions ---------------------------------------------------------------------------------------------


def _nameless(at: int) -> NodePattern:
    return NodePattern(None, None, (), None, at)


def _variable_name(term: Variable | Blank) -> str:
    """Return the name that a term has among the variables of the algebra."""
    return str(term) if isinstance(term, Blank) else term.name


def _has_trails(connector: EdgePattern | Group) -> bool:
    """Return whether all pairs of an edge or a quantified path are pairs of trails.

    One edge is a trail, and so is a shortest path along edges of one direction.
    """
    if isinstance(connector, Group):
        return False
    return connector.quantifier is None or (connector.direction != "either" and connector.quantifier.least == 1)


def _conjuncts(condition: Any) -> list[Any]:
    """Return the parts of a condition that must all hold; none of no condition."""
    if condition is None:
        return []
    if isinstance(condition, Logical) and condition.word == "and":
        return [part for one in condition.parts for part in _conjuncts(one)]
    return [condition]


def _disjuncts(condition: Any) -> list[Any]:
    """Return the parts of a condition one of which must hold."""
    if isinstance(condition, Logical) and condition.word == "or":
        return [part for one in condition.parts for part in _disjuncts(one)]
    return [condition]


def _nodes(condition: Any) -> Iterator[Any]:
    """Yield a condition and all nodes below it, but none inside an EXISTS."""
    if isinstance(condition, Exists):
        yield condition
    elif isinstance(condition, Aggregated):
        yield condition
        if condition.argument is not None:
            yield from _nodes(condition.argument)
    elif isinstance(condition, (Logical, Not, IsNull, In, Comparison)) or hasattr(condition, "column"):
        yield condition
        for part in _children(condition):
            yield from _nodes(part)


def _children(condition: Any) -> Sequence[Any]:
    found: list[Any] = []
    for name in ("parts", "inner", "values", "low", "high", "left", "right", "arguments"):
        part = getattr(condition, name, None)
        if isinstance(part, tuple):
            found += part
        elif part is not None:
            found.append(part)
    return found


def _changed(condition: Any, change: Any) -> Any:
    """Return a condition in which each name is replaced."""
    if isinstance(condition, Name):
        return change(condition)
    changes: dict[str, Any] = {}
    for name in ("parts", "inner", "values", "low", "high", "left", "right", "arguments"):
        part = getattr(condition, name, None)
        if isinstance(part, tuple):
            changes[name] = tuple(_changed(one, change) for one in part)
        elif part is not None:
            changes[name] = _changed(part, change)
    return replace(condition, **changes) if changes else condition


def _renamed(condition: Any, names: dict[Name, str]) -> Node:
    """Return a condition with other names."""
    found: Node = _changed(condition, lambda name: replace(name, name=names[name]))
    return found


def _bare(condition: Any, variable: str) -> Node | None:
    """Return a condition on one edge alone with the names of its properties; None if it reads anything else."""
    nodes = [*_nodes(condition)]
    names = [node for node in nodes if isinstance(node, Name)]
    if any(isinstance(node, (Exists, Aggregated)) for node in nodes) or not names:
        return None
    if any(not node.name.startswith(f"{variable}.") for node in names):
        return None
    return _renamed(condition, {node: node.name.removeprefix(f"{variable}.") for node in names})


def _variables_of(paths: Sequence[PathPattern]) -> Iterator[tuple[str, int]]:
    """Yield the variables of the nodes and edges of paths, and their places."""

    def of_elements(elements: Sequence[Element]) -> Iterator[tuple[str, int]]:
        for element in elements:
            if isinstance(element, Group):
                yield from of_elements(element.elements)
            elif element.variable is not None:
                yield element.variable, element.at

    for path in paths:
        yield from of_elements(path.elements)


def _mentioned_in(paths: Sequence[PathPattern], where: Any = None) -> Iterator[tuple[str, int]]:
    """Yield the variables of paths and those that conditions name, in EXISTS as well, and their places."""

    def of_condition(condition: Any) -> Iterator[tuple[str, int]]:
        for node in _nodes(condition):
            if isinstance(node, Name):
                yield node.name.partition(".")[0], node.column - 1
            elif isinstance(node, Exists):
                yield from _mentioned_in(node.pattern.paths, node.pattern.where)

    def of_elements(elements: Sequence[Element]) -> Iterator[tuple[str, int]]:
        for element in elements:
            yield from of_condition(element.where)
            if isinstance(element, Group):
                yield from of_elements(element.elements)

    yield from _variables_of(paths)
    for path in paths:
        yield from of_elements(path.elements)
    yield from of_condition(where)


def _names_read(tree: MatchText) -> Iterator[str]:
    """Yield the names of variables that items and conditions read, but for conditions of edges on themselves."""

    def of_condition(condition: Any) -> Iterator[str]:
        for node in _nodes(condition):
            if isinstance(node, Name):
                yield node.name.partition(".")[0]
            elif isinstance(node, Exists):
                yield from of_pattern(node.pattern)

    def of_elements(elements: Sequence[Element]) -> Iterator[str]:
        for element in elements:
            if isinstance(element, Group):
                yield from of_elements(element.elements)
            elif isinstance(element, NodePattern):
                yield from of_condition(element.where)
            else:
                own = element.variable
                for part in _conjuncts(element.where):
                    yield from (name for name in of_condition(part) if name != own)

    def of_pattern(pattern: GraphPattern) -> Iterator[str]:
        for path in pattern.paths:
            yield from of_elements(path.elements)
        yield from of_condition(pattern.where)

    for clause in tree.clauses:
        yield from of_pattern(clause.pattern)
    for item in tree.items:
        yield from of_condition(item.value)
