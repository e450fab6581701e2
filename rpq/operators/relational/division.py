"""The division of a network of operators over threads, each of which runs it over its own values of one column."""

from __future__ import annotations

from rpq.operators.relational.groups import GroupNode
from rpq.operators.relational.joins import MatchNode
from rpq.operators.relational.nodes import DistinctNode, ExtendNode, FilterNode, LeafNode, Node, ProjectNode, UnionNode


def divides(node: Node, column: str) -> bool:
    """Return whether the rows of a node with some values of a column follow from those rows of the leaves alone.

    Then the bag of the node is the sum of those that threads compute of their values: rows that meet in a join, a group or a
    duplicate have the same value. O(nodes).
    """
    if column not in node.sure:
        return False
    match node:
        case LeafNode():
            return True
        case ProjectNode():
            return node.sources()[column] == column and divides(node.inputs[0], column)
        case MatchNode():
            return column in node.key and all(divides(one, column) for one in node.inputs)
        case FilterNode() | ExtendNode() | DistinctNode() | UnionNode() | GroupNode():  # a group's keys are columns
            return all(divides(one, column) for one in node.inputs)
    return False
