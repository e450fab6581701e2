"""Chains in the engine: merged or not, rows, answers and counts are those of the pattern as it was asked.

semantics.md S1 S7
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.operators.patterns.chains import chains_to_evaluate
from tests.engine.test_engine_properties import same_moments
from tests.operators.patterns.kernels.test_pattern_chains import patterns, to_oracle
from tests.operators.patterns.pattern_twins import PatternTwins, long_streams, streams
from tests.reference_pattern_stream import PatternQuestion, Window
from tests.stream.test_windows_random import KINDS, statics, windows
from tests.twins import examples

long_windows = st.builds(Window, size=st.integers(12, 60), slide=st.integers(1, 5))


@st.composite
def questions(draw: st.DrawFn, name: str = "q") -> PatternQuestion:
    """Distinct solutions of atoms that often are chains, over a window of any kind, mostly of time."""
    atoms, columns = draw(patterns())
    return PatternQuestion(
        name=name,
        pattern=replace(to_oracle(atoms, columns), distinct=draw(st.sampled_from((True, True, True, False)))),
        window=draw(st.sampled_from(("time", "time", *KINDS)).flatmap(windows) | long_windows),
        semantics=draw(st.sampled_from(["implicit", "explicit"])),
    )


@examples(80)
@given(questions(), streams, statics, st.integers(1, 6), st.integers(1, 20))
def test_rows_answers_and_counts(question: PatternQuestion, tuples: list, static: list, size: int, ahead: int) -> None:
    twins = PatternTwins(question, static=static)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.advance(twins.engine.time + ahead)
    twins.collect()


@pytest.mark.ci
@examples(40)
@given(st.data(), questions("one"), questions("two"), streams)
def test_queries_come_and_go_and_are_restored(
    data: st.DataObject, one: PatternQuestion, two: PatternQuestion, tuples: list
) -> None:
    twins = PatternTwins(one)
    waiting = list(tuples)
    for number in range(data.draw(st.integers(2, 6))):
        twins.push(waiting[:5])
        waiting = waiting[5:]
        match data.draw(st.sampled_from(["register", "leave", "restore"])):
            case "register":
                other = replace(data.draw(st.sampled_from([one, two])), name=f"q{number}")
                twins.register(other, data.draw(st.sampled_from(["window", "empty"])))
            case "leave" if len(twins.questions) > 1:
                twins.unregister(data.draw(st.sampled_from(sorted(twins.questions))))
            case _:
                twins.save_and_restore(data.draw(st.integers(1, 2)))
    twins.push(waiting)


WINDOW = rpq.Window(size=10, slide=2)


@examples(20)
@given(long_streams, st.sampled_from(("implicit", "explicit")))
def test_a_chain_has_the_rows_of_its_path(tuples: list, semantics: str) -> None:
    options = {"window": WINDOW, "semantics": semantics, "name": "q"}
    chain = rpq.Query("?x a* ?m . ?n b ?m . ?n (a|b)+ ?y", select=["x", "y"], distinct=True, **options)
    assert [str(atom) for atom, _ in chains_to_evaluate(chain)] == ["?x a+/^b/(a|b)+ ?y"]
    found = [tuple(row) for row in rpq.Engine(chain).push_rows(tuples)]
    path = [tuple(row) for row in rpq.Engine(rpq.Query("a+/^b/(a|b)+", **options)).push_rows(tuples)]
    assert same_moments(found, path)


def test_a_chain_keeps_what_its_path_keeps() -> None:
    """x -a-> m0 … m9 -b-> y: a join would count ten bindings, the index holds a cell for each vertex on the way."""
    stream = [edge for i in range(10) for edge in (("x", f"m{i}", "a", 0), (f"m{i}", "y", "b", 0))]
    chain = rpq.Engine(rpq.Query("?x a+ ?m . ?m b+ ?y", select=["x", "y"], distinct=True, window=WINDOW))
    assert [(row.x, row.y) for row in chain.push_rows(stream).rows()] == [("x", "y")]
    path = rpq.Engine(rpq.Query("a+/b+", window=WINDOW))
    path.push_rows(stream)
    assert chain.statistics().index_cells <= path.statistics().index_cells + len(stream)
