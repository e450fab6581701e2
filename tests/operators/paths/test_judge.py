"""Only the judge of an index decides what is an answer: nobody else asks which paths a query is about."""

from __future__ import annotations

import ast
from glob import glob
from pathlib import Path

import numpy as np
import pytest

import rpq
from rpq.operators.paths import path_trees
from rpq.operators.paths.index.judging import DoubtFigures, NoDoubt

PACKAGE = Path(rpq.__file__).parent
WINDOW = rpq.Window(size=10, slide=1)
ALLOWED = {
    "operators/paths/simple/simple_judge.py",  # chooses
    "operators/patterns/read_relations.py",  # has relations without loops; a budget as in path_relations
    "operators/patterns/relations/path_relations.py",  # a budget is a part of what a relation of simple paths holds
    "language/query.py",  # refuses other words
    "spark/stream/stream_identity.py",  # refuses a way with the budget of simple paths
    "operators/paths/direction.py",  # follows paths backwards where none is in doubt
    "operators/patterns/chains.py",  # what is between two simple paths is no simple path
    "operators/paths/path_trees.py",  # trees of walks alone are shared
    "operators/relational/running_query.py",  # as path_relations
    "language/sparql/query.py",  # as query.py
    "engine/warmup.py",  # compiles the kernels of paths in time order with those of walks
}


def looks_at_paths(code: str) -> bool:
    """Return whether code compares an attribute `paths` with "walk" or "simple"."""
    if ".paths" not in code or not ('"walk"' in code or '"simple"' in code):
        return False
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            about = any(isinstance(part, ast.Attribute) and part.attr == "paths" for part in parts)
            if about and any(isinstance(part, ast.Constant) and part.value in ("walk", "simple") for part in parts):
                return True
    return False


def test_which_paths_a_query_is_about_is_looked_at_in_one_place() -> None:
    files = glob("**/*.py", root_dir=PACKAGE, recursive=True)
    assert {file for file in files if looks_at_paths((PACKAGE / file).read_text())} == ALLOWED


@pytest.mark.parametrize(("expression", "paths"), [("a/b*/c", "walk"), ("a*", "walk"), ("a*", "simple")])
def test_where_nothing_is_in_doubt_every_question_has_an_empty_answer(expression: str, paths: str, tmp_path: Path) -> None:
    query = rpq.Query(expression, window=WINDOW, paths=paths, simple_budget=1, name="q")
    engine = rpq.Engine(query, threads=2)
    engine.push_rows([("x", "y", "a", 1), ("y", "x", "a", 1), ("y", "z", "c", 1), ("z", "y", "c", 1)])
    engine.save(tmp_path / "state")
    for one in (engine, rpq.Engine.restore(tmp_path / "state")):
        before = one.answers().pairs()
        assert ("x", "z" if expression == "a/b*/c" else "y") in before
        assert one.set_aside() == []
        assert one.restore_root("x").rows() == []
        assert one.answers().pairs() == before
        for index in one._evaluation.running.find("q").indexes:
            assert not index.may_overrun
            assert (index.figures(), index.aside_roots, index.take_overruns()) == (DoubtFigures(), {}, [])


class NothingFrom(NoDoubt):
    """A judge for whom no walk from a vertex is an answer."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    def answers_among(self, walks: np.ndarray) -> np.ndarray:
        return walks[walks >> 32 != self.hidden]


def test_an_index_asks_the_judge_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_trees, "judge_for", lambda query, program, room: NothingFrom(0))
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 1)])
    assert engine.answers().pairs() == {("y", "z")}
    assert engine.witness("x", "z") is None
    path = engine.witness("y", "z")
    assert path is not None and path.vertices == ("y", "z")
