"""The labels that a query reads, over which windows, in which streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from rpq.stream.stream_labels import LabelName, label_in
from rpq.stream.window import AnyWindow


class LabelSet(NamedTuple):
    """The labels that are `named`, or with `others` all but those. Equal sets are equal, however they were written.

    >>> LabelSet.of("ab", lambda label: label != "a")
    LabelSet(named=frozenset({'a'}), others=True)
    """

    named: frozenset[str]
    others: bool

    @classmethod
    def of(cls, named: Iterable[str], reads: Callable[[str], bool]) -> Self:
        """Return the labels that something `reads`, to which all that it does not name are the same. O(named)."""
        known = frozenset(named)
        others = reads(max(known, default="") + "?")  # which is none of them
        return cls(frozenset(label for label in known if reads(label) != others), others)

    def has(self, label: str) -> bool:
        """Return whether a label is one of them."""
        return (label in self.named) != self.others


class Reading(NamedTuple):
    """The labels that a query reads over one of its windows, in a named stream or, with None, in the merged one.

    A question over one window of the merged stream need not say so; another has `readings`, a tuple of these, one for each
    of its windows, and a `RunningQuery` of it answers for them in their order.
    """

    window: AnyWindow
    labels: LabelSet
    stream: str | None = None

    def reads(self, name: LabelName) -> bool:
        """Return whether it reads edges with a label, as they are called in their stream.

        >>> from rpq.stream.stream_labels import StreamLabel
        >>> from rpq.stream.window import UnboundedWindow
        >>> reading = Reading(UnboundedWindow(), LabelSet(frozenset("a"), others=True), "s")
        >>> [reading.reads(name) for name in ("b", StreamLabel("a", "s"), StreamLabel("b", "s"), StreamLabel("b", "t"))]
        [False, False, True, False]
        """
        label = label_in(name, self.stream)
        return label is not None and self.labels.has(label)


def readings_of(question: Any) -> tuple[Reading, ...]:
    """Return what a question reads, one for each window; one over a single window of the merged stream has no `readings`."""
    readings: tuple[Reading, ...] | None = getattr(question, "readings", None)
    return (Reading(question.window, question.label_set),) if readings is None else readings
