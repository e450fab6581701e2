"""Latency of two hops in stream processors without path queries, from topic to topic, in programs as users write them."""

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
"""Name → the required package, and the module of the program."""

HOW = (
    "Bytewax and Quix Streams: the same two hops as a manual join, with edges keyed by the middle vertex and a state of the "
    "edges in the window for each vertex, one worker, default settings; they deliver at least once, rpq exactly once. A "
    "join gives a row for each path, rpq a row for each new pair of the answer: the pairs are checked to be the same."
)

JOIN = TwoHops(first=EXPRESSION.split("/")[0], second=EXPRESSION.split("/")[1], size=WINDOW, slide=SLIDE)


def is_there(name: str) -> bool:
    """Return whether a stream processor is installed."""
    return find_spec(NEIGHBOURS[name][0]) is not None


def start_process(name: str, topics: KafkaTopics) -> Start:
    """Return the function that returns the command of a stream processor between two topics."""
    query = [JOIN.first, JOIN.second, str(JOIN.size), str(JOIN.slide)]
    return lambda read, written, folder: [sys.executable, "-m", NEIGHBOURS[name][1], topics.brokers, read, written, *query]


def rows_of(lines: Sequence[bytes]) -> int:
    """Return the number of rows of the join for these events."""
    states: dict[str, State] = {}
    rows = 0
    for edge in map(json.loads, lines):
        if JOIN.is_joined(edge):
            rows += sum(1 for _ in JOIN.meet(states.setdefault(JOIN.middle(edge), JOIN.empty()), edge))
    return rows
