"""The operators of a network other than joins and groups: each maps changes of its inputs to changes of its output bag.

References are to sections of SPARQL 1.1. All but `DistinctNode` and `ProductNode` are linear and store no rows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import repeat
from typing import ClassVar

import numpy as np

from rpq.language.pattern import Blank, Constant, Term, Variable
from rpq.language.sparql.algebra import NOW, Aggregate, Formula, FunctionCall, TemplateTriple
from rpq.language.sparql.algebra_text import formula_text
from rpq.operators.bags.product import DistinctBag, Product
from rpq.operators.relational.values.formula_columns import FormulaCondition, IdColumn
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND, Row, WeightedRows, merge
from rpq.stream.names.terms import is_blank, is_literal

BYTES_AN_ENTRY = 200
"""The approximate number of bytes of a row in a Python dictionary."""


class Node(ABC):
    """An operator over the bags of its `inputs`.

    `sure` are those of its columns that no row leaves unbound.
    """

    is_linear: ClassVar[bool] = False
    """True if its change depends on the changes of its inputs alone, so that it need not know which rows expire silently."""

    def __init__(self, columns: Sequence[str], sure: Collection[str], *inputs: Node) -> None:
        self.columns = tuple(columns)
        self.sure = frozenset(sure) & frozenset(self.columns)
        self.inputs = inputs

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def parameters(self) -> Hashable:
        """Everything but the inputs that the output depends on, with columns as places.

        Nodes of one class over equal inputs are equal if their parameters are, whatever the names of their columns. Then one
        of them does the work of all (`SharedOperators`). A class without parameters of its own is never shared.
        """
        return self

    def begin(self) -> WeightedRows:
        """Remove everything and return the output for empty inputs."""
        return WeightedRows.empty(self.width)

    @abstractmethod
    def change(self, *changes: WeightedRows) -> WeightedRows:
        """Return the change of the output that changes of the inputs cause."""

    def discard_ids(self, new_ids: np.ndarray) -> None:
        """Discard cached values of these ids, which now denote other terms."""
        return

    # --- stored rows -----------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        """The number of stored rows or values of groups. O(1), or O(entries)."""
        return 0

    @property
    def nbytes(self) -> int:
        """The number of bytes held, approximate for entries in dictionaries."""
        return BYTES_AN_ENTRY * self.entries

    def ids(self) -> Iterable[int] | np.ndarray:
        """Return the ids in the stored rows. O(entries)."""
        return ()

    def _check(self) -> None:
        """Assert the invariants of the stored rows."""
        return

    def describe(self) -> str:
        """Return a description of the operator in one line."""
        return type(self).__name__.removesuffix("Node").lower()

    def describe_state(self) -> str:
        """Return a description of what the operator stores; empty if it stores nothing."""
        return "rows" if self.inputs and not self.is_linear else ""

    def _place(self, name: str) -> int:
        """Return the place of a column, -1 if there is none."""
        return self.columns.index(name) if name in self.columns else -1


def places_of(names: Iterable[str], columns: Sequence[str]) -> list[int]:
    """Return the places of names among columns, -1 for those that are missing."""
    return [columns.index(name) if name in columns else -1 for name in names]


def name_by_place(formula: Formula, columns: Sequence[str]) -> Formula:
    """Return a formula with the places of columns as the names of variables. Variables that are no columns get empty names.

    >>> name_by_place(FunctionCall("<", (Variable("age"), Constant("7"))), ["name", "age"])
    FunctionCall(function='<', arguments=(Variable(name='1'), Constant(name='7')))
    """
    match formula:
        case Variable(name):
            return Variable(str(columns.index(name)) if name in columns else "")
        case FunctionCall(_, arguments):
            return replace(formula, arguments=tuple(name_by_place(one, columns) for one in arguments))
        case Aggregate(_, argument) if argument is not None:
            return replace(formula, argument=name_by_place(argument, columns))
    return formula


class LeafNode(Node):
    """Basic graph pattern (§18.3): the bindings of a part of a conjunction, which the kernels of patterns find.

    A leaf of the network: its change is what the kernels write. It stores nothing.
    """

    def __init__(self, columns: Sequence[str], text: str) -> None:
        super().__init__(columns, columns)
        self._text = text

    def change(self, *changes: WeightedRows) -> WeightedRows:
        """Return the change that the kernels found."""
        (change,) = changes
        return change

    def describe(self) -> str:
        return f"bindings of {self._text}"


class RowsNode(Node):
    """Rows that are written in the query: VALUES, or the one empty solution of an empty group (§18.2.4.3, §18.5)."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sure = [name for place, name in enumerate(columns) if all(row[place] != UNBOUND for row in rows)]
        super().__init__(columns, sure)
        self._rows = np.array(rows, np.int32).reshape(len(rows), len(columns))

    @property
    def parameters(self) -> Hashable:
        return self._rows.shape, self._rows.tobytes()

    def begin(self) -> WeightedRows:
        """Return the rows, which are present from the beginning."""
        count = len(self._rows)
        return WeightedRows(self._rows, np.ones(count, np.int64), np.zeros(count, np.int64))

    def change(self, *changes: WeightedRows) -> WeightedRows:
        return WeightedRows.empty(self.width)

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._rows.reshape(-1).tolist()

    def describe(self) -> str:
        return f"{len(self._rows)} written row{'' if len(self._rows) == 1 else 's'}"


class ReportTimeNode(Node):
    """The row with the time of the report. There is no row before the stream has a time.

    A leaf of the network: its change replaces the row of the last report by that of the next one.
    """

    def __init__(self) -> None:
        super().__init__((NOW,), (NOW,))
        self._id: int | None = None

    def set(self, identity: int | None) -> None:
        """Set the id of the initial time."""
        self._id = identity

    def change_at_reports(self, ids: Sequence[int]) -> WeightedRows:
        """Return the change of the output as the times of reports with these ids follow one another, each as an event."""
        changes: list[tuple[int, Row, int]] = []
        for event, identity in enumerate(ids):
            if self._id is not None:
                changes.append((event, (self._id,), -1))
            changes.append((event, (identity,), 1))
            self._id = identity
        return WeightedRows.from_changes(changes, self.width)

    def begin(self) -> WeightedRows:
        return WeightedRows.from_changes([] if self._id is None else [(0, (self._id,), 1)], self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        """Return the change of time."""
        (change,) = changes
        return change

    def ids(self) -> Iterable[int] | np.ndarray:
        return [] if self._id is None else [self._id]

    def describe(self) -> str:
        return "the time of the report"


class ProjectNode(Node):
    """SELECT: the rows of the input with a choice of columns; columns that the input does not have are unbound.

    On bags: Project(Ω, V) = { μ cut to V | μ in Ω }, counts added (§18.5). Δ Project(Ω, V) = Project(ΔΩ, V). `sources` are
    the names of the columns in the input, if they differ.
    """

    is_linear = True

    def __init__(self, columns: Sequence[str], inner: Node, *, sources: Sequence[str] | None = None) -> None:
        names = columns if sources is None else sources
        sure = [column for column, name in zip(columns, names, strict=True) if name in inner.sure]
        super().__init__(columns, sure, inner)
        self.places = places_of(names, inner.columns)
        """The places of the columns in the input, -1 for one that it does not have."""
        self._sources = dict(zip(columns, names, strict=True))

    def sources(self) -> dict[str, str]:
        """Return the names of the input columns by the output columns."""
        return self._sources

    @property
    def parameters(self) -> Hashable:
        return tuple(self.places)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        return change.select_columns(self.places)

    def describe(self) -> str:
        shown = (f"?{name}" if name == source else f"(?{source} AS ?{name})" for name, source in self._sources.items())
        return f"project {' '.join(shown)}".strip()


class CopyNode(Node):
    """The rows of the input with copies of some columns under other names.

    SPARQL has no such operator: copies of outer variables pass through a body that is evaluated for all their values at
    once (`rpq.operators.relational.planning`). Δ Copy(Ω) = Copy(ΔΩ).
    """

    is_linear = True

    def __init__(self, copies: Sequence[tuple[str, str]], inner: Node) -> None:
        names = [copy for copy, _ in copies]
        sure = [*inner.sure, *(copy for copy, name in copies if name in inner.sure)]
        super().__init__((*inner.columns, *names), sure, inner)
        self._places = [*range(inner.width), *places_of([name for _, name in copies], inner.columns)]

    @property
    def parameters(self) -> Hashable:
        return tuple(self._places)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        return change.select_columns(self._places)


class ExtendNode(Node):
    """BIND and AS: the rows with one more column, unbound where the formula is an error.

    On bags: Extend(Ω, v, e) = { μ ∪ {v → e(μ)} | μ in Ω, e(μ) no error } ∪ { μ | μ in Ω, e(μ) an error } (§18.5). Δ
    Extend(Ω, v, e) = Extend(ΔΩ, v, e), as the value of a formula never changes. Values of vertices are cached (`IdColumn`).
    """

    is_linear = True

    def __init__(self, inner: Node, name: str, formula: Formula, terms: TermIds) -> None:
        has_value = isinstance(formula, Constant) or (isinstance(formula, Variable) and formula.name in inner.sure)
        super().__init__((*inner.columns, name), {*inner.sure, *([name] if has_value else [])}, inner)
        self._text = f"?{name} = {formula_text(formula)}"
        self._formula = name_by_place(formula, inner.columns)
        self._values = IdColumn(formula, inner.columns, terms)
        self._sources = {column: column for column in inner.columns}
        if isinstance(formula, Variable):
            self._sources[name] = formula.name

    def sources(self) -> dict[str, str]:
        """Return the names of the input columns by the output columns that are copies of them."""
        return self._sources

    @property
    def parameters(self) -> Hashable:
        return self._formula

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        rows = np.empty((len(change), self.width), np.int32)
        rows[:, :-1] = change.rows
        rows[:, -1] = self._values.ids_of(change.rows)
        return change.with_rows(rows)

    def discard_ids(self, new_ids: np.ndarray) -> None:
        self._values.discard_ids(new_ids)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def describe(self) -> str:
        return f"bind {self._text}"


class UnwindNode(Node):
    """UNWIND of Cypher: each row once for each element of a list, with the element as one more column.

    A row has no list where the value is null, and a value that is no list is the one element. Δ Unwind(Ω) = Unwind(ΔΩ).
    """

    is_linear = True

    def __init__(self, inner: Node, name: str, formula: Formula, terms: TermIds) -> None:
        super().__init__((*inner.columns, name), inner.sure, inner)
        self._text = f"?{name} in {formula_text(formula)}"
        self._formula = name_by_place(formula, inner.columns)
        self._lists = IdColumn(formula, inner.columns, terms)
        self._terms = terms

    @property
    def parameters(self) -> Hashable:
        return self._formula

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        from rpq.language.match.values.computation import terms_of_elements

        different, places = np.unique(self._lists.ids_of(change.rows), return_inverse=True)
        intern = self._terms.intern
        elements = [
            np.array([intern(one) for one in terms_of_elements(text)] if text is not None else [], np.int32)
            for text in self._terms.texts(different)
        ]
        lengths = np.array([len(one) for one in elements], np.int64)[places.reshape(-1)]
        rows = np.empty((int(lengths.sum()), self.width), np.int32)
        repeated = np.repeat(np.arange(len(change)), lengths)
        rows[:, :-1] = change.rows[repeated]
        if len(rows):
            rows[:, -1] = np.concatenate([elements[place] for place in places.reshape(-1).tolist()])
        return WeightedRows(rows, change.weights[repeated], change.events[repeated])

    def discard_ids(self, new_ids: np.ndarray) -> None:
        self._lists.discard_ids(new_ids)

    @property
    def nbytes(self) -> int:
        return self._lists.nbytes

    def describe(self) -> str:
        return f"unwind {self._text}"


class FilterNode(Node):
    """FILTER: the rows for which a condition holds; an error counts as false.

    On bags: Filter(C, Ω) = { μ in Ω | C(μ) is true }, with the counts of Ω (§18.5). Δ Filter(C, Ω) = Filter(C, ΔΩ). Results
    for vertices are cached (`FormulaCondition`).
    """

    is_linear = True

    def __init__(self, inner: Node, condition: Formula, terms: TermIds) -> None:
        super().__init__(inner.columns, inner.sure, inner)
        self._text = formula_text(condition)
        self._condition = FormulaCondition(condition, inner.columns, terms)
        self._formula = name_by_place(condition, inner.columns)

    @property
    def parameters(self) -> Hashable:
        return self._formula

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return change
        return change.select(self._condition.mask(change.rows))

    def discard_ids(self, new_ids: np.ndarray) -> None:
        self._condition.discard_ids(new_ids)

    @property
    def nbytes(self) -> int:
        return self._condition.nbytes

    def describe(self) -> str:
        return f"filter {self._text}"


class UnionNode(Node):
    """UNION: the rows of all branches.

    On bags: Union(Ω1, Ω2) = { μ | μ in Ω1 or μ in Ω2 }, counts added (§18.5). Δ Union(Ω1, Ω2) = Union(ΔΩ1, ΔΩ2).
    """

    is_linear = True

    def __init__(self, columns: Collection[str], *branches: Node) -> None:
        names = tuple(columns)
        sure = frozenset(names).intersection(*(branch.sure for branch in branches))
        super().__init__(names, sure, *branches)
        self._places = [places_of(names, branch.columns) for branch in branches]

    @property
    def parameters(self) -> Hashable:
        return tuple(map(tuple, self._places))

    def change(self, *changes: WeightedRows) -> WeightedRows:
        return merge([change.select_columns(places) for change, places in zip(changes, self._places, strict=True)])


class ConstructNode(Node):
    """CONSTRUCT: the valid RDF triples (source, label, target) of a template for each row of the input (§16.2).

    If some triple of the template is in a graph, they are quads, whose graph is unbound for the default graph.
    A blank node of the template is another one for each `solution`: its name is a hash of its label and of the terms of
    these columns, so that a triple leaves as it entered. A `DistinctNode` above removes duplicates.
    """

    is_linear = True

    def __init__(
        self,
        template: Sequence[TemplateTriple],
        inner: Node,
        terms: TermIds,
        *,
        solution: Sequence[str] = (),
    ) -> None:
        triple = ("source", "label", "target")
        has_graphs = any(one.graph is not None for one in template)
        super().__init__((*triple, "graph") if has_graphs else triple, triple, inner)
        self._terms = terms
        self._solution = places_of(solution, inner.columns)
        # Of each term of a triple: the place of its column, or the id of its constant, or the label of its blank node.
        self._triples = [
            tuple(self._term(Constant(term) if isinstance(term, str) else term, inner) for term in one[: self.width])
            for one in template
        ]
        self._are_named = tuple(one.graph is not None for one in template)

    @property
    def parameters(self) -> Hashable:
        return tuple(self._triples), self._are_named, tuple(self._solution)

    def _term(self, term: Term | None, inner: Node) -> tuple[int, int, str]:
        match term:
            case None:
                return -1, UNBOUND, ""
            case Constant(name):
                return -1, self._terms.intern(name), ""
            case Blank(label):
                return -1, UNBOUND, label
        return (inner.columns.index(term.name) if term.name in inner.columns else -1), UNBOUND, ""

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        labels = dict.fromkeys(label for places in self._triples for _, _, label in places if label)
        blanks = {label: self._blank_nodes(label, change.rows) for label in labels}
        parts = []
        for places, is_named in zip(self._triples, self._are_named, strict=True):
            columns = [
                change.rows[:, place]
                if place >= 0
                else blanks[blank]
                if blank
                else np.full(len(change), identity, np.int32)
                for place, identity, blank in places
            ]
            triples = change.with_rows(np.stack(columns, axis=1))
            are_good = self._are_triples(triples.rows)
            if is_named:
                are_good &= self._are(triples.rows[:, 3], lambda text: not is_literal(text))
            parts.append(triples.select(are_good))
        return merge(parts)

    def _blank_nodes(self, label: str, rows: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of a blank node of the template in the solutions of some rows."""
        solutions = zip(*(self._terms.texts(rows[:, place]) for place in self._solution), strict=True)
        each = solutions if self._solution else repeat((), len(rows))
        return np.array([self._terms.intern(blank_node_of(label, solution)) for solution in each], np.int32)

    def _are_triples(self, rows: np.ndarray) -> np.ndarray:
        """Return for each row whether both ends are bound, the first is no literal, and the label is an IRI."""
        are_sources = self._are(rows[:, 0], lambda text: not is_literal(text))
        are_labels = self._are(rows[:, 1], lambda text: not (is_literal(text) or is_blank(text)))
        are_good: np.ndarray = are_sources & are_labels & (rows[:, 2] != UNBOUND)
        return are_good

    def _are(self, ids: np.ndarray, is_good: Callable[[str], bool]) -> np.ndarray:
        """Return for each id whether `is_good` is true of its term."""
        different, place = np.unique(ids, return_inverse=True)
        good = np.array([text is not None and is_good(text) for text in self._terms.texts(different)], bool)
        found: np.ndarray = good[place.reshape(-1)]
        return found

    def ids(self) -> Iterable[int] | np.ndarray:
        return [identity for places in self._triples for _, identity, _ in places]


def blank_node_of(label: str, solution: Sequence[str | None]) -> str:
    """Return the blank node with a label in a template for a solution: the same one in every run.

    >>> blank_node_of("b", ("x", None))
    '_:bf411200787d1e48c90134e7c'
    """
    text = json.dumps([label, *solution], ensure_ascii=False)
    return f"_:b{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"


class StoringNode(Node):
    """A node whose rows are stored by an operator of `rpq.operators.bags`."""

    _operator: DistinctBag | Product

    @property
    def entries(self) -> int:
        return self._operator.entries

    @property
    def nbytes(self) -> int:
        return self._operator.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._operator.ids()

    def _check(self) -> None:
        self._operator.check()


class DistinctNode(StoringNode):
    """DISTINCT: each row of the input once.

    On bags: Distinct(Ω) = { μ | μ in Ω }, with the count 1 (§18.5). It is not linear and stores the count of each row. A
    row enters when its count becomes positive and leaves when it becomes 0. An event in which it does both changes nothing.
    Kernels maintain the counts (`rpq.operators.bags.product.DistinctBag`).
    """

    _operator: DistinctBag

    def __init__(self, inner: Node) -> None:
        super().__init__(inner.columns, inner.sure, inner)
        self._operator = DistinctBag(self.width)

    @property
    def parameters(self) -> Hashable:
        return ()

    def begin(self) -> WeightedRows:
        self._operator.clear()
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        return self._operator.change(change)

    def describe_state(self) -> str:
        return "the count of each row"


class ProductNode(StoringNode):
    """The product of more than two `parts`, no two of which have a column in common, stored as parts and not multiplied out.

    On bags: Ω1 × … × Ωn, with the product of the counts. A change of one part is multiplied with the current rows of the
    others, so while one part is empty (a condition that does not hold, a part without a binding) there is no output. The
    memory is the sum of the sizes of the parts, not their product.
    """

    _operator: Product

    def __init__(self, *parts: Node) -> None:
        columns = [name for part in parts for name in part.columns]
        assert len({*columns}) == len(columns), columns
        super().__init__(columns, frozenset().union(*(part.sure for part in parts)), *parts)
        select = [(number, place) for number, part in enumerate(parts) for place in range(part.width)]
        self._operator = Product([part.width for part in parts], select)

    @property
    def parameters(self) -> Hashable:
        return ()

    def begin(self) -> WeightedRows:
        self._operator.clear()
        self._operator.load(0, [np.zeros((0, part.width), np.int32) for part in self.inputs])
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        return self._operator.change([((0, part), change) for part, change in enumerate(changes)])

    def describe(self) -> str:
        return "product"

    def describe_state(self) -> str:
        return "all parts"
