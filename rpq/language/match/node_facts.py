"""Facts of nodes in MATCH: tests of labels and properties, values of properties, and the vertices that there are.

Facts are edges over a window of their own that nothing leaves (`rpq.stream.names.stream_labels`): a loop for a test, and an
edge to a vertex that stands for the value of a property. So they are atoms of the algebra, joined with all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpq.automata.expressions import Label
from rpq.language.conditions import Condition, condition_text, node_test_of
from rpq.language.match.condition_trees import condition_nodes, filter_tree, rename
from rpq.language.match.tree import LABELS_OF, EdgePattern, LabelTree, MatchExists, MatchText, NodePattern, walk
from rpq.language.pattern import Atom, Constant, Term, Variable, node_column
from rpq.language.sparql.algebra import (
    BETWEEN_LABELS,
    Aggregate,
    Conjunction,
    Distinct,
    Filter,
    FunctionCall,
    Group,
    Operator,
    Project,
    UnboundedExtent,
    WindowAtom,
    WindowDeclaration,
    make_union,
)
from rpq.language.where import Logical, Name, Node, Not
from rpq.stream.names.stream_labels import NodeTest, NodeValue

FACTS = WindowDeclaration(name="facts of nodes", stream=None, extent=UnboundedExtent())
"""The window over which facts are read."""


def atom_of_test(term: Term, test: str) -> WindowAtom:
    """Return the atom that a vertex satisfies a test, or with an empty one that it has a record."""
    return WindowAtom(Atom(term, Label(NodeTest("node", test)), term), FACTS.name)


def atom_of_value(term: Term, variable: str, property: str) -> WindowAtom:
    """Return the atom that binds the vertex that stands for a property of a vertex variable."""
    return WindowAtom(Atom(term, Label(NodeValue("value", property)), Variable(node_column(variable, property))), FACTS.name)


def reads_facts(tree: MatchText) -> bool:
    """Return whether a text reads properties of nodes other than the name."""
    parts = [*walk(tree.queries)]
    edges = {one.variable for one in parts if isinstance(one, EdgePattern)}

    def is_fact(part: Any) -> bool:
        if isinstance(part, NodePattern):
            return any(entry.name != "id" for entry in part.properties)
        return isinstance(part, Name) and is_property(part) and part.name.partition(".")[0] not in edges

    return any(map(is_fact, parts))


def is_property(name: Name) -> bool:
    """Return whether a name is a property of a variable other than `id`."""
    _, dot, attribute = name.name.partition(".")
    return bool(dot) and attribute != "id"


# --- tests ---------------------------------------------------------------------------------------------------------


def label_condition(label: LabelTree, column: int) -> Node | None:
    """Return the condition that a record has labels, or None if `%` is among them.

    >>> condition_text(label_condition(LabelTree("!", parts=(LabelTree("name", "A"),)), 1))
    'not :A'
    """
    if label.operator == "name":
        return Name(f":{label.name}", column=column)
    parts = [label_condition(part, column) for part in label.parts]
    if label.operator == "%" or None in parts:
        return None
    if label.operator == "!":
        return Not(parts[0], column=column)  # type: ignore[arg-type]
    return Logical("and" if label.operator == "&" else "or", tuple(parts), column=column)  # type: ignore[arg-type]


def own_test(condition: Any, variable: str | None, *, has_labels: bool) -> Node | None:
    """Return a condition that reads one node alone as one on its facts; None if it reads anything else.

    With `has_labels` the condition may test labels, which are those of records.
    """
    names: dict[Name | MatchExists, Node | str] = {}
    for node in condition_nodes(condition):
        match node:
            case Name(name):
                owner, dot, attribute = name.partition(".")
                if owner != variable or attribute == LABELS_OF or attribute.startswith(":"):
                    return None
                names[node] = attribute if dot else "id"
            case MatchExists(node=Name(name)) if has_labels and name == variable:
                (label,) = (one.label for one in node.pattern.paths[0].elements if isinstance(one, NodePattern))
                found = None if label is None else label_condition(label, node.column)
                if found is None:
                    return None
                names[node] = found
    return filter_tree(rename(condition, names), "cypher") if names else None


def joined_test(trees: Sequence[Node]) -> Condition:
    """Return the test that all conditions on a node are. Raises `WhereError`."""
    return node_test_of(" and ".join(f"({condition_text(tree)})" for tree in trees))


def holds_without_record(test: Condition) -> bool:
    """Return whether a vertex without a record may satisfy a test: it has no labels, and null for every property.

    >>> [holds_without_record(node_test_of(text)) for text in ("risk > 3", "risk is null", ":A", "not :A")]
    [False, True, False, True]
    """
    import pyarrow as pa

    from rpq.language.predicate import ColumnKind, Predicate

    where = test.where
    if "id" in where.names:
        return True
    kinds = {name: "boolean" if name.startswith(":") else "unknown" for name in where.names}
    predicate = Predicate(where, {name: ColumnKind(key=name, kind=kind) for name, kind in kinds.items()})
    columns = {name: pa.array([False]) if kind == "boolean" else pa.nulls(1) for name, kind in kinds.items()}
    return bool(predicate.mask(columns, 1)[0][0])


# --- the vertices that there are -----------------------------------------------------------------------------------

_LABEL, _OTHER_END = Variable(".label"), Variable(".other end")


def universe(name: str, *, node_label: str | None, has_nodes: bool) -> Operator:
    """Return every vertex once, as a variable: those with a record, and those at an end of an edge.

    Of edges with the node label the targets are labels of nodes, and no vertices.
    """
    node = Variable(name)
    targets: Operator = Conjunction((WindowAtom.of_every_label(_OTHER_END, _LABEL, node),))
    if node_label is not None:
        same = FunctionCall("SAMETERM", (_LABEL, Constant(node_label)))
        targets = Filter(targets, FunctionCall("!", (same,)))
    records = [Conjunction((atom_of_test(node, ""),))] if has_nodes else []
    sources = Conjunction((WindowAtom.of_every_label(node, _LABEL, _OTHER_END),))
    return Distinct(Project(make_union(sources, targets, *records), (name,)))


def column_of_labels(name: str) -> str:
    """Return the variable of the labels that edges give to a vertex, which is a variable."""
    return f".labels by edges of {name}"


def labels_by_edges(name: str, node_label: str) -> Group:
    """Return for each vertex with an edge of the node label the labels to which such edges lead, as one text.

    >>> labels_by_edges("a", "type").keys
    ('a',)
    """
    label = Variable(f".label of {name}")
    edges = Conjunction((WindowAtom(Atom(Variable(name), Label(node_label), label)),))
    labels = Aggregate("GROUP_CONCAT", FunctionCall("STR", (label,)), False, separator=BETWEEN_LABELS)
    return Group(edges, (name,), ((column_of_labels(name), labels),))
