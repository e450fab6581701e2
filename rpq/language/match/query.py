"""A MATCH text as a user writes it: its language, columns with their kinds, and what it reads of edges."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, ClassVar, Self

from rpq.errors import QueryError
from rpq.language.edge_variables import BindingFilter, Value
from rpq.language.hypercube import Hypercube, undivided
from rpq.language.match.parameters import parameter_values, with_parameters
from rpq.language.match.syntax import parse
from rpq.language.match.translation import Translation, translate
from rpq.language.match.tree import Dialect
from rpq.language.options import Language
from rpq.language.query import automaton_of
from rpq.language.sparql.algebra import SparqlQuestion
from rpq.language.sparql.query import SparqlQuery, hypercube_by
from rpq.rows.typed_columns import ColumnKind, TypedColumns, ValueColumns
from rpq.stream.window import UnboundedWindow

_KINDS: dict[str, ColumnKind] = {
    "vertex": "vertex",
    "number": "value",
    "timestamp": "time",
    "property": "value",
    "fact": "value",
    "label": "result",
    "source": "vertex",
    "target": "vertex",
    "edge": "value",
    "count": "count",
    "sum": "result",
    "avg": "result",
    "ends": "result",
    "computed": "result",
}


class MatchQuery(SparqlQuery):
    """A persistent query in a subset of GQL or of openCypher. Create it with `Query`.

    - `expression`: the text of the query
    - `language`: "gql" (the default), or "cypher": the edges of a clause are different, and `*1..3` is a quantifier
    - `node_label`: the label of the edges from vertices to their labels, which `(a:Account)` reads beside the labels of node
      records; None (or an empty text) if records alone have labels
    - `parameters`: the values of `$x` in the text, by name: texts, numbers, booleans, None, times, and lists of these; of
      mappings and lists, keys choose an element, as in `$x.id`
    - `window`, `paths`, `simple_budget`, `name`, `semantics`, `report`: as for a query in SPARQL

    Raises `MatchError` with line and column for text that is invalid or refused, and `QueryError`.

    >>> from rpq.language.query import Query
    >>> from rpq.stream.window import Window
    >>> text = "MATCH (a)-[e:transfer]->() WHERE e.amount > 5 RETURN a, count(*) AS n"
    >>> query = Query(text, window=Window(size=9, slide=1))
    >>> query.columns, query.semantics, query.language
    (('a', 'n'), 'explicit', 'gql')
    """

    _notation: ClassVar[Language] = "gql"

    @property
    def notation(self) -> Language:
        """The language: gql or cypher."""
        return self.language or self._notation

    def _parse(self) -> SparqlQuestion:
        object.__setattr__(self, "language", self.notation)
        if self.language not in ("gql", "cypher"):
            raise QueryError(f"the language of MATCH is 'gql' or 'cypher', not {self.language!r}")
        if self.node_label is not None and not isinstance(self.node_label, str):
            raise QueryError(f"the label of the edges to labels of nodes is a text, or None, not {self.node_label!r}")
        object.__setattr__(self, "node_label", self.node_label or None)
        parameters = None if self.parameters is None else parameter_values(self.parameters)
        object.__setattr__(self, "parameters", parameters or None)
        object.__setattr__(self, "_has_nodes", False)
        object.__setattr__(self, "_is_triple", False)
        object.__setattr__(self, "_translation", self._translate(is_triple=False, has_nodes=False))
        return self.translation.question

    def _translate(self, *, is_triple: bool, has_nodes: bool) -> Translation:
        dialect: Dialect = "cypher" if self.language == "cypher" else "gql"
        return translate(
            with_parameters(parse(self.expression), self.parameters or {}),
            dialect=dialect,
            node_label=self.node_label,
            paths=self.paths,
            is_triple=is_triple,
            has_nodes=has_nodes,
        )

    def for_identity(self, identity: str) -> Self:
        """Return the query as it is evaluated in an engine whose edges have an identity.

        Where inserts replace edges with their source, label and target, fewer edges have to be bound.
        """
        if identity != "triple" or not self.translation.has_edge_variables:
            return self
        return self._translated(is_triple=True, has_nodes=self.has_nodes)

    @property
    def has_nodes(self) -> bool:
        """True if the query is evaluated beside records of nodes, which may give labels as edges do."""
        has_nodes: bool = self._has_nodes  # type: ignore[attr-defined]
        return has_nodes

    def for_nodes(self, has_nodes: bool) -> Self:
        """Return the query as it is evaluated beside records of nodes, or without any.

        Without records edges alone give labels of nodes, which costs less. The query itself is returned where that makes no
        difference, as for a text that reads properties of nodes, which always has records.

        >>> from rpq.language.query import Query
        >>> from rpq.stream.window import Window
        >>> query = Query("MATCH (a:Account)-->(b) RETURN b", window=Window(size=9, slide=1))
        >>> sorted(map(str, query.windows)), sorted(map(str, query.for_nodes(True).windows))
        (['None'], ['None', 'facts of nodes'])
        """
        is_triple: bool = self._is_triple  # type: ignore[attr-defined]
        if has_nodes == self.has_nodes:
            return self
        other = self._translated(is_triple=is_triple, has_nodes=has_nodes)
        if other.parsed == self.parsed:
            return self
        if self.original is not self:
            object.__setattr__(other, "_original", self.original.for_nodes(has_nodes))
        return other

    def _translated(self, *, is_triple: bool, has_nodes: bool) -> Self:
        """Return the query with another translation of its text."""
        other = copy(self)
        for derived in ("_accepted_edges", "_accepted_on_paths", "_path_atoms"):
            other.__dict__.pop(derived, None)
        translation = self._translate(is_triple=is_triple, has_nodes=has_nodes)
        object.__setattr__(other, "_is_triple", is_triple)
        object.__setattr__(other, "_has_nodes", has_nodes)
        object.__setattr__(other, "_translation", translation)
        object.__setattr__(other, "_parsed", translation.question)
        object.__setattr__(other, "_declared", {one.name: UnboundedWindow() for one in translation.question.windows})
        object.__setattr__(other, "_automata", [automaton_of(path) for path in other._paths])
        return other

    def _set_default_window(self) -> None:
        """Leave the default window to the check of options, which refuses a query without one."""

    @property
    def translation(self) -> Translation:
        """The algebra of the text, and what it reads of edges."""
        translation: Translation = self._translation  # type: ignore[attr-defined]
        return translation

    @property
    def differs(self) -> bool:
        """True if the edges of some clause must be different."""
        return self.translation.differs

    @property
    def properties(self) -> frozenset[str]:
        """The properties of edges that columns and conditions read, beside those of conditions in brackets."""
        return self.translation.properties

    @property
    def filters(self) -> tuple[BindingFilter, ...]:
        """The conditions on values of edges."""
        return self.translation.filters

    @property
    def selected_values(self) -> tuple[Value, ...]:
        """The values of bindings that are columns, or counted."""
        return self.translation.selected

    @cached_property
    def columns(self) -> TypedColumns:
        """The columns of the rows: the items of RETURN."""
        return result_columns(self.translation)

    @property
    def hypercube(self) -> Hypercube | None:
        """How shares divide the query by columns of vertices, or only its rows, by the first of them; None without one."""
        columns = [place for place, column in enumerate(self.translation.columns) if column.source == "vertex"]
        if not columns:
            return None
        cube = hypercube_by(self.parsed.body, [(self.parsed.columns[place], place) for place in columns])
        return cube or undivided(self.columns[columns[0]], columns[0])

    @property
    def dfa(self) -> Any:
        """The automaton of a path expression. Raises `QueryError`, because MATCH has none."""
        raise QueryError("a MATCH text has no automaton as a whole")


def result_columns(translation: Translation) -> TypedColumns:
    """Return the columns of the rows of a translation, with their kinds."""
    names = [column.name for column in translation.columns]
    kinds: list[ColumnKind] = []
    for column in translation.columns:
        is_of_value = column.source == "ends" and column.value is not None and column.value.kind in ("vertex", "timestamp")
        kinds.append(_KINDS[column.value.kind if is_of_value and column.value is not None else column.source])
    if {*kinds} <= {"vertex", "count"}:
        return TypedColumns(names, kinds)
    return ValueColumns(names, kinds)
