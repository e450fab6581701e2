"""The index of ordered paths: its cells are those of all paths forward, step by step, however tuples come.

semantics.md S15
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.language.query import PAIR_AND_LENGTH
from rpq.operators.paths.ordered import ordered_index
from tests.engine.test_engine_properties import SEEDS
from tests.reference_order import PathOrder, ordered_lengths, ordered_pairs
from tests.reference_properties import Edge
from tests.twins import examples, tiny

EXPRESSIONS = ("a", "a+", "a/b*", "a/b/a", "(a|b)+", "a/^a", "a/a", "(a|^b)+", "^a/b?", "(a/b)+", "a*/^b")
WINDOWS = ((20, 3), (7, 7), (40, 1), (10, 2))


class Stream:
    """Tuples over a few vertices, and the edges that a window has of them."""

    def __init__(self, seed: int, *, size: int, slide: int, vertices: int = 5) -> None:
        self.random = random.Random(seed)
        self.vertices = vertices
        self.size, self.slide = size, slide
        self.edges: list[Edge] = []
        self.time = self.now = self.number = 0

    def tuples(self, count: int, *, late: bool, deletes: bool) -> list[tuple]:
        """Draw tuples, the next ones of the stream; what they leave is in `edges`."""
        draw, found = self.random, []
        for _ in range(count):
            self.time += draw.choice((0, 0, 1, 1, 2)) if draw.random() < 0.95 else 15
            time = max(0, self.time - (draw.choice((0, 0, 1, 4, 8)) if late else 0))
            ends = draw.randrange(self.vertices), draw.randrange(self.vertices)
            op = "-" if deletes and draw.random() < 0.2 else "+"
            found.append((*ends, draw.choice("ab"), time, op))
            self._apply(*found[-1])
        return found

    def _apply(self, u: int, v: int, label: str, time: int, op: str) -> None:
        self.now, self.number = max(self.now, time), self.number + 1
        low = self.now - self.now % self.slide - self.size
        if op == "-":
            self.edges = [one for one in self.edges if (one.source, one.label, one.target) != (u, label, v)]
        elif time > low:
            self.edges.append(Edge(self.number, u, label, v, time))
        self.edges = [one for one in self.edges if one.timestamp > low]


@st.composite
def queries(draw) -> tuple[rpq.Query, PathOrder]:
    size, slide = draw(st.sampled_from(WINDOWS))
    has_length = draw(st.booleans())
    order = PathOrder(draw(st.booleans()), draw(st.sampled_from((None, None, 3))), draw(st.sampled_from((None, None, 6))))
    query = rpq.Query(
        draw(st.sampled_from(EXPRESSIONS)),
        name="q",
        window=rpq.Window(size=size, slide=slide),
        semantics="explicit" if has_length else draw(st.sampled_from(("explicit", "implicit"))),
        order="increasing" if order.strict else "non_decreasing",
        max_gap=order.gap,
        max_span=order.span,
        select=PAIR_AND_LENGTH if has_length else None,
    )
    return query, order


@examples(80)
@given(SEEDS, queries(), st.data())
def test_cells_are_those_of_all_paths(seed: int, drawn: tuple[rpq.Query, PathOrder], data: st.DataObject) -> None:
    query, order = drawn
    stream = Stream(seed, size=query.window.size, slide=query.window.slide)
    late, deletes = data.draw(st.booleans()), data.draw(st.booleans())
    capacity = data.draw(st.sampled_from((1, 2, 16)))
    engine = tiny(capacity)(query, edges="parallel", threads=data.draw(st.sampled_from((1, 2))))
    held: set[tuple] = set()
    for _ in range(12):
        changes = engine.push_rows(stream.tuples(stream.random.choice((1, 1, 3, 8)), late=late, deletes=deletes))
        found = ordered_lengths(query.expression, stream.edges, order)
        expected = {(*pair, length) for pair, length in found.items()} if query.has_length else {*found}
        assert engine.answers().pairs() == expected
        for row in changes:
            (held.add if row.op == "+" else held.discard)(row[1:-2])
        if query.semantics == "explicit":
            assert held == expected
        engine._check()


@pytest.mark.parametrize("order", ["increasing", "non_decreasing"])
def test_a_moment_goes_on_in_the_next_push(order: str) -> None:
    """Under a strict order edges of one timestamp do not follow each other, whatever comes between them."""
    window = rpq.Window(size=50, slide=1)
    engine = tiny(1)(rpq.Query("a+", window=window, order=order), edges="parallel")
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    engine.push_rows([("z", "w", "a", 2)])
    assert (("x", "w") in engine.answers().pairs()) == (order == "non_decreasing")
    engine.push_rows([("w", "v", "a", 2)])
    engine._check()
    # A late edge ends the copies: what follows of the moment comes late too, with the same rows.
    engine.push_rows([("y", "u", "a", 1), ("u", "t", "a", 2), ("v", "s", "a", 2)])
    engine._check()
    assert (("y", "t") in engine.answers().pairs()) and ((("x", "t") in engine.answers().pairs()) == (order != "increasing"))


def test_one_edge_that_is_walked_both_ways_reads_what_was_before_it() -> None:
    engine = tiny(1)(rpq.Query("t/^t", window=rpq.Window(size=9, slide=1), order="increasing"), edges="parallel")
    engine.push_rows([("x", "y", "t", 1)])
    assert engine.answers().pairs() == set()
    engine.push_rows([("x", "y", "t", 2)])
    assert engine.answers().pairs() == {("x", "x")}
    loops = tiny(1)(rpq.Query("t/t", window=rpq.Window(size=9, slide=1), order="increasing"), edges="parallel")
    loops.push_rows([("x", "x", "t", 1)])
    assert loops.answers().pairs() == set()
    loops.push_rows([("x", "x", "t", 2)])
    assert loops.answers().pairs() == {("x", "x")}


def test_copies_are_found_after_their_table_grew() -> None:
    engine = tiny(1)(rpq.Query("a+", window=rpq.Window(size=50, slide=1), order="increasing"), edges="parallel")
    engine.push_rows([(i + 1, i + 2, "a", 6) for i in range(200)])
    engine.push_rows([(i, i + 1, "a", 7) for i in range(200)])
    engine.push_rows([(i + 1, i + 300, "a", 7) for i in range(200)])
    engine._check()


@pytest.mark.parametrize("ends", [1, 20])
def test_deletes_behind_more_roots_than_a_block_has(ends: int) -> None:
    """Check scans back from one end, and following all roots where there are twenty, for answers of other paths."""
    roots, fans = [(f"r{i}", "h", "a", i) for i in range(100)], [("m", f"e{i}", "a", 110 + i) for i in range(ends)]
    rows = [*roots, ("h", "m", "a", 101), ("h", "k", "a", 102), ("k", "m", "a", 103), *fans]
    engine = tiny(1)(rpq.Query("a/a*", window=rpq.Window(size=1000, slide=10), order="increasing"), edges="parallel")
    engine.push_rows(rows)
    for gone in (("h", "m"), ("h", "k")):
        rows = [row for row in rows if row[:2] != gone]
        engine.push_rows([(*gone, "a", 200, "-")])
        edges = [Edge(i, source, label, target, time, {}) for i, (source, target, label, time) in enumerate(rows)]
        assert engine.answers().pairs() == ordered_pairs("a/a*", edges, PathOrder(strict=True))
        engine._check()


def test_a_witness_tells_the_timestamps_of_its_edges() -> None:
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size=50, slide=1), order="increasing"), edges="parallel")
    engine.push_rows([("y", "z", "b", 1), ("x", "y", "a", 2), ("y", "z", "b", 3), ("x", "y", "a", 4)])
    path = engine.witness("x", "z")
    assert path is not None
    assert (path.vertices, path.labels, path.timestamps) == (("x", "y", "z"), ("a", "b"), (2, 3))


@examples(30)
@given(SEEDS, st.sampled_from(EXPRESSIONS), st.booleans(), st.sampled_from((None, 3)))
def test_nothing_leaves_an_unbounded_window(seed: int, expression: str, strict: bool, gap: int | None) -> None:
    order = "increasing" if strict else "non_decreasing"
    query = rpq.Query(expression, window=rpq.UnboundedWindow(), order=order, max_gap=gap)
    engine = tiny(2)(query, edges="parallel")
    stream = Stream(seed, size=10**6, slide=1, vertices=4)
    for _ in range(8):
        engine.push_rows(stream.tuples(4, late=True, deletes=True))
        assert engine.answers().pairs() == ordered_pairs(expression, stream.edges, PathOrder(strict, gap))
        engine._check()


def test_values_wider_than_a_byte() -> None:
    """With many slides cells are of two bytes, and vectors of late inserts and deletes with them."""
    query = rpq.Query("a+", window=rpq.Window(size=2000, slide=1), order="increasing", semantics="explicit")
    engine = tiny(2)(query, edges="parallel")
    rows = [(i % 7, (3 * i + 1) % 7, "a", 40 * i) for i in range(60)]
    engine.push_rows([row for i, row in enumerate(rows) if i % 5])
    late = [row for i, row in enumerate(rows) if i % 5 == 0 and row[3] > 59 * 40 - 1900]
    engine.push_rows(late)
    engine._check()
    engine.push_rows([(*row[:3], row[3], "-") for row in late[::2]])
    engine._check()


def test_times_of_a_span_get_a_new_base() -> None:
    """Within a span cells of a byte tell times, of which a long stream has more than a byte."""
    stream, order = Stream(1, size=40, slide=4), PathOrder(strict=True, span=9)
    query = rpq.Query("(a|b)+", window=rpq.Window(size=40, slide=4), order="increasing", max_span=9, semantics="explicit")
    engine = tiny(2)(query, edges="parallel")
    held: set[tuple[int, int]] = set()
    for _ in range(80):
        for row in engine.push_rows(stream.tuples(5, late=True, deletes=True)):
            (held.add if row.op == "+" else held.discard)((row.source, row.target))
        assert held == engine.answers().pairs() == ordered_pairs(query.expression, stream.edges, order)
        engine._check()


@pytest.mark.parametrize("bound", [{"max_span": 50}, {"max_gap": 5}, {"max_span": 50, "max_gap": 5}])
def test_edges_that_no_path_reaches_are_not_searched_from(bound: dict[str, int]) -> None:
    window = rpq.Window(size=1000, slide=1000)
    query = rpq.Query("a+", window=window, order="increasing", sources=["x"], **bound)
    engine = rpq.Engine(query, edges="parallel")
    engine.push_rows([(f"v{i % 9}", f"v{i * 2 % 7}", "a", i) for i in range(200)])
    (index,) = engine._evaluation.running.find(None).indexes
    assert index.timeline.fields.scan == 0
    engine.push_rows([("x", "v3", "a", 200), ("v3", "y", "a", 201), ("v4", "z", "a", 202)])
    assert engine.answers().pairs() == {("x", "v3"), ("x", "y")}
    assert index.timeline.fields.scan == (1 if "max_gap" in bound else 0)


@pytest.mark.parametrize("bound", [" within 50", " gap 5", " within 50 gap 5"])
def test_a_root_that_comes_later_is_followed_alone(bound: str) -> None:
    """What other roots reach is not searched again."""
    window = rpq.Window(size=1000, slide=1000)
    query = rpq.Query(f"?x flag ?why . ?x (a+ in order{bound}) ?y", window=window)
    engine = rpq.Engine(query, edges="parallel")
    edges = [(f"v{i % 9}", f"v{i * 2 % 7}", "a", i) for i in range(200)]
    engine.push_rows([*((f"v{i}", "why", "flag", 0) for i in range(9)), *edges])
    (relation,) = engine._evaluation.running.hosts[0].paths._by_content.values()
    before = relation.index.timeline.fields.scan
    engine.push_rows([("x", "y", "a", 200), ("y", "z", "a", 201), ("x", "why", "flag", 201)])
    assert {row[2] for row in engine.answers() if row[0] == "x"} == {"y", "z"}
    assert relation.index.timeline.fields.scan - before <= 3


LENGTHS = {"window": rpq.Window(size=1000, slide=10), "order": "increasing", "select": PAIR_AND_LENGTH, "name": "q"}


@pytest.mark.parametrize("capacity", [1, 256])
def test_a_long_chain_needs_more_layers(capacity: int) -> None:
    engine = tiny(capacity)(rpq.Query("a+", sources=[0, 1], **LENGTHS), edges="parallel")
    engine.push_rows([(i, i + 1, "a", i) for i in range(40)])
    whole = {(root, i, i - root) for root in (0, 1) for i in range(root + 1, 41)}
    assert engine.answers().pairs() == whole
    engine._check()
    engine.insert(3, 30, "a", 20)  # late
    assert engine.answers().pairs() == {(root, i, length - 26 * (i >= 30)) for root, i, length in whole}
    engine._check()
    assert engine.delete(3, 30, "a", 41).added == 2 * 11
    assert engine.answers().pairs() == whole
    assert len(engine.witness(0, 40, 40).labels) == 40
    assert engine.advance(1005).added == 0
    engine._check()


def test_a_path_that_waits_for_the_next_edge_has_the_edges_of_its_waiting() -> None:
    engine = tiny(1)(rpq.Query("a/w*/b", max_gap=1, **LENGTHS), edges="parallel")
    engine.push_rows([("x", "y", "a", 0), *(("y", "y", "w", i) for i in range(1, 20)), ("y", "z", "b", 20)])
    assert ("x", "z", 21) in engine.answers()
    engine._check()
    engine.insert("x", "y", "a", 10)
    assert ("x", "z", 11) in engine.answers()
    engine._check()


def test_rows_with_lengths_have_shortest_paths() -> None:
    engine = rpq.Engine(rpq.Query("a+", **LENGTHS), edges="parallel", witness=True)
    rows = [("x", "y", "a", 1), ("y", "z", "a", 2), ("x", "z", "a", 3), ("z", "w", "a", 4), ("x", "z", "a", 5, "-")]
    for batch in (rows[:4], rows[4:]):
        for row in engine.push_rows(batch).to_arrow(witness=True).to_pylist():
            assert (len(row["path_times"] or []) == row["length"]) == (row["op"] == "+")
            assert (row["path_times"] or []) == sorted(row["path_times"] or [])


def test_more_edges_than_can_be_counted_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_index, "MOST_STATES", 8)
    engine = rpq.Engine(rpq.Query("a+", **LENGTHS), edges="parallel")
    engine.push_rows([(i, i + 1, "a", i) for i in range(5)])
    with pytest.raises(rpq.SumLimitError, match="tuple 1 of the batch makes a shortest path with too many edges"):
        engine.push_rows([(i, i + 1, "a", i) for i in range(5, 9)])
