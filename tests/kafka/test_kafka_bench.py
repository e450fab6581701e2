"""`rpq bench latency --kafka`: from an event in to the change out, with a real broker, beside stream processors by hand."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads.baselines.two_hops import State, TwoHops
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.end_to_end import http_server, stream_processors


@pytest.fixture
def measured(kafka, tmp_path):
    def measure() -> tuple[dict, dict]:
        options = ["--scale", "0.004", "--edges", "60000", "--output", str(tmp_path), "--kafka", kafka.broker.address]
        ran = CliRunner().invoke(bench, ["latency", *options])
        assert ran.exit_code == 0, ran.output
        result = json.loads((tmp_path / "latency.json").read_text())
        return {record["call"]: record for record in result["records"]}, result["checks"]

    return measure


@pytest.mark.long
def test_latency_from_topic_to_topic_is_measured_and_all_rows_come(measured, monkeypatch) -> None:
    monkeypatch.setattr(stream_processors, "is_there", lambda name: False)
    monkeypatch.setattr(http_server, "is_there", lambda: False)  # which the test of all calls measures, without a broker
    calls, checks = measured()
    assert checks["the command gives the engine's rows"] and checks["rows that pass through topics arrive exactly once"]
    for call in ("stdin → stdout, 10,000/s", "Kafka → Kafka, 10,000/s", "Kafka → Kafka, full load"):
        assert 0 < calls[call]["p50_us"] <= calls[call]["p99_us"] <= calls[call]["maximum_us"] and calls[call]["rows"]
    full, avro = (calls[f"Kafka → Kafka, a full topic{encoding}"] for encoding in ("", " in Avro"))
    assert full["tuples_per_second"] > 0 and avro["tuples_per_second"] > 0 and full["rows"] == avro["rows"]
    for name in ("Bytewax", "Quix Streams"):
        for load in ("10,000/s", "full load"):
            assert calls[f"Kafka → {name} → Kafka, {load}: not installed"].get("p50_us") is None


@pytest.mark.long
def test_stream_processors_beside_it_give_the_same_pairs(measured) -> None:
    for name in stream_processors.NEIGHBOURS:
        if not stream_processors.is_there(name):
            pytest.skip(f"{name} is not installed")
    calls, checks = measured()
    assert all(checks.values())
    for name in stream_processors.NEIGHBOURS:
        for load in ("10,000/s", "full load"):
            record = calls[f"Kafka → {name} → Kafka, {load}"]
            assert 0 < record["p50_us"] <= record["p99_us"] <= record["maximum_us"] and record["rows"] > 0


def test_the_join_by_hand_gives_the_pairs_of_the_path() -> None:
    drawn = random.Random(7)
    window = {"size": 25, "slide": 10}
    join, states = TwoHops(first="a", second="b", **window), {}
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(**window)))
    found, right, rows = set(), set(), 0
    for time in range(600):
        edge = {"source": drawn.randrange(9), "target": drawn.randrange(9), "label": drawn.choice("abc"), "timestamp": time}
        new = {(row.source, row.target) for row in engine.push_rows([tuple(edge.values())]).rows()}
        if join.is_joined(edge):
            state: State = states.setdefault(join.middle(edge), join.empty())
            made = [(row["source"], row["target"]) for row in join.meet(state, edge)]
            assert new <= {*made} and len({*made}) == len(made)
            found.update(made)
            rows += len(made)
        else:
            assert not new
        right |= new
    assert found == right and rows > len(right) > 40
