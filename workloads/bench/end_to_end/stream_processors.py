"""Latency of two hops in stream processors without path queries, from topic to topic, written as their users would."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from rpq.workloads.baselines.two_hops import State, TwoHops
from rpq.workloads.bench.end_to_end.kafka_topics import KafkaTopics, Start
from rpq.workloads.bench.end_to_end.pipes import EXPRESSION, SLIDE, WINDOW

NEIGHBOURS = {
    "Bytewax": ("bytewax", "rpq.workloads.baselines.two_hops_bytewax"),
    "Quix Streams": ("quixstreams", "rpq.workloads.baselines.two_hops_quix"),
}
"""Name → the package that it needs, and the module of its program."""

HOW = (
    "Bytewax and Quix Streams: the same two hops by hand, edges keyed by the vertex in the middle and a state of the edges "
    "in the window for each, one worker, the settings as they are; they deliver at least once, rpq exactly once. A join "
    "gives a row for each path, rpq one for each pair that comes into the answer: the pairs are checked to be the same."
)

JOIN = TwoHops(first=EXPRESSION.split("/")[0], second=EXPRESSION.split("/")[1], size=WINDOW, slide=SLIDE)


def is_there(name: str) -> bool:
    """Return whether a stream processor is installed."""
    return find_spec(NEIGHBOURS[name][0]) is not None


def start_process(name: str, topics: KafkaTopics) -> Start:
    """Return the function that gives the command of a stream processor between two topics."""
    query = [JOIN.first, JOIN.second, str(JOIN.size), str(JOIN.slide)]
    return lambda read, written, folder: [sys.executable, "-m", NEIGHBOURS[name][1], topics.brokers, read, written, *query]


def rows_of(lines: Sequence[bytes]) -> int:
    """Return the number of rows that the join gives for these events."""
    states: dict[str, State] = {}
    rows = 0
    for edge in map(json.loads, lines):
        if JOIN.is_joined(edge):
            rows += sum(1 for _ in JOIN.meet(states.setdefault(JOIN.middle(edge), JOIN.empty()), edge))
    return rows
