"""Two hops from topic to topic in Quix Streams: `python -m rpq.workloads.baselines.two_hops_quix BROKERS READ WRITTEN …`."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from quixstreams import Application, State

from rpq.workloads.baselines.two_hops import TwoHops


def run(brokers: str, read: str, written: str, join: TwoHops, *, folder: str) -> None:
    """Join edges for ever: they are grouped by their middle vertex through an intermediate topic, with a state for each."""
    application = Application(
        broker_address=brokers,
        consumer_group=written,  # the names of intermediate topics then contain the name of the output topic
        auto_offset_reset="earliest",
        state_dir=folder,
        loglevel="WARNING",
    )

    def meet(edge: dict[str, Any], state: State[str, Any]) -> list[dict[str, Any]]:
        edges = state.get("edges") or join.empty()
        rows = list(join.meet(edges, edge))
        state.set("edges", edges)
        return rows

    edges = application.dataframe(application.topic(read, value_deserializer="json"))
    joined = edges[edges.apply(join.is_joined)]
    of_vertices = joined.group_by(join.middle, name="by_middle")
    rows = of_vertices.apply(meet, stateful=True, expand=True)
    rows.to_topic(application.topic(written, value_serializer="json"))
    application.run()


if __name__ == "__main__":
    brokers, read, written, first, second, size, slide = sys.argv[1:]
    join = TwoHops(first=first, second=second, size=int(size), slide=int(slide))
    with tempfile.TemporaryDirectory(prefix="rpq-quix-") as folder:
        run(brokers, read, written, join, folder=folder)
