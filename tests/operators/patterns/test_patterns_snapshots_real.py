"""Graph patterns on real streams: at moments drawn by chance the answers are what pyoxigraph finds in the snapshot.

The snapshot is taken from the tuples alone, without the engine. patterns.md section 2 (the answer at a moment), section 4.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import rpq
from tests.operators.patterns.kernels.test_pattern_kernels_real import DAY, LDBC, MATHOVERFLOW, mathoverflow
from tests.real import DATA

pyoxigraph = pytest.importorskip("pyoxigraph")

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")

FEW = {"?x a ?y . ?y b ?z", "?x a ?y . ?y b ?z . ?z c ?x", *list(LDBC)[:4]}
"""The queries whose snapshots have few answers."""


class Stream(NamedTuple):
    source: np.ndarray
    label: np.ndarray  # of texts
    target: np.ndarray
    timestamp: np.ndarray
    delete: np.ndarray


@cache
def answers_and_comments() -> Stream:
    tuples, labels = mathoverflow()
    named = np.array(labels)[tuples.label]
    return Stream(tuples.source, named, tuples.target, tuples.timestamp, tuples.delete.astype(bool))


@cache
def updates() -> Stream:
    """All of them, with their deletes."""
    ids: dict[str, int] = {}
    rows = []
    with gzip.open(DATA / "ldbc/snb-sf0.1-updates.tsv.gz", "rt") as file:
        for line in file:
            source, target, label, time, sign = line.rstrip("\n").split("\t")
            if time == "timestamp":  # the header
                continue
            ends = [ids.setdefault(name, len(ids)) for name in (source, target)]
            rows.append((ends[0], label, ends[1], int(time), sign == "-"))
    rows.sort(key=lambda row: row[3])
    source, label, target, time, delete = zip(*rows, strict=True)
    return Stream(np.array(source), np.array(label), np.array(target), np.array(time), np.array(delete))


class Snapshot:
    """The edges of a window, found without the engine, of tuples in the order of time."""

    def __init__(self, window: rpq.Window) -> None:
        self._window = window
        self._held: dict[tuple[int, str, int], int] = {}

    def after(self, tuples: Stream) -> set[tuple[int, str, int]]:
        """The edges that the window holds after these further tuples."""
        present, time = self._held, 0
        for source, label, target, time, delete in zip(*(column.tolist() for column in tuples), strict=True):
            if delete:
                present.pop((source, label, target), None)
            else:
                present[source, label, target] = time
        bound = self._window.lower_bound(time)
        self._held = {edge: moment for edge, moment in present.items() if moment > bound}
        return set(self._held)


def found_by_sparql(pattern: str, columns: tuple[str, ...], edges: set[tuple[int, str, int]]) -> np.ndarray:
    """The solutions that a store of triples has: a row each, as often as they come."""
    node = pyoxigraph.NamedNode
    store = pyoxigraph.Store()
    store.bulk_extend(pyoxigraph.Quad(node(f"v:{s}"), node(f"l:{label}"), node(f"v:{t}")) for s, label, t in edges)
    words = [atom.split() for atom in pattern.split(" . ")]
    body = " . ".join(f"{subject} <l:{label}> {target}" for subject, label, target in words)
    return solutions(store, body, columns)


def solutions(store: pyoxigraph.Store, body: str, columns: Sequence[str]) -> np.ndarray:
    """The solutions of a body whose variables are vertices `v:NUMBER`."""
    results = store.query(f"SELECT {' '.join(f'?{name}' for name in columns)} {{ {body} }}")
    text = results.serialize(format=pyoxigraph.QueryResultsFormat.CSV)
    table = pyarrow.csv.read_csv(
        io.BytesIO(text), convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()))
    )
    numbers = [pc.utf8_slice_codeunits(table[name], 2).cast(pa.int64()).to_numpy() for name in columns]
    return np.column_stack(numbers) if len(table) else np.zeros((0, len(columns)), np.int64)


def answers(engine: rpq.Engine, name: str) -> np.ndarray:
    """Return the current answers of an engine, a row each."""
    found = engine.answers(name).to_arrow()
    return np.column_stack([column.to_numpy() for column in found.columns])


def in_order(rows: np.ndarray) -> np.ndarray:
    bits = int(rows.max(initial=0)).bit_length()
    if bits * rows.shape[1] < 64:  # many times as fast
        return np.sort(rows @ (1 << bits * np.arange(rows.shape[1])))
    return rows[np.lexsort(rows.T)]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("moments", "few"),
    [pytest.param(3, True, id="quick"), pytest.param(50, False, id="long", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    ("read", "patterns", "days", "day"),
    [
        pytest.param(answers_and_comments, MATHOVERFLOW, 30, DAY, id="mathoverflow"),
        pytest.param(updates, LDBC, 10, 1000 * DAY, id="ldbc", marks=pytest.mark.long),
    ],
)
def test_answers_are_what_sparql_finds_in_the_snapshot(read, patterns, days, day, moments, few):
    stream = read()
    window = rpq.Window(size=days * day, slide=day)
    questions = [rpq.Query(text, window=window) for text in patterns if not few or text in FEW]
    engine = rpq.Engine(*questions)
    begin, solutions, snapshot = 0, dict.fromkeys(patterns, 0), Snapshot(window)
    chosen = np.random.default_rng(7).choice(len(stream.source) - 1, moments, replace=False) + 1
    for end in sorted(chosen.tolist()):
        part = Stream(*(column[begin:end] for column in stream))
        engine.push(part._asdict(), collect=False)
        begin, edges = end, snapshot.after(part)
        for query in questions:
            mine = answers(engine, query.name)
            wanted = found_by_sparql(query.expression, query.columns, edges)
            assert np.array_equal(in_order(mine), in_order(wanted)), (query.name, end)
            solutions[query.name] += len(wanted)
    assert sum(count > 0 for count in solutions.values()) >= (2 if few else 5)
