"""`rpq bench pattern-state`: the stored edges are those that an atom of the pattern matches, and no others."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.rdf_engines import pattern_state
from rpq.workloads.generate.rdf.rdf_streams import VOCABULARY, rdf_stream

ATOMS = {  # pattern: its atoms, with None for a variable
    "GROUND": [("e0", "p0", "h0"), ("e0", "p1", "h1"), ("e1", "p0", "h0")],
    "STAR": [(None, "p0", "h0"), (None, "p1", "h1"), ("h2", "p2", None)],
    "LOOSE": [(None, "p0", "h0"), (None, "p1", "h1"), (None, "p0", "h2"), ("h1", "p2", None), ("e0", "p0", "h0")],
    "CONNECTED": [(None, "p0", None), (None, "p2", None), (None, "p1", "h1")],
}


def matches(atom, edge) -> bool:
    return all(part is None or part == term for part, term in zip(atom, edge, strict=True))


def test_a_pattern_stores_the_edges_that_its_atoms_match(tmp_path):
    options = ["--edges", "6400", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, ["pattern-state", *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    records = {one["query"]: one for one in json.loads((tmp_path / "pattern-state.json").read_text())["records"]}
    assert [*records] == [*pattern_state.PATTERNS]
    table = pa.Table.from_batches(rdf_stream(edges=6_400, seed=1, kind="changing"))
    stored: set[tuple[str, str, str]] = set()
    largest = dict.fromkeys(ATOMS, 0)
    largest_of_all = dict.fromkeys(ATOMS, 0)
    for number, row in enumerate(table.to_pylist(), 1):
        edge = tuple(row[name].removeprefix(VOCABULARY) for name in ("source", "label", "target"))
        (stored.discard if row["delete"] else stored.add)(edge)
        if number % 100 == 0:
            for name, atoms in ATOMS.items():
                found = sum(any(map(partial(matches, edge=one), atoms)) for one in stored)
                largest[name] = max(largest[name], found)
                labels = {label for _, label, _ in atoms}
                largest_of_all[name] = max(largest_of_all[name], sum(one[1] in labels for one in stored))
    assert {name: one["all_edges"] for name, one in records.items()} == largest_of_all
    assert {name: one["edges"] for name, one in records.items()} == largest
    assert all(one["bytes"] < one["all_bytes"] for one in records.values())
