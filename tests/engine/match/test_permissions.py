"""What users may see, by rights in groups and folders, without what they are blocked from and with what is public.

MATCH, where public is a test of nodes, and SPARQL, where it is an edge, have the answers of a search.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import examples

pytest.importorskip("lark", reason="the extra match is not installed")

Edge = tuple[str, str, str]
"""Source, label, target."""

ONLINE = ["user:0", "user:1"]
RIGHTS = "member*/(viewer|editor|owner)/^parent*"
PATH = "MATCH ANY (u)-[:member]->*()-[:{}]->()<-[:parent]-*(d)"
ALLOWED = f"WHERE id(u) IN $online AND NOT EXISTS {{ {PATH.format('blocked')} }} RETURN DISTINCT u, d"
MATCH = f"{PATH.format('viewer|editor|owner')} {ALLOWED} UNION MATCH (u), ANY (p:Public)<-[:parent]-*(d) {ALLOWED}"
SPARQL = """
SELECT DISTINCT ?u ?d {
  VALUES ?u { <user:0> <user:1> }
  { ?u (<member>*/(<viewer>|<editor>|<owner>)/^<parent>*){1} ?d } UNION { ?p <type> <Public> . ?d <parent>* ?p }
  FILTER NOT EXISTS { ?u (<member>*/<blocked>/^<parent>*){1} ?d }
}
"""


def drawn(*kinds: str) -> st.SearchStrategy[str]:
    return st.builds("{}:{}".format, st.sampled_from(kinds), st.integers(0, 2))


EDGES = st.one_of(
    st.tuples(drawn("user", "group"), st.just("member"), drawn("group")),
    st.tuples(drawn("document", "folder"), st.just("parent"), drawn("folder")),
    st.tuples(drawn("user", "group"), st.sampled_from(["viewer", "owner", "blocked"]), drawn("document", "folder")),
    st.tuples(drawn("document", "folder"), st.just("type"), st.just("Public")),
)
"""The steps of a stream: each inserts an edge, or deletes it if it is there."""


def reached(edges: set[Edge], begin: set[str], label: str, *, backwards: bool = False) -> set[str]:
    """Return the vertices at the end of paths of edges with a label, of any length."""
    pairs = {(target, source) if backwards else (source, target) for source, of_edge, target in edges if of_edge == label}
    found = set(begin)
    while more := {after for before, after in pairs if before in found} - found:
        found |= more
    return found


def may_see(edges: set[Edge], user: str, rights: set[str], *, public: bool = False) -> set[str]:
    """Return what a user has one of the rights on, or also what is public."""
    groups = reached(edges, {user}, "member")
    begin = {target for source, label, target in edges if source in groups and label in rights}
    begin |= {source for source, label, _ in edges if label == "type" and public}
    return reached(edges, begin, "parent", backwards=True)


@examples(100)
@given(steps=st.lists(EDGES, min_size=1, max_size=25))
def test_what_users_may_see_is_what_a_search_finds(steps):
    window = rpq.UnboundedWindow()
    engine = rpq.Engine(
        rpq.Query(MATCH, window=window, name="match", parameters={"online": ONLINE}, node_label=None, semantics="explicit"),
        rpq.Query(SPARQL, window=window, name="sparql", semantics="explicit"),
    )
    engine.push_nodes([{"node": user} for user in ONLINE])
    edges: set[Edge] = set()
    told: dict[str, set[tuple[str, str]]] = {"match": set(), "sparql": set()}
    for time, (source, label, target) in enumerate(steps):
        edges ^= {(source, label, target)}
        is_there = (source, label, target) in edges
        changes = [(engine.insert if is_there else engine.delete)(source, target, label, time)]
        if label == "type":
            changes.append(engine.set_node(source, labels=[target]) if is_there else engine.remove_node(source))
        for row in (row for one in changes for row in one.rows()):
            assert ((row.u, row.d) in told[row.query]) == (row.op == "-")
            told[row.query] ^= {(row.u, row.d)}
        rights = {"viewer", "owner"}
        seen = {user: may_see(edges, user, rights, public=True) - may_see(edges, user, {"blocked"}) for user in ONLINE}
        assert told["match"] == told["sparql"] == {(user, one) for user in ONLINE for one in seen[user]}
        for user in ONLINE:
            assert {pair[1] for pair in engine.find(RIGHTS, source=user)} == may_see(edges, user, rights)
            assert (engine.check(RIGHTS, user, "document:0") is not None) == ("document:0" in may_see(edges, user, rights))
