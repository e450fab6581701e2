"""Motifs of GraphFrames as queries: the rows that their definition gives, and what is refused by name."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

pytest.importorskip("lark", reason="the extra match is not installed")

from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq import motif
from tests.twins import examples

WINDOW = rpq.Window(size=6, slide=2)

Edge = tuple[str, str, str]

# The motif, its labels, and the same as terms: source, label or None for any, target, whether negated.  Vertices in capitals
# are anonymous.
MOTIFS = [
    ("(a)-[e]->(b)", None, [("a", None, "b", False)]),
    ("(a)-[e]->(b); (b)-[]->(c)", {"e": "T"}, [("a", "T", "b", False), ("b", None, "c", False)]),
    ("(a)-[]->(b);(b)-[]->(a)", "T", [("a", "T", "b", False), ("b", "T", "a", False)]),
    ("(a)<-[]->(b)", {"": "T"}, [("a", "T", "b", False), ("b", "T", "a", False)]),
    ("(a)-[]->(b); !(b)-[]->(a)", None, [("a", None, "b", False), ("b", None, "a", True)]),
    ("(a)-[e]->(b); ! (b)-[*2]->()", {"": "S"}, [("a", None, "b", False), ("b", "SS", "X", True)]),
    ("( u ) - [ ] -> ( )", None, [("u", None, "X", False)]),
    ("(a)<-[e]-(b); (a)", {"e": "S"}, [("b", "S", "a", False)]),
    ("(a)-[e*2]->(c)", {"e": "T"}, [("a", "T", "X", False), ("X", "T", "c", False)]),
]


def rows_by_definition(terms: list[tuple[str, str | None, str, bool]], edges: list[Edge]) -> Counter[tuple[str, ...]]:
    """Return the named vertices of every choice of edges for the terms that are not negated, by brute force."""
    positive = [term for term in terms if not term[3]]
    names = list(dict.fromkeys(name for source, _, target, _ in positive for name in (source, target) if name.islower()))
    found: Counter[tuple[str, ...]] = Counter()
    for chosen in itertools.product(edges, repeat=len(positive)):
        bound: dict[str, str] = {}
        for (source, label, target, _), (tail, head, kind) in zip(positive, chosen, strict=True):
            if label not in (None, kind) or bound.setdefault(source, tail) != tail or bound.setdefault(target, head) != head:
                break
        else:
            if not any(joins(bound, term, edges) for term in terms if term[3]):
                found[tuple(bound[name] for name in names)] += 1
    return found


def joins(bound: dict[str, str], term: tuple[str, str | None, str, bool], edges: list[Edge]) -> bool:
    """Return whether edges with the labels of a negated term, one letter each, lead from its source to its target."""
    source, labels, target, _ = term
    ends = {bound[source]}
    for label in labels or [None]:
        ends = {head for tail, head, kind in edges if tail in ends and label in (None, kind)}
    return bool(ends) if target.isupper() else bound[target] in ends


def in_order(rows: Counter[tuple[str, ...]], columns: tuple[str, ...], terms: list) -> Counter[tuple[str, ...]]:
    positive = [term for term in terms if not term[3]]
    names = list(dict.fromkeys(name for source, _, target, _ in positive for name in (source, target) if name.islower()))
    return Counter({tuple(row[names.index(name)] for name in columns): count for row, count in rows.items()})


@pytest.mark.parametrize(("text", "labels", "terms"), MOTIFS)
@examples(60)
@given(
    stream=st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz"), st.sampled_from("TS"), st.integers(0, 2)), max_size=9
    )
)
def test_a_motif_has_the_rows_of_its_definition(text, labels, terms, stream):
    query = motif(text, window=WINDOW, labels=labels, semantics="explicit")
    engine = rpq.Engine(query, edges="parallel")
    time, edges, answers = 0, [], Counter()
    for source, target, label, step in stream:
        time += step
        edges.append((source, target, label, time))
        for row in engine.insert(source, target, label, time).rows():
            answers[tuple(row)[1:-2]] += 1 if row.op == "+" else -1
        bound = WINDOW.lower_bound(time=time)
        valid = [edge[:3] for edge in edges if edge[3] > bound]
        assert +answers == in_order(rows_by_definition(terms, valid), query.columns, terms)
        engine._check()


def test_columns_conditions_and_the_name_are_those_asked_for():
    query = motif(
        "(a)-[e]->(b); (b)-[f]->(c)", window=WINDOW, select=["c", "e.n"], where="f.n > e.n OR a = b", distinct=True, name="q"
    )
    assert query.expression.endswith("WHERE (f.n > e.n OR a = b) RETURN DISTINCT c, e.n")
    assert (tuple(query.columns), query.name) == (("c", "e.n"), "q")
    assert motif(" (a)-[]->(b)", window=WINDOW).name == " (a)-[]->(b)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a)->(b)", r"the term '(a)->(b)' of the motif is not understood; expected an edge, as in (a)-[e]->(b)"),
        ("(a)-[]->(b);", "the term '' of the motif is not understood"),
        ("!(a)-[]->(b)", "a motif needs an edge that is not negated"),
        ("!(a); (a)-[]->(b)", "'!(a)' is not an edge; only edges can be negated"),
        ("(a)-[]->(b); ()-[]->()", "()-[]->() names nothing: name a vertex or the edge"),
        ("(a)-[]->(b); !(b)-[e]->(a)", "a negated edge cannot have a name: write !(b)-[]->(a)"),
        ("(a)-[]->(b); !(b)-[]->(c)", "(c) is in no edge that is not negated, so it could be any vertex"),
        ("(a)-[]->(b); !(b)-[]-(a)", "a negated edge needs a direction: write !(b)-[]->(a)"),
        ("(a)-[]->(b); (c)", "(c) is in no edge, and every vertex needs one: add it, as in (c)-[]->()"),
        ("(a)<-[e]->(b)", "is two edges: write (a)-[e1]->(b); (b)-[e2]->(a)"),
        ("(a)<-[]->()", "both edges end at the same vertex: name it"),
        ("(a)-[e]->(b); (b)-[e]->(c)", "another edge also has the name e"),
        ("(a)-[a]->(b)", "a is the name of a vertex and of an edge; use two names"),
        ("(1)-[]->(b)", "the name 1 begins with a digit: write _1"),
        ("(a)-[*0]->(b)", "a length is a number from 1 to 100, not 0"),
        ("(a)-[*2]-(b)", "paths of a length have a direction: write (a)-[*2]->(b)"),
        ("(a)-[*1..3]->(b)", "rpq.Query('MATCH ANY (a)-[]->{1,3}(b) RETURN a, b')"),
        ("(a)-[*]->(b)", "rpq.Query('MATCH ANY (a)-[]->{1,}(b) RETURN a, b')"),
        ("()-[e]->()", "select: the motif names no vertex"),
    ],
)
def test_what_no_query_can_say_is_refused_with_what_to_write(text, message):
    with pytest.raises(rpq.QueryError) as error:
        motif(text, window=WINDOW)
    assert message in str(error.value)


def test_labels_of_edges_that_are_not_there_are_refused():
    with pytest.raises(rpq.QueryError, match=r"labels: the motif has no edge \[f\]; its edges are e"):
        motif("(a)-[e]->(b)", window=WINDOW, labels={"f": "T"})


@pytest.mark.parametrize("path", ["MATCH ANY (a)-[]->{1,3}(b) RETURN a, b", "MATCH ANY (a)-[]->{1,}(b) RETURN a, b"])
def test_what_refusals_say_to_write_is_a_query(path):
    assert tuple(rpq.Query(path, window=WINDOW).columns) == ("a", "b")
