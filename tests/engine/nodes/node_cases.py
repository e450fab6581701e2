"""Streams of edges and records of nodes with the rows that they bring, worked by hand.

A line is a step and, after three spaces or more, its rows. Steps: `x a y 1 n=5` an edge from x to y at 1, `- x a y 3` a
delete, `node y :A risk=4 @7` a record (`node=` and `node-` with these ops), `to 9` time that passes, and `register`, with
which the second query comes.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.engine.nodes.node_queries import Described
from tests.reference_nodes import PathOrder


class Case(NamedTuple):
    """A query, perhaps a second one for the step `register`, and steps with their rows."""

    query: Described
    steps: str
    identity: str = "triple"
    second: Described | None = None


RISKY = "a/@[risk > 3]"

CASES = {
    "a record before its edges": Case(Described(RISKY), """
        node y risk=4
        x a y 1          + x y @1
        x a z 2
    """),
    "a record after its edges": Case(Described(RISKY), """
        x a y 1
        node y risk=4    + x y @1
        node y risk=5
        node z risk=5
    """),
    "in the middle of a path": Case(Described("a/@[:Account]/b"), """
        x a y 1
        y b z 2
        node y :Account   + x z @2
        node y :Person
        node- y          - x z @2
    """),
    "an answer that a record ends, in implicit windows": Case(Described(RISKY), """
        node y risk=4
        x a y 1            + x y @1
        node y risk=2 @5   - x y @5
        node y risk=4      + x y @5
        to 11
        node y risk=2
    """),
    "an answer that a record ends, in explicit windows": Case(Described(RISKY, semantics="explicit"), """
        node y risk=4
        x a y 1          + x y @1
        to 11            - x y @11
        node y risk=5 @12
        x a y 13         + x y @13
        node y risk=1    - x y @13
    """),
    "a stale record": Case(Described(RISKY), """
        node y risk=4 @5
        node y risk=2 @3
        x a y 6          + x y @6
        node y risk=2    - x y @6
    """),
    "at one time the later record wins": Case(Described(RISKY), """
        node y risk=4 @5
        node y risk=2 @5
        x a y 6
        node y risk=4 @5    + x y @6
    """),
    "= against later times": Case(Described("@[:A and risk > 3]/a"), """
        node x :A @5
        node x risk=4 @2
        x a y 5          + x y @5
        node= x @1
        node= x @3       - x y @5
        node x risk=4    + x y @5
        node= x risk=4   - x y @5
    """),
    "- against later times": Case(Described("?x[risk is null]"), """
        node x risk=4 @5
        node- x @3
        node x risk=null @6    + x @6
        node- x @1       - x @6
        node- x
    """),
    "what is taken away leaves no time behind": Case(Described(RISKY), """
        node y risk=4 @5
        node y risk=null @7
        x a y 7
        node y risk=9 @1    + x y @7
    """),
    "a null": Case(Described("a/@[risk is null]"), """
        x a y 1          + x y @1
        node y risk=4    - x y @1
        node y risk=null   + x y @1
    """),
    "a null is neither": Case(Described("a/@[not risk > 3]"), """
        x a y 1
        node y :A
        node y risk=1    + x y @1
        node- y          - x y @1
    """),
    "a constant": Case(Described("x[:Open] a ?y"), """
        x a y 1
        z a y 1
        node x :Open     + y @1
        node- x          - y @1
    """),
    "both ends": Case(Described("@[:A]/a/@[:B]"), """
        node x :A
        x a y 1
        node y :B        + x y @1
        node x :C
        node= x :C       - x y @1
    """),
    "inside a repetition": Case(Described("(a/@[risk < 3])+"), """
        node y risk=1
        node z risk=1
        x a y 1          + x y @1
        y a z 2          + x z @2, + y z @2
        node y risk=5    - x y @2, - x z @2
        node y risk=2    + x y @2, + x z @2
    """),
    "under an inverse": Case(Described("^(@[:A]/a)"), """
        x a y 1
        node y :A
        node x :A        + y x @1
    """),
    "a vertex in no edge": Case(Described("?x[:A]"), """
        node v :A
        x a y 1          + v @1
        node x :A        + x @1
        node w risk=4
        node= v          - v @1
    """),
    "a test beside an atom needs no record": Case(Described("?x[!:A] a ?y"), """
        x a y 1          + x y @1
        node x :B
        node x :A        - x y @1
    """),
    "a label by record and by edge": Case(
        Described("?a[:P] ?e:t ?b", select="a b", match="MATCH (a:P)-[:t]->(b) RETURN a, b"), """
        x t y 1
        x type P 2       + x y @2
        node x :P
        - x type P 3
        node- x          - x y @3
    """),
    "labels by records alone": Case(
        Described("?a[:P] ?e:t ?b", select="a b", match="MATCH (a:P)-[:t]->(b) RETURN a, b", node_label=None), """
        x t y 1
        x type P 2
        node x :P        + x y @2
    """),
    "all vertices": Case(
        Described("?a", select="a", match="MATCH (a) RETURN a", semantics="explicit"), """
        x t y 1          + x @1, + y @1
        z type P 2       + z @2
        node w           + w @2
        node z :P
        to 11            - x @11, - y @11
        to 12
        node- z          - z @12
    """),
    "a self-loop": Case(Described("?x[risk > 3] a ?x[risk < 9]", select="x"), """
        x a x 1
        node x risk=4    + x @1
        node x risk=10   - x @1
    """),
    "an ordered path through a vertex that was risky only for a while": Case(
        Described("a/@[risk > 3]/a", order=PathOrder()), """
        x a y 1
        node y risk=5 @2
        node y risk=1 @3
        y a z 4
        node y risk=5 @6   + x z @6
        node y risk=1 @7   - x z @7
    """, "parallel"),
    "a late edge": Case(Described(RISKY), """
        to 9
        node y risk=4
        x a y 3          + x y @9
        w a y -1
    """),
    "a record moves time": Case(Described("a", semantics="explicit"), """
        x a y 1          + x y @1
        node z risk=1 @11    - x y @11
    """),
    "registering in mid-stream": Case(Described("a"), """
        x a y 1          + x y @1
        node y risk=4
        register         q2 + x y @1
        node y risk=1    q2 - x y @1
    """, second=Described(RISKY, name="q2")),
    "two queries with one test": Case(Described(RISKY), """
        register
        node y risk=4
        x a y 1          + x y @1
        y b y 2          q2 + y y @2
        node y risk=1    - x y @2, q2 - y y @2
    """, second=Described("@[risk > 3]/b/@[risk > 3]", name="q2")),
    "a selected property": Case(Described("?x a ?y", select="x y y.risk"), """
        x a y 1          + x y None @1
        node y risk=4    - x y None @1, + x y 4 @1
        node y risk=4 @1
        node y risk=5 @2    - x y 4 @2, + x y 5 @2
        node- y          - x y 5 @2, + x y None @2
    """),
    "a filter of two vertices": Case(Described("?x a ?y", filter="?y.risk > ?x.risk"), """
        x a y 1
        node x risk=1
        node y risk=2    + x y @1
        node x risk=3    - x y @1
    """),
    "a filter of an edge and a vertex": Case(Described("?x ?e:a ?y", select="x y e.n", filter="?e.n > ?y.most"), """
        x a y 1 n=5
        node y most=4    + x y 5 @1
        x a y 2 n=4      - x y 5 @2
        node y most=3    + x y 4 @2
    """),
    "words without an edge": Case(Described("a?/@[risk > 3]"), """
        node x risk=4
        x a y 1
        node y risk=4    + x y @1
    """),
    "a count window": Case(Described(RISKY, window="count", size=2, semantics="explicit"), """
        x a y 1
        node y risk=4    + x y @1
        node z risk=1
        u a y 2          + u y @2
        v a y 3          - x y @3, + v y @3
    """),
    "simple paths": Case(Described("(a/@[risk > 3])+", paths="simple"), """
        x a y 1
        y a x 2
        node x risk=4    + y x @2
        node y risk=4    + x y @2
    """),
    "lengths": Case(Described("(a/@[risk < 3])+", select="source target length", semantics="explicit", size=20), """
        node v risk=1
        node w risk=1
        node y risk=1
        node z risk=1
        x a y 1          + x y 1 @1
        y a z 2          + x z 2 @2, + y z 1 @2
        x a w 3          + x w 1 @3
        w a v 4          + w v 1 @4, + x v 2 @4
        v a z 5          + v z 1 @5, + w z 2 @5
        node y risk=5    - x y 1 @5, - x z 2 @5, + x z 3 @5
        node y risk=0    + x y 1 @5, - x z 3 @5, + x z 2 @5
    """),
    "reports at boundaries": Case(Described("?x a ?y[risk > 3]", report="slide", slide=5), """
        node y risk=4
        x a y 1
        node y risk=1 @3
        node y risk=5 @4
        to 6             + x y @5
        node y risk=1 @8
        node y risk=5 @9
        to 11
        node y risk=1 @12
        node y risk=5 @13
        to 16            - x y @15
    """),
    "reports of moments": Case(Described("?x a ?y[risk > 3]", report="time"), """
        x a y 1
        node y risk=4
        node y risk=1
        to 2
        node y risk=4
        to 3             + x y @2
        node y risk=1 @5
        z a y 6          - x y @5
        node y risk=4
        to 7             + x y @6, + z y @6
    """),
    "parallel edges": Case(Described("?x ?e:a ?y[risk > 3]", select="x e"), """
        x a y 1
        x a y 1
        node y risk=4    + x 1 @1, + x 2 @1
        node y risk=1    - x 1 @1, - x 2 @1
    """, "parallel"),
    "an edge with an id that goes elsewhere": Case(Described(RISKY), """
        node y risk=4
        x a y 1 edge=7   + x y @1
        x a z 2 edge=7   - x y @2
    """, "id"),
    "a condition on the edge beside a test": Case(Described("a[n > 1]/@[risk > 3]|b"), """
        x a y 1 n=5
        node y risk=4    + x y @1
        x b y 2
        node y risk=1
        - x b y 3        - x y @3
    """),
    "an alternative without a test": Case(Described("a/(@[risk > 3]|b)"), """
        x a y 1
        y b z 2          + x z @2
        node y risk=4    + x y @2
        node z risk=4
    """),
    "a negated set": Case(Described("!(b)/@[:A]"), """
        x a y 1
        x b z 1
        node z :A
        node y :A        + x y @1
    """),
}  # fmt: skip
