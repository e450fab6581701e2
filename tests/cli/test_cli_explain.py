"""`rpq explain`, and the group itself: what is shown, and what is said where something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rpq import automata


def test_explain_shows_tree_table_and_dot(rpq):
    status, out, _ = rpq("explain", "(a2q / ^c2a)* | b{2,}")
    assert status == 0
    assert "(a2q/^c2a)*|b{2,}" in out
    assert "Inverse\n" in out and "Repetition 2 to any number of times" in out
    assert automata.compile("(a2q/^c2a)*|b{2,}").to_text() in out
    assert "digraph" in out
    assert re.search(r"empty word +accepted, but the empty path is never an answer", out)


@pytest.mark.parametrize(("expression", "holds"), [("a*", True), ("(a|b|c)+", True), ("a/b*", False)])
def test_explain_says_whether_simple_is_walk(rpq, expression, holds):
    out = rpq("explain", expression)[1]
    assert re.search(r"simple = walk +(\w+)", out)[1] == ("yes" if holds else "no")
    assert ("not accepted" in out) != automata.compile(expression).accepts_empty


def test_dot_goes_to_a_file_or_alone_to_standard_output(rpq, tmp_path):
    dot = automata.compile("a/b*").to_dot()
    assert rpq("explain", "a/b*", "--dot", "-")[1] == dot
    assert "digraph" not in rpq("explain", "a/b*", "--dot", tmp_path / "a.dot")[1]
    assert (tmp_path / "a.dot").read_text() == dot


def test_drawings_by_matplotlib(rpq, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    status, _, err = rpq(
        "explain", 'a/(b|"$x$")*', "--svg", tmp_path / "a.svg", "--png", tmp_path / "a.png"
    )
    assert status == 0, err
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for Graphviz")
def test_drawings_by_graphviz(rpq, tmp_path, monkeypatch):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho drawn with $1; cat\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert rpq("explain", "a", "--svg", tmp_path / "a.svg")[0] == 0
    assert (tmp_path / "a.svg").read_text() == "drawn with -Tsvg\n" + automata.compile("a").to_dot()


def test_version_and_help(rpq):
    status, out, _ = rpq("--version")
    assert status == 0 and out.startswith("rpq ")
    status, out, _ = rpq("--help")
    assert status == 0 and "run " in out and "explain " in out
    assert rpq("nonsense")[0] == 2


def test_importing_the_command_brings_in_nothing_heavy():
    code = (
        "import sys; from rpq.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'numpy', 'pyarrow', 'rich', 'pandas', 'asyncio', 'ssl', 'webbrowser'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_a_path_over_text_imports_no_other_languages_and_formats(tmp_path):
    others = ("rpq.kafka.topic_reader", "rpq.kafka.row_outputs", "rpq.language.sparql.syntax", "rpq.language.sparql.query",
              "rpq.operators.patterns", "rpq.operators.relational", "rpq.readers.rdf", "pyarrow.parquet")  # fmt: skip
    (tmp_path / "in.csv").write_text("source,target,label,timestamp\nx,y,a,1\n")
    arguments = ["run", "a+", "--input", "in.csv", "--window", "10", "--slide", "1", "--output", "out.csv", "--quiet"]
    code = f"import sys; from rpq.cli import main; main({arguments}, standalone_mode=False)\n"
    code += f"print(sorted({{*{others}}} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]" and (tmp_path / "out.csv").read_text().endswith("x,y,1,+\n")


@pytest.mark.parametrize("edges", ["triple", "id"])
def test_the_identity_of_edges_is_shown(rpq, tmp_path, edges):
    for expression in ("a[n > 1]/b", "?x ?e:a[n > 1] ?y"):
        assert f"\nedges        {edges}: " in rpq("explain", expression, "--edges", edges)[1]
        assert "\nedges " not in rpq("explain", expression)[1]
    file = tmp_path / "queries.toml"
    file.write_text('[[query]]\nname = "one"\nquery = "a+"\n[[query]]\nname = "two"\nquery = "?x a ?y"\n')
    status, out, err = rpq("explain", "--queries", file, "--edges", edges)
    assert status == 0, err
    assert out.count(f"\nedges        {edges}: ") == 2
