"""Path atoms in graph patterns on real streams: at some moments the answers are those of pyoxigraph on the snapshot.

Path atoms are given to pyoxigraph as triples between the pairs of the path: as the path engine has them at that moment,
which a search in the snapshot by plain Python confirms for some roots.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import rpq
from tests.operators.patterns.kernels.test_pattern_kernels_real import DAY, ldbc, mathoverflow
from tests.operators.patterns.test_patterns_snapshots_real import answers, in_order, solutions
from tests.real import DATA
from tests.twins import search

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")

FEW = 20
"""Roots whose pairs are searched for in plain Python."""


def found_by_sparql(pattern: str, edges: set[tuple[int, str, int]], pairs: dict[str, set[tuple[int, int]]]) -> np.ndarray:
    """Return pyoxigraph's answers over edges and the pairs of paths, a row each."""
    pyoxigraph = pytest.importorskip("pyoxigraph")
    node, labels, triples, atoms = pyoxigraph.NamedNode, {}, [], []
    for atom in pattern.split(" . "):
        subject, expression, object_ = atom.split()
        label = node(f"l:{labels.setdefault(expression, len(labels))}")
        joined = pairs.get(expression) or {(u, v) for u, name, v in edges if name == expression}
        triples += [pyoxigraph.Quad(node(f"v:{u}"), label, node(f"v:{v}")) for u, v in joined]
        ends = [term if term[0] == "?" else f"<v:{term}>" for term in (subject, object_)]
        atoms.append(f"{ends[0]} {label} {ends[1]}")
    store = pyoxigraph.Store()
    store.bulk_extend(triples)
    columns = list(dict.fromkeys(term[1:] for term in pattern.split() if term[0] == "?"))
    return solutions(store, " . ".join(atoms), columns)


MONTH, TEN_DAYS = rpq.Window(size=30 * DAY, slide=DAY), rpq.Window(size=10_000 * DAY, slide=1000 * DAY)
CASES = {  # the last: at how many moments, where there is little time
    "mathoverflow": (mathoverflow, "?x a/b* ?y . ?y c ?z", MONTH, 2),
    "mathoverflow from a constant": (mathoverflow, "{busy} a/b* ?y . ?y c ?z", MONTH, 6),
    "mathoverflow to a constant": (mathoverflow, "?x a/b* {busy} . ?x c ?z", MONTH, 6),
    "ldbc": (ldbc, "?p likes ?m . ?m replyOf+ ?post . ?post hasCreator ?q . ?p knows ?q", TEN_DAYS, 2),
}


@pytest.mark.ci
@pytest.mark.parametrize("many", [False, pytest.param(50, marks=pytest.mark.long)], ids=["quick", "long"])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_pyoxigraph(case, many):
    stream, text, window, few = CASES[case]
    count = many or few
    tuples, labels = stream()
    busy = np.argsort(-np.bincount(tuples.source))
    pattern = text.format(busy=busy[0])
    path_atoms = [atom.split() for atom in pattern.split(" . ") if atom.split()[1][-1] in "+*"]
    paths = [
        rpq.Query(expression, window=window, name=expression, sources=constant(subject), targets=constant(object_))
        for subject, expression, object_ in path_atoms
    ]
    whole = rpq.Query(pattern, window=window, semantics="explicit", name="pattern")
    engine = rpq.Engine(whole, *paths)
    total = 0
    moments = np.linspace(0, len(tuples.source), count + 1, dtype=int)
    for begin, end in pairwise(moments):
        some = {name: getattr(tuples, name)[begin:end] for name in ("source", "target", "timestamp")}
        names = pa.DictionaryArray.from_arrays(tuples.label[begin:end], labels)
        engine.push(pa.table({**some, "label": names}), collect=False)
        edges = snapshot(tuples, labels, end, window, engine.time)
        pairs = {}
        for query in paths:
            pairs[query.name] = set(engine.answers(query.name))
            roots = {int(root) for root in busy[:FEW]} | {u for u, _ in sorted(pairs[query.name])[:FEW]}
            if query.sources is not None:
                roots &= query.sources
            few = rpq.Query(query.expression, window=window, sources=roots, targets=query.targets)
            assert {pair for pair in pairs[query.name] if pair[0] in roots} == search(few, edges)
        wanted = found_by_sparql(pattern, edges, pairs)
        assert np.array_equal(in_order(answers(engine, "pattern")), in_order(wanted))
        figures = engine.statistics("pattern")
        assert figures.rows_added - figures.rows_removed == len(wanted)
        total += len(wanted)
    assert total


def constant(term: str) -> list[int] | None:
    """The vertex that a term is; None for a variable."""
    return None if term[0] == "?" else [int(term)]


def snapshot(tuples, labels, end: int, window: rpq.Window, time: int) -> set[tuple[int, str, int]]:
    """The edges in the window once so many tuples have come."""
    inside = np.flatnonzero(tuples.timestamp[:end] > window.lower_bound(time))
    columns = (column[inside].tolist() for column in (tuples.source, tuples.label, tuples.target))
    return {(u, labels[label], v) for u, label, v in zip(*columns, strict=True)}


def test_five_moderators_need_the_trees_that_five_sources_do():
    tuples, labels = mathoverflow()
    columns = {name: getattr(tuples, name) for name in ("source", "target", "timestamp")}
    stream = pa.table({**columns, "label": pa.DictionaryArray.from_arrays(tuples.label, labels)})
    five = [int(vertex) for vertex in np.argsort(-np.bincount(tuples.source))[:5]]
    path = rpq.Engine(rpq.Query("a/b*", window=MONTH, sources=five))
    pattern = rpq.Engine(rpq.Query("?x role '-7' . ?x a/b* ?y", window=MONTH))
    pattern.load_static([(moderator, -7, "role") for moderator in five])
    wanted, found = path.push(stream, collect=False), pattern.push(stream, collect=False)
    assert found.added == wanted.added > 50_000
    assert pattern.statistics().index_cells == path.statistics().index_cells
