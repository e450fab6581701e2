"""The labels that a query reads from each stream and window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from rpq.stream.edge_ends import ALL, Ends
from rpq.stream.stream_labels import LabelName, label_in
from rpq.stream.window import AnyWindow


class LabelSet(NamedTuple):
    """The labels that are `named`, or with `others` all except these. Equal sets compare equal, however they were written.

    >>> LabelSet.of("ab", lambda label: label != "a")
    LabelSet(named=frozenset({'a'}), others=True)
    """

    named: frozenset[str]
    others: bool

    @classmethod
    def of(cls, named: Iterable[str], reads: Callable[[str], bool]) -> Self:
        """Return the set of labels for which `reads` is true; it must be constant outside `named`. O(named)."""
        known = frozenset(named)
        others = reads(max(known, default="") + "?")  # a label that is not in `known`
        return cls(frozenset(label for label in known if reads(label) != others), others)

    def has(self, label: str) -> bool:
        """Return whether a label is in the set."""
        return (label in self.named) != self.others


class Reading(NamedTuple):
    """The labels that a query reads over one of its windows, in a named stream or, with None, in the merged one.

    A question over one window of the merged stream needs no readings. Any other question has an attribute `readings`, a
    tuple with one `Reading` per window, and its `RunningQuery` maintains the windows in that order.
    """

    window: AnyWindow
    labels: LabelSet
    stream: str | None = None

    def reads(self, name: LabelName) -> bool:
        """Return whether the query reads edges with a label, given by its name in its stream.

        >>> from rpq.stream.stream_labels import StreamLabel
        >>> from rpq.stream.window import UnboundedWindow
        >>> reading = Reading(UnboundedWindow(), LabelSet(frozenset("a"), others=True), "s")
        >>> [reading.reads(name) for name in ("b", StreamLabel("a", "s"), StreamLabel("b", "s"), StreamLabel("b", "t"))]
        [False, False, True, False]
        """
        label = label_in(name, self.stream)
        return label is not None and self.labels.has(label)


def edges_accepted_by(question: Any, label: str) -> frozenset[Ends]:
    """Return which edges of a label a question has a use for, by their ends; none where it does not read the label.

    A question without a method `accepts` accepts all edges of the labels that it reads.
    """
    accepts: Callable[[str], frozenset[Ends]] | None = getattr(question, "accepts", None)
    if accepts is not None:
        return accepts(label)
    is_read = any(reading.labels.has(label) for reading in readings_of(question))
    return frozenset({ALL}) if is_read else frozenset()


def readings_of(question: Any) -> tuple[Reading, ...]:
    """Return the readings of a question, one per window; the attribute `readings` is optional for one merged window."""
    readings: tuple[Reading, ...] | None = getattr(question, "readings", None)
    return (Reading(question.window, question.label_set),) if readings is None else readings
