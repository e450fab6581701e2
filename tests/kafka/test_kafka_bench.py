"""`rpq bench latency --kafka`: from an event in to the change out, with a real broker, beside stream processors by hand."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

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
