"""Edges with ids: what is refused, and what leaves with them.

semantics.md S14
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import rpq
from tests.engine.edges.edge_streams import WINDOW, restored


def by_id(*queries: rpq.Query, **options) -> rpq.Engine:
    return rpq.Engine(*(queries or (rpq.Query("a", window=WINDOW),)), edges="id", **options)


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ({"edge": ["e", None], "op": "++"}, 1, "an insert needs one"),
        ({"edge": ["e", ""], "op": "++"}, 1, "is empty"),
        ({"op": "-+"}, 1, "an insert needs one"),
        ({"edge": pa.array(["e", ""]), "op": "++"}, 1, "is empty"),
        ({"edge": ["e", 7], "op": "++"}, 1, "ids of edges are of type string"),
        ({"edge": [7, 2**70], "op": "++"}, 1, "does not fit into 64 bits"),
        ({"edge": [1.5, 2.5], "op": "++"}, 0, "ids of edges are integers of 64 bits or text"),
        ({"edge": pa.array([3, 2**63], pa.uint64()), "op": "++"}, 1, "does not fit into 64 bits"),
        ({"edge": pa.array([3, None]), "op": "++"}, 1, "an insert needs one"),
        ({"edge": [None, "e"], "op": "--", "source": [None, None]}, 0, "column 'source'"),
    ],
)
def test_ids_that_are_refused(columns, row, message):
    engine = by_id()
    given = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 1]} | columns
    with pytest.raises(rpq.InputError, match=re.escape(message)) as bad:
        engine.push({**given, "op": list(columns["op"])})
    assert bad.value.row == row
    assert bad.value.changes.added == (columns["op"][0] == "+") * row
    engine._check()
    edge = 1 if str(columns.get("edge", "e")[0]).isdigit() else "new"
    assert engine.insert("u", "v", "a", 2, edge=edge).added == 1


def test_the_kind_of_ids_is_that_of_the_first():
    engine = by_id()
    engine.insert("x", "y", "a", 1, edge=7)
    for other in ("7", pa.array(["7"])):
        given = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}
        with pytest.raises(rpq.InputError, match="row 0: column 'edge': '7' is string in a stream whose"):
            engine.push({**given, "edge": [other] if isinstance(other, str) else other})
    assert restored(engine).delete(None, None, None, 1, edge=7).removed == 1
    empty = restored(by_id())
    assert empty.delete(None, None, None, 1, edge="e").removed == 0
    assert empty.insert(1, 2, "a", 1, edge="e").added == 1  # a delete by id says nothing of vertices


def test_ids_need_an_engine_whose_edges_have_them():
    engine = rpq.Engine(rpq.Query("a", window=WINDOW))
    with pytest.raises(rpq.InputError, match='edges="id"'):
        engine.insert("x", "y", "a", 1, edge="e")
    with pytest.raises(rpq.InputError, match='edges="id"'):
        engine.delete(None, None, None, 1, edge="e")
    assert engine.push(source=["x"], target=["y"], label=["a"], timestamp=[1], edge=["e"]).added == 1  # a further column


def test_ids_and_names_leave_with_their_edges():
    engine = by_id(_capacity=4)
    for time in range(0, 450, 3):
        engine.push(source=[f"s{time}"], target=[f"t{time}"], label=["ac"[time % 2]], timestamp=[time], edge=[f"e{time}"])
    engine._check()
    assert engine.statistics().vertices_live <= 64
    for time in range(450, 800):  # one edge that moves leaves no groups behind
        engine.insert(f"s{time}", "t", "a", time, edge="e")
    assert engine.statistics().edges_live == 1


def test_many_parallel_edges_by_id():
    """Deleting the younger ones brings the older ones back, and each delete finds what is left at once."""
    engine = by_id(rpq.Query("a[n > 1]", window=rpq.UnboundedWindow(), name="q"))
    count = 20_000
    same = {"source": ["x"] * count, "target": ["y"] * count, "label": ["a"] * count}
    numbers = list(range(count))
    assert engine.push({**same, "timestamp": numbers, "edge": numbers, "n": [2] * count}).added == 1
    ids = {"edge": numbers[:0:-1], "op": ["-"] * (count - 1), "timestamp": [count] * (count - 1)}
    nothing = [None] * (count - 1)
    assert engine.push({"source": nothing, "target": nothing, "label": nothing, **ids}).removed == 0
    assert engine.delete(None, None, None, count, edge=0).removed == 1
    engine._check()


def test_a_query_that_would_need_forgotten_edges_is_refused():
    """That an edge got another label is to be known as long as its older versions may come."""
    engine = by_id(rpq.Query("a", window=rpq.Window(size=10, slide=5)))
    engine.insert("x", "y", "a", 1, edge="e")
    engine.insert("x", "y", "c", 5, edge="e")
    engine.insert("u", "v", "a", 30, edge="f")
    with pytest.raises(rpq.RegistrationError, match="were removed") as refused:
        engine.register(rpq.Query("a", window=rpq.Window(size=40, slide=5), name="late"))
    assert refused.value.available_from == 45
    with pytest.raises(rpq.RegistrationError, match="such as one with timestamp"):
        engine.register(rpq.Query("a", window=rpq.UnboundedWindow(), name="late"))
    with pytest.raises(rpq.RegistrationError, match="leave out start"):
        engine.register(rpq.Query("a", window=rpq.Window(size=10, slide=5), name="late"), start="empty")
    assert engine.register(rpq.Query("a", window=rpq.Window(size=10, slide=5), name="late")).added == 1


def test_deletes_by_id_alone_fit_any_vertices():
    nothing = pa.nulls(1, pa.string())
    engine = by_id()
    engine.insert(1, 2, "a", 1, edge="e")
    delete = {"source": nothing, "target": nothing, "label": nothing, "timestamp": [2], "op": ["-"], "edge": ["e"]}
    assert engine.push(pa.table(delete)).removed == 1
    assert engine.push({**delete, "source": [None]}).removed == 0
