"""Two hops from topic to topic in Bytewax: `python -m rpq.workloads.baselines.two_hops_bytewax BROKERS READ WRITTEN …`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main

from rpq.workloads.baselines.two_hops import State, TwoHops


def flow(brokers: str, read: str, written: str, join: TwoHops) -> Dataflow:
    """Return the dataflow: edges grouped by their middle vertex, and a stateful step for each vertex."""

    def meet(state: State | None, edge: dict[str, Any]) -> tuple[State, Iterable[dict[str, Any]]]:
        state = join.empty() if state is None else state
        return state, list(join.meet(state, edge))

    dataflow = Dataflow("two_hops")
    messages = kafka.input("read", dataflow, brokers=[brokers], topics=[read])
    edges = op.map("parse", messages.oks, lambda message: json.loads(message.value or b"{}"))
    joined = op.filter("joined", edges, join.is_joined)
    of_vertices = op.key_on("by_middle", joined, join.middle)
    rows = op.stateful_flat_map("meet", of_vertices, meet)
    row_messages = op.map("write", rows, lambda row: KafkaSinkMessage(None, json.dumps(row[1]).encode()))
    kafka.output("rows", row_messages, brokers=[brokers], topic=written)
    return dataflow


if __name__ == "__main__":
    brokers, read, written, first, second, size, slide = sys.argv[1:]
    cli_main(flow(brokers, read, written, TwoHops(first=first, second=second, size=int(size), slide=int(slide))))
