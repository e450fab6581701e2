"""The parts of edges that queries read: their labels, the conditions on them, and the properties whose values they need.

Conditions are known by label, and for labels that a query does not name by the set that it reads. Which label ids have a
property, such as being read by paths in time order, is found once for each id.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.language.edge_variables import BindingFilter
from rpq.language.protocol import Question
from rpq.language.readings import LabelSet, Reading, filters_of, is_ordered, readings_of, values_read_by, without_tests_of
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import ConditionLabel, EdgeEnd, LabelSymbol, NodeLabel, StepTests


class _Facts(NamedTuple):
    """The conditions on edges of one query, those with tests of their ends, and the labels of facts that it reads."""

    conditions: frozenset[str]
    with_tests: frozenset[str]
    labels: frozenset[NodeLabel]
    on_labels: tuple[tuple[LabelSymbol, str, str], ...]
    """Each label with a condition: the label, the condition on the edge, and the whole one. An end has tests alone."""


def _facts_of(question: Question, readings: Sequence[Reading]) -> _Facts:
    conditions = frozenset().union(*map(_conditions_of, readings))
    with_tests = frozenset(one for one in conditions if StepTests.of(one).are_of_ends)
    named = (label for reading in readings_of(question) for label in reading.labels.named)
    labels = frozenset(label for label in named if isinstance(label, NodeLabel))
    closed = (label for reading in readings if not reading.labels.conditions for label in reading.labels.named)
    on_labels = [
        (label.label or "", StepTests.of(label.condition).edge, label.condition)
        for label in closed
        if isinstance(label, ConditionLabel) and not isinstance(label, (EdgeEnd, NodeLabel))
    ]
    ends = [label for reading in readings for label in reading.labels.named if isinstance(label, EdgeEnd)]
    tested = [end for end in ends if StepTests.of(end.condition).are_of_ends]
    with_tests |= {end.condition for end in tested}
    of_ends = [(without_tests_of(end), "", end.condition) for end in tested]
    return _Facts(_on_edges(conditions), with_tests, labels, (*on_labels, *of_ends))


class EdgeReadings:
    """The queries of a stream whose edges have an identity or properties, and their readings."""

    def __init__(self, labels: LabelDictionary) -> None:
        self._labels = labels
        self._questions: dict[str, Question] = {}
        self._ordered: dict[str, Any] = {}
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._conditions_by_label: dict[LabelSymbol, set[str]] = {}
        self._tests_by_label: dict[LabelSymbol, set[str]] = {}
        self._open_label_sets: set[LabelSet] = set()
        """The sets of labels that queries read with conditions on labels that they do not name."""
        self.values: frozenset[str] = frozenset()
        """The properties that columns and filters of queries read."""
        self.filters: dict[str, BindingFilter] = {}
        """The filters of queries, by their text."""
        self._facts: dict[str, _Facts] = {}
        self._flags: dict[Hashable, np.ndarray] = {}

    def __getitem__(self, name: str) -> tuple[Reading, ...]:
        return self._readings[name]

    def __len__(self) -> int:
        return len(self._readings)

    def add(self, questions: Iterable[Question], readings: Mapping[str, tuple[Reading, ...]]) -> None:
        """Add queries, each with its readings over its windows."""
        for question in questions:
            self._questions[question.name] = question
            if is_ordered(question):
                self._ordered[question.name] = question
            self._facts[question.name] = _facts_of(question, readings[question.name])
        self._readings |= readings
        self._index()

    def remove(self, names: Iterable[str]) -> None:
        """Remove queries."""
        for name in names:
            for of_query in (self._questions, self._ordered, self._readings, self._facts):
                of_query.pop(name, None)
        self._index()

    def _index(self) -> None:
        self._conditions_by_label, self._tests_by_label = {}, {}
        self._open_label_sets = {reading.labels for reading in self.all if reading.labels.conditions}
        for of_query in self._facts.values():
            for label, edge, condition in of_query.on_labels:
                if edge:
                    self._conditions_by_label.setdefault(label, set()).add(edge)
                if condition != edge:
                    self._tests_by_label.setdefault(label, set()).add(condition)
        reading_values = [(one, read) for one in self.questions if (read := values_read_by(one)) is not None]
        self.values = frozenset().union(*(read for _, read in reading_values))
        self.filters = {one.text: one for question, _ in reading_values for one in filters_of(question)}
        self.forget_labels()

    @property
    def all(self) -> list[Reading]:
        """The readings of all queries, each over its own window."""
        return [reading for of_query in self._readings.values() for reading in of_query]

    @property
    def questions(self) -> list[Question]:
        """The queries."""
        return [*self._questions.values()]

    @property
    def ordered_questions(self) -> list[Any]:
        """The queries about paths in time order."""
        return [*self._ordered.values()]

    # --- conditions and values -------------------------------------------------------------------------------

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions on edges of all queries, without those of edge variables."""
        return frozenset().union(*[one.conditions for one in self._facts.values()])

    def conditions_on(self, label: str) -> frozenset[str]:
        """Return the conditions on edges with which queries read a label."""
        of_others = (_on_edges(labels.conditions_on(label)) for labels in self._open_label_sets)
        return frozenset(self._conditions_by_label.get(label, ())).union(*of_others)

    @property
    def with_tests(self) -> frozenset[str]:
        """The conditions of all queries with tests of the ends of edges."""
        return frozenset().union(*[one.with_tests for one in self._facts.values()])

    def tests_on(self, label: str | EdgeEnd) -> frozenset[str]:
        """Return the conditions with tests of the ends of edges with which queries read a label."""
        if isinstance(label, EdgeEnd):
            return frozenset(self._tests_by_label.get(label, ()))
        of_others = (labels.conditions_on(label) for labels in self._open_label_sets)
        return frozenset(self._tests_by_label.get(label, ())).union(*of_others)

    @property
    def facts(self) -> frozenset[NodeLabel]:
        """The labels of facts of nodes that queries read."""
        return frozenset().union(*[one.labels for one in self._facts.values()])

    def reads_open(self, labels: LabelSet) -> bool:
        """Return whether a query reads a set of labels with conditions on labels that it does not name."""
        return labels in self._open_label_sets

    @property
    def ends(self) -> frozenset[EdgeEnd]:
        """The ends of edge variables that queries read."""
        named = (label for reading in self.all for label in reading.labels.without_tests)
        return frozenset(label for label in named if isinstance(label, EdgeEnd))

    # --- label ids -------------------------------------------------------------------------------------------

    def flags_of(self, key: Hashable, has: Callable[[LabelSymbol], bool]) -> np.ndarray:
        """Return for each label id whether its name has the property of a key (uint8). O(new labels)."""
        flags, names = self._flags.get(key, np.zeros(0, np.uint8)), self._labels.names
        if len(flags) < len(names):
            new = [isinstance(name, (str, ConditionLabel)) and has(name) for name in names[len(flags) :]]
            flags = self._flags[key] = np.concatenate([flags, np.array(new, np.uint8)])
        return flags

    def counted_labels(self, labels: LabelSet) -> np.ndarray:
        """Return which label ids a count window over some labels numbers, which has no conditions (uint8)."""
        return self.flags_of(("counted", labels), lambda name: isinstance(name, str) and name != "" and labels.has(name))

    def read_labels(self, labels: LabelSet) -> np.ndarray:
        """Return which label ids are in a set of labels, with their conditions (uint8)."""
        return self.flags_of(("read", labels), labels.has)

    def own_labels(self) -> np.ndarray:
        """Return which label ids queries read themselves, not only with tests of the ends of edges (uint8)."""
        return self.flags_of("own", self._is_own)

    def _is_own(self, label: LabelSymbol) -> bool:
        return any(reading.reads(label) for question in self.questions for reading in readings_of(question))

    def ordered_labels(self) -> np.ndarray:
        """Return which label ids queries about paths in time order read, or follow from (uint8)."""
        return self.flags_of(
            "ordered",
            lambda label: any(one.reads(label) or one.label_set.is_tested(label) for one in self.ordered_questions),
        )

    def forget_labels(self) -> None:
        """Note that label ids may have other names now."""
        self._flags.clear()


def _on_edges(conditions: Iterable[str]) -> frozenset[str]:
    """Return conditions on edges without the tests of their ends."""
    return frozenset(StepTests.of(condition).edge for condition in conditions) - {""}


def _conditions_of(reading: Reading) -> frozenset[str]:
    conditions = (label for label in reading.labels.named if isinstance(label, ConditionLabel))
    named = {label.condition for label in conditions if not isinstance(label, (EdgeEnd, NodeLabel))}
    return frozenset(named | reading.labels.conditions)
