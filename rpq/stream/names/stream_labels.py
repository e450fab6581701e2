"""The labels of edges: plain ones, those of named streams and graphs, and those with a condition.

A tuple of stream s with label l is an edge of the merged stream, and an edge of s: two edges, which come and go each by
the tuples of its own stream. The snapshot graph and the queries have the second one under a label of its own, "l of s",
so everything that holds of a label (windows, expiry, names, what was lost) holds of it as well.

The same holds for static edges that were loaded as a named graph: their label is that of a stream which no tuple has, so
they are edges of that graph alone, not of the default graph (`stream_of_graph`).

The same holds for conditions on properties, as in `transfer[amount > 1000]`: a tuple with label l that satisfies a condition
c is also an edge with the label "l where c", a `ConditionLabel`.

Facts of nodes are edges as well, which no tuple brings: from a vertex to itself for a test that it satisfies (`NodeTest`),
and to a vertex that stands for the value of a property (`NodeValue`). Queries read them over an unbounded window.

An edge that an edge variable may bind is a vertex of its own between two edges: one from its source, one to its target.
Their labels are an `EdgeEnd` each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rpq.automata.symbols import ConditionLabel, LabelSymbol, StepTests

__all__ = [
    "EDGE_ENDS",
    "OF_GRAPH",
    "STATIC_ALONE",
    "ConditionLabel",
    "EdgeEnd",
    "LabelName",
    "LabelSymbol",
    "NodeLabel",
    "NodeTest",
    "NodeValue",
    "StepTests",
    "StreamLabel",
    "graph_of",
    "is_static_stream",
    "label_in",
    "merged_name",
    "name_in",
    "stream_of_graph",
    "text_of",
]


class StreamLabel(NamedTuple):
    """A label, as the tuples of one stream bear it."""

    label: str
    stream: str


@dataclass(frozen=True, order=False)
class EdgeEnd(ConditionLabel):
    """The label of the edges between vertices and those edges that an expression of one step reads, which are vertices too.

    `label` is the text of the expression, and `condition` one of `EDGE_ENDS`: the edges from the subjects of steps, or those
    to their objects; those of loops are left out for simple paths. `condition` may also have tests of subject and object.

    >>> print(EdgeEnd("transfer", "subject"))
    subject of transfer
    """

    def __str__(self) -> str:
        tests = StepTests.of(self.condition)
        step = f"{tests.edge} of {self.label}"
        return "/".join([*(f"@[{test}]" for test in tests.source), step, *(f"@[{test}]" for test in tests.target)])


@dataclass(frozen=True, order=False)
class NodeLabel(ConditionLabel):
    """The label of edges that stand for facts of nodes; `label` is the same for all of a kind."""


@dataclass(frozen=True, order=False)
class NodeTest(NodeLabel):
    """The label of the edges from vertices that satisfy a test, `condition`, to themselves.

    With an empty test all vertices with a record have one.

    >>> print(NodeTest("node", "risk > 3"))
    node[risk > 3]
    """


@dataclass(frozen=True, order=False)
class NodeValue(NodeLabel):
    """The label of the edges from vertices to those that stand for the value of a property, `condition`, or for its lack.

    >>> print(NodeValue("value", "risk"))
    value[risk]
    """


EDGE_ENDS = ("subject", "object", "subject, no loops,", "object, no loops,")
"""The ends of edges; no condition on properties reads like one of them."""

LabelName = str | StreamLabel | ConditionLabel
"""The name of a label id: a label in the merged stream, with or without a condition, or in a stream that has a name."""


STATIC_ALONE = ""
"""A stream name that no tuple has: a relation over it holds static edges only."""

OF_GRAPH = "\0"
"""The character with which the streams of named graphs begin, and no name of a stream that tuples have."""


def stream_of_graph(graph: str) -> str:
    """Return the name of the stream under whose labels the static edges of a named graph are stored."""
    return OF_GRAPH + graph


def is_static_stream(stream: str | None) -> bool:
    """Return whether a relation over a stream holds static edges only, of the default graph or of a named one."""
    return stream is not None and (stream == STATIC_ALONE or stream.startswith(OF_GRAPH))


def graph_of(name: LabelName) -> str | None:
    """Return the named graph of static edges whose edges have a label; None for labels of the stream.

    >>> graph_of(StreamLabel("a", stream_of_graph("g"))), graph_of(StreamLabel("a", "s")), graph_of("a")
    ('g', None, None)
    """
    if isinstance(name, StreamLabel) and name.stream.startswith(OF_GRAPH):
        return name.stream.removeprefix(OF_GRAPH)
    return None


def label_in(name: LabelName, stream: str | None) -> LabelSymbol | None:
    """Return the label that a reader of a stream (None: the merged one) sees in an edge; None if it does not see the edge.

    >>> label_in("a", None), label_in(StreamLabel("a", "s"), "s"), label_in("a", "s"), label_in(StreamLabel("a", "s"), None)
    ('a', 'a', None, None)
    """
    if isinstance(name, StreamLabel):
        return name.label if name.stream == stream else None
    return name if stream is None else None


def name_in(label: LabelSymbol, stream: str | None) -> LabelName:
    """Return the name of a label in a stream, or in the merged one.

    >>> name_in("a", None), name_in("a", "s")
    ('a', StreamLabel(label='a', stream='s'))
    """
    if stream is None:
        return label
    assert isinstance(label, str), "conditions are on the merged stream alone"
    return StreamLabel(label, stream)


def merged_name(name: LabelName) -> LabelSymbol:
    """Return the name of a label in the merged stream.

    >>> merged_name("a"), merged_name(StreamLabel("b", "s"))
    ('a', 'b')
    """
    return name.label if isinstance(name, StreamLabel) else name


def text_of(name: LabelName) -> str:
    """Return the label alone, as the tuples have it.

    >>> text_of("a"), text_of(StreamLabel("b", "s"))
    ('a', 'b')
    """
    return name if isinstance(name, str) else name.label or ""
