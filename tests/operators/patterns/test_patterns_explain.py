"""The explanation of a pattern's evaluation: before it runs, while it does, and as a picture."""

from __future__ import annotations

import json
import shutil

import pytest

import rpq as library
from tests.twins import tiny

W = library.Window(size=100, slide=1)
CHAIN = "?x a ?y . ?y b ?z"


# --- the command ------------------------------------------------------------------------------------------------------


def test_atoms_relations_and_the_order_of_binding(rpq):
    status, out, _ = rpq("explain", "?x a ?y . ?y ^b _:n . ?z a ?y . ?y c 'the end'")
    assert status == 0
    lines = out.splitlines()
    assert "language     a graph pattern: it has variables, and is no path expression" in lines
    assert "columns      x, y, z" in lines
    assert "  2  ?y ^b _:n: edges labelled b" in lines
    assert "  a: read by atoms 1, 3" in lines and "  b: read by atom 2" in lines
    begin = lines.index("order of binding")
    assert lines[begin + 1 : begin + 4] == [
        '  ?x a ?y changes (if ?y c "the end", b into ?y, a into ?y)',
        "    _:n from b into ?y",
        "    ?z from a into ?y",
    ]
    assert "support lists: where the query examines many values in vain; decided while it runs" in lines
    assert '  "_:n" -> "?y" [label="b"];' in lines and r'  "\"the end\"" [shape=box];' in lines


def test_parts_conditions_and_meanings_of_literals(rpq):
    out = rpq("explain", """?x a ?y . ?u b '"30"' . p c q""")[1]
    assert '  with "30", p, q\n  if p c q\n' in out and "  with 30, p, q\n  if p c q\n" in out
    assert '  part 1: ?x, ?y\n  ?x a ?y changes\n  part 2: ?u\n  ?u b "30" changes' in out
    assert "support lists: none: a part of one atom has no later atoms" in out


def test_what_paths_took():
    query = library.Query("?x role boss . ?x a* ?y . ?z (b|c)+ 9", window=W, name="q")
    engine = library.Engine(query, library.Query("?x a+ ?y", window=W, name="other"))
    edges = [(f"{n}", f"{n + 1}", "a", 1) for n in range(6)]
    engine.push_rows([*edges, ("1", "boss", "role", 2), ("5", "8", "b", 2), ("8", "9", "c", 3)])
    lines = str(engine.explain("q")).splitlines()
    assert "  role: read by atom 1, 1 edge; only edges from any vertex to boss are stored" in lines
    assert "  a*: read by atom 2, 21 pairs found by 6 trees of 21 cells, shared with other" in lines
    assert "  (b|c)+: read by atom 3, 2 pairs found by 1 tree of 2 cells" in lines
    chain = library.Query("?x a+ ?m . ?m b+ ?y", window=W, name="chain", select=["x", "y"], distinct=True)
    engine.register(chain)
    lines = str(engine.explain("chain")).splitlines()
    assert "  a+: read by atom 1" in lines
    assert any(line.startswith("  a+/b+: a chain of atoms, read as one path, 5 pairs found by ") for line in lines)
    assert engine.explain("q").to_dict()["relations"][1]["trees"] == 6


def test_dot_goes_to_a_file_or_alone_to_standard_output(rpq, tmp_path):
    dot = library.explain(library.Query(CHAIN, window=W)).to_dot()
    assert rpq("explain", CHAIN, "--dot", "-")[1] == dot
    assert "digraph" not in rpq("explain", CHAIN, "--dot", tmp_path / "a.dot")[1]
    assert (tmp_path / "a.dot").read_text() == dot


def test_drawings_by_matplotlib(rpq, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    text = "?x a ?y . ?y b ?x . ?x a ?x . \"$1$\" c _:n . ?z 'd e' ?x"
    status, _, err = rpq("explain", text, "--svg", tmp_path / "a.svg", "--png", tmp_path / "a.png")
    assert status == 0, err
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert rpq("explain", "?x a ?x", "--png", tmp_path / "loop.png")[0] == 0


# --- in Python --------------------------------------------------------------------------------------------------------


def test_of_a_query_that_does_not_run():
    explanation = library.explain(library.Query(CHAIN, window=W, select=["x"], distinct=True, matching="isomorphism"))
    assert (explanation.columns, explanation.distinct, explanation.matching) == (("x",), True, "isomorphism")
    assert explanation.nodes == ("?x", "?y", "?z")
    assert json.loads(json.dumps(explanation.to_dict())) == explanation.to_dict()
    assert "columns      x, each row once" in str(explanation)
    with pytest.raises(library.QueryError, match="query.dfa has its automaton"):
        library.explain(library.Query("a/b", window=W))


def test_what_a_run_counted_and_shares():
    engine = tiny(2)(
        library.Query("?x a ?y . ?y b ?z . ?z c bob", window=W, name="one"),
        library.Query("?x b ?y", window=W, name="two"),
        library.Query("?x b ?y", window=library.Window(size=9, slide=1), name="other window"),
        library.Query("a", window=W, name="path"),
    )
    first = engine.explain("one")
    assert first.meanings[0].waits_for == ("bob",) and "waits for an edge of bob" in str(first)
    engine.push_rows([("x", "y", "a", 1), ("w", "y", "a", 1), ("z", "bob", "c", 2), ("y", "z", "b", 3), ("y", "q", "b", 3)])
    explanation = engine.explain("one")
    relations = {relation.name: (relation.edges, relation.shared_with) for relation in explanation.relations}
    assert relations == {"a": (2, ()), "b": (2, ("two",)), "c": (1, ())}
    (part,) = explanation.meanings[0].parts
    assert {seed.atom.split(" changes")[0]: seed.rows for seed in part.seeds} == {"?x a ?y": 0, "?y b ?z": 2, "?z c bob": 0}
    assert part.support_lists.startswith("not yet: it is judged after")
    assert "b: read by atom 2, 2 edges, shared with two" in str(explanation)
    engine.unregister("two")
    assert engine.explain("one").relations[1].shared_with == ()
    assert sum(seed.rows for seed in engine.explain("one").meanings[0].parts[0].seeds) == 2
    assert str(engine.explain("path")).startswith("expression   a\nlanguage     a path expression")
