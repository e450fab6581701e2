"""Graph patterns in the engine on real streams: as many rows enter and leave as four published engines count."""

from __future__ import annotations

import gzip
from functools import cache

import numpy as np
import pytest

import rpq
from rpq.operators.patterns.tables import ChunkTuples
from tests.real import DATA

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")

DAY = 86_400

# Pattern -> rows that enter and that leave an explicit window of 30 days (MathOverflow) or 10 (LDBC) that slides by the day.
MATHOVERFLOW = {
    "?x a ?y . ?y b ?z": (526_037, 524_897),
    "?x a ?y . ?y b ?z . ?z c ?w": (5_434_063, 5_427_429),
    "?x a ?y . ?x b ?z . ?x c ?w": (19_120_961, 19_097_882),
    "?x a ?y . ?y b ?z . ?z c ?x": (9_676, 9_673),
    "?x a ?y . ?y b ?z . ?z a ?w . ?w b ?x": (571_050, 569_919),
    "?x a ?y . ?y b ?z . ?y c ?w . ?w a ?u": (56_273_626, 56_271_305),
}
LDBC = {
    "?p knows ?q . ?m hasCreator ?q . ?p likes ?m": (433, 195),
    "?c replyOf ?m . ?c hasCreator ?p . ?m hasCreator ?q . ?p knows ?q": (633, 245),
    "?p likes ?m . ?m hasTag ?t . ?p hasInterest ?t": (14, 4),
    "?f hasMember ?p . ?f containerOf ?m . ?m hasCreator ?p": (841, 311),
    "?p likes ?m . ?m hasTag ?t . ?n hasTag ?t . ?n hasCreator ?q . ?q workAt ?o": (387_774, 127_258),
    "?m isLocatedIn ?l . ?n isLocatedIn ?l . ?p likes ?n . ?p workAt ?o": (2_357_489, 1_247_973),
}
# The patterns with more rows are for the benchmark.
MAX_ROWS = 600_000


@cache
def mathoverflow() -> tuple[ChunkTuples, list[str]]:
    columns = []
    for number, name in enumerate(("a2q", "c2a", "c2q")):
        with gzip.open(DATA / f"stackoverflow/sx-mathoverflow-{name}.txt.gz") as file:
            rows = np.array(file.read().split(), np.int64).reshape(-1, 3)
        columns.append(np.column_stack([rows, np.full(len(rows), number)])[rows[:, 0] != rows[:, 1]])
    table = np.concatenate(columns)
    return _stream(table[:, 0], table[:, 3], table[:, 1], table[:, 2]), ["a", "b", "c"]


@cache
def ldbc() -> tuple[ChunkTuples, list[str]]:
    ids: dict[str, int] = {}
    labels: dict[str, int] = {}
    rows = []
    with gzip.open(DATA / "ldbc/snb-sf0.1-updates.tsv.gz", "rt") as file:
        for line in file:
            source, target, label, time, sign = line.rstrip("\n").split("\t")
            if sign == "+":
                ends = [ids.setdefault(name, len(ids)) for name in (source, target)]
                rows.append((ends[0], labels.setdefault(label, len(labels)), ends[1], int(time)))
    return _stream(*np.array(rows).T), list(labels)


def _stream(source, label, target, time) -> ChunkTuples:
    order = np.argsort(time, kind="stable")
    _, ids = np.unique(np.column_stack([source, target]), return_inverse=True)
    ids = ids.reshape(-1, 2)[order].astype(np.int32)
    source, target = (np.ascontiguousarray(column) for column in ids.T)
    return ChunkTuples(source, target, label[order].astype(np.int32), time[order], np.zeros(len(time), np.uint8))


@pytest.mark.parametrize(
    ("stream", "patterns", "days", "day"),
    [
        (mathoverflow, MATHOVERFLOW, 30, DAY),
        (ldbc, LDBC, 10, 1000 * DAY),
    ],
    ids=["mathoverflow", "ldbc"],
)
def test_as_many_rows_enter_and_leave(stream, patterns, days, day):
    tuples, labels = stream()
    patterns = {pattern: counts for pattern, counts in patterns.items() if counts[0] < MAX_ROWS}
    window = rpq.Window(size=days * day, slide=day)
    engine = rpq.Engine(*(rpq.Query(pattern, window=window, semantics="explicit") for pattern in patterns))
    named = [labels[label] for label in tuples.label.tolist()]
    engine.push(source=tuples.source, target=tuples.target, label=named, timestamp=tuples.timestamp, collect=False)
    figures = {query: engine.statistics(query) for query in patterns}
    assert {query: (one.rows_added, one.rows_removed) for query, one in figures.items()} == patterns
    assert all(one.answers_live == one.rows_added - one.rows_removed for one in figures.values())
