"""Messages that are documents of RDF: their triples come together, with the time of their graph or of the message."""

from __future__ import annotations

import json
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq import run_topics
from rpq.errors import InputError
from rpq.kafka.client import ClientSettings
from rpq.kafka.message_reader import MessageColumns
from rpq.kafka.partition_merge import LEAST, PartitionMerge, TopicPartition
from rpq.kafka.topic_run import _decode_position, _encode_position
from rpq.kafka.topic_source import Journal, Round, TopicPosition, TopicSource, read_journal
from rpq.readers import ColumnNames, RdfReading, parse_where
from rpq.run.checkpoint import Position
from rpq.stream.json_values import JsonValue
from tests.kafka.messages.test_kafka_merge import columns_of
from tests.kafka.messages.test_kafka_messages import Sent

pytest.importorskip("pyoxigraph")

from rpq.kafka.rdf_messages import RdfMessages

BY_NAME = RdfReading(time="graph-name")
LD = (("content-type", b"application/ld+json; charset=utf-8"),)


def reader(reading: RdfReading = BY_NAME, columns: str | None = None, *, unit: str | None = None, **options) -> RdfMessages:
    return RdfMessages(reading, MessageColumns.from_names(ColumnNames.parse(columns), unit), **options)


def read(of: RdfMessages, *messages: Sent) -> tuple[list[tuple], dict[int, str]]:
    found = of.read(messages)
    rows = [] if found.columns is None else found.columns.to_pylist()
    pairs = zip(rows, found.numbers.tolist(), strict=True)
    tuples = [(number, row["source"], row["target"], row["timestamp"]) for row, number in pairs]
    return tuples, {number: one.reason for number, one in found.bad.items()}


def test_a_message_is_a_document_in_the_syntax_of_its_header():
    ttl = (("content-type", b"text/turtle"),)
    nq = Sent(b"<x:a> <l:p> <x:b> <t:5> .\n<x:b> <l:p> _:n <t:6> .\n")
    ld = Sent(b'{"@id": "t:7", "@graph": {"@id": "x:a", "l:p": {"@id": "_:n"}}}', pairs=LD, number=3)
    found, bad = read(reader(), nq, ld)
    assert found == [(0, "x:a", "x:b", 5), (0, "x:b", "_:t.0.0.n", 6), (1, "x:a", "_:t.0.3.n", 7)] and not bad
    by_message = reader(RdfReading(), "timestamp=@time", stream="s")
    found = by_message.read([Sent(b"<x:a> <l:p> <x:b> , <x:c> .", pairs=ttl, at=4_000)])
    assert [(row["target"], row["timestamp"], row["stream"]) for row in found.columns.to_pylist()] == [
        ("x:b", 4_000, "s"), ("x:c", 4_000, "s")
    ]  # fmt: skip


def test_of_a_bad_message_nothing_is_read_and_the_reason_is_told():
    good = Sent(b"<x:a> <l:p> <x:b> <t:5> .")
    cases = {
        b"<x:a> <l:p> <x:b> <t:5> .\n<x:a> .": "2: at character",
        b"<x:a> <l:p> <x:b> .": "1: is in the default graph",
        None: "tombstone",
    }
    for value, reason in cases.items():
        found, bad = read(reader(), good, Sent(value), good)
        assert [number for number, *_ in found] == [0, 2] and reason in bad[1]
    found, bad = read(reader(), Sent(b"{}", pairs=(("content-type", b"application/avro"),)))
    assert not found and "the header content-type is 'application/avro'; expected one of application/n-quads" in bad[0]


def test_a_condition_leaves_triples_out():
    found = reader(where=parse_where("target = 'x:b'")).read([Sent(b"<x:a> <l:p> <x:b> <t:5> .\n<x:a> <l:p> <x:c> <t:5> .")])
    assert found.columns.num_rows == 1 and found.filtered == 1


@pytest.mark.parametrize(
    ("reading", "columns", "message"),
    [
        (RdfReading(), None, "the triples have no time: .*timestamp=@time takes that of messages"),
        (BY_NAME, "timestamp=@time", "both --rdf-time and --columns timestamp= set the time"),
        (BY_NAME, "source=@key", "triples have the columns of their terms"),
    ],
)
def test_options_that_do_not_fit(reading, columns, message):
    with pytest.raises(InputError, match=message):
        reader(reading, columns)


# --- messages of several tuples in the merge -------------------------------------------------------------------------

MESSAGES = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8)


class Rounds(list):
    """A journal in memory."""

    def write(self, number, ends, inside):
        self.append(Round(number, dict(ends), dict(inside)))


def source_at(position: TopicPosition, parts: list[list[list[int]]], journal: Rounds) -> TopicSource:
    """Return a source over partitions whose messages are lists of times, all of which from a position on were read."""
    source = TopicSource(SimpleNamespace(on_error="stop", topics={}), ClientSettings("none"))
    source._reader, source.journal = SimpleNamespace(layouts={}), journal
    places = [TopicPartition("t", number) for number in range(len(parts))]
    source.ends = {place: position.ends.get(place, 0) for place in places}
    source.fronts = {place: position.fronts.get(place, LEAST) for place in places}
    source.inside, source.round = dict(position.inside), position.round
    begun = {place: (source.ends[place], source.fronts[place]) for place in places}
    merge = source._merge = PartitionMerge(begun, max_delay=0.0, inside=source.inside)
    for place, messages in zip(places, parts, strict=True):
        numbered = [(offset, time) for offset, message in enumerate(messages) for time in message]
        left = [one for one in numbered if one[0] >= source.ends[place]]
        offsets = np.array([offset for offset, _ in left], np.int64)
        merge.add(place, columns_of([time for _, time in left]) if left else None, offsets, {}, len(messages))
        merge.reached_end(place, len(messages))
    merge.release_all()
    return source


def rows_of(part, until=None) -> list[tuple[int, int]]:
    return [*zip(part.lines[:until].tolist(), part.offsets[:until].tolist(), strict=True)]


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.integers(1, 5), st.lists(st.integers(0, 4), max_size=12))
def test_a_run_that_ends_within_a_message_goes_on_there(parts, most, cuts):
    """All tuples come once, and as without an end in between, also where the rounds are replayed from the beginning."""
    whole, once = source_at(TopicPosition(run="r"), parts, Rounds()), []
    while (part := whole.merge.ready(most)) is not None:
        once += rows_of(part)
    rounds, came = Rounds(), []
    position = TopicPosition(run="r")
    is_done = False
    while not is_done:
        source = source_at(position, parts, rounds)
        while not (is_done := (part := source.merge.ready(most)) is None):
            until = cuts.pop() if cuts else part.size
            came += rows_of(part, until)
            source.advance(part, until if until < part.size else None)
            if until < part.size:
                break
        content = _encode_position(Position(source=source.position(), sink=None, tuples=0, rejected=0, total_seconds=0.0))
        position = _decode_position(JsonValue.parse(json.dumps(content), "position")).source
    assert came == once
    replayed = source_at(TopicPosition(run="r"), parts, Rounds())
    again = []
    for part in replayed.replay(json_rounds(rounds)):
        again += rows_of(part)
        replayed.advance(part, None)
    assert again == came and replayed.position().progress == source.position().progress


def json_rounds(rounds: Rounds) -> list[Round]:
    """Return rounds as a journal on disk has them."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(f"{folder}/journal", run="r", rounds=rounds)
        journal.synchronise()
        journal.close()
        return read_journal(f"{folder}/journal", run="r")


# --- a real broker ---------------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_documents_from_a_topic_to_a_topic(kafka, tmp_path):
    read_, written = kafka.new(name="rdf"), kafka.new(name="rows")
    query = rpq.Query("<l:p>+", window=rpq.Window(size=100, slide=1), name="paths", semantics="explicit")
    documents = [
        json.dumps({"@id": f"t:{time}", "@graph": [{"@id": f"x:{time}", "l:p": {"@id": f"x:{time + 1}"}}]})
        for time in range(1, 30)
    ]
    kafka.send(read_, documents)
    figures = run_topics(
        query,
        input=kafka.uri(read_),
        output=kafka.uri(written),
        rdf=RdfReading(syntax="jsonld", time="graph-name"),
        checkpoint=tmp_path / "run.state",
        until_end=True,
    )
    engine = rpq.Engine(query)
    expected = engine.push_rows([(f"x:{time}", f"x:{time + 1}", "l:p", time) for time in range(1, 30)]).rows()
    rows = [(row["source"], row["target"], row["timestamp"], row["op"]) for row in kafka.rows(written)]
    assert sorted(rows) == sorted(tuple(row)[1:] for row in expected) and rows
    assert figures.messages == 29 and not figures.rejected
