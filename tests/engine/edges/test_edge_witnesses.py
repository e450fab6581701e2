"""Witnesses of queries with conditions are paths of the snapshot, with the properties of their edges.

semantics.md S14
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import (
    CONDITION,
    WINDOW,
    Described,
    apply,
    as_batch,
    described,
    drawn_tuples,
    restored,
    rows_of,
)
from tests.reference_properties import (
    PropertyEngine,
    pairs,
)
from tests.twins import chunk_sizes, examples, tiny


def steps_of(witness: rpq.Path | rpq.Witness, expressions: list[str]) -> list[tuple[str, list[rpq.Step]]]:
    """Return for each path the expression that it spells, and its edges."""
    if isinstance(witness, rpq.Witness):
        return [(expression, [*atom.steps]) for expression, atom in zip(expressions, witness.atoms, strict=True)]
    of_edges = witness.properties or (None,) * len(witness.labels)
    assert len(witness.labels) == len(witness.timestamps) == len(of_edges) == len(witness.vertices) - 1
    steps = []
    walked = zip(witness.vertices[:-1], witness.labels, witness.vertices[1:], witness.timestamps, of_edges, strict=True)
    for first, label, last, time, properties in walked:
        against = label.startswith("^")
        source, target = (last, first) if against else (first, last)
        steps.append(rpq.Step(
            source=source, label=label.lstrip("^"), target=target, timestamp=time, against=against, properties=properties
        ))  # fmt: skip
    return [(expressions[0], steps)]


def check_witness(one: Described, row: tuple, witness: rpq.Path | rpq.Witness, edges: list, read: set[str]) -> None:
    """Check that each step is an edge of the snapshot, with its time and its values, and that together they give the row."""
    expressions = [one.what] if isinstance(one.what, str) else [expression for _, expression, _ in one.what]
    for expression, steps in steps_of(witness, expressions):
        walked = []
        for step in steps:
            described = [
                edge
                for edge in edges
                if (edge.source, edge.label, edge.target, edge.timestamp)
                == (step.source, step.label, step.target, step.timestamp)
            ]
            values = step.properties or {}
            fitting = [
                edge
                for edge in described
                if {name: value for name, value in edge.properties.items() if name in read and value is not None} == values
            ]
            assert fitting, f"{step} is no edge with {values}: {described}"
            walked.append(fitting[0])
        ends = steps[0].ends[0], steps[-1].ends[1]
        assert all(before.ends[1] == after.ends[0] for before, after in itertools.pairwise(steps))
        assert ends in pairs(expression, walked, one.oracle.paths)
        if one.oracle.paths == "simple" and len(expressions) == 1:
            visited = [steps[0].ends[0], *(step.ends[1] for step in steps)]
            assert len({*visited}) == len(visited)
        if isinstance(one.what, str):
            assert ends == row


@examples(120)
@given(data=st.data())
def test_witnesses_are_paths_of_the_snapshot(data):
    """Each edge of a witness is there at that moment, with its own label and its values, and satisfies the conditions."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    text = " ".join(one.query.expression if isinstance(one.what, str) else str(one.what) for one in queries)
    read = {name for name in "nm" if re.search(rf"\b{name}\b", text)}
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    options = {"edges": identity, "witness": True, "_capacity": data.draw(st.sampled_from((1, 16)))}
    engine = rpq.Engine(*(one.query for one in queries), **options)
    threads = data.draw(st.sampled_from((1, 1, 2)))
    batched = tiny(1)(*(one.query for one in queries), edges=identity, witness=True, threads=threads)
    by_name = {one.query.name: one for one in queries}
    rows = drawn_tuples(data, identity, 5, most=20)
    note(rows)
    witnesses: list = []
    for row in rows:
        expected = Counter(apply(oracle, row))
        changes = engine.push(as_batch([row], arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        engine._check()
        present = {one.query.name: [*one.edges.values()] for one in oracle._running}
        for name, one in by_name.items():
            for change in changes.to_arrow(name, witness=True).to_pylist():
                answer = tuple(change[column] for column in one.query.columns)
                witnesses.append((name, answer, change["op"], change["path"], change["path_times"]))
                assert (change["path"] in (None, "")) == (change["op"] == "-") == (change["path_times"] is None)
                if change["op"] == "+":
                    witness = engine.witness(*answer, query=name)
                    check_witness(one, answer, witness, present[name], read)
                    assert json.loads(change["path"]) == json.loads(witness.to_json())
                    assert change["path_times"] == [*witness.timestamps]
            for answer in engine.answers(name):
                check_witness(one, tuple(answer), engine.witness(*answer, query=name), present[name], read)
        if data.draw(st.integers(0, 5)) == 0:
            engine = restored(engine, witness=True)
            for name, one in by_name.items():
                for answer in engine.answers(name):
                    check_witness(one, tuple(answer), engine.witness(*answer, query=name), present[name], read)
    found = []
    while rows:
        count = data.draw(st.integers(1, 20))
        changes = batched.push(as_batch(rows[:count], arrow=False))
        batched._check()
        rows = rows[count:]
        found += [
            (name, tuple(change[column] for column in one.query.columns), change["op"], change["path"], change["path_times"])
            for name, one in by_name.items()
            for change in changes.to_arrow(name, witness=True).to_pylist()
        ]
        if data.draw(st.integers(0, 3)) == 0:
            batched = restored(batched, witness=True, threads=threads)
    assert Counter(map(repr, found)) == Counter(map(repr, witnesses))


@pytest.mark.parametrize(
    ("query", "edges"),
    [
        (rpq.Query("?x a ?y . ?y b ?z", window=WINDOW), "triple"),
        (rpq.Query("a/b", window=WINDOW), "parallel"),
        (rpq.Query("MATCH (x)-[:a]->(y)-[:b]->(z) RETURN x, y, z", window=WINDOW, language="gql"), "parallel"),
    ],
)
def test_tuples_without_rows_are_applied_together(query, edges, monkeypatch):
    """A large push takes few chunks: one for each tuple that brings rows, and those of other tuples."""
    chunks = chunk_sizes(monkeypatch)
    engine = rpq.Engine(query, edges=edges, witness=True)
    rows = [(f"v{number}", f"w{number}", "a", 1) for number in range(1000)]
    assert not engine.push_rows(rows)
    assert engine.push_rows([*rows[500:], ("w3", "z", "b", 2), *rows[500:], ("w3", "z", "b", 2, "-")]).added == 1
    assert len(chunks) < 12


def test_rows_before_a_failure_have_witnesses():
    """Where the limit on rows ends a push, the rows of the tuples before it are those of single tuples."""
    query = rpq.Query("?x a ?y . ?y b ?z", window=WINDOW)
    rows = [("x", "y", "a", 1), ("y", "z", "b", 2), ("v", "y", "a", 3), ("w", "y", "a", 3), ("y", "u", "b", 4)]
    found = []
    for pushes in ([rows], [[row] for row in rows]):
        engine = rpq.Engine(query, witness=True, max_rows=2, _capacity=1)
        parts = []
        with pytest.raises(rpq.RowLimitError) as caught:
            for part in pushes:
                parts.append(engine.push_rows(part))  # noqa: PERF401
        parts.append(caught.value.changes)
        found.append([row for part in parts for row in part.to_arrow(witness=True).to_pylist()])
    assert len(found[0]) == 3
    assert found[0] == found[1]


def test_rows_have_witnesses_where_there_is_no_room_for_a_copy():
    query = rpq.Query("?x a ?y . ?y b ?z", window=WINDOW)
    pushes = [
        [*((f"v{number}", f"w{number % 50}", "a", 1) for number in range(first, first + 1000)), (f"w{first}", "z", "b", 1)]
        for first in range(0, 5000, 1000)
    ]
    found, limit = [], None
    for _ in range(2):
        engine = rpq.Engine(query, witness=True, memory_limit=limit)
        found.append([row for rows in pushes for row in engine.push_rows(rows).to_arrow(witness=True).to_pylist()])
        limit = engine._evaluation.guard.nbytes * 3 // 2
    assert len(found[0]) == 100
    assert found[0] == found[1]


def test_rows_have_witnesses_where_the_type_of_a_property_was_unknown():
    """A push whose property is new brings rows with witnesses, although their edge is deleted in the same push."""
    engine = tiny(1)(rpq.Query("a[n > 1]", window=WINDOW), edges="parallel", witness=True)
    for _ in range(2):
        assert not engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    ends = {"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"]}
    changes = engine.push(**ends, timestamp=[3, 3], op=["+", "-"], n=[5, None])
    assert changes.to_arrow(witness=True)["path"].to_pylist() == ['["x", "a", {"n": 5}, "y"]', ""]


def test_a_witness_after_a_tuple_of_fewer_edges_than_one_before():
    pattern = rpq.Query("?x a[n > 1]/b ?y . ?y a ?z", window=WINDOW, name="pattern")
    engine = rpq.Engine(rpq.Query("a", window=WINDOW), pattern, edges="id", witness=True, _capacity=1)
    # The last tuple replaces an edge and its derived labels, and its witness is the first that needs supports.
    rows = [("u", "u", "a", "e", 0), ("w", "u", "b", "e", 0), ("u", "u", "a", "f", 0), ("u", "w", "a", "f", 2)]
    for source, target, label, edge, number in rows:
        changes = engine.insert(source, target, label, 5, edge=edge, properties={"n": number})
    walks = '[["u", "a", 5, {"n": 2}, "w", "b", 5, {"n": 0}, "u"], ["u", "a", 5, {"n": 2}, "w"]]'
    assert changes.to_arrow("pattern", witness=True)["path"].to_pylist() == [walks]


def test_a_witness_has_the_labels_and_the_values_of_its_edges():
    pattern = rpq.Query("?x a[n > 1] ?y . ?y ^b+ ?z", window=WINDOW, name="pattern")
    engine = rpq.Engine(rpq.Query("a[n > 1]/^b", window=WINDOW, name="q"), pattern, witness=True)
    engine.insert("x", "y", "a", 1, properties={"n": 5, "m": "unread"})
    changes = engine.insert("z", "y", "b", 2)
    assert changes.to_arrow("q", witness=True)["path"].to_pylist() == ['["x", "a", {"n": 5}, "y", "^b", {}, "z"]']
    path = engine.witness("x", "z", query="q")
    assert (path.labels, path.timestamps, path.properties) == (("a", "^b"), (1, 2), ({"n": 5}, {}))
    witness = engine.witness("x", "y", "z", query="pattern")
    assert [step.label for atom in witness.atoms for step in atom.steps] == ["a", "b"]
    assert str(witness.atoms[0]) == "?x a[n > 1] ?y: x -a-> y @1 {n: 5}"
    assert json.loads(witness.to_json()) == [["x", "a", 1, {"n": 5}, "y"], ["y", "^b", 2, {}, "z"]]


def test_a_witness_has_no_values_where_none_are_kept():
    """Only an engine whose rows have witnesses keeps them; one that begins to knows those of older edges not."""
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1, properties={"n": 5})
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        continued = rpq.Engine.restore(Path(folder) / "state", witness=True)
    for one in (engine, continued):
        one.insert("y", "z", "b", 2)
    path = engine.witness("x", "z")
    assert (path.labels, path.timestamps, path.properties) == (("a", "b"), (1, 2), ())
    assert continued.witness("x", "z").properties == (None, {})
    assert restored(continued, witness=True).witness("x", "z").properties == (None, {})
    assert restored(continued).witness("x", "z").properties == ()
    plain = rpq.Engine(rpq.Query("a", window=WINDOW), edges="parallel", witness=True)
    changes = plain.insert("x", "y", "a", 1)
    assert changes.to_arrow(witness=True)["path"].to_pylist() == ['["x", "a", "y"]']


@examples(60)
@given(data=st.data())
def test_times_of_paths_are_those_at_the_moment_of_the_row(data):
    """Refreshes, deletes, evictions and static edges of the same batch, in windows of any kind, change no other row."""
    windows = rpq.CountWindow(size=3), rpq.CountWindow(size=4, step=2), rpq.UnboundedWindow(), WINDOW
    window = data.draw(st.sampled_from(windows))
    paths = data.draw(st.sampled_from(("walk", "walk", "simple")))
    expression, is_named = data.draw(st.sampled_from(("a/b*", "(a|^b)+"))), data.draw(st.booleans())
    query = rpq.Query(expression, window=window, name="q", paths=paths, semantics="explicit")
    vertex, label = st.sampled_from("xyzw"), st.sampled_from("ab")
    static = data.draw(st.lists(st.tuples(vertex, vertex, label), max_size=2))
    engine, batched = (rpq.Engine(query, witness=True, _capacity=data.draw(st.sampled_from((1, 16)))) for _ in range(2))
    if static:
        for one in (engine, batched):
            one.load_static(dict(zip(("source", "target", "label"), map(list, zip(*static, strict=True)), strict=True)))
            rows = one.advance(0).to_arrow(witness=True).to_pylist()
            assert {time for row in rows for time in row["path_times"]} <= {None}
    ages = st.integers(0, 4)
    edges = st.lists(st.tuples(vertex, vertex, label, ages, st.sampled_from("++-")), min_size=14, max_size=14)
    tuples = [(u, v, label, max(time - age, 0), op) for time, (u, v, label, age, op) in enumerate(data.draw(edges))]
    names = ("source", "target", "label", "timestamp", "op", "stream")
    stream = dict(zip(names, map(list, zip(*((*one, "s") for one in tuples), strict=True)), strict=True))
    if not is_named:
        del stream["stream"]
    number, present, expected_rows = 0, {}, []
    for place, (u, v, label, timestamp, op) in enumerate(tuples):
        at = {name: column[place : place + 1] for name, column in stream.items()}
        changes = engine.push(at)
        edge = (u, label, v)
        if isinstance(window, rpq.CountWindow) and op == "+":
            number += 1
            bound = number // window.step * window.step - window.size
            present = {one: last for one, last in present.items() if last[1] > bound}
        if op == "-":
            present.pop(edge, None)
        else:
            present[edge] = max(present.get(edge, (0, 0))[0], timestamp), number
        if window is WINDOW:
            bound = window.lower_bound(engine.time)
            present = {one: last for one, last in present.items() if last[0] > bound}
        for row in changes.to_arrow(witness=True).to_pylist():
            expected_rows.append(row)
            assert (row["path_times"] is None) == (row["op"] == "-")
            if row["op"] == "+":
                path = json.loads(row["path"])
                steps = zip(path[::2], path[1::2], path[2::2], strict=False)
                edges = [(v, label[1:], u) if label.startswith("^") else (u, label, v) for u, label, v in steps]
                assert row["path_times"] == [present.get(edge, (None,))[0] for edge in edges]
                witness = engine.witness(row["source"], row["target"])
                assert witness is None or json.loads(witness.to_json()) != path or [*witness.timestamps] == row["path_times"]
    found = batched.push(stream).to_arrow(witness=True).to_pylist()
    assert Counter(map(repr, found)) == Counter(map(repr, expected_rows))
    batched._check()
