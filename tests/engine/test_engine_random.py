"""Random streams: after every step the engine says what the oracle says, and its structure holds.

semantics.md S1, S3, S4, S5, S6, S9, S11
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import rpq
from tests.twins import Twins, collect, examples

NUMBERS = (0, 1, -1, 7, 64, 2**62, -(2**63))
TEXTS = (" ", "x", "7", "007", "ü", "日本", "𝄞 a b")
LABELS = ("a", "a", "a", "b", "b", "c", "d")
EXPRESSIONS = (
    "a",
    "a*",
    "a/b*",
    "a/b/c",
    "a/b*/c*",
    "(a|b)*",
    "(a|b|c)+",
    "a*/b*",
    "a?/b*",
    "a/a",
    "a{2,3}",
    "(a/b)+",
    "(a/a)+",
    "^a",
    "a/^b",
    "(a|^a)+",
    "a/^a/b?",
    "^(a/b)*",
    "!a",
    "!()",
    "!(a|^b)",
    "!(a|^a)/b*",
    "(a/!b)*",
    "a{0}/b",
    "b*/a/b*",
    "a{0}",
)
# Late, in the slide, in the next ones, past a window of up to 30, past 255 slides of one unit.
STEPS = st.sampled_from((0,) * 8 + (1,) * 6 + (2, 3, -1, -1, -2, -3, -5, -9, -20, -400, 5, 9, 17, 31, 90, 260, 700))
LONG_STEPS = st.sampled_from((10**6, 10**12, 2**40))
SIZES = st.one_of(st.integers(1, 12), st.sampled_from((30, 240, 300)))
SLIDES = st.one_of(st.integers(1, 5), st.sampled_from((7, 30)))


@st.composite
def queries(draw, name: str, vertices: tuple) -> rpq.Query:
    ends = st.none() | st.none() | st.frozensets(st.sampled_from(vertices), max_size=4)
    return rpq.Query(
        draw(st.sampled_from(EXPRESSIONS)),
        window=rpq.Window(size=draw(SIZES), slide=draw(SLIDES)),
        name=name,
        semantics=draw(st.sampled_from(("explicit", "explicit", "implicit"))),
        sources=draw(ends),
        targets=draw(ends),
    )


class Streams(RuleBasedStateMachine):
    """Tuples of any kind, batches of any size, queries that come and go, engines that are saved and restored."""

    vertices: tuple = ()
    queries = staticmethod(queries)

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    @initialize(data=st.data())
    def begin(self, data) -> None:
        first = [data.draw(self.queries(f"q{i}", self.vertices)) for i in range(data.draw(st.integers(1, 3)))]
        self.made = len(first)
        self.start = data.draw(st.sampled_from((0, 0, -50, 10**9, -(2**62))))
        capacity = data.draw(st.sampled_from((2, 3, 4, 8, 16)))
        self.twins = Twins(
            *first, capacity=capacity, threads=data.draw(st.sampled_from((1, 1, 2, 3))), witness=data.draw(st.booleans())
        )

    @property
    def time(self) -> int:
        time = self.twins.reference.time
        return self.start if time is None else time

    @rule(data=st.data(), count=st.sampled_from((1, 1, 2, 3, 5, 9)))
    def push(self, data, count: int) -> None:
        batch = []
        time = self.time
        vertex = st.sampled_from(self.vertices[: data.draw(st.sampled_from((3, 5, 7)))])
        for _ in range(count):
            timestamp = time + data.draw(STEPS)
            time = max(time, timestamp)
            op = data.draw(st.sampled_from("++++-"))
            batch.append((data.draw(vertex), data.draw(vertex), data.draw(st.sampled_from(LABELS)), timestamp, op))
        note(f"pushed: {batch}")
        self.twins.push(batch)

    @rule(data=st.data())
    def delete_what_is_there(self, data) -> None:
        store = self.twins.reference.store
        if store:
            source, label, target = data.draw(st.sampled_from(sorted(store, key=repr)))
            batch = [(source, target, label, self.time + data.draw(STEPS), "-")]
            note(f"pushed: {batch}")
            self.twins.push(batch)

    @rule(step=STEPS)
    def advance(self, step: int) -> None:
        self.twins.advance(self.time + step)

    @rule(step=LONG_STEPS, rare=st.integers(0, 5))
    def jump(self, step: int, rare: int) -> None:
        if rare == 0:
            self.twins.advance(self.time + step)

    @precondition(lambda self: len(self.twins.queries) < 4)
    @rule(data=st.data(), start=st.sampled_from(("window", "window", "empty")))
    def register(self, data, start: str) -> None:
        query = data.draw(self.queries(f"q{self.made}", self.vertices))
        self.made += 1
        self.twins.register(query, start)

    @precondition(lambda self: self.twins.queries)
    @rule(data=st.data(), rare=st.booleans())
    def unregister(self, data, rare: bool) -> None:
        if rare:
            self.twins.unregister(data.draw(st.sampled_from(sorted(self.twins.queries))))

    @rule(threads=st.sampled_from((1, 1, 2, 3)))
    def save_and_restore(self, threads: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.twins.save_and_restore(Path(folder) / "state.arrow", threads)

    @precondition(lambda self: self.twins.queries)
    @rule(data=st.data())
    def witnesses(self, data) -> None:
        self.twins.check_witnesses(data.draw(st.sampled_from(sorted(self.twins.queries))), 4)

    @precondition(lambda self: self.twins.queries)
    @rule(data=st.data(), limit=st.sampled_from((1, 2, 3, 7)))
    def answers_in_parts(self, data, limit: int) -> None:
        self.twins.check_parts(data.draw(st.sampled_from(sorted(self.twins.queries))), limit)

    @rule(rare=st.integers(0, 3))
    def collect(self, rare: int) -> None:
        # The engine collects of itself only after hundreds of tuples.
        if rare == 0:
            collect(self.twins.engine)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "twins"):
            self.twins.check()


@pytest.mark.parametrize("vertices", [NUMBERS, TEXTS], ids=["integers", "texts"])
def test_streams(vertices: tuple) -> None:
    machine = type("Streams", (Streams,), {"vertices": vertices})
    run_state_machine_as_test(machine, settings=examples(60))
