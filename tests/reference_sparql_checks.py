"""Refusals by the oracle of queries that parse: rule 2.11 of the contract and the scopes of the standard.

Decided here:

- **A BIND** may not speak of a variable that only an outer group binds; a FILTER may, where it is unbound, as in SPARQL,
  but inside EXISTS and directly within OPTIONAL.
- **Ungrouped**: with GROUP BY or an aggregate, SELECT and HAVING may speak of the keys, and of other variables in
  aggregates alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference import Rejected
from tests.reference_sparql import columns, has_aggregate, in_scope, is_grouped, merged
from tests.reference_sparql_parser import Refused
from tests.reference_sparql_syntax import (
    Aggregate,
    Bind,
    Blank,
    Call,
    Exists,
    Formula,
    Group,
    InWindow,
    Minus,
    Optional,
    Query,
    Select,
    Triples,
    Union,
    Variable,
    formulas_in,
    formulas_of,
    groups_of,
    query_elements,
)


def check(query: Query) -> None:
    """Raise Refused, or Rejected, for what the contract has no place for."""
    for element, _ in query_elements(query):
        if isinstance(element, InWindow) and element.is_graph:
            has_clauses = bool(query.from_graphs or query.from_named)
            is_variable = isinstance(element.name, Variable)
            if element.name in query.windows or (has_clauses and not is_variable and element.name not in query.from_named):
                raise Rejected(f"{element.name!r} is not a graph that the query reads")
        elif isinstance(element, InWindow) and element.name not in query.windows:
            raise Rejected(f"window {element.name!r} is not declared")
    if query.form == "SELECT" and (bad := {"query", "timestamp", "op"} & set(columns(query.select))):
        raise Refused(f"a column called {min(bad)}")
    if query.form != "SELECT" and is_grouped(query.select):
        raise Refused("GROUP BY in " + query.form)
    _select(query.select, top=query.form == "SELECT")
    _blank_nodes(query)


def _select(select: Select, top: bool = True) -> None:
    visible = in_scope(select.body)
    if bad := {condition.variable.name for condition in select.group_by if condition.variable} & set(visible):
        raise Rejected(f"?{min(bad)} of GROUP BY is in scope already")
    seen: set[str] = set(visible)
    if select.columns is not None:
        for column in select.columns:
            if column.formula is not None and column.variable.name in seen:
                raise Rejected(f"?{column.variable.name} is in scope already")
            seen.add(column.variable.name)
        names = [column.variable.name for column in select.columns]
        if top and len(set(names)) < len(names):
            raise Rejected("a column comes twice")
    if is_grouped(select):
        if select.columns is None:
            raise Rejected("SELECT * with GROUP BY or aggregates")
        keys = {
            c.variable.name if c.variable else c.formula.name
            for c in select.group_by
            if c.variable or isinstance(c.formula, Variable)
        }
        named = set(keys)
        for column in select.columns:
            _grouped(column.formula or column.variable, named)
            named.add(column.variable.name)
        for condition in select.having:
            _grouped(condition, keys)
        for formula, _ in select.order:
            _grouped(formula, named)
    elif select.having:
        raise Rejected("HAVING without groups")
    for formula in [c.formula for c in select.columns or () if c.formula is not None] + list(select.having):
        _no_nested_aggregate(formula)
    for formula, _ in select.order:
        _no_nested_aggregate(formula)
        outside = {below.name for below in formulas_in(formula) if isinstance(below, Variable)} - set(columns(select))
        if select.is_slice and select.modifier == "DISTINCT" and (outside or has_aggregate(formula)):
            raise Refused("DISTINCT and ORDER BY what is not selected")
    _group(select.body, set())


def _grouped(formula: Formula, keys: set[str]) -> None:
    if isinstance(formula, Aggregate):
        return
    if isinstance(formula, Variable) and formula.name not in keys:
        raise Refused(f"?{formula.name}, which is not grouped, in SELECT or HAVING")
    if isinstance(formula, Call):
        for argument in formula.arguments:
            _grouped(argument, keys)


def _no_nested_aggregate(formula: Formula) -> None:
    for below in formulas_in(formula):
        inside = below.argument if isinstance(below, Aggregate) else None
        if inside is not None and any(isinstance(inner, Aggregate) for inner in formulas_in(inside)):
            raise Rejected("an aggregate within an aggregate")


def _group(
    group: Group, outer: set[str], seen: frozenset[str] = frozenset(), optional: frozenset[str] = frozenset()
) -> None:
    """Check a group; `outer` are the variables that groups around it bind, `seen` those of them that its filters see.

    Its own filters, not those of groups within it, see those of `optional` too.
    """
    own = set(in_scope(group))
    bound: set[str] = set()
    for element in group.elements:
        if isinstance(element, Bind):
            if element.variable.name in bound:
                raise Rejected(f"?{element.variable.name} is bound before its BIND")
            names = {below.name for below in formulas_in(element.formula) if isinstance(below, Variable)}
            if hidden := names & (outer - own - seen):
                raise Refused(f"a BIND of ?{min(hidden)}, which only an outer group binds")
        for formula in formulas_of(element) if not isinstance(element, Select) else ():
            for below in formulas_in(formula):
                if isinstance(below, Exists):
                    _group(below.group, outer | own, seen | optional | own)
                elif isinstance(below, Aggregate):
                    raise Rejected("an aggregate in a group")
        around = outer | own
        match element:
            case Optional(inner):
                _group(inner, around, seen, frozenset(own))
            case InWindow(_, inner) | Minus(inner):
                _group(inner, around, seen)
            case Union(groups):
                for inner in groups:
                    _group(inner, around, seen)
            case Select():
                _select(element, top=False)
        bound |= set(in_scope(Group((element,))))


def _blank_nodes(query: Query) -> None:
    """A label of a blank node stands in one basic graph pattern, and a node without a label always does."""
    used: set[str] = set()
    for group in _groups(Group((query.select,))):
        for element in merged(group.elements):
            if isinstance(element, Triples):
                ends = [end for triple in element.triples for end in (triple.subject, triple.object)]
                labels = {one.label for one in ends if isinstance(one, Blank) and not one.label.startswith("anonymous.")}
                if twice := used & labels:
                    raise Refused(f"_:{min(twice)} in two groups")
                used |= labels


def _groups(group: Group) -> Iterator[Group]:
    yield group
    for element in group.elements:
        for inner in groups_of(element):
            yield from _groups(inner)
