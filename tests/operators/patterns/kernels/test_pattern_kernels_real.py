"""The kernels of graph patterns on real streams: as many rows enter and leave as four published engines count."""

from __future__ import annotations

import gzip
from functools import cache

import numpy as np
import pytest

from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.live_patterns import LivePatterns
from rpq.operators.patterns.joins.plan import Atom, plan_pattern
from rpq.operators.patterns.joins.plan_tables import PlanTables
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import Tuples
from tests.operators.patterns.kernels.label_readers import readers_of
from tests.real import DATA

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")

DAY = 86_400
CHUNK = 1 << 14

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


@cache
def mathoverflow() -> tuple[Tuples, list[str]]:
    columns = []
    for number, name in enumerate(("a2q", "c2a", "c2q")):
        with gzip.open(DATA / f"stackoverflow/sx-mathoverflow-{name}.txt.gz") as file:
            rows = np.array(file.read().split(), np.int64).reshape(-1, 3)
        columns.append(np.column_stack([rows, np.full(len(rows), number)])[rows[:, 0] != rows[:, 1]])
    table = np.concatenate(columns)
    return _stream(table[:, 0], table[:, 3], table[:, 1], table[:, 2]), ["a", "b", "c"]


@cache
def ldbc() -> tuple[Tuples, list[str]]:
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


def _stream(source, label, target, time) -> Tuples:
    order = np.argsort(time, kind="stable")
    _, ids = np.unique(np.column_stack([source, target]), return_inverse=True)
    ids = ids.reshape(-1, 2)[order].astype(np.int32)
    source, target = (np.ascontiguousarray(column) for column in ids.T)
    return Tuples(source, target, label[order].astype(np.int32), time[order], np.zeros(len(time), np.uint8))


def rows_of(text: str, stream: Tuples, labels: list[str], size: int, slide: int) -> tuple[int, int]:
    """Return the numbers of rows that enter and leave."""
    store = RelationStore()
    window = store.add_window("time", size=size, slide=slide)
    words = [atom.split() for atom in text.split(" . ")]
    relations = {name: store.add_relation(window) for name in dict.fromkeys(word[1] for word in words)}
    store.read_labels([readers_of(store, [relations[name]] if name in relations else []) for name in labels])
    plans = PlanTables(store)
    (part,) = plan_pattern([Atom(x, relations[name], y) for x, name, y in words]).parts
    plans.add(0, part, explicit=True)
    count = {1: 0, -1: 0}

    def deliver(live: LivePatterns) -> None:
        runs = tables.run_table(live.output.runs[: live.output.state.runs])
        for sign in count:
            count[sign] += int(runs[runs[:, tables.RUN_SIGN] == sign, tables.RUN_ROWS].sum())

    live = LivePatterns(store, plans, deliver)
    for first in range(0, len(stream.source), CHUNK):
        live.apply(Tuples(*(column[first : first + CHUNK] for column in stream)))
    # The edges of the last days are what is left.
    assert store.edge_count < len(stream.source) / 3
    return count[1], count[-1]


@pytest.mark.parametrize("text", MATHOVERFLOW)
def test_mathoverflow(text):
    assert rows_of(text, *mathoverflow(), 30 * DAY, DAY) == MATHOVERFLOW[text]


@pytest.mark.parametrize("text", LDBC)
def test_ldbc(text):
    assert rows_of(text, *ldbc(), 10 * DAY * 1000, DAY * 1000) == LDBC[text]
