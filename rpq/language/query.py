"""Queries as users create them: a path expression or a graph pattern, a window, and the meaning of paths and answers.

`Query(text)` detects the notation of the text (`rpq.language.notation`), and creates a path query, a `PatternQuery` or a
`SparqlQuery`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from weakref import WeakValueDictionary

import rpq.automata as automata
from rpq.automata.expressions import SizeError
from rpq.automata.symbols import LabelSymbol
from rpq.errors import ExpressionError, QueryError
from rpq.language.conditions import parse_expression
from rpq.language.cost_links import over_links
from rpq.language.edge_variables import BindingFilter, Value
from rpq.language.hypercube import Hypercube, has_bare_path, reads_of, roots_of, undivided
from rpq.language.notation import language_of
from rpq.language.options import (
    CHOICES,
    REFUSED_OPTIONS,
    Language,
    QueryOptions,
    Semantics,
    Vertex,
    check_word,
    is_given,
    unsuitable_option,
)
from rpq.language.pattern import (
    Atom,
    Pattern,
    accepted_edges_on_paths,
    has_edge_variables,
    never_simple,
    selects_values,
)
from rpq.language.readings import LabelSet, Reading
from rpq.language.time_order import TimeLength, TimeOrder, hold_length, length_in_unit, time_order
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.names.terms import normal_form
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window

_MAX_SHOWN_VERTICES = 5  # the number of vertices of `sources` and `targets` in a repr

PAIR = ("source", "target")
"""The columns of path queries."""

PAIR_AND_LENGTH = ("source", "target", "length")
"""The columns of path queries that select the length of a shortest path, too."""

PAIR_AND_COST = ("source", "target", "cost")
"""The columns of path queries with the cost of a cheapest path."""

_automata: WeakValueDictionary[tuple[str, str | None], automata.DFA] = WeakValueDictionary()
"""The automata of all existing queries, by expression and cost: thousands of queries often share a few."""
_classes: dict[Language, Callable[[], type[Query]]] = {}
"""Functions that return the classes of queries in notations above this module (`register_class`)."""


@dataclass(frozen=True, repr=False)
class Query(QueryOptions):
    """A persistent regular path query: `expression` over a sliding `window`.

    - `window`: a `Window` of time, a `CountWindow`, or `UnboundedWindow()`
    - `name` identifies its rows among those of other queries: any text; by default the text of the expression
    - `paths`: "walk" (vertices may repeat), "simple" (no vertex twice) or "simple_cycle" (no vertex twice, except that the
      last may be the first)
    - `semantics`: "implicit" (pairs that expire leave silently; the default) or "explicit" (they leave with a `-`)
    - `simple_budget`: with simple paths, the maximum number of expanded nodes for one root and one tuple or slide
    - `on_budget`: a root that exceeds the budget is set aside and its answers leave; "error" also raises
      `ConflictBudgetError`
    - `sources`, `targets`: only pairs from and to these vertices (stored as a frozenset); on dense graphs they make the cost
      acceptable, because walks are followed from the smaller of the two sets
    - `language`: the notation of the text, "path", "pattern", "sparql", "csparql", "cqels", "gql" or "cypher"; by default it
      is detected
    - `order`: the edges of a path, in its direction, have timestamps that are "increasing" or "non_decreasing"; in engines
      whose edges keep their own, `rpq.Engine(…, edges="parallel")` or "id". With an order, `max_gap` bounds the time from
      an edge to the next, `max_span` that from the first to the last: lengths as those of windows
    - `cost`: a property of edges. Rows have its smallest sum along a path, in a column `cost`; semantics are explicit. Edges
      where it is null, NaN or negative are not walked
    - `select`: the columns of its rows. With ["source", "target", "length"], rows also have the smallest number of edges of
      a path, for walks; semantics are explicit then: a length that changes is a row `-` and a row `+`
    - `hold`: an answer enters when it has held without a break for this length of time, and semantics are explicit
    - `distinct`, `matching`, `report`, `filter` (for patterns), `node_label`, `parameters` (for MATCH): an option that does
      not apply to the text is refused unless it has its default

    Raises `QueryError`, or its subclass `ExpressionError` for the expression, which points to the column.

    >>> query = Query("a2q/c2a*", window=Window(size=30, slide=1))
    >>> query.name, query.dfa.accepts_empty
    ('a2q/c2a*', False)
    """

    expression: str = field(kw_only=False)

    _notation: ClassVar[Language] = "path"

    if TYPE_CHECKING:  # a query has both; code that reads the size of its window knows the kind of window

        @property  # type: ignore[misc]
        def window(self) -> Any: ...

        @property  # type: ignore[misc]
        def semantics(self) -> Semantics: ...

    def __new__(cls, expression: Any = None, **options: Any) -> Query:
        if refused := next((name for name in REFUSED_OPTIONS if options.get(name) is not None), None):
            raise QueryError(f"{refused}={options[refused]!r}, {REFUSED_OPTIONS[refused]}")
        if cls is not Query or not isinstance(expression, str):
            return super().__new__(cls)
        language = options.get("language") or language_of(expression)
        if language == "pattern":
            return PatternQuery.__new__(PatternQuery, expression, **options)
        return super().__new__(_classes[language]() if language in _classes else cls)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise QueryError(f"the expression of a query is text, not {self.expression!r}")
        for name in CHOICES:
            if is_given(name, value := getattr(self, name)):
                check_word(name, value)
        self._read()
        if misfit := unsuitable_option(self.notation, self.expression, vars(self)):
            raise QueryError(f"{misfit.option} {misfit.reason}")
        self._check_options()
        for option in ("expression", "name"):
            _check_text(f"the {option} of a query", getattr(self, option))

    def _read(self) -> None:
        """Read the text."""
        if not isinstance(self.cost, str | None):
            raise QueryError(f"cost is the name of a property of edges, not {self.cost!r}")
        object.__setattr__(self, "_dfa", automaton_of(self.expression, self.cost))
        columns = selected_columns(self.select, self.expression, cost=self.cost)
        object.__setattr__(self, "select", columns if columns == PAIR_AND_LENGTH else None)

    def _check_options(self) -> None:
        """Check the options that the text admits, and set those whose default depends on others."""
        windows = "rpq.Window(size=…, slide=…), rpq.CountWindow(size=…, step=…) or rpq.UnboundedWindow()"
        if self.window is None:
            raise QueryError(f"the query has no window: pass one, as window={windows}")
        if not isinstance(self.window, Window | CountWindow | UnboundedWindow):
            raise QueryError(f"the window of a query is a {windows}, not {self.window!r}")
        if not isinstance(self.name, str):
            raise QueryError(f"the name of a query is text, not {self.name!r}")
        if not self.name:
            object.__setattr__(self, "name", self.expression)
        object.__setattr__(self, "semantics", vars(self)["semantics"] or self._usual_semantics)
        if self.language not in ("gql", "cypher", "csparql", "cqels"):  # the texts that are read in different ways
            object.__setattr__(self, "language", None)
        if not isinstance(self.distinct, bool):
            raise QueryError(f"distinct is True or False, not {self.distinct!r}")
        if not isinstance(self.simple_budget, int) or isinstance(self.simple_budget, bool) or self.simple_budget < 1:
            raise QueryError(f"the budget of simple paths is a positive number of nodes, not {self.simple_budget!r}")
        for ends in ("sources", "targets"):
            if (value := getattr(self, ends)) is not None:
                object.__setattr__(self, ends, _vertices(ends, value))
        order = time_order(self.order, self.max_gap, self.max_span)
        if order is not None:
            if self.paths != "walk":
                raise QueryError(
                    f'order={self.order!r} cannot be combined with paths="{self.paths}" yet: paths in time order are walks, '
                    "so leave out paths, or the order"
                )
            object.__setattr__(self, "max_gap", order.max_gap)
            object.__setattr__(self, "max_span", order.max_span)
        if self.has_length or self.cost is not None:
            self._check_length()
        object.__setattr__(self, "hold", hold_length(self.hold))
        if self.hold is not None and self.semantics == "implicit":
            raise QueryError(
                f"hold={self.hold!r} has rows for the answers that were reported and leave, so they are explicit: omit "
                'semantics, or pass semantics="explicit"'
            )

    @property
    def notation(self) -> Language:
        """The notation of the text.

        >>> Query("?x a ?y", window=UnboundedWindow()).notation
        'pattern'
        """
        return self._notation

    def _check_length(self) -> None:
        """Raise `QueryError` for an option that cannot be combined with lengths, or with costs."""
        what, where = ("length", "select: length") if self.has_length else ("cost", f"cost={self.cost!r}")
        reason = None
        if self.paths != "walk":
            reason = f"paths={self.paths!r}: the {what}s are those of walks; leave out paths"
        elif self.order is not None and not self.has_length:
            reason = f"order={self.order!r}: the costs are those of paths in any order; leave out the order"
        elif self.semantics == "implicit":
            reason = f'semantics="implicit": a {what} that grows by expiry is a row; leave out semantics'
        if reason is not None:
            raise QueryError(f"{where} cannot be combined with {reason}, or the {what}")

    @property
    def _usual_semantics(self) -> Literal["implicit", "explicit"]:
        return "explicit" if self.has_length or self.cost is not None or self.hold is not None else "implicit"

    @property
    def properties(self) -> frozenset[str]:
        """The properties of edges whose values its rows have: that of its costs.

        >>> Query("a", window=Window(size=1, slide=1), cost="amount").properties
        frozenset({'amount'})
        """
        return frozenset() if self.cost is None else frozenset({self.cost})

    @property
    def has_length(self) -> bool:
        """True if its rows have the length of a shortest path.

        >>> columns = ["source", "target", "length"]
        >>> [Query("a+", window=Window(size=1, slide=1), select=select).has_length for select in (columns, None)]
        [True, False]
        """
        return self.select == PAIR_AND_LENGTH

    def __repr__(self) -> str:
        shown = [repr(self.expression)]
        for option in fields(self):
            value = getattr(self, option.name)
            usual = {"name": self.expression, "semantics": self._usual_semantics}.get(option.name, option.default)
            if option.name == "expression" or value == usual:
                continue
            if option.name in ("sources", "targets"):
                some = ", ".join(map(repr, sorted(value, key=str)[:_MAX_SHOWN_VERTICES]))
                hidden_count = len(value) - _MAX_SHOWN_VERTICES
                shown.append(f"{option.name}={{{some}{f', … {hidden_count:,} more' if hidden_count > 0 else ''}}}")
            else:
                shown.append(f"{option.name}={value!r}")
        return f"Query({', '.join(shown)})"

    @property
    def dfa(self) -> automata.DFA:
        """The minimal automaton of the expression.

        >>> query = Query("a/b*", window=Window(size=1, slide=1))
        >>> query.dfa.accepts([("a", False), ("b", False)]), query.dfa.accepts([("b", False)])
        (True, False)
        """
        dfa: automata.DFA = self._dfa  # type: ignore[attr-defined]
        return dfa

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows besides query, timestamp and op.

        >>> Query("a", window=Window(size=1, slide=1)).columns
        ('source', 'target')
        """
        return path_columns(self.select if self.cost is None else PAIR_AND_COST)

    @property
    def labels(self) -> frozenset[LabelSymbol] | None:
        """The labels of edges in answers, or None if edges with other labels than those in the expression can occur.

        >>> sorted(Query("a/^b*", window=Window(size=1, slide=1)).labels)
        ['a', 'b']
        >>> Query("!(a)", window=Window(size=1, slide=1)).labels is None
        True
        """
        return None if any(symbol.is_other for symbol in self.dfa.symbols) else self.dfa.labels

    @property
    def named_labels(self) -> frozenset[LabelSymbol]:
        """The labels that the text names, whether the query reads edges with these labels or with all others.

        >>> sorted(Query("a/!(b)", window=Window(size=1, slide=1)).named_labels)
        ['a', 'b']
        """
        return self.dfa.labels

    @property
    def hypercube(self) -> Hypercube | None:
        """The division of the query among shares by its variables; None for path queries, whose roots they divide.

        >>> Query("a", window=Window(size=1, slide=1)).hypercube is None
        True
        """
        return None

    def reads(self, label: LabelSymbol) -> bool:
        """Return whether edges with a label can be steps of an answer's path.

        >>> [Query("!(a)", window=Window(size=1, slide=1)).reads(label) for label in "ab"]
        [False, True]
        """
        return self.dfa.is_relevant(label)

    def accepts(self, label: LabelSymbol) -> frozenset[Ends]:
        """Return which edges of a label the query needs, by their ends: all edges of a label that it reads.

        >>> [len(Query("a/b*", window=Window(size=1, slide=1)).accepts(label)) for label in "abc"]
        [1, 1, 0]
        """
        return frozenset({ALL}) if self.reads(label) else frozenset()

    @property
    def label_set(self) -> LabelSet:
        """The labels that the query reads, as a set: a count window numbers inserts with these labels.

        >>> sorted(Query("a/^b*", window=CountWindow(size=9)).label_set.named)
        ['a', 'b']
        """
        return LabelSet.of(self.dfa.labels, self.reads, self.dfa.conditions_of_others)

    @property
    def time_order(self) -> TimeOrder | None:
        """The order in time of the edges of a path, with its bounds; None if there is no order.

        >>> Query("a+", window=Window(size=9, slide=1), order="increasing", max_gap=2).time_order
        TimeOrder(order='increasing', max_gap=2, max_span=None)
        """
        return time_order(self.order, self.max_gap, self.max_span)

    @property
    def is_ordered(self) -> bool:
        """True if an answer depends on the order in time of the edges of a path.

        >>> Query("a+", window=Window(size=9, slide=1), order="increasing").is_ordered
        True
        """
        return self.order is not None

    @property
    def time_lengths(self) -> tuple[TimeLength, ...]:
        """The lengths of time in the query besides its window: plain numbers, or durations as text.

        >>> Query("a+", window=Window(size="9d", slide="1d"), order="increasing", max_gap="2h").time_lengths
        (TimeLength(name='max_gap', length='2h'),)
        """
        order = self.time_order
        return (*(() if order is None else order.lengths), *self._held_length)

    @property
    def _held_length(self) -> tuple[TimeLength, ...]:
        return () if self.hold is None else (TimeLength("hold", self.hold),)  # type: ignore[arg-type]  # of `hold_length`

    def in_unit(self, unit: str) -> Self:
        """Return the same query with its lengths of time in plain numbers of a stream's unit. Raises `QueryError`.

        >>> Query("a", window=Window(size="1h", slide="1m"), order="increasing", max_gap="10s").in_unit("s")
        Query('a', window=Window(size=3600, slide=60), order='increasing', max_gap=10)
        """
        lengths = {name: length_in_unit(name, length, unit) for name, length in self.time_lengths}
        return self.over(self.window.in_unit(unit)).with_lengths(lengths)

    def with_lengths(self, lengths: Mapping[str, int | str]) -> Self:
        """Return the same query with other values of its `time_lengths`, by name.

        >>> query = Query("a", window=Window(size=60, slide=1), order="increasing", max_gap=10)
        >>> query.with_lengths({"max_gap": "10s"}).max_gap
        '10s'
        """
        other = copy(self)
        for name, length in lengths.items():
            object.__setattr__(other, name, length)
        return other

    def over(self, window: AnyWindow) -> Self:
        """Return the same query over another window, without compiling its expression again.

        >>> Query("a", window=Window(size=1, slide=1)).over(Window(size="30d", slide="1d"))
        Query('a', window=Window(size='30d', slide='1d'))
        """
        other = copy(self)
        object.__setattr__(other, "window", window)
        return other


class PatternQuery(Query):
    """A persistent graph pattern. Create it with `Query`.

    - `expression`: the text of the pattern, such as `?x a2q ?y . ?y c2q ?z`
    - `select`: the variables that are columns of its rows; by default all of vertices, in order of appearance. Of an edge
      variable `?e` there are the number of the edge, `?e`, `?e.timestamp`, and its properties, as `?e.amount`; of a vertex
      its properties, as `?x.risk`
    - `filter`: a condition on properties of edges and vertices, such as `?f.timestamp > ?e.timestamp and ?x <> ?y`
    - `distinct`: a solution with several bindings is one answer; otherwise it occurs once for each binding
    - `matching`: with "isomorphism" different variables and constants match different vertices
    - `report`: rows are emitted at every "change" (the default), or as net changes when the stream time has passed a
      boundary of the window ("slide") or an instant with a change ("time"); net changes require explicit semantics
    - `name`, `window`, `semantics`: as for a path query

    - `paths`, `simple_budget`: as for a path query, for all atoms; with simple paths no atom joins a vertex with itself

    Raises `QueryError`, and for the text `ExpressionError`.

    >>> query = Query("?x a2q ?y . ?y ^c2q ?z", window=Window(size=30, slide=1), select=("x", "z"))
    >>> query.columns, sorted(query.labels)
    (('x', 'z'), ['a2q', 'c2q'])
    """

    _notation: ClassVar[Language] = "pattern"

    def __new__(cls, expression: Any = None, **options: Any) -> PatternQuery:
        has_values = options.get("filter") is not None or has_edge_variables(expression)
        if cls is PatternQuery and (has_values or selects_values(expression, options.get("select"))):
            return object.__new__(EdgeValuesQuery)
        return object.__new__(cls)

    def _read(self) -> None:
        pattern = Pattern.read(self.expression, self.select, self.filter)
        object.__setattr__(self, "select", None if self.select is None else pattern.columns)
        object.__setattr__(self, "_pattern", pattern)
        join = pattern.to_join(paths=self.paths)
        object.__setattr__(self, "_join", join)
        paths = tuple((atom, automaton_of(str(atom.expression))) for atom in join.atoms if atom.edge is None)
        object.__setattr__(self, "_path_atoms", paths)

    def _check_options(self) -> None:
        super()._check_options()
        if self.report != "change" and self.window.kind != "time":
            raise QueryError(
                f"report={self.report!r} reports at boundaries of a time window, such as rpq.Window(size=…, slide=…), "
                f"not of {self.window!r}"
            )
        if self.report != "change" and self.semantics == "implicit":
            raise QueryError(
                f'report={self.report!r} reports the net difference from the previous report, so its rows are explicit: '
                'omit semantics, or pass semantics="explicit"'
            )
        if self.pattern.has_values:
            self._check_values(self.pattern)
        if self.paths != "walk" and self.pattern.orders:
            atom = next(atom for atom in self.pattern.atoms if atom.order is not None)
            raise QueryError(
                f'{atom} cannot be combined with paths="{self.paths}" yet: paths in time order are walks: leave out paths, '
                "or the order"
            )

    def _check_values(self, pattern: Pattern) -> None:
        """Raise `QueryError` for options that cannot be combined with edge variables or a filter."""
        if self.matching == "isomorphism" and any(one.name.startswith('"') for one in pattern.constants):
            raise QueryError(
                'matching="isomorphism" with an edge variable or a filter takes no literal constants, which mean two '
                "vertices each: write the name of the vertex in <…>"
            )

    @property
    def has_length(self) -> bool:
        """False: a column `length` is a variable of the pattern."""
        return False

    @property
    def _usual_semantics(self) -> Literal["implicit", "explicit"]:
        return "implicit" if self.report == "change" and self.hold is None else "explicit"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Hints on parts of the query that may mean something other than intended.

        >>> query = Query("?x a+ ?x", window=Window(size=1, slide=1), paths="simple")
        >>> [warning.partition(":")[0] for warning in query.warnings]
        ['?x a+ ?x never matches']
        """
        return never_simple(self.pattern.atoms) if self.paths == "simple" else ()

    @property
    def is_ordered(self) -> bool:
        """True if an atom is a path in time order."""
        return bool(self.pattern.orders)

    @property
    def time_lengths(self) -> tuple[TimeLength, ...]:
        """The lengths of time of its orders, and `hold`: plain numbers, or durations as text.

        >>> Query("?x (a+ in order gap 2h) ?y", window=Window(size="9d", slide="1d")).time_lengths
        (TimeLength(name='gap of ?x (a+ in order gap 2h) ?y', length='2h'),)
        """
        words = {"max_gap": "gap", "max_span": "within"}
        of_orders = (
            TimeLength(f"{words[name]} of {atom}", length)
            for atom in self.pattern.atoms
            if atom.order is not None
            for name, length in atom.order.lengths
        )
        return (*of_orders, *self._held_length)

    @property
    def unit(self) -> str | None:
        """The unit of time to which the lengths of its orders were converted; None if they are as in the text."""
        unit: str | None = getattr(self, "_unit", None)
        return unit

    def in_unit(self, unit: str) -> Self:
        """Return the same pattern with its lengths of time in plain numbers of a stream's unit. Raises `QueryError`.

        >>> query = Query("?x (a+ in order gap 2h) ?y", window=Window(size="9d", slide="1d"))
        >>> query.in_unit("s").time_lengths[0].length
        7200
        """
        other = self.over(self.window.in_unit(unit))
        for name, length in self._held_length:
            object.__setattr__(other, name, length_in_unit(name, length, unit))
        if self.is_ordered:
            object.__setattr__(other, "_pattern", self.pattern.in_unit(unit))
            object.__setattr__(other, "_join", self.join.in_unit(unit))
            object.__setattr__(other, "_unit", unit)
        return other

    def with_lengths(self, lengths: Mapping[str, int | str]) -> Self:
        """Return the same pattern with the lengths of time of its text, and another `hold` if `lengths` have it."""
        other = copy(self)
        object.__setattr__(other, "hold", lengths.get("hold", self.hold))
        pattern = Pattern.read(self.expression, self.select, self.filter)
        object.__setattr__(other, "_pattern", pattern)
        object.__setattr__(other, "_join", pattern.to_join(paths=self.paths))
        object.__setattr__(other, "_unit", None)
        return other

    @property
    def pattern(self) -> Pattern:
        """The atoms and the columns of the pattern.

        >>> [str(atom) for atom in Query("?x a ?y . ?y b z", window=Window(size=1, slide=1)).pattern.atoms]
        ['?x a ?y', '?y b z']
        """
        pattern: Pattern = self._pattern  # type: ignore[attr-defined]
        return pattern

    @property
    def join(self) -> Pattern:
        """The pattern whose solutions, filtered, have the values of its columns (`Pattern.to_join`)."""
        join: Pattern = self._join  # type: ignore[attr-defined]
        return join

    @property
    def joined_pattern(self) -> PatternQuery:
        """The pattern that is joined: this one, unless it has edge variables or a filter."""
        return self

    @property
    def dfa(self) -> automata.DFA:
        """The automaton of a path expression. Raises `QueryError`, because a pattern has none."""
        raise QueryError(f"{self.expression} is a graph pattern, which has no automaton as a whole")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows besides query, timestamp and op: the selected variables, or all.

        >>> Query("?x a ?y . _:z b ?x", window=Window(size=1, slide=1)).columns
        ('x', 'y')
        """
        pattern = self.pattern
        if not pattern.has_values:
            return pattern.columns
        if all(value.kind == "vertex" for value in pattern.values):
            return pattern.columns
        from rpq.rows.typed_columns import ColumnKind, ValueColumns  # imports Arrow

        kinds: dict[str, ColumnKind] = {"vertex": "vertex", "timestamp": "time"}
        kinds |= {"number": "value", "property": "value", "fact": "value"}
        return ValueColumns(pattern.columns, tuple(kinds[value.kind] for value in pattern.values))

    @property
    def hypercube(self) -> Hypercube | None:
        """The division of the query among shares, by variables that are columns; None where no column is a vertex.

        >>> Query("?x a ?y . ?y b ?z", window=Window(size=1, slide=1)).hypercube.grid(6).dimensions
        {'y': 6}
        """
        found: dict[str, int] = {}
        for place, one in enumerate(self.pattern.values):
            if one.kind == "vertex":
                found.setdefault(one.variable, place)
        columns = tuple(found.items())
        if not columns:
            return None
        atoms = [atom for atom in self.pattern.atoms if atom.fact is None]  # every share has all facts
        if has_bare_path(atoms):
            return undivided(*columns[0], roots=roots_of(atoms))
        reads, paths = reads_of(atoms)
        return Hypercube(columns=columns, reads=reads, paths=labels_of(paths), roots=roots_of(paths))

    @property
    def labels(self) -> frozenset[LabelSymbol] | None:
        """The labels of the atoms; None if a path may match labels that it does not name.

        >>> sorted(Query("?x a ?y . ?y (^b|c)+ ?z", window=Window(size=1, slide=1)).labels)
        ['a', 'b', 'c']
        >>> Query("?x a ?y . ?y !a ?z", window=Window(size=1, slide=1)).labels is None
        True
        """
        if any(symbol.is_other for path in self._automata for symbol in path.symbols):
            return None
        return self.named_labels

    @property
    def named_labels(self) -> frozenset[LabelSymbol]:
        """The labels that the text names.

        >>> sorted(Query("?x a ?y . ?y ^b ?z", window=Window(size=1, slide=1)).named_labels)
        ['a', 'b']
        """
        return self.join.edge_labels.union(*(path.labels for path in self._automata))

    def reads(self, label: LabelSymbol) -> bool:
        """Return whether an atom can match edges with a label.

        >>> [Query("?x a ?y . ?y b+ ?z", window=Window(size=1, slide=1)).reads(label) for label in "abc"]
        [True, True, False]
        """
        if label in self.join.edge_labels or label in self.join.fact_labels:
            return True
        return any(path.is_relevant(label) for path in self._automata)

    def accepts(self, label: LabelSymbol) -> frozenset[Ends]:
        """Return which edges of a label some atom accepts, by their ends; none where no atom reads the label.

        A count window numbers all inserts with its labels, so it accepts all of their edges.

        >>> [str(ends) for ends in Query("?x a ?y . ?y b h7", window=UnboundedWindow()).accepts("b")]
        ['any vertex to h7']
        """
        if self.window.kind == "count" and self.reads(label):
            return frozenset({ALL})
        accepted = self.join.accepted_edges.get(label, frozenset())
        return accepted | accepted_edges_on_paths(self._automata_of_atoms, label)

    @property
    def _automata(self) -> tuple[automata.DFA, ...]:
        """The automata of the path atoms."""
        return tuple(dfa for _, dfa in self._automata_of_atoms)

    @property
    def _automata_of_atoms(self) -> tuple[tuple[Atom, automata.DFA], ...]:
        """The path atoms, each with its automaton."""
        paths: tuple[tuple[Atom, automata.DFA], ...] = self._path_atoms  # type: ignore[attr-defined]
        return paths

    @property
    def label_set(self) -> LabelSet:
        """The labels of the atoms, as a set: a count window numbers inserts with these labels.

        >>> Query("?x a ?y . ?y ^b ?z", window=CountWindow(size=9)).label_set.others
        False
        """
        if not self._automata:
            return LabelSet(self.join.edge_labels, others=False)
        conditions = frozenset().union(*(path.conditions_of_others for path in self._automata))
        return LabelSet.of(self.named_labels, self.reads, conditions)

    @property
    def readings(self) -> tuple[Reading, ...] | None:
        """The reading over its window, and that of the facts of nodes, which have none; None if it reads no facts.

        >>> query = Query("?x[risk > 3] a ?y", window=Window(size=1, slide=1))
        >>> [print(*reading.labels.named, "in", reading.window) for reading in query.readings]
        a in Window(size=1, slide=1)
        node[risk > 3] in UnboundedWindow()
        [None, None]
        """
        if not self.join.fact_labels:
            return None
        facts = LabelSet(self.join.fact_labels, others=False)
        return Reading(self.window, self.label_set), Reading(UnboundedWindow(), facts)


class EdgeValuesQuery(PatternQuery):
    """A pattern with edge variables or a filter. Create it with `Query`.

    >>> window = Window(size=30, slide=1)
    >>> query = Query("?x ?e:transfer ?y", window=window, select=["?x", "?e.amount"], filter="?e.amount > 5")
    >>> query.columns, query.joined_pattern.columns
    (('x', 'e.amount'), ('x', '.e', 'y'))
    """

    @property
    def properties(self) -> frozenset[str]:
        """The properties of edges that columns and filter read, beside those in conditions."""
        return self.pattern.properties

    @property
    def filters(self) -> tuple[BindingFilter, ...]:
        """The filter, if there is one."""
        return () if self.pattern.filter is None else (self.pattern.filter,)

    @property
    def selected_values(self) -> tuple[Value, ...]:
        """The values that are the columns."""
        return self.pattern.values

    @property
    def joined_pattern(self) -> PatternQuery:
        """The pattern that is joined. Its solutions, filtered and with values in place of edges, are those of this one."""
        joined = object.__new__(PatternQuery)
        # Bindings that expire silently need not be found, unless rows are counted or may come back in the same event.
        semantics = "explicit" if self.distinct or self.window.kind == "count" else self.semantics
        options = {"select": None, "filter": None, "distinct": False, "semantics": semantics, "report": "change"}
        options |= {"hold": None}
        joined.__dict__.update(self.__dict__ | options | {"matching": "homomorphism", "_pattern": self.join})
        return joined


def labels_of(atoms: Iterable[Atom]) -> LabelSet:
    """Return the labels that the expressions of atoms read.

    >>> from rpq.language.pattern import parse_pattern
    >>> sorted(labels_of(parse_pattern("?x a/b+ ?y . ?y ^c ?z")).named)
    ['a', 'b', 'c']
    """
    paths = [automaton_of(str(atom.expression)) for atom in atoms]
    conditions = frozenset().union(*(path.conditions_of_others for path in paths))
    named = frozenset().union(*(path.labels for path in paths))
    return LabelSet.of(named, lambda label: any(path.is_relevant(label) for path in paths), conditions)


def selected_columns(select: Sequence[str] | None, expression: str, *, cost: str | None = None) -> tuple[str, ...]:
    """Return the columns that `select` names for the rows of a path expression. Raises `QueryError`.

    >>> selected_columns(["source", "target", "length"], "a+")
    ('source', 'target', 'length')
    >>> selected_columns(["x"], "a+")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    rpq.errors.QueryError: select: 'x' is no column of a path query, which has source, target and, if selected, length; ...
    """
    if select is None:
        return PAIR if cost is None else PAIR_AND_COST
    if isinstance(select, str) or not all(isinstance(name, str) for name in select):
        raise QueryError(f"select: expected a list of columns, such as {list(PAIR_AND_LENGTH)}, not {select!r}")
    columns = tuple(select)
    if cost is not None and columns != PAIR_AND_COST:
        raise QueryError(
            f"select: the columns of a path query with a cost are {', '.join(PAIR_AND_COST)}, not "
            f"{', '.join(columns) or 'none'}: leave out select, or cost={cost!r}"
        )
    if columns in (PAIR, PAIR_AND_LENGTH) or cost is not None:
        return columns
    other = next((name for name in columns if name not in PAIR_AND_LENGTH), None)
    if other == "cost":
        raise QueryError("select: cost is a column where cost names a property of edges, as in cost='amount'")
    if other is not None:
        raise QueryError(
            f"select: {other!r} is no column of a path query, which has source, target and, if selected, length; a graph "
            f"pattern (?x a ?y . ?y b ?z) selects variables, and {expression!r} is a path"
        )
    raise QueryError(
        f"select: the columns of a path query are {', '.join(PAIR)}, or {', '.join(PAIR_AND_LENGTH)}, in this order, not "
        f"{', '.join(columns) or 'none'}"
    )


def path_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of a path query, typed where one of them is a length; None is source and target."""
    if columns is None or tuple(columns) == PAIR:
        return PAIR
    from rpq.rows.typed_columns import TypedColumns, ValueColumns  # imports Arrow

    if tuple(columns) == PAIR_AND_COST:
        return ValueColumns(PAIR_AND_COST, ("vertex", "vertex", "value"))
    return TypedColumns(PAIR_AND_LENGTH, ("vertex", "vertex", "count"))


def cost_text(cost: str) -> str:
    """Return what the costs of a path query are, in words.

    >>> cost_text("amount")
    'the smallest sum of amount along a path'
    """
    return f"the smallest sum of {cost} along a path"


def register_class(language: Language, load: Callable[[], type[Query]]) -> None:
    """Register the function that returns the class of the queries in a notation, if the class stands above this module.

    It is called when such a query is created, so that other queries do not load the class.
    """
    _classes[language] = load


def automaton_of(expression: str, cost: str | None = None) -> automata.DFA:
    """Return the automaton of an expression, which all queries with that expression share; with a cost the one over links.

    Raises `ExpressionError`.
    """
    dfa = _automata.get((expression, cost))
    if dfa is None:
        try:
            tree = parse_expression(expression)
            dfa = automata.compile(tree if cost is None else over_links(tree, cost))
        except automata.ExpressionError as problem:
            raise ExpressionError(problem.message, problem.column, problem.expected, expression) from None
        except SizeError as problem:
            raise ExpressionError(str(problem), 1, "a smaller expression", expression) from None
        _automata[expression, cost] = dfa
    return dfa


def _vertices(ends: str, value: Collection[Vertex]) -> frozenset[Vertex]:
    if isinstance(value, (str, bytes)):
        raise QueryError(f"{ends} are a collection of vertices, not the one text {value!r}")
    try:
        items = list(value)
    except TypeError:
        raise QueryError(f"{ends} are a collection of vertices, not {value!r}") from None
    vertices: list[Vertex] = []
    for vertex in items:
        if isinstance(vertex, str):
            _check_text(f"a vertex of {ends}", vertex)
            vertices.append(normal_form(str(vertex)))
        elif hasattr(vertex, "__index__") and not isinstance(vertex, bool):
            number = vertex.__index__()
            if not -(2**63) <= number < 2**63:
                raise QueryError(f"{ends}: the vertex {number} does not fit into 64 bits with a sign")
            vertices.append(number)
        else:
            raise QueryError(f"{ends} are integers or strings, as the vertices of the stream, not {vertex!r}")
    return frozenset(vertices)


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise QueryError(f"{what} is text, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise QueryError(
            f"{what} cannot be encoded as UTF-8: {text!r} has a lone surrogate at character {problem.start + 1}"
        ) from problem
