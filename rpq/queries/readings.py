"""What a query reads: over which windows, in which streams, which labels."""

from __future__ import annotations

from typing import Any, NamedTuple

from rpq.queries.label_set import LabelSet
from rpq.stream.stream_labels import LabelName, label_in
from rpq.stream.window import AnyWindow


class Reading(NamedTuple):
    """What a query reads over one of its windows: these labels, in a stream of that name or, with None, the merged one.

    A question over one window of the merged stream need not say so; another has `readings`, a tuple of these, one for each
    of its windows, and a `RunningQuery` of it answers for them in their order.
    """

    window: AnyWindow
    labels: LabelSet
    stream: str | None = None

    def reads(self, name: LabelName) -> bool:
        """Whether it reads edges with a label, as they are called in their stream.

        >>> from rpq.stream.stream_labels import StreamLabel
        >>> from rpq.stream.window import UnboundedWindow
        >>> reading = Reading(UnboundedWindow(), LabelSet(frozenset("a"), others=True), "s")
        >>> [reading.reads(name) for name in ("b", StreamLabel("a", "s"), StreamLabel("b", "s"), StreamLabel("b", "t"))]
        [False, False, True, False]
        """
        label = label_in(name, self.stream)
        return label is not None and self.labels.has(label)


def readings_of(question: Any) -> tuple[Reading, ...]:
    """What a question reads, one for each of its windows; those of one window of the merged stream have no `readings`."""
    readings: tuple[Reading, ...] | None = getattr(question, "readings", None)
    return (Reading(question.window, question.label_set),) if readings is None else readings
