"""The broker of the tests is one: what was committed is read, also after a crash and a new start."""

from __future__ import annotations

import pytest

from tests.services.kafka_broker import Broker, required_or_skipped


@pytest.mark.long
def test_what_is_sent_is_there_after_a_crash_of_the_broker(tmp_path) -> None:
    with required_or_skipped():
        from tests.services.kafka_topics import Topics

        broker = Broker(tmp_path).start()
    try:
        topics = Topics(broker)
        topic = topics.new(2)
        topics.send(topic, [{"x": 1}, {"x": 2}], partition=1, key=b"k", headers={"h": b"1"})
        broker.kill()
        broker.start()
        assert [(one.partition, one.key, one.headers) for one in topics.committed(topic)] == [(1, b"k", {"h": b"1"})] * 2
        assert topics.rows(topic) == [{"x": 1}, {"x": 2}]
    finally:
        broker.stop()


def test_where_there_can_be_no_broker_tests_skip_with_the_reason_but_not_where_they_must_run(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("RPQ_NEEDS_KAFKA", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Kafka broker: there is no Java"), required_or_skipped():
        Broker(tmp_path)
    monkeypatch.setenv("RPQ_NEEDS_KAFKA", "1")
    with pytest.raises(Exception, match="there is no Java"), required_or_skipped():
        Broker(tmp_path)
