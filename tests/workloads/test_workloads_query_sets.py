"""TriC's query sets, and its baselines against the engine."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import rpq
from rpq.cli.group import main
from rpq.workloads.baselines.inverted_index import InvertedIndex, covering_paths
from rpq.workloads.generate.generators import KINDS
from rpq.workloads.generate.pattern_sets import query_set
from rpq.workloads.rivals import driver
from rpq.workloads.rivals.pattern_sets import PatternSet


def stream(kind: str, edges: int) -> list[tuple[str, str, str]]:
    found = []
    for batch in KINDS[kind](edges=edges, seed=5):
        found += [(row["source"], row["label"], row["target"]) for row in batch.to_pylist() if not row.get("delete")]
    return found


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["ldbc", "taxi", "biogrid"])
def test_baselines_and_the_engine_agree_on_every_solution(kind: str) -> None:
    edges = stream(kind, 600)
    drawn = list(query_set(edges, 60, seed=3, length=3, solution_limit=50))
    assert {one.kind for one in drawn} == {"chain", "star", "cycle"}
    queries = [rpq.Query(one.text, name=f"q{i}", window=rpq.UnboundedWindow()) for i, one in enumerate(drawn)]
    engine = rpq.Engine(*queries)
    expected: list[dict[str, set[tuple[str, ...]]]] = []
    for time, (source, label, target) in enumerate(edges):
        rows = defaultdict(set)
        for row in engine.insert(source, target, label, time):
            rows[row.query].add(tuple(row[1:-2]))
        expected.append(dict(rows))
    satisfied = {name for rows in expected for name in rows}
    assert satisfied == {f"q{i}" for i, one in enumerate(drawn) if one.is_satisfied}
    for incremental in (False, True):
        for caching in (False, True):
            index = InvertedIndex(incremental=incremental, caching=caching)
            for i, one in enumerate(drawn):
                names = zip(one.vertices, one.is_constant, strict=True)
                terms = [name if fixed else f"?x{place}" for place, (name, fixed) in enumerate(names)]
                index.register(f"q{i}", [(terms[x], label, terms[y]) for x, label, y in one.atoms])
            assert [*index.push(edges[:1]), *index.push(edges[1:300]), *index.push(edges[300:])] == expected
            assert index.push(edges[:3]) == [{}, {}, {}] and index.nbytes > 0


def table_of(edges: list[tuple[str, str, str]]) -> pa.Table:
    names = ("source", "label", "target")
    columns = dict(zip(names, map(list, zip(*edges, strict=True)), strict=True))
    return pa.table({**columns, "timestamp": [*range(len(edges))]})


@pytest.mark.parametrize("kind", ["ldbc", "biogrid"])
def test_the_files_of_a_set_mean_what_the_engine_is_asked(kind: str, tmp_path: Path) -> None:
    """A baseline that knows only the files has the engine's solutions."""
    edges = stream(kind, 300)
    drawn = list(query_set(edges, 30, seed=3, length=3, solution_limit=50))
    queries = [rpq.Query(one.text, name=f"{one.kind} {i}", window=rpq.UnboundedWindow()) for i, one in enumerate(drawn)]
    known = PatternSet(drawn, table_of(edges))
    ours = known.reading(rpq.Engine(*queries).push(table_of(edges)), updates=len(edges))
    edges_file, patterns_file = known.write(tmp_path)
    index, variables = InvertedIndex(incremental=True, caching=False), {}
    for number, line in enumerate(patterns_file.read_text().splitlines()):
        atoms = [cell.split(",") for cell in line.split("\t")]
        terms = [[f"?{-int(end)}" if int(end) < 0 else end for end in (source, target)] for source, _, target in atoms]
        index.register(str(number), [(x, label, y) for (x, y), (_, label, _) in zip(terms, atoms, strict=True)])
        variables[str(number)] = [term for term in dict.fromkeys(chain.from_iterable(terms)) if term.startswith("?")]
    answers = checksum = 0
    for solutions in index.push([tuple(line.split("\t")) for line in edges_file.read_text().splitlines()]):
        for name, rows in solutions.items():
            for row in rows:
                values = dict(zip(variables[name], map(int, row), strict=True))
                ordered = [int(name), *(values[one] for one in sorted(values, key=lambda term: int(term[1:])))]
                checksum += int(driver.checksums([np.array([value]) for value in ordered])[0])
                answers += 1
    assert answers > 0 and (ours.answers, ours.checksum) == (answers, checksum % 2**64)


def test_a_set_follows_from_its_seed_and_has_what_was_asked() -> None:
    edges = stream("ldbc", 3000)
    drawn = list(query_set(edges, 200, seed=1))
    assert drawn == list(query_set(edges, 200, seed=1)) != list(query_set(edges, 200, seed=2))
    assert sum(one.is_satisfied for one in drawn) == 50
    assert 3.5 < sum(len(one.atoms) for one in drawn) / 200 < 5.5
    heads = [(one.kind, one.atoms[: len(one.atoms) // 2], one.vertices[:2]) for one in drawn if one.kind != "cycle"]
    assert len(set(heads)) < len(heads)


def test_paths_cover_every_atom_of_a_cycle() -> None:
    cycle = [("?x", "a", "?y"), ("?y", "a", "?x"), ("?y", "b", "?y")]
    assert {atom for path in covering_paths(cycle) for atom in path} == {*cycle}


def test_generate_queries_writes_a_file_that_runs(tmp_path: Path) -> None:
    run = CliRunner().invoke
    stream_file, queries = str(tmp_path / "taxi.tsv"), tmp_path / "set.jsonl"
    assert run(main, ["generate", "taxi", "--edges", "400", "--output", stream_file]).exit_code == 0
    arguments = ["generate", "queries", "--over", stream_file, "--count", "30", "--length", "3", "--output", str(queries)]
    done = run(main, arguments)
    assert done.exit_code == 0, done.output
    assert len({json.loads(line)["name"] for line in queries.read_text().splitlines()}) == 30
    base = ["run", "--queries", str(queries), "--input", stream_file, "--format", "edges", "--window", "unbounded"]
    done = run(main, [*base, "--stats", str(tmp_path / "stats.json"), "--quiet"])
    assert done.exit_code == 0, done.output
    figures = json.loads((tmp_path / "stats.json").read_text())
    assert sum(query["rows_added"] > 0 for query in figures["queries"]) == 8
    assert run(main, ["generate", "queries", "--output", str(queries)]).exit_code == 2
