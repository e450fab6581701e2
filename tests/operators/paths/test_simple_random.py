"""Simple paths at random: after every step the engine says what the oracle says, and the rare branches were taken.

semantics.md S2
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import rpq
from tests.reference import ReferenceEngine
from tests.twins import Twins, collect, examples, reference_query, tiny

EXPRESSIONS = (
    "a/b*/c",
    "a/b/c",
    "a/b/c*",
    "a/b*",
    "(a/b)+",
    "(a/a)+",
    "a{2,3}",
    "a/b*/a",
    "(a|^a)/b/a",
    "a*/b/a*",
    "(a|b)+",
    "a/^a/b?",
    "(a/b)*/a",
    "b*/a/b*",
    "(a/a/a)+",
    "a/(b/c)*",
)


def a_query(choose, name: str) -> rpq.Query:
    return rpq.Query(
        choose(EXPRESSIONS),
        window=rpq.Window(size=choose((4, 8, 15, 30)), slide=choose((1, 2, 3, 5))),
        name=name,
        paths=choose(("simple", "simple_cycle")),
        semantics=choose(("explicit", "implicit")),
        sources=choose((None, None, None, (1, 2, 3))),
        targets=choose((None, None, None, (1, 2, 3))),
    )


class Streams(RuleBasedStateMachine):
    """Few vertices and many edges, so that conflicts are the rule."""

    @initialize(data=st.data())
    def begin(self, data) -> None:
        def choose(values):
            return data.draw(st.sampled_from(values))

        self.made = data.draw(st.integers(1, 2))
        self.twins = Twins(
            *(a_query(choose, f"q{i}") for i in range(self.made)),
            capacity=choose((2, 3, 8)),
            threads=choose((1, 1, 2, 3)),
            witness=choose((False, True)),
        )
        self.vertex = st.integers(0, choose((3, 4, 5)))

    @property
    def time(self) -> int:
        return self.twins.reference.time or 0

    @rule(data=st.data(), count=st.sampled_from((2, 4, 8)))
    def push(self, data, count: int) -> None:
        batch, time = [], self.time
        for _ in range(count):
            time += data.draw(st.sampled_from((0, 0, 0, 0, 0, 1, 1, 2, -1, 9)))
            op = data.draw(st.sampled_from("+++++-"))
            ends = data.draw(self.vertex), data.draw(self.vertex)
            batch.append((*ends, data.draw(st.sampled_from("aabbc")), time, op))
        note(f"pushed: {batch}")
        self.twins.push(batch)

    @rule(data=st.data())
    def delete_what_is_there(self, data) -> None:
        if store := self.twins.reference.store:
            source, label, target = data.draw(st.sampled_from(sorted(store)))
            self.twins.push([(source, target, label, self.time, "-")])

    @rule(step=st.sampled_from((1, 2, 3, 8, 40)))
    def advance(self, step: int) -> None:
        self.twins.advance(self.time + step)

    @rule(data=st.data(), rare=st.integers(0, 3), start=st.sampled_from(("window", "empty")))
    def register(self, data, rare: int, start: str) -> None:
        if rare == 0 and len(self.twins.queries) < 3:
            self.made += 1
            self.twins.register(a_query(lambda values: data.draw(st.sampled_from(values)), f"q{self.made}"), start)

    @rule(threads=st.sampled_from((1, 2)), rare=st.booleans())
    def save_and_restore(self, threads: int, rare: bool) -> None:
        if rare:
            with tempfile.TemporaryDirectory() as folder:
                self.twins.save_and_restore(Path(folder) / "state", threads)

    @rule(data=st.data())
    def witnesses(self, data) -> None:
        self.twins.check_witnesses(data.draw(st.sampled_from(sorted(self.twins.queries))), 4)

    @rule()
    def collect(self) -> None:
        collect(self.twins.engine)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "twins"):
            self.twins.check()


def test_streams() -> None:
    run_state_machine_as_test(Streams, settings=examples(40))


@pytest.mark.ci
def test_roots_that_are_set_aside(tmp_path) -> None:
    """Small budgets: roots are exact or set aside, rows add up, threads make no difference, and roots come back."""
    happened: Counter[str] = Counter()
    for seed in range(14):
        happened += set_aside_and_back(seed, tmp_path / "state")
    assert happened["set aside"] > 10 and happened["back"] > 5 and happened["saved"] > 2


def set_aside_and_back(seed: int, state: Path) -> Counter[str]:
    """One stream; what happened in it."""
    draw = random.Random(seed)
    query = rpq.Query(
        draw.choice(EXPRESSIONS[:3] + EXPRESSIONS[4:8]),
        window=rpq.Window(size=draw.choice((8, 15)), slide=draw.choice((1, 2))),
        name="q",
        paths="simple",
        semantics=draw.choice(("explicit", "implicit")),
        simple_budget=draw.choice((2, 4, 6)),
        on_budget="set_aside",
    )
    kind = tiny(4)
    engines = [kind(query), kind(query, threads=3)]
    reference = ReferenceEngine(reference_query(query))
    answers: set = set()
    happened: Counter[str] = Counter()

    def both(do) -> None:
        changes = [do(engine) for engine in engines]
        assert Counter(changes[0].rows()) == Counter(changes[1].rows())
        assert changes[0].set_aside == changes[1].set_aside
        for row in changes[0].rows():
            pair = row.source, row.target
            assert (pair in answers) == (row.op == "-"), f"{row} does not fit the rows before it"
            answers.symmetric_difference_update({pair})
        happened["set aside"] += len(changes[0].set_aside)

    def same() -> None:
        for engine in engines:
            engine._check()
            found, aside = engine.answers().pairs(), set(engine.set_aside())
            assert found == {pair for pair in reference.answers() if pair[0] not in aside}
            assert engine.statistics().roots_set_aside == len(aside)
            if query.semantics == "implicit":
                answers.intersection_update(found)
            assert answers == found

    time = 0
    for _ in range(60):
        before = set(engines[0].set_aside())
        time += draw.choice((0, 0, 0, 0, 1, 1, 2, 4))
        reference.advance(time)
        both(lambda engine: engine.advance(time))
        same()
        store = sorted(reference.store)
        if store and draw.random() < 0.25:
            source, label, target = draw.choice(store)
            step = (source, target, label, time, "-")
        else:
            step = (draw.randrange(5), draw.randrange(5), draw.choice("aabbc"), time, "+")
        reference.push(*step)
        both(lambda engine: engine.push_rows([step]))
        same()
        happened["back"] += len(before - set(engines[0].set_aside()))
        if before and draw.random() < 0.1:
            root = min(before)
            both(lambda engine: engine.restore_root(root))
            same()
        if draw.random() < 0.1:
            happened["saved"] += len(engines[1].set_aside())
            engines[1].save(state)
            engines = [kind.restore(state), kind.restore(state, threads=2)]
            same()
    return happened


def test_what_is_searched_does_not_depend_on_collections() -> None:
    """A link that comes again is the youngest of its vertex, whether or not a sweep had taken the old one."""
    searched = again = 0
    for seed in range(4):
        draw = random.Random(seed)
        query = rpq.Query(draw.choice(EXPRESSIONS), window=rpq.Window(size=6, slide=1), paths="simple", simple_budget=1000)
        lazy, eager = rpq.Engine(query), tiny(2)(query)
        seen: set = set()
        time = 0
        for _ in range(150):
            time += draw.choice((0, 0, 1))
            edge = (draw.randrange(6), draw.randrange(6), draw.choice("aabbc"))
            again += edge in seen
            seen.add(edge)
            steps = [(*edge, time, draw.choice("++++-"))]
            assert sorted(lazy.push_rows(steps).rows()) == sorted(eager.push_rows(steps).rows())
            collect(eager)
        assert lazy.statistics().searches == eager.statistics().searches
        searched += lazy.statistics().searches
    assert searched > 100 and again > 100
