"""What is made of the solutions of a group: GROUP BY, aggregates, HAVING, VALUES, SELECT, DISTINCT (section 18.2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rpq.queries.pattern import Variable
from rpq.sparql.algebra import (
    Aggregate,
    Call,
    Distinct,
    Extend,
    Formula,
    Group,
    Operator,
    Project,
    filtered,
    joined,
)
from rpq.sparql.grammar import Leaf
from rpq.sparql.naming_scopes import Scope, written_name
from rpq.sparql.refused import refusal
from rpq.sparql.scope import aggregates_in, possible, variables_of

if TYPE_CHECKING:
    from rpq.sparql.group_reading import GroupReader


@dataclass(frozen=True)
class Selection:
    """A query or a subselect of the parse tree: its node, its columns (None: all), and whether it is the whole query."""

    node: Any
    columns: tuple[Leaf, ...] | None
    is_whole: bool

    @classmethod
    def of(cls, node: Any, *, is_whole: bool) -> Selection:
        """The selection of a node."""
        if node.projection is None:
            return cls(node, None, is_whole)
        return cls(node, tuple(one.evar or one.var for one in node.projection), is_whole)

    @property
    def is_select(self) -> bool:
        """Whether it has columns; ASK and CONSTRUCT have none."""
        return self.node.name in ("SelectQuery", "SubSelect")


def modified(reader: GroupReader, selection: Selection, scope: Scope) -> tuple[Operator, tuple[str, ...]]:
    """The operator of a whole selection, and its columns. Raises `SparqlError`."""
    return _Modifying(reader, selection, scope).modified()


class _Modifying:
    """One selection on its way from its group to its columns."""

    def __init__(self, reader: GroupReader, selection: Selection, scope: Scope) -> None:
        self._reader = reader
        self._selection = selection
        self._node = selection.node
        self._scope = scope
        self._aggregates: dict[Aggregate, str] = {}

    def modified(self) -> tuple[Operator, tuple[str, ...]]:
        node, reader, scope = self._node, self._reader, self._scope
        self._refuse()
        inner: Operator = reader.group(node.where, scope)[0] if node.where is not None else joined()
        select = [(one, reader.formulas.formula(one.expr, scope)) for one in node.projection or () if one.expr is not None]
        having = [reader.formulas.formula(one, scope) for one in (node.having.condition if node.having else ())]
        conditions_of_groups = node.groupby.condition if node.groupby else ()
        has_aggregates = any(True for formula in [one for _, one in select] + having for _ in aggregates_in(formula))
        operator = inner
        keys: tuple[str, ...] | None = None
        if node.groupby or having or has_aggregates:
            operator, keys = self._keys(operator, conditions_of_groups)
            if self._selection.is_select and self._selection.columns is None:
                raise reader.source.error("SELECT * cannot be grouped", node.place, "the keys and aggregates by name")
            having = [self._without_aggregates(formula, keys, "HAVING", node.having.place) for formula in having]
            select = [(one, self._without_aggregates(formula, None, "SELECT", one.place)) for one, formula in select]
            operator = Group(operator, keys, tuple((name, one) for one, name in self._aggregates.items()))
        for formula in having:
            operator = filtered(operator, formula)
        if node.valuesClause:
            operator = joined(operator, reader.values(node.valuesClause, scope))
        operator, columns = self._columns(operator, inner, select, keys)
        if self._selection.is_select:
            operator = Project(operator, columns)
            if node.modifier == "DISTINCT":
                operator = Distinct(operator)
        return operator, columns

    def _refuse(self) -> None:
        node, source = self._node, self._reader.source
        if node.orderby:
            raise refusal(source, "ORDER BY", node.orderby.place)
        if node.limitoffset:
            first = "LIMIT" if node.limitoffset.limit is not None else "OFFSET"
            at = source.parsed[node.limitoffset.place :]
            raise refusal(source, "OFFSET" if at[:6].upper() == "OFFSET" else first, node.limitoffset.place)
        for clause in node.datasetClause or ():
            raise refusal(source, "FROM NAMED" if clause.named is not None else "FROM", clause.place)

    # --- groups ------------------------------------------------------------------------------------------------------

    def _keys(self, operator: Operator, conditions: Iterable[Any]) -> tuple[Operator, tuple[str, ...]]:
        """The operator with a variable for every key, and the keys."""
        keys: list[str] = []
        for condition in conditions:
            is_named = getattr(condition, "name", None) == "GroupAs"
            formula = self._reader.formulas.formula(condition.expr if is_named else condition, self._scope)
            if any(True for _ in aggregates_in(formula)):
                place = getattr(condition, "place", None)
                raise self._reader.source.error("an aggregate cannot stand in GROUP BY", place, "it in SELECT or HAVING")
            if is_named and condition.var is not None:
                name = self._reader.assign(condition.var, self._scope, possible(operator))
            elif isinstance(formula, Variable):
                keys.append(formula.name)
                continue
            else:
                name = f".key{len(keys) + 1}"
            operator = Extend(operator, name, formula)
            keys.append(name)
        return operator, tuple(dict.fromkeys(keys))

    def _without_aggregates(self, formula: Formula, keys: tuple[str, ...] | None, where: str, place: int) -> Formula:
        """The formula with names for the aggregates in it; with `keys`, all other variables must be among them."""
        if isinstance(formula, Aggregate):
            inner = formula.argument
            if inner is not None and any(True for _ in aggregates_in(inner)):
                raise self._reader.source.error("an aggregate cannot stand in an aggregate", place, "a subselect")
            return Variable(self._aggregates.setdefault(formula, f".{len(self._aggregates) + 1}"))
        if isinstance(formula, Call):
            arguments = [self._without_aggregates(one, keys, where, place) for one in formula.arguments]
            return Call(formula.function, tuple(arguments))
        if isinstance(formula, Variable) and keys is not None and formula.name not in keys:
            raise self._ungrouped(formula.name, where, place)
        return formula

    def _ungrouped(self, name: str, where: str, place: int) -> Exception:
        written = written_name(name)
        message = f"?{written} in {where} is no key of GROUP BY, and has many values in a group"
        return self._reader.source.error(
            message, place, f"an aggregate such as SAMPLE(?{written}), or ?{written} in GROUP BY"
        )

    # --- columns -----------------------------------------------------------------------------------------------------

    def _columns(
        self, operator: Operator, inner: Operator, select: list[tuple[Any, Formula]], keys: tuple[str, ...] | None
    ) -> tuple[Operator, tuple[str, ...]]:
        reader, scope = self._reader, self._scope
        # A value may be made of those of the columns before it. What is not in a group any more has its name still.
        bound = possible(inner) | possible(operator)
        visible = None if keys is None else {*keys, *self._aggregates.values()}
        formulas = {id(one): formula for one, formula in select}
        columns: list[str] = []
        for one in self._node.projection or ():
            if one.expr is None:
                name = reader.formulas.variable(one.var, scope)
                if visible is not None and name not in visible:
                    raise self._ungrouped(name, "SELECT", one.place)
            else:
                formula = formulas[id(one)]
                if visible is not None and (hidden := (_plain_variables(formula) - visible)):
                    raise self._ungrouped(min(hidden), "SELECT", one.place)
                name = reader.assign(one.evar, scope, bound)
                operator = Extend(operator, name, formula)
                bound |= {name}
                if visible is not None:
                    visible.add(name)
            if name in columns:
                raise reader.source.error(f"SELECT names ?{written_name(name)} twice", one.place, "each column once")
            columns.append(name)
        if self._selection.is_select and self._selection.columns is None:
            named = [name for name in possible(operator) if not name.startswith("_:") and not name.startswith(".")]
            columns = sorted(named, key=lambda name: reader.formulas.places[name])
        return operator, tuple(columns)


def _plain_variables(formula: Formula) -> frozenset[str]:
    """The variables that stand in a formula itself, not inside EXISTS."""
    if isinstance(formula, Call):
        return frozenset().union(*map(_plain_variables, formula.arguments))
    return variables_of(formula) if isinstance(formula, Variable) else frozenset()
