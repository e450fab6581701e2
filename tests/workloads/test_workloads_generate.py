"""The generators: the same stream from the same seed, bounded blocks, and the features that they promise."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from rpq.readers import open_reader
from rpq.workloads.generate.command import generate
from rpq.workloads.generate.figures import stream_figures
from rpq.workloads.generate.finbench import finbench_nodes, like_finbench
from rpq.workloads.generate.generators import KINDS
from rpq.workloads.generate.interactions import like_stackoverflow
from rpq.workloads.generate.ldbc_updates import LABELS
from rpq.workloads.generate.sampling import BLOCK
from rpq.workloads.gmark.schema import SOCIAL

EDGES = 70_000  # more than a block


def stream(kind: str, *, edges: int = EDGES, seed: int = 1) -> pa.Table:
    return pa.Table.from_batches(KINDS[kind](edges=edges, seed=seed)).combine_chunks()


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_tells_the_stream(kind):
    edges = BLOCK + 100 if kind in ("stackoverflow", "ldbc") else 5_000
    first = stream(kind, edges=edges)
    assert first.num_rows == edges
    assert first.equals(stream(kind, edges=edges)) and not stream(kind, edges=100).equals(stream(kind, edges=100, seed=2))
    times = first["timestamp"].to_numpy()
    assert (np.diff(times) >= 0).all()
    assert not any(column.null_count for column in first.columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edges", [1, 100])
def test_short_streams_have_their_length(kind, edges):
    assert stream(kind, edges=edges).num_rows == edges


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_bounded_however_long_the_stream(kind):
    batches = KINDS[kind](edges=10**9, seed=1)
    assert 0 < next(batches).num_rows <= 2 * BLOCK


def test_stackoverflow_has_the_figures_of_mathoverflow():
    figures = stream_figures(pa.Table.from_batches(like_stackoverflow(edges=200_000, seed=5)))
    near = {
        "label a2q": 0.212,
        "label c2a": 0.386,
        "self-loops of a2q": 0.032,
        "self-loops of c2q": 0.280,
        "distinct pairs an edge": 0.58,
        "reciprocal pairs": 0.35,
        "out-edges of the top 1 %": 0.52,
        "out-edges of the top 10 %": 0.88,
        "in-edges of the top 1 %": 0.37,
        "busiest hour, of the mean": 1.36,
        "a month: edges a vertex": 3.35,
        "a month: vertices in the largest cycle of cycles": 0.35,
    }
    for name, wanted in near.items():
        assert 0.7 * wanted < figures[name] < 1.4 * wanted, (name, figures[name])


def test_stackoverflow_grows():
    times = stream("stackoverflow", edges=200_000)["timestamp"].to_numpy()
    half = (times[0] + times[-1]) / 2
    assert (times > half).mean() > 0.55


def test_ldbc_deletes_edges_that_are_there_and_events_are_whole():
    rows = stream("ldbc").to_pylist()
    seen: set[tuple[str, str, str]] = set()
    deletes = 0
    created: dict[str, int] = {}
    for row in rows:
        edge = (row["source"], row["label"], row["target"])
        if row["delete"]:
            deletes += 1
            assert edge in seen
        else:
            seen.add(edge)
            if row["label"] == "hasCreator":
                assert row["source"] not in created
                created[row["source"]] = row["timestamp"]
    assert 0.01 < deletes / len(rows) < 0.03
    inserts = Counter(row["label"] for row in rows if not row["delete"])
    assert {*inserts} == {*LABELS}
    assert abs(inserts["hasCreator"] - inserts["isLocatedIn"]) < 0.01 * len(rows)
    replies = [row for row in rows if row["label"] == "replyOf" and not row["delete"]]
    assert all(int(row["target"][1:]) < int(row["source"][1:]) for row in replies)  # no reply to what comes later


def test_yago_has_a_hundred_labels_and_is_sparse():
    table = stream("yago")
    labels = Counter(table["label"].to_pylist())
    assert len(labels) == 100 and {"happenedIn", "hasCapital", "participatedIn"} <= {*labels}
    assert all(source.startswith("Event_") for source, label in zip(*_columns(table)) if label == "happenedIn")
    assert labels.most_common(1)[0][1] > 0.05 * EDGES
    assert len({*table["source"].to_pylist()}) > EDGES / 5


def test_gmark_keeps_to_its_schema():
    table = stream("gmark")
    count = SOCIAL.vertices_for(EDGES)
    types = list(SOCIAL.types)
    allowed = {(r.source, r.label, r.target) for r in SOCIAL.relations}
    size = round(count / len(types))
    for row in table.slice(0, 2_000).to_pylist():
        ends = [types[min(int(row[end]) // size, len(types) - 1)] for end in ("source", "target")]
        assert (ends[0], row["label"], ends[1]) in allowed
    moderators = Counter(s for s, label in zip(*_columns(table)) if label == "2")
    assert max(moderators.values()) <= 2  # one to one, up to rounding
    knows = Counter(s for s, label in zip(*_columns(table)) if label == "0")
    assert max(knows.values()) > 8  # a tail


def test_finbench_has_hubs_parallel_transfers_and_records_that_block_accounts():
    made = [pa.Table.from_batches(like_finbench(edges=EDGES, seed=seed, degree=20)) for seed in (1, 1, 2)]
    assert made[0].num_rows == EDGES and made[0].equals(made[1]) and not made[0].equals(made[2])
    assert (np.diff(made[0]["timestamp"].to_numpy()) >= 0).all()
    transfers = [row for row in made[0].to_pylist() if row["label"] == "transfer"]
    assert not any(row["source"] == row["target"] for row in transfers)
    senders = sorted(Counter(row["source"] for row in transfers).values(), reverse=True)
    assert sum(senders[: len(senders) // 100]) > 0.2 * len(transfers)
    pairs = Counter((row["source"], row["target"]) for row in transfers).values()
    assert 2 < len(transfers) / len(pairs) < 3 and max(pairs) > 20
    records = finbench_nodes(edges=EDGES, seed=1, degree=20)
    names = {*records["node"].to_pylist()}
    assert {*made[0]["source"].to_pylist(), *made[0]["target"].to_pylist()} <= names
    blocked = [row["timestamp"] for row in records.to_pylist() if row["labels"] == "Account" and row["isBlocked"]]
    assert 0.04 < len(blocked) / (EDGES // 20) < 0.06
    assert 0.4 < sum(time > blocked[0] for time in blocked) / len(blocked) < 0.6


def _columns(table: pa.Table) -> tuple[list[str], list[str]]:
    return table["source"].to_pylist(), table["label"].to_pylist()


@pytest.mark.parametrize(("kind", "name"), [("ldbc", "s.tsv.gz"), ("ldbc", "s.parquet"), ("yago", "s.csv")])
def test_what_is_written_is_read_again(tmp_path, name, kind):
    path = str(tmp_path / name)
    ran = CliRunner().invoke(generate, [kind, "--edges", "500", "--seed", "3", "--output", path])
    assert ran.exit_code == 0, ran.output
    read = pa.Table.from_batches([batch.columns for batch in open_reader("edges", [path])])
    wanted = stream(kind, edges=500, seed=3)
    for column in wanted.column_names:
        assert read[column].to_pylist() == wanted[column].to_pylist()


def test_options_that_make_no_sense_are_refused(tmp_path):
    for args in (
        *(["yago"], ["yago", "--output", "x.txt"], ["ldbc", "--schema", __file__], ["gmark", "--compare", __file__]),
        *(["taxi", "--truth", "t.csv", "--output", "x.csv"], ["ldbc", "--kind", "taxi", "--output", "x.csv"]),
        ["rings", "--nodes", "n.csv", "--output", "x.csv"],
    ):
        ran = CliRunner().invoke(generate, args)
        assert ran.exit_code == 2, args
    ran = CliRunner().invoke(generate, ["gmark", "--schema", __file__, "--output", str(tmp_path / "s.tsv")])
    assert ran.exit_code == 2 and "not a gMark schema" in ran.output
