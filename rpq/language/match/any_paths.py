"""Paths behind ANY, which have one row for each pair of vertices that some walk connects.

A path whose inner nodes are bare is one path expression. Any other path is joined edge by edge in a block of its own, whose
rows are projected on the two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Protocol

from rpq.language.match.block import BoundEdge, MatchBlock
from rpq.language.match.condition_trees import condition_nodes, variables_of_paths, variables_of_pattern
from rpq.language.match.path_expressions import PathExpressions, chain_text, has_trails
from rpq.language.match.scope import NameBinding, Scope, ValueReader
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    EdgePattern,
    Element,
    MatchExists,
    NodePattern,
    PathPattern,
    QuantifiedGroup,
)
from rpq.language.pattern import Atom, Constant, Term, Variable, edge_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Aggregate,
    Conjunction,
    Distinct,
    Extend,
    Group,
    Operator,
    Project,
    WindowAtom,
    make_union,
)
from rpq.language.sparql.values.typed_values import integer_term
from rpq.language.where import Name, Node

_ALONE = "a condition inside a path behind ANY reads the path alone: write it in WHERE, or the path edge by edge"


class Clauses(Protocol):
    """The translation of nodes, edges and conditions, which a path behind ANY consists of."""

    def add_node(self, block: MatchBlock, node: NodePattern) -> Term:
        """Add the labels and conditions of a node to a block and return its term."""

    def add_atom(self, block: MatchBlock, atom: Atom, at: int) -> None:
        """Add an atom to a block."""

    def add_steps(
        self,
        block: MatchBlock,
        path: PathPattern,
        nodes: Sequence[NodePattern],
        connectors: Sequence[EdgePattern | QuantifiedGroup],
    ) -> list[BoundEdge]:
        """Add each edge and each quantified path of a path to a block on its own, and return them."""

    def add_condition(self, block: MatchBlock, condition: Node) -> None:
        """Add a condition to a block."""


def declare_inner(scope: Scope, element: Element, text: str) -> None:
    """Add the variables inside a path of which only the ends are returned. Each may occur once, as nothing compares them."""
    if isinstance(element, QuantifiedGroup):
        for part in element.elements:
            declare_inner(scope, part, text)
    elif element.variable is not None:
        if scope.get(element.variable) is not None:
            raise match_error(
                text,
                element.at,
                f"{element.variable} is inside a path of which only the ends are returned, and occurs elsewhere, too; the "
                "two would not be compared: name them apart, or write the path edge by edge",
            )
        scope.own[element.variable] = NameBinding("inner", element.variable)


def add_any_path(
    clauses: Clauses,
    block: MatchBlock,
    path: PathPattern,
    *,
    expressions: PathExpressions,
    values: ValueReader,
    length: str | None = None,
) -> BoundEdge:
    """Add the pairs of the ends of a path to a block, and return the path. Raises `MatchError`.

    With `length`, the name of a column, the block also binds the length of a shortest path of one edge pattern.
    """
    nodes, connectors = expressions.alternating(path)
    source = clauses.add_node(block, nodes[0])
    for node in nodes[1:-1]:
        if node.variable is not None and block.scope.get(node.variable) is not None:
            raise match_error(
                expressions.text,
                node.at,
                f"{node.variable} is inside a path behind ANY, and occurs outside it, too: divide the path there, as in "
                f"ANY (a)-[…]->+({node.variable}), ANY ({node.variable})-[…]->+(b)",
            )
    target = clauses.add_node(block, nodes[-1])
    if _is_one_expression(path, nodes, connectors, expressions):
        for element in (*nodes[1:-1], *connectors):
            declare_inner(block.scope, element, expressions.text)
        steps = [expressions.step(one) for one in connectors]
        labels = [of_step for _, of_step in steps]
        if length is None:
            expression = expressions.expression(chain_text([text for text, _ in steps]), path.at)
            clauses.add_atom(block, Atom(source, expression, target), path.at)
        else:
            fixed = {
                end: block.constants[end.name] for end in (source, target) if getattr(end, "name", "") in block.constants
            }
            ends = [fixed.get(end, end) for end in (source, target)]
            part = _least_lengths(connectors[0], ends[0], ends[1], expressions, length)
            for end, constant in fixed.items():
                part = Extend(part, str(algebra.name_of(end)), constant)
            block.parts.append(part)
    else:
        first, last = (replace(node, label=None, properties=(), where=None) for node in (nodes[0], nodes[-1]))
        if first.variable is None or last.variable is None:
            raise match_error(
                expressions.text,
                path.at,
                "the ends of a path behind ANY need names where its edges or inner nodes have conditions or must differ",
            )
        inner = MatchBlock(Scope(block.scope), True, block.filter, block.node_label)
        labels = [edge.labels for edge in clauses.add_steps(inner, path, [first, *nodes[1:-1], last], connectors)]
        inner.outer_names.clear()  # the ends are columns of the part, whose values join it
        _add_inner_conditions(clauses, inner, values)
        body = inner.operator()
        bound = algebra.possible_variables(body)
        names = dict.fromkeys(term.name for term in (source, target) if isinstance(term, Variable) and term.name in bound)
        block.parts.append(Distinct(Project(body, tuple(names))))
        block.scope.own |= {name: NameBinding("inner", name) for name in inner.scope.own}
    is_trail = len(connectors) == 1 and has_trails(connectors[0])
    return BoundEdge(reduce(or_, labels), None, path.at, is_trail=is_trail)


def _least_lengths(
    connector: EdgePattern | QuantifiedGroup, source: Term, target: Term, expressions: PathExpressions, length: str
) -> Operator:
    """Return the pairs of a quantified path with the least number of its repetitions that joins them."""
    quantifier = connector.quantifier
    assert quantifier is not None and quantifier.most is not None
    names = tuple(dict.fromkeys(name for end in (source, target) if (name := algebra.name_of(end)) is not None))
    one = f"{length} of a path"
    branches = []
    for number in range(quantifier.least, quantifier.most + 1):
        text, _ = expressions.step(replace(connector, quantifier=quantifier._replace(least=number, most=number)))
        pairs = Conjunction((WindowAtom(Atom(source, expressions.expression(text, connector.at), target)),))
        branches.append(Extend(Project(pairs, names), one, Constant(integer_term(number))))
    return Group(make_union(*branches), names, ((length, Aggregate("MIN", Variable(one), is_distinct=False)),))


def _is_one_expression(
    path: PathPattern,
    nodes: Sequence[NodePattern],
    connectors: Sequence[EdgePattern | QuantifiedGroup],
    expressions: PathExpressions,
) -> bool:
    """Return whether a path expression alone has the pairs of a path."""
    if any(
        isinstance(one, EdgePattern) and one.quantifier is None and expressions.own_conditions(one)[1] for one in connectors
    ):
        return False
    if len(connectors) == 1 and path.mode != "ACYCLIC":
        return True
    if not all(node.is_bare for node in nodes[1:-1]) or path.mode not in (None, "WALK", "TRAIL"):
        return False
    patterns = [one for one in connectors if isinstance(one, EdgePattern)]  # TRAIL over a group has been refused
    return path.mode != "TRAIL" or not expressions.has_common_labels(patterns)


def check_alone(path: PathPattern, later: Sequence[PathPattern], scope: Scope, text: str) -> None:
    """Raise `MatchError` for a condition inside a path behind ANY that reads a variable of a later path of its clause."""
    own = {name for name, _ in variables_of_paths([path])}
    names = {name for name, _ in variables_of_paths(later)} - own
    last = len(path.elements) - 1
    inner = [
        replace(one, where=None) if place in (0, last) and isinstance(one, NodePattern) else one
        for place, one in enumerate(path.elements)
    ]
    for name, at in variables_of_pattern([replace(path, elements=tuple(inner))]):
        if name in names and scope.get(name) is None:
            raise match_error(text, at, _ALONE)


def _add_inner_conditions(clauses: Clauses, inner: MatchBlock, values: ValueReader) -> None:
    """Add the conditions inside a path behind ANY. Raises `MatchError` for one that reads other variables."""
    bound = algebra.possible_variables(inner.operator())
    bindings = [one for name in inner.scope.names() if (one := inner.scope.get(name)) is not None]
    outer = {edge_column(one.internal) if one.kind == "edge" else one.internal for one in bindings} - bound
    for part in inner.deferred_conditions:
        for name in (node for node in condition_nodes(part) if isinstance(node, Name)):
            if algebra.binding_of_value(values.value(inner.scope, name)) not in bound:
                raise match_error(values.text, name.column - 1, _ALONE)
        before = len(inner.tests)
        clauses.add_condition(inner, part)
        for body, _ in inner.tests[before:]:
            if not outer.isdisjoint(algebra.mentioned_variables(body)):
                raise match_error(
                    values.text,
                    next(node.column for node in condition_nodes(part) if isinstance(node, MatchExists)) - 1,
                    _ALONE,
                )
    inner.deferred_conditions = []
