"""Witnesses of patterns' answers: examples by hand, and every answer's against the oracle."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests import reference_patterns
from tests.operators.patterns.pattern_twins import PatternTwins, long_streams, query_of, questions, streams
from tests.operators.patterns.test_pattern_chains_engine import questions as chains
from tests.reference import evaluate
from tests.reference_pattern_stream import PatternQuestion, Window
from tests.reference_patterns import Atom, Constant, Variable, witness_fault
from tests.stream.test_windows_random import statics
from tests.twins import assert_path, examples, tiny

W = rpq.Window(size=10, slide=1)


def steps_of(witness: rpq.Witness) -> list[list[reference_patterns.Step]]:
    return [
        [reference_patterns.Step(s.source, s.label, s.target, s.timestamp, s.against) for s in atom.steps]
        for atom in witness.atoms
    ]


# --- examples worked by hand ------------------------------------------------------------------------------------------


def test_the_edges_behind_an_answer_with_their_times():
    engine = rpq.Engine(rpq.Query("?x a ?y . ?z ^b ?y . ?y c z", window=W))
    tuples = [("x", "y", "a", 1), ("y", "w", "b", 2), ("y", "z", "c", 3), ("x", "y", "a", 5), ("x", "y", "a", 4)]
    engine.push_rows(tuples)
    witness = engine.witness("x", "y", "w")
    assert str(witness) == ("?x = x, ?y = y, ?z = w\n?x a ?y: x -a-> y @5\n?z ^b ?y: w <-b- y @2\n?y c z: y -c-> z @3")
    assert witness["x"] == witness["?x"] == "x"
    assert witness.to_json() == '[["x", "a", 5, "y"], ["w", "^b", 2, "y"], ["y", "c", 3, "z"]]'
    assert witness.atoms[1].steps == (rpq.Step(source="y", label="b", target="w", timestamp=2, against=True),)
    assert engine.witness("x", "y", "z") is None and engine.witness("nobody", "y", "w") is None
    engine.delete("y", "w", "b", 6)
    assert engine.witness("x", "y", "w") is None


def test_variables_that_are_no_columns_have_some_value():
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y b _:n . _:n a ?w", window=W, select=["w", "x"], distinct=True))
    engine.push_rows([("x", "y", "a", 1), ("x", "v", "a", 1), ("v", "n", "b", 2), ("n", "w", "a", 3), ("y", "m", "b", 3)])
    witness = engine.witness("w", "x")
    assert dict(witness.binding) == {"?w": "w", "?x": "x", "?y": "v", "_:n": "n"}
    atoms = ["?x a ?y: x -a-> v @1", "?y b _:n: v -b-> n @2", "_:n a ?w: n -a-> w @3"]
    assert [str(atom) for atom in witness.atoms] == atoms
    assert engine.witness("x", "w") is None
    assert engine.insert("x", "z", "a", 4).rows() == [] and engine._check() is None


def test_the_atoms_of_a_chain_that_is_one_path():
    text = "?x a+ ?m . _:n ^b ?m . _:n (a|c)+ ?y"
    engine = rpq.Engine(rpq.Query(text, window=W, select=["x", "y"], distinct=True))
    stream = [("x", "m", "a", 1), ("m", "m", "a", 2), ("m", "n", "b", 3), ("n", "o", "a", 4), ("o", "y", "c", 5)]
    engine.push_rows(stream)
    assert str(engine.witness("x", "y")).splitlines() == [
        "?x = x, ?y = y, ?m = m, _:n = n",
        "?x a+ ?m: x -a-> m @1",
        "_:n ^b ?m: n <-b- m @3",
        "_:n (a|c)+ ?y: n -a-> o @4 -c-> y @5",
    ]
    assert engine.witness("x", "m") is None
    # Read from its other end, which is a constant, it is told from subject to object all the same.
    engine = rpq.Engine(rpq.Query("?x a+ ?m . ?m b/c* y . ?x d ?z", window=W, select=["x"], distinct=True))
    engine.push_rows([("x", "m", "a", 1), ("m", "n", "b", 2), ("n", "y", "c", 3), ("x", "z", "d", 4)])
    assert [str(atom) for atom in engine.witness("x").atoms] == [
        "?x a+ ?m: x -a-> m @1",
        "?m b/c* y: m -b-> n @2 -c-> y @3",
        "?x d ?z: x -d-> z @4",
    ]


def test_times_are_told_as_they_came():
    engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size="3d", slide="1d")))
    engine.push(source=["x"], target=["y"], label=["a"], timestamp=[date(2026, 1, 2)])
    assert engine.witness("x", "y").atoms[0].steps[0].timestamp == date(2026, 1, 2)


def test_rows_that_enter_carry_theirs():
    queries = (
        rpq.Query("?x a ?y . ?y b ?z", window=W, select=["x"], name="pattern", semantics="explicit"),
        rpq.Query("a/b", window=W, name="path"),
    )
    engine = rpq.Engine(*queries, witness=True)
    # The edge behind the first row is gone again at the end of the push.
    stream = [("x", "y", "a", 1), ("y", "z", "b", 2), ("y", "z", "b", 3, "-"), ("y", "w", "b", 4), ("q", "q", "a", 30)]
    changes = engine.push_rows(stream)
    table = changes.to_arrow("pattern", witness=True)
    assert table.column_names == ["query", "x", "timestamp", "op", "path", "path_times"]
    assert [json.loads(text) if text else text for text in table["path"].to_pylist()] == [
        [["x", "a", 1, "y"], ["y", "b", 2, "z"]],
        "",
        [["x", "a", 1, "y"], ["y", "b", 4, "w"]],
        "",
    ]
    assert changes.to_arrow("path", witness=True)["path"].to_pylist()[0] == '["x", "a", "y", "b", "z"]'
    late = engine.register(rpq.Query("?path a ?y", window=W, name="late"))
    with pytest.raises(rpq.QueryError, match=r"rename the variable \?path"):
        late.to_arrow("late", witness=True)


def test_how_it_is_asked():
    three = rpq.Query("?x a ?y . ?y b ?z", window=W, name="three")
    path = rpq.Query("a", window=W, name="path")
    engine = rpq.Engine(three, path)
    engine.push_rows([("x", "y", "a", 1), ("y", "path", "b", 1), ("three", "path", "a", 1)])
    assert engine.witness("x", "y", "path", query="three")["z"] == "path"
    assert engine.witness("x", "y", "path").vertices == engine.witness("x", "y", query="path").vertices == ("x", "y")
    assert engine.witness(source="x", target="y", query="path") == engine.witness("x", "y", query="path")
    assert rpq.Engine(three).witness("x", "y", "three") is None
    with pytest.raises(rpq.QueryError, match=r"values of x, y, z, 3 and not 2, as in engine.witness\(x, y, z\)"):
        engine.witness("x", "y", query="three")
    with pytest.raises(rpq.QueryError, match="no query named None"):
        engine.witness("x", "y")


# --- every expression of one step, and some of few, against the oracle -------------------------------------------------


ONE_STEP = (
    "b", "^b", "b?", "^b?", "(^b)?", "(^b){0,1}", "(^b){1}", "^(b)", "^(^b)", "(^(^b))?", "^((^b)?)", "(^b?)?", "(^b)?|(^b)",
    "(^b)|c", "(c|^b)?", "!(^a)", "(!(^a))?", "^!a", "(^!a){0,1}", "^(!(a|^b))", "(^b)*", "(^b){0,2}", "(^b)?/c?",
)  # fmt: skip
X, Y, M, ONE = Variable("x"), Variable("y"), Variable("m"), Constant("1")
SHAPES = {
    "between two variables": lambda step: [Atom(X, step, Y)],
    "from a variable to itself": lambda step: [Atom(X, step, X)],
    "from a constant": lambda step: [Atom(ONE, step, X)],
    "to a constant": lambda step: [Atom(X, step, ONE)],
    "to a vertex that an edge binds": lambda step: [Atom(X, step, Y), Atom(Y, "a", ONE)],
    "the beginning of a chain": lambda step: [Atom(X, step, M), Atom(M, "a+", Y)],
    "the end of a chain, turned around": lambda step: [Atom(X, "a+", M), Atom(Y, step, M)],
}
FEW_TUPLES = [
    (edge[0], edge[2], edge[1], time)
    for time, edge in enumerate("1b2 2b3 2b1 3b3 3c1 1c4 4a1 3a1 2a4 1a3 4a4 5b4 1d5".split())
]


@pytest.mark.parametrize(("shape", "paths"), list(zip(SHAPES, itertools.cycle(["walk", "simple_cycle", "simple"]))))
def test_each_step_is_told_in_its_direction(shape, paths):
    questions = {}
    for number, expression in enumerate(ONE_STEP):
        atoms = tuple(SHAPES[shape](expression))
        is_chain = any(M in (atom.subject, atom.object) for atom in atoms)
        select = ("x", "y") if is_chain else None
        pattern = reference_patterns.Pattern(atoms=atoms, select=select, distinct=is_chain, paths=paths)
        questions[f"q{number}"] = PatternQuestion(name=f"q{number}", pattern=pattern, window=Window(kind="unbounded"))
    engine = rpq.Engine(*map(query_of, questions.values()))
    engine.push_rows(FEW_TUPLES)
    graph = {(source, label, target): time for source, target, label, time in FEW_TUPLES}
    answered = 0
    for name, question in questions.items():
        pattern = question.pattern
        answers = pattern.solutions({None: graph})
        assert Counter(engine.answers(name)) == answers, pattern.atoms
        for answer in answers:
            witness = engine.witness(*answer, query=name)
            binding = {name[1:]: value for name, value in witness.binding}
            assert dict(zip(pattern.columns, answer)).items() <= binding.items()
            fault = witness_fault(pattern, {None: graph}, binding, steps_of(witness))
            assert fault is None, (pattern.atoms, answer, fault)
            answered += 1
    assert answered or (paths, shape) == ("simple", "from a variable to itself")


def test_the_same_of_path_queries_from_either_end():
    ends = [{}, {"sources": ["1"]}, {"targets": ["1"]}]
    window = rpq.Window(size=100, slide=1)
    questions = [
        rpq.Query(expression, window=window, name=f"{expression} {number} {paths}", paths=paths, **options)
        for expression in ONE_STEP
        for number, options in enumerate(ends)
        for paths in ("walk", "simple_cycle")
    ]
    engine = rpq.Engine(*questions, witness=True)
    changes = engine.push_rows(FEW_TUPLES)
    edges = [(source, label, target) for source, target, label, _ in FEW_TUPLES]
    for query in questions:
        allowed = [pair for pair in evaluate(query.expression, edges, query.paths) if fits(pair, query)]
        assert sorted(engine.answers(query.name)) == sorted(allowed), query.name
        for pair in allowed:
            path = engine.witness(*pair, query=query.name)
            assert_path(path.vertices, path.labels, pair, query, edges)
        table = changes.to_arrow(query.name, witness=True)
        for source, target, text in zip(*(table[name].to_pylist() for name in ("source", "target", "path")), strict=True):
            steps = json.loads(text)
            assert_path(steps[::2], steps[1::2], (source, target), query, edges)


def fits(pair: tuple[str, str], query: rpq.Query) -> bool:
    return all(names is None or name in names for name, names in zip(pair, (query.sources, query.targets), strict=True))


# --- against the oracle -----------------------------------------------------------------------------------------------


WINDOWS = [Window(size=60, slide=2), Window(kind="count", size=25, slide=2), Window(kind="unbounded")]


@pytest.mark.ci
@examples(120)
@given(
    questions(most=5) | chains(), st.sampled_from(WINDOWS), long_streams, statics, st.booleans(), st.sampled_from((2, 16))
)
def test_every_answer_has_one(question, window, tuples, static, restored, capacity):
    twins = PatternTwins(replace(question, window=window), capacity=capacity, static=static)
    twins.push(tuples)
    if restored:
        twins.save_and_restore()
    engine, reference = twins.engine, twins.reference
    for answer in {*reference.answer()}:
        witness = engine.witness(*answer)
        assert witness is not None, answer
        assert dict(witness.binding).items() >= {(f"?{n}", v) for n, v in zip(question.pattern.columns, answer, strict=True)}
        binding = {name[1:]: value for name, value in witness.binding if name.startswith("?")}
        assert witness_fault(question.pattern, reference.graphs(), binding, steps_of(witness)) is None
    vertices = ["0", "1", "2"]
    for answer in {tuple((vertices * 4)[i : i + len(question.pattern.columns)]) for i in range(len(vertices))}:
        assert (engine.witness(*answer) is None) == (answer not in reference.answer())
    event(f"answers: {min(len(reference.answer()), 5)}")
    # Asking has changed nothing.
    twins.collect()
    twins.advance(engine.time + 70)


@examples(10)
@given(
    questions() | chains(),
    st.sampled_from([None, *WINDOWS]),
    streams,
    st.sampled_from((1, 1, 2)),
    st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=6),
)
def test_every_row_that_enters_has_one(question, window, tuples, threads, pieces):
    """Check that a push with many tuples has the witnesses of pushes with one."""
    query = query_of(question if window is None else replace(question, window=window))
    engine, single, plain = tiny(1)(query, witness=True, threads=threads), rpq.Engine(query, witness=True), tiny(2)(query)
    for count, is_restored, moves in [*pieces, (len(tuples), False, False)]:
        rows, tuples = tuples[:count], tuples[count:]
        changes = engine.push_rows(rows)
        engine._check()
        assert Counter(changes.rows()) == Counter(plain.push_rows(rows).rows())
        table = changes.to_arrow(witness=True).to_pylist()
        for row in table:
            assert (len(json.loads(row["path"])) == len(question.pattern.atoms)) if row["op"] == "+" else row["path"] == ""
        alone = [change for row in rows for change in single.push_rows([row]).to_arrow(witness=True).to_pylist()]
        assert Counter(map(repr, table)) == Counter(map(repr, alone))
        if moves and engine.time is not None:
            later = engine.time + 3
            moved = [one.advance(later).to_arrow(witness=True).to_pylist() for one in (engine, single)]
            plain.advance(later)
            assert Counter(map(repr, moved[0])) == Counter(map(repr, moved[1]))
        if is_restored:
            with tempfile.TemporaryDirectory() as folder:
                engine.save(f"{folder}/state")
                engine = tiny(1).restore(f"{folder}/state", witness=True, threads=threads)
                single = rpq.Engine.restore(f"{folder}/state", witness=True)
