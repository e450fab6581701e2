"""The labels that a query reads from each stream and window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Literal, NamedTuple, Self

from rpq.automata.symbols import ConditionLabel, LabelSymbol, StepTests
from rpq.errors import QueryError
from rpq.language.conditions import condition_of, node_test_of
from rpq.language.edge_variables import BindingFilter, Value, step_of
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.names.stream_labels import EdgeEnd, LabelName, NodeLabel, NodeTest, NodeValue, label_in, text_of
from rpq.stream.window import AnyWindow, Window


class LabelSet(NamedTuple):
    """The labels that are `named`, or with `others` all except these. Equal sets compare equal, however they were written.

    >>> LabelSet.of("ab", lambda label: label != "a")
    LabelSet(named=frozenset({'a'}), others=True, conditions=frozenset())

    Of labels with a condition, those with one of the `conditions` are in the set unless they are named, others if they are.
    """

    named: frozenset[LabelSymbol]
    others: bool
    conditions: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, named: Iterable[LabelSymbol], reads: Callable[[LabelSymbol], bool], conditions: Iterable[str] = ()
    ) -> Self:
        """Return the set of labels for which `reads` is true. O(named).

        It must be constant outside `named` for plain labels and for those with each of the `conditions`.
        """
        labels = frozenset(named)
        other = max(map(text_of, labels), default="") + "?"  # a label that is not in `labels`
        chosen = frozenset(condition for condition in conditions if reads(ConditionLabel(other, condition)))
        found = cls(frozenset(), reads(other), chosen)
        return found._replace(named=frozenset(label for label in labels if reads(label) != found.has(label)))

    def union(self, other: LabelSet) -> LabelSet:
        """Return the labels that are in this set or in another; both without conditions.

        >>> LabelSet(frozenset("ab"), True).union(LabelSet(frozenset("bc"), False))
        LabelSet(named=frozenset({'a'}), others=True, conditions=frozenset())
        """
        others = self.others or other.others
        labels = self.named | other.named
        named = frozenset(label for label in labels if (self.has(label) or other.has(label)) != others)
        return LabelSet(named, others)

    @property
    def has_others(self) -> bool:
        """True if labels that are not named are in the set."""
        return self.others or bool(self.conditions)

    def has(self, label: LabelSymbol) -> bool:
        """Return whether a label is in the set."""
        if isinstance(label, ConditionLabel):  # those of other kinds are in the set if they are named
            has_others = type(label) is ConditionLabel and label.condition in self.conditions
        else:
            has_others = self.others
        return (label in self.named) != has_others

    def conditions_on(self, label: str) -> frozenset[str]:
        """Return the conditions with which a label is in the set.

        >>> sorted(LabelSet(frozenset({ConditionLabel("a", "n > 1")}), False).conditions_on("a"))
        ['n > 1']
        """
        named = {one.condition for one in self.named if isinstance(one, ConditionLabel)}
        return frozenset(one for one in named | self.conditions if self.has(ConditionLabel(label, one)))

    @property
    def has_tests(self) -> bool:
        """True if ends of edges have to satisfy tests."""
        return any(tests.are_of_ends for tests in self.step_tests)

    @property
    def without_tests(self) -> frozenset[LabelSymbol]:
        """The named labels, those with tests of the ends of edges without these.

        >>> tested = ConditionLabel("a", StepTests("n > 1", target=("risk > 3",)).condition)
        >>> print(*sorted(LabelSet(frozenset({tested, "b"}), False).without_tests))
        a[n > 1] b
        """
        return frozenset(map(without_tests_of, self.named))

    def is_tested(self, label: LabelSymbol) -> bool:
        """Return whether edges that follow from those of a label, with tests of their ends, are in the set."""
        if isinstance(label, EdgeEnd):
            return any(one != label and without_tests_of(one) == label for one in self.named)
        if isinstance(label, NodeLabel):
            return False
        own = StepTests.of(label.condition if isinstance(label, ConditionLabel) else "")
        steps = map(StepTests.of, self.conditions_on(text_of(label)))
        return any(step.are_of_ends and StepTests(step.edge) == own for step in steps)

    @property
    def has_conditions(self) -> bool:
        """True if labels with a condition are in the set."""
        return bool(self.conditions) or any(isinstance(one, ConditionLabel) for one in self.named)

    @property
    def step_tests(self) -> frozenset[StepTests]:
        """The conditions and tests of the labels in the set; of the ends that edge variables read the tests alone.

        >>> labels = LabelSet(frozenset({"b", ConditionLabel("a", StepTests("n > 1", ("risk > 3",)).condition)}), False)
        >>> labels.step_tests
        frozenset({StepTests(edge='n > 1', source=('risk > 3',), target=())})
        """
        named = (one for one in self.named if isinstance(one, ConditionLabel) and not isinstance(one, EdgeEnd | NodeLabel))
        of_ends = (StepTests.of(one.condition)._replace(edge="") for one in self.named if isinstance(one, EdgeEnd))
        found = frozenset(map(StepTests.of, {*self.conditions, *(one.condition for one in named)}))
        return found.union(step for step in of_ends if step.are_of_ends)

    @property
    def plain(self) -> LabelSet:
        """The labels that are in the set, plain or with a condition.

        >>> LabelSet(frozenset({"b", ConditionLabel("a", "n > 1")}), False).plain == LabelSet(frozenset("ab"), False)
        True
        """
        ends = {label for label in self.named if isinstance(label, EdgeEnd)}
        if ends:
            steps = {step_of(end.label or "") for end in ends}
            walked = (LabelSet.of(step.labels, step.walks) for step in steps)  # type: ignore[arg-type]  # of plain labels
            return reduce(LabelSet.union, walked, self._replace(named=self.named - ends).plain)
        texts = [text_of(label) for label in self.named if not isinstance(label, NodeLabel)]
        is_in = (lambda label: self.has(label) or bool(self.conditions_on(label))) if self.has_others else lambda label: True
        return LabelSet(frozenset(label for label in texts if is_in(label) != self.has_others), self.has_others)


def without_tests_of(label: LabelSymbol) -> LabelSymbol:
    """Return the label from whose edges those of a label with tests of their ends follow."""
    if not isinstance(label, ConditionLabel) or isinstance(label, NodeLabel):
        return label
    edge = StepTests.of(label.condition).edge
    if isinstance(label, EdgeEnd):
        return EdgeEnd(label.label, edge)
    return ConditionLabel(label.label, edge) if edge else text_of(label)


class Reading(NamedTuple):
    """The labels that a query reads over one of its windows, in a named stream or, with None, in the merged one.

    A question over one window of the merged stream needs no readings. Any other question has an attribute `readings`, a
    tuple with one `Reading` per window, and its `RunningQuery` maintains the windows in that order.
    """

    window: AnyWindow
    labels: LabelSet
    stream: str | None = None

    @property
    def is_of_facts(self) -> bool:
        """True if all labels are those of facts of nodes, which no tuple brings.

        >>> from rpq.stream.window import UnboundedWindow
        >>> Reading(UnboundedWindow(), LabelSet(frozenset({NodeTest("node", "risk > 3")}), False)).is_of_facts
        True
        """
        labels = self.labels
        return not labels.has_others and bool(labels.named) and all(isinstance(one, NodeLabel) for one in labels.named)

    def reads(self, name: LabelName) -> bool:
        """Return whether the query reads edges with a label, given by its name in its stream.

        >>> from rpq.stream.names.stream_labels import StreamLabel
        >>> from rpq.stream.window import UnboundedWindow
        >>> reading = Reading(UnboundedWindow(), LabelSet(frozenset("a"), others=True), "s")
        >>> [reading.reads(name) for name in ("b", StreamLabel("a", "s"), StreamLabel("b", "s"), StreamLabel("b", "t"))]
        [False, False, True, False]
        """
        label = label_in(name, self.stream)
        return label is not None and self.labels.has(label)


def accepted_edges_by(question: Any, label: LabelSymbol) -> frozenset[Ends]:
    """Return which edges of a label a question needs, by their ends; none where it does not read the label.

    A question without a method `accepts` accepts all edges of the labels that it reads.
    """
    accepts: Callable[[LabelSymbol], frozenset[Ends]] | None = getattr(question, "accepts", None)
    if accepts is not None:
        return accepts(label)
    is_read = any(reading.labels.has(label) for reading in readings_of(question))
    return frozenset({ALL}) if is_read else frozenset()


def report_windows_of(question: Any) -> list[Window]:
    """Return the windows of time at whose boundaries a question reports: its window, or its `report_windows`."""
    windows = getattr(question, "report_windows", (question.window,))
    return [window for window in windows if isinstance(window, Window)]


def static_graphs_of(question: Any) -> frozenset[str]:
    """Return the names of the graphs of edges without time that FROM names in a question; none for all but SPARQL."""
    graphs: frozenset[str] = getattr(question, "static_graphs", frozenset())
    return graphs


def from_clauses(graphs: Iterable[str]) -> str:
    """Return the names of graphs as a query lists them.

    >>> from_clauses({"h", "g"})
    'FROM <g> FROM <h>'
    """
    return " ".join(f"FROM <{graph}>" for graph in sorted(graphs))


def named_graphs_of(question: Any) -> frozenset[str]:
    """Return the names of the graphs of edges without time that GRAPH reads in a question; none for all but SPARQL."""
    graphs: frozenset[str] = getattr(question, "named_graphs", frozenset())
    return graphs


def over_dataset(question: Any, graphs: Iterable[str]) -> Any:
    """Return the question in which GRAPH with a variable reads all of these graphs, unless its text lists some."""
    reads_dataset = getattr(question, "reads_dataset", False)
    return question.over_dataset(sorted(graphs)) if reads_dataset else question


def readings_of(question: Any) -> tuple[Reading, ...]:
    """Return the readings of a question, one per window; the attribute `readings` is optional for one merged window."""
    readings: tuple[Reading, ...] | None = getattr(question, "readings", None)
    return (Reading(question.window, question.label_set),) if readings is None else readings


def is_ordered(question: Any) -> bool:
    """Return whether answers to a query depend on the order in time of the edges of a path."""
    return bool(getattr(question, "is_ordered", False))


def has_conditions(question: Any) -> bool:
    """Return whether a query reads labels with conditions on the properties of edges."""
    return any(reading.labels.has_conditions for reading in readings_of(question))


def has_values(question: Any) -> bool:
    """Return whether a query has conditions on edges, or reads values of edges."""
    named = {label for reading in readings_of(question) for label in reading.labels.without_tests}
    has_conditions = any(isinstance(label, ConditionLabel) and not isinstance(label, NodeLabel) for label in named)
    of_others = (StepTests.of(one).edge for reading in readings_of(question) for one in reading.labels.conditions)
    return has_conditions or any(of_others) or bool(properties_of(question))


def properties_of(question: Any) -> frozenset[str]:
    """Return the names of the properties of edges that a query reads, without `timestamp`."""
    conditions: set[str] = set()
    for labels in (reading.labels for reading in readings_of(question)):
        conditions |= {tests.edge for tests in labels.step_tests if tests.edge}
        ends = (label for label in labels.named if isinstance(label, EdgeEnd))
        conditions.update(*(step_of(end.label or "").conditions for end in ends))
    own: frozenset[str] = getattr(question, "properties", frozenset())
    return own.union(*(condition_of(text).properties for text in conditions))


# --- facts of nodes ----------------------------------------------------------------------------------------------


def node_tests_of(question: Any) -> frozenset[str]:
    """Return the tests of nodes that a query reads, in its paths too; the empty one stands for all nodes with a record."""
    found: set[str] = set()
    for labels in (reading.labels for reading in readings_of(question)):
        found |= {label.condition for label in labels.named if isinstance(label, NodeTest)}
        found.update(*((*tests.source, *tests.target) for tests in labels.step_tests))
    return frozenset(found)


def node_values_of(question: Any) -> frozenset[str]:
    """Return the properties of nodes whose values a query reads in filters and columns."""
    named = (label for reading in readings_of(question) for label in reading.labels.named)
    return frozenset(label.condition for label in named if isinstance(label, NodeValue))


def node_properties_of(question: Any) -> frozenset[str]:
    """Return the properties of nodes that a query reads in tests, filters and columns, without labels and names."""
    tests = (node_test_of(text).where.names for text in node_tests_of(question) if text)
    names = node_values_of(question).union(*tests)
    return frozenset(name for name in names if not name.startswith(":") and name not in ("id", "labels"))


def refuse_edge_values(questions: Iterable[Any], where: str) -> None:
    """Raise `QueryError` for conditions on edges, edge variables, filters and orders, where edges have no properties.

    `where` names the input, as in "on Spark".
    """
    instead = "run it with rpq run over files, or push to an rpq.Engine; or"
    for question in (for_identity(one, "triple") for one in questions):
        name, labels = question.name, [label for reading in readings_of(question) for label in reading.labels.named]
        if getattr(question, "cost", None) is not None:
            raise QueryError(
                f"query {name!r} has costs (cost={question.cost!r}), and edges {where} have no properties: {instead} leave "
                "out the cost"
            )
        if ends := sorted({label.label or "" for label in labels if isinstance(label, EdgeEnd)}):
            if question.language is not None:
                raise QueryError(
                    f"query {name!r} binds edges ({ends[0]}), and edges {where} have neither properties nor an identity: "
                    f"{instead} write RETURN DISTINCT with vertices alone, and no condition on an edge"
                )
            raise QueryError(
                f"query {name!r} binds edges to variables (?e:{ends[0]}), and edges {where} have neither properties nor an "
                f"identity: {instead} leave out the edge variables"
            )
        if is_ordered(question):
            raise QueryError(
                f"query {name!r} is about paths in time order, where edges do not replace each other by source, label and "
                f"target, as edges {where} do by default: let each insert be an edge of its own, with --edges parallel "
                f"(in Python of replays edges='parallel', of streams identity='parallel'); or leave out the order"
            )
        if has_values(question):
            raise QueryError(
                f"query {name!r} has conditions on edges, and edges {where} have no properties: {instead} leave out the "
                "brackets"
            )
        if filters_of(question):
            raise QueryError(
                f"query {name!r} has a filter, which one engine evaluates, and {where} the work is divided: {instead} write "
                "the filter in SPARQL, as FILTER"
            )


# --- the identity of edges ----------------------------------------------------------------------------------------


Identity = Literal["triple", "parallel", "id"]
"""The inserts that are the same edge: those with equal source, label and target, none, or those with equal ids."""

_IDENTITIES: Mapping[Identity, str] = {
    "triple": "triple: an insert replaces the edge with its source, label and target",
    "parallel": "parallel: each insert is an edge of its own",
    "id": "id: an insert replaces the edge with its id, whatever the ends",
}


def describe_identity(identity: Identity) -> str:
    """Return when two inserts are the same edge, in words.

    >>> describe_identity("parallel")
    'parallel: each insert is an edge of its own'
    """
    return _IDENTITIES[identity]


def for_identity(question: Any, identity: Identity) -> Any:
    """Return a question as it is evaluated in an engine whose edges have an identity (`rpq.Engine(…, edges=identity)`)."""
    convert = getattr(question, "for_identity", None)
    return question if convert is None else convert(identity)


def for_nodes(question: Any, has_nodes: bool) -> Any:
    """Return a question as it is evaluated beside records of nodes, or, unless it `has_nodes`, without any."""
    convert = getattr(question, "for_nodes", None)
    return question if convert is None else convert(has_nodes)


def has_counted_window(question: Any, reading: Reading, identity: Identity) -> bool:
    """Return whether a query has a count window that is decided before the graph.

    All have but paths in time order over edges of which no insert replaces another and that need satisfy no conditions.
    """
    if reading.window.kind != "count":
        return False
    return not is_ordered(question) or identity != "parallel" or reading.labels.has_conditions


# --- values of edges ---------------------------------------------------------------------------------------------


def values_read_by(question: Any) -> frozenset[str] | None:
    """Return the properties of edges that the columns and filters of a question read; None if it can read none."""
    properties: frozenset[str] | None = getattr(question, "properties", None)
    return properties


def filters_of(question: Any) -> tuple[BindingFilter, ...]:
    """Return the filters of a question."""
    filters: tuple[BindingFilter, ...] = getattr(question, "filters", ())
    return filters


def selected_values(question: Any) -> tuple[Value, ...]:
    """Return the values of bindings that are columns of a question."""
    values: tuple[Value, ...] = getattr(question, "selected_values", ())
    return values
