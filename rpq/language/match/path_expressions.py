"""Sets of labels of edges in MATCH, and the path expressions of edges and of quantified paths that read edges with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NoReturn

import rpq.automata as automata
from rpq.automata.symbols import write_name
from rpq.errors import WhereError
from rpq.language.conditions import TUPLE_COLUMNS, check_types, condition_text, parse_expression
from rpq.language.match.condition_trees import condition_nodes, conjuncts, has_value, own_condition
from rpq.language.match.node_facts import joined_test, label_condition, own_test
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    Dialect,
    Direction,
    EdgePattern,
    LabelTree,
    NodePattern,
    PathPattern,
    QuantifiedGroup,
    Quantifier,
)
from rpq.language.where import Logical, Name, Node, Where


@dataclass(frozen=True)
class EdgeLabels:
    """The labels in `names`, or with `is_negated` all but these."""

    names: frozenset[str]
    is_negated: bool

    def __or__(self, other: EdgeLabels) -> EdgeLabels:
        match self.is_negated, other.is_negated:
            case False, False:
                return EdgeLabels(self.names | other.names, False)
            case True, True:
                return EdgeLabels(self.names & other.names, True)
            case True, False:
                return EdgeLabels(self.names - other.names, True)
        return EdgeLabels(other.names - self.names, True)

    def __and__(self, other: EdgeLabels) -> EdgeLabels:
        match self.is_negated, other.is_negated:
            case False, False:
                return EdgeLabels(self.names & other.names, False)
            case True, True:
                return EdgeLabels(self.names | other.names, True)
            case True, False:
                return EdgeLabels(other.names - self.names, False)
        return EdgeLabels(self.names - other.names, False)

    @property
    def is_empty(self) -> bool:
        """True if the set contains no label."""
        return not self.names and not self.is_negated

    def overlaps(self, other: EdgeLabels) -> bool:
        """Return whether the two sets have a label in common."""
        return not (self & other).is_empty


def edge_labels(tree: LabelTree | None, node_label: str | None) -> EdgeLabels:
    """Return the labels of an edge pattern. Without an expression these are all labels except `node_label`, if there is one.

    >>> edge_labels(LabelTree("!", parts=(LabelTree("name", "a"),)), "type") == EdgeLabels(frozenset({"a", "type"}), True)
    True
    """
    of_nodes = frozenset(() if node_label is None else (node_label,))
    if tree is None or tree.operator == "%":
        return EdgeLabels(of_nodes, True)
    if tree.operator == "name":
        return EdgeLabels(frozenset({tree.name}), False)
    parts = [edge_labels(part, node_label) for part in tree.parts]
    found = parts[0]
    if tree.operator == "!":
        if found.is_negated:
            return EdgeLabels(found.names - of_nodes, False)
        return EdgeLabels(found.names | of_nodes, True)
    for part in parts[1:]:
        found = found | part if tree.operator == "|" else found & part
    return found


def step_text(labels: EdgeLabels, direction: Direction, condition: str = "") -> str:
    """Return the path expression for one edge with one of some labels, which satisfies a condition.

    >>> step_text(EdgeLabels(frozenset("ab"), False), "left", "n > 1"), step_text(EdgeLabels(frozenset("a"), True), "right")
    ('^a[n > 1]|^b[n > 1]', '!(a)')
    """
    behind = f"[{condition}]" if condition else ""
    names = [write_name(name) for name in sorted(labels.names)]
    steps = [f"!({'|'.join(names)}){behind}"] if labels.is_negated else [name + behind for name in names]
    forward = [] if direction == "left" else steps
    return "|".join([*forward, *([] if direction == "right" else ["^" + step for step in steps])])


def repeated_text(step: str, quantifier: Quantifier | None) -> str:
    """Return a path expression that repeats another one.

    >>> repeated_text("a|b", Quantifier(1, 3, "{1,3}", 0)), repeated_text("a", None)
    ('(a|b){1,3}', '(a)')
    """
    if quantifier is None:
        return f"({step})"
    least, most = quantifier.least, quantifier.most
    if most is None and least < 2:
        return f"({step}){'*+'[least]}"
    return f"({step}){{{least}}}" if least == most else f"({step}){{{least},{'' if most is None else most}}}"


def chain_text(steps: Sequence[str]) -> str:
    """Return the path expression of a sequence of steps."""
    return "/".join(steps)


@dataclass(frozen=True)
class PathExpressions:
    """The path expressions of the edges in a text. An edge that is refused raises a `MatchError` with its place.

    `node_label` is the label of the edges from nodes to their labels, which an edge pattern without labels leaves out; None
    if records alone have labels of nodes.
    """

    text: str
    dialect: Dialect
    node_label: str | None

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self.text, at, message)

    def alternating(self, path: PathPattern) -> tuple[list[NodePattern], list[EdgePattern | QuantifiedGroup]]:
        """Return the nodes of a path, and the edge or group between each node and the next; omitted nodes have no name."""
        nodes: list[NodePattern] = []
        connectors: list[EdgePattern | QuantifiedGroup] = []
        for element in path.elements:
            if isinstance(element, NodePattern):
                if len(nodes) > len(connectors):
                    self._fail(element.at, "two nodes stand side by side: write an edge between them")
                nodes.append(element)
                continue
            if len(nodes) == len(connectors):
                nodes.append(nameless_node(element.at))
            connectors.append(element)
        if len(nodes) == len(connectors):
            nodes.append(nameless_node(path.at))
        return nodes, connectors

    def labels(self, edge: EdgePattern) -> EdgeLabels:
        labels = edge_labels(edge.label, self.node_label)
        if labels.is_empty:
            self._fail(edge.at, "no edge has all of these labels: an edge has one label")
        return labels

    def has_common_labels(self, connectors: Sequence[EdgePattern]) -> bool:
        """Return whether two edge patterns of a path may match the same edge."""
        return any(one.overlaps(other) for one, other in combinations(map(self.labels, connectors), 2))

    def own_conditions(self, edge: EdgePattern) -> tuple[str, list[Node]]:
        """Return the condition that reads the edge alone, as a text, and the conditions that read other values as well."""
        own: list[Node] = [has_value(one.name, one.value, one.at) for one in edge.properties]
        others: list[Node] = []
        for part in conjuncts(edge.where):
            bare = None if edge.variable is None else own_condition(part, edge.variable)
            (others if bare is None else own).append(part if bare is None else bare)
        for name in (node for part in own for node in condition_nodes(part) if isinstance(node, Name)):
            if name.name in TUPLE_COLUMNS:
                self._fail(
                    name.column - 1, f"{name.name!r} is no property of an edge; there are timestamp and its properties"
                )
        if not own:
            return "", others
        whole = own[0] if len(own) == 1 else Logical("and", tuple(own), column=own[0].column)
        return self._condition_text(whole), others

    def _condition_text(self, tree: Node) -> str:
        """Return a condition in the normal form of those in brackets. Raises `MatchError` for incompatible types."""
        try:
            check_types(Where("", tree, frozenset(node.name for node in condition_nodes(tree) if isinstance(node, Name))))
        except WhereError as error:
            self._fail(error.column - 1, error.message)
        return condition_text(tree)

    def step(self, connector: EdgePattern | QuantifiedGroup) -> tuple[str, EdgeLabels]:
        """Return the expression of an edge or a quantified path, and the labels of its edges."""
        quantifier = connector.quantifier
        if isinstance(connector, EdgePattern):
            labels = self.labels(connector)
            condition, others = self.own_conditions(connector)
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
        nodes, steps = self.alternating(inner)
        if not steps:
            self._fail(connector.at, "a quantified path has at least one edge")
        texts = [self.step(step) for step in steps]
        labels = texts[0][1]
        for _, more in texts[1:]:
            labels = labels | more
        tests = [f"@[{test}]" if (test := self._test_text(node)) else "" for node in nodes]
        chain = [tests[0], *(part for (text, _), test in zip(texts, tests[1:], strict=True) for part in (text, test))]
        return repeated_text(chain_text([*filter(None, chain)]), quantifier), labels

    def _test_text(self, node: NodePattern) -> str:
        """Return what a node inside a quantified path has to satisfy, as the text of a test; empty for a bare node."""
        trees: list[Node] = [has_value(one.name, one.value, one.at) for one in node.properties]
        if node.label is not None:
            labels = label_condition(node.label, node.at + 1)
            if labels is None or self.node_label is not None:
                self._fail(
                    node.at,
                    f"a label of a node inside a quantified path is refused, because an edge with the label "
                    f"{self.node_label} may give it, too: pass node_label=None, so that records alone have labels, or write "
                    "the label outside of the path"
                    if labels is not None
                    else "% in the labels of a node is refused",
                )
            trees.append(labels)
        for part in conjuncts(node.where):
            own = own_test(part, node.variable, has_labels=self.node_label is None)
            if own is None:
                self._fail(
                    part.column - 1,
                    "a condition on a node inside a quantified path reads this node alone, and labels only with "
                    "node_label=None: write other conditions in the WHERE of the clause",
                )
            trees.append(own)
        return self.test_text(trees) if trees else ""

    def test_text(self, trees: Sequence[Node]) -> str:
        """Return the test that conditions on a node are."""
        for tree in trees:
            try:
                joined_test([tree])
            except WhereError as error:
                self._fail(tree.column - 1, error.message)
        return joined_test(trees).text

    def check_quantifier(self, quantifier: Quantifier) -> None:
        """Raise `MatchError` for a quantifier that the language does not have."""
        if quantifier.is_cypher and self.dialect != "cypher":
            least, most = quantifier.least, "" if quantifier.most is None else str(quantifier.most)
            instead = f"{{{least}}}" if quantifier.most == least else f"{{{least},{most}}}"
            if (least, quantifier.most) == (1, None):
                instead = "+"
            self._fail(
                quantifier.at,
                f"{quantifier.text} is written as in Cypher, where the edges of a clause are different: write {instead} "
                "behind the edge, as in -[:a]->" + instead + ', or pass language="cypher"',
            )

    def expression(self, text: str, at: int) -> automata.Expression:
        try:
            return parse_expression(text)
        except automata.ExpressionError as error:
            self._fail(at, f"the path {text} is not understood: {error.message}")


def nameless_node(at: int) -> NodePattern:
    return NodePattern(None, None, (), None, at)


def has_trails(connector: EdgePattern | QuantifiedGroup, *, ends_differ: bool = False) -> bool:
    """Return whether all pairs of an edge or a quantified path are pairs of trails.

    One edge is a trail, and so is a shortest path along edges of one direction, or between ends that differ.
    """
    edge: Any = connector
    if isinstance(connector, QuantifiedGroup):
        edges = [one for one in connector.elements if not isinstance(one, NodePattern)]
        edge = edges[0] if len(edges) == 1 else connector
        if not isinstance(edge, EdgePattern) or edge.quantifier is not None:
            return False
    if connector.quantifier is None:
        return True
    return (edge.direction != "either" or ends_differ) and connector.quantifier.least == 1
