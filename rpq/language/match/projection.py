"""WITH, UNWIND, RETURN and UNION: the columns of rows, groups, orders and duplicates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, NoReturn

from rpq.language.edge_variables import Value
from rpq.language.match.clauses import ClauseTranslator, columns_of
from rpq.language.match.computed import free_names, may_be_node
from rpq.language.match.condition_trees import condition_nodes, has_aggregate
from rpq.language.match.expansion import expand
from rpq.language.match.node_facts import atom_of_value
from rpq.language.match.scope import ColumnSource, NameBinding, ResultColumn, Scope
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    LABELS_OF,
    AggregateCall,
    Case,
    CountOf,
    Dialect,
    Item,
    ListOf,
    MatchExists,
    Projection,
    Property,
    Quantifier,
    SingleQuery,
    SortItem,
    Unwind,
    change,
    walk,
)
from rpq.language.match.values.computation import Encoding, ItemValue
from rpq.language.match.values.times import DURATION_PARTS, TIME_PARTS
from rpq.language.pattern import Constant, Variable, edge_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Aggregate,
    AggregateName,
    Conjunction,
    Distinct,
    EdgeValue,
    Extend,
    Formula,
    FunctionCall,
    Group,
    Operator,
    Project,
    Slice,
    make_union,
)
from rpq.language.sparql.values.typed_values import integer_term
from rpq.language.where import Arithmetic, Call, Comparison, Name, WhereConstant

_RESERVED = ("query", "timestamp", "op")
_ORDER, _ITEM, _ELEMENT = "#order", "#item", "#element"
"""Names for the values of ORDER BY, and for those of items and elements of paths, whatever these are called."""


@dataclass(frozen=True)
class Branch:
    """Rows, and what the names in a text stand for in them. The rows of several branches are added up."""

    rows: Operator | None
    names: dict[str, NameBinding]
    order: tuple[SortItem, ...] = ()
    """The order of lists that the next aggregates collect."""


@dataclass(frozen=True)
class QueryRows:
    """The rows of a query: the operator whose bag they are, its columns, and the variables whose values these are."""

    body: Operator
    columns: tuple[ResultColumn, ...]
    variables: tuple[str, ...]


def collects(projection: Projection) -> bool:
    """Return whether a WITH or RETURN gathers lists, which have the order of the WITH before it."""
    nodes = (node for item in projection.items for node in condition_nodes(item.value))
    return any(isinstance(node, AggregateCall) and node.function == "collect" for node in nodes)


def is_insensitive(projection: Projection, is_set: bool) -> bool:
    """Return whether the number of equal rows before a WITH or RETURN has no effect.

    With `is_set` that of equal rows behind it has none.
    """
    calls = [node for item in projection.items for node in condition_nodes(item.value) if isinstance(node, AggregateCall)]
    if calls:
        return all(one.function in ("min", "max") or one.is_distinct for one in calls)
    if projection.is_distinct:
        return True
    return is_set and projection.limit is None and projection.skip is None


def union_of(queries: Sequence[QueryRows], texts: Sequence[SingleQuery], text: str, *, is_distinct: bool) -> QueryRows:
    """Return the rows of a UNION. Raises `MatchError` unless the queries have the same columns."""
    names = [column.name for column in queries[0].columns]
    for one, query in zip(queries, texts, strict=True):
        if [column.name for column in one.columns] != names:
            there = ", ".join(column.name for column in one.columns)
            message = f"the queries of a UNION have the same columns in the same order: {', '.join(names)}, not {there}"
            raise match_error(text, query.parts[-1].projection.at, message)
    variables = tuple(f".column {place}" for place in range(len(names)))
    branches: list[Operator] = []
    for one in queries:
        body = one.body
        for variable, source in zip(variables, one.variables, strict=True):
            body = Extend(body, variable, Variable(source))
        branches.append(Project(body, variables))
    columns = tuple(
        _column_of_union(name, of)
        for name, of in zip(names, zip(*(one.columns for one in queries), strict=True), strict=True)
    )
    body = make_union(*branches)
    return QueryRows(Distinct(Project(body, variables)) if is_distinct else body, columns, variables)


def _column_of_union(name: str, columns: Sequence[ResultColumn]) -> ResultColumn:
    if {one.source for one in columns} in ({"vertex"}, {"count"}):
        return replace(columns[0], name=name)
    inputs = tuple(replace(one, name=f"{place}") for place, one in enumerate(columns))
    tree = Call("coalesce", tuple(Name(one.name, column=1) for one in inputs), column=1)
    return ResultColumn(name, "computed", None, tree, inputs)


def _without_places(tree: Any) -> Any:
    """Return a tree with places that equal ones have in common."""

    def of(node: Any) -> Any:
        if isinstance(node, (Property, Quantifier)):
            return node._replace(at=0)
        if not is_dataclass(node):
            return node
        places = {name: 1 for name in ("column", "at") if hasattr(node, name)}
        return replace(node, **places)  # type: ignore[type-var]

    return change(tree, of)


class ProjectionTranslator:
    """The translation of WITH, UNWIND and RETURN in one text."""

    def __init__(self, text: str, dialect: Dialect, clauses: ClauseTranslator) -> None:
        self._text = text
        self._dialect = dialect
        self._clauses = clauses
        self._computed = clauses.computed

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self._text, at, message)

    # --- UNWIND ----------------------------------------------------------------------------------------------------

    def unwind(self, branch: Branch, unwind: Unwind, needed: Mapping[str, Collection[str]]) -> Branch:
        """Return rows with a row for each element of a list."""
        if unwind.name in branch.names:
            self._fail(unwind.at, f"{unwind.name} is bound already: write another name behind AS")
        scope = _scope(branch)
        rows, column, listed = self._computed.column(branch.rows or algebra.UNIT, scope, unwind.value)
        internal = self._clauses.new_internal(unwind.name)
        rows = algebra.Unwind(rows, internal, Variable(column))
        element = replace(listed, tree=Call("head", (listed.tree,), column=1))
        names = {unwind.name: NameBinding("value", internal, column=element, may_be_null=True)}
        rows = self._with_facts(rows, names, needed, unwind.at)
        return replace(branch, rows=rows, names={**branch.names, **names})

    def _with_facts(
        self, rows: Operator, names: dict[str, NameBinding], needed: Mapping[str, Collection[str]], at: int
    ) -> Operator:
        """Return rows with the properties of computed values that are nodes, which their names then stand for."""
        for name, binding in names.items():
            facts = [one for one in needed.get(name, ()) if one.lower() not in (*TIME_PARTS, *DURATION_PARTS)]
            if binding.kind != "value" or binding.column is None or not facts:
                continue
            if not may_be_node(binding.column):
                self._fail(at, f"{name}.{facts[0]} is refused: {name} is no node, nor an edge of a pattern")
            atoms = [
                atom_of_value(Variable(binding.internal), binding.internal, "labels" if one == LABELS_OF else one)
                for one in facts
            ]
            rows = self._clauses.left_join(rows, Conjunction(tuple(atoms)), [binding.internal], None)
            names[name] = NameBinding("vertex", binding.internal, may_be_null=True)
        return rows

    # --- WITH ------------------------------------------------------------------------------------------------------

    def rows_behind_with(
        self,
        branches: Sequence[Branch],
        projection: Projection,
        after: Mapping[str, Collection[str]],
        *,
        following: Projection,
    ) -> list[Branch]:
        """Return the rows behind a WITH, whose columns are names for the parts behind it."""
        items = self._items(branches[0], projection)
        for item in items:
            if item.name is None and not (isinstance(item.value, Name) and "." not in item.value.name):
                self._fail(item.at, f"{item.text} in WITH needs a name: write {item.text} AS name")
            self._clauses.check_name(item.name or item.text, item.at)
        return self._project(branches, projection, items, after, keeps_order=collects(following))

    def _items(self, branch: Branch, projection: Projection) -> list[Item]:
        """Return the items of a projection, with those for which `*` stands."""
        items = [*projection.items]
        if projection.has_all:
            names = [name for name in branch.names if "#" not in name]
            inner = next((name for name in names if branch.names[name].kind == "inner"), None)
            if inner is not None:
                self._fail(projection.at, f"* is refused beside {inner}, which is no value: name the columns")
            items = [*(Item(Name(name, column=projection.at + 1), None, name, projection.at) for name in names), *items]
            if not items:
                self._fail(projection.at, "* has no names here: name the columns")
        seen: set[str] = set()
        for item in items:
            name = item.name or item.text
            if name in seen:
                self._fail(item.at, f"two columns are called {name}: write AS and another name behind one of them")
            seen.add(name)
        return items

    # --- RETURN ----------------------------------------------------------------------------------------------------

    def result(self, branches: Sequence[Branch], projection: Projection, *, is_alone: bool) -> QueryRows:
        """Return the rows of RETURN. In a UNION the query is not alone, and values have their types in columns."""
        items = self._items(branches[0], projection)
        for item in items:
            name = item.name or item.text
            if name in _RESERVED:
                self._fail(item.at, f"all rows have a column called {name}: write AS and another name behind it")
        is_cut = projection.limit is not None or projection.skip is not None
        is_plain = is_alone and not is_cut and len(branches) == 1
        found = self._project(branches, projection, items, {}, is_result=True, has_plain_values=is_plain)
        projected: list[Operator] = []
        for branch in found:
            rows, variables, columns = branch.rows or algebra.UNIT, [], []
            for place, item in enumerate(items):
                binding = branch.names[item.name or item.text]
                variable, column = binding.internal, binding.column
                if binding.kind == "edge":
                    rows, variable = self._computed.extend(rows, Value("number", binding.internal))
                    column = ResultColumn("", "number", Value("number", binding.internal))
                if binding.kind == "vertex":
                    column = ResultColumn("", "vertex", Value("vertex", binding.internal))
                if variable in variables or len(found) > 1:
                    rows = Extend(rows, f".column {place}", Variable(variable))
                    variable = f".column {place}"
                assert column is not None
                variables.append(variable)
                columns.append(replace(column, name=item.name or item.text))
            projected.append(Project(rows, tuple(variables)))
        body = make_union(*projected)
        if projection.is_distinct and not is_cut:
            body = Distinct(body)
        return QueryRows(body, tuple(columns), tuple(variables))

    # --- items -----------------------------------------------------------------------------------------------------

    def _project(
        self,
        branches: Sequence[Branch],
        projection: Projection,
        items: Sequence[Item],
        after: Mapping[str, Collection[str]],
        *,
        keeps_order: bool = False,
        is_result: bool = False,
        has_plain_values: bool = False,
    ) -> list[Branch]:
        """Return the rows of a projection, in which the names of the items stand for their values."""
        after = _with_own_reads(after, projection)
        is_grouped = any(has_aggregate(item.value) for item in items)
        is_cut = projection.limit is not None or projection.skip is not None
        is_plain = not (is_grouped or projection.is_distinct or is_cut)
        order = [_with_values_of_items(one, items) for one in projection.order] if is_cut or keeps_order else []
        if is_grouped:
            found = [self._grouped(branches, items, after, order, has_plain_values=has_plain_values)]
        else:
            found = [
                self._with_items(
                    one, items, order, after, is_result=is_result, has_plain_values=has_plain_values, is_key=not is_plain
                )
                for one in branches
            ]
        names = [item.name or item.text for item in items]
        is_distinct = projection.is_distinct and (is_cut or not is_result)
        if is_distinct or is_cut:
            if len(found) > 1 or is_distinct:
                hidden = [] if is_distinct and not is_grouped else [*(f"{_ORDER} {place}" for place in range(len(order)))]
                if len(found) == 1:
                    hidden += [name for name in found[0].names if _ELEMENT in name]
                rows, bindings = self._union(found, [*names, *hidden], after)
                found = [Branch(Distinct(rows) if is_distinct else rows, bindings)]
            if is_distinct and not is_grouped:
                found = [self._with_order(found[0], items, order)]
            if is_cut:
                sees_all = projection.where is not None and not (is_grouped or is_distinct) and len(branches) == 1
                found = [self._cut(found[0], projection, items, order, after, keeps_all=sees_all)]
        if projection.where is not None:
            # Without groups and DISTINCT the condition also sees the names before the WITH.
            sees_names = not (is_grouped or is_distinct) and len(branches) == len(found)
            before = [one.names if sees_names else {} for one in branches]
            found = [
                replace(
                    one,
                    rows=self._clauses.filtered(one.rows or algebra.UNIT, {**names_before, **one.names}, projection.where),
                )
                for one, names_before in zip(found, before, strict=False)
            ]
        if not keeps_order or not order:
            return found
        ties = [SortItem(Name(name, column=1), False) for name in names]
        return [replace(one, order=(*_hidden_order(order), *ties)) for one in found]

    def _with_items(
        self,
        branch: Branch,
        items: Sequence[Item],
        order: Sequence[SortItem],
        after: Mapping[str, Collection[str]],
        *,
        is_result: bool,
        has_plain_values: bool,
        is_key: bool,
    ) -> Branch:
        """Return rows with a name for each item and for each value of ORDER BY."""
        scope = _scope(branch)
        rows = branch.rows or algebra.UNIT
        names: dict[str, NameBinding] = {}
        for item in items:
            rows, names[item.name or item.text] = self._named(
                rows, scope, item.value, is_result=is_result, has_plain_values=has_plain_values, is_key=is_key
            )
        rows = self._with_facts(rows, names, after, items[0].at)
        for place, one in enumerate(order):
            binding = scope.get(one.value.name) if isinstance(one.value, Name) else None
            tree = _text_of_path(binding) if binding is not None and binding.kind == "path" else one.value
            rows, column, described = self._computed.column(rows, scope, tree)
            names[f"{_ORDER} {place}"] = NameBinding("value", column, column=described, may_be_null=True)
        return Branch(rows, _with_elements(names, branch.names))

    def _with_order(self, branch: Branch, items: Sequence[Item], order: Sequence[SortItem]) -> Branch:
        """Return rows with a name for each value of ORDER BY, which is computed from the items: those alone are there."""
        rows, names = branch.rows or algebra.UNIT, dict(branch.names)
        scope = _scope(branch)
        scope.own |= {f"{_ITEM} {place}": names[item.name or item.text] for place, item in enumerate(items)}
        of_items = {_without_places(item.value): f"{_ITEM} {place}" for place, item in enumerate(items)}
        for place, one in enumerate(order):
            rows, column, described = self._computed.column(rows, scope, _replaced(one.value, of_items))
            names[f"{_ORDER} {place}"] = NameBinding("value", column, column=described, may_be_null=True)
        return Branch(rows, names)

    def _named(
        self, rows: Operator, scope: Scope, tree: Any, *, is_result: bool, has_plain_values: bool, is_key: bool
    ) -> tuple[Operator, NameBinding]:
        """Return rows with a value, and what a name for it stands for. With `is_key` equal values have equal columns."""
        if isinstance(tree, Name) and "." not in tree.name:
            binding = scope.get(tree.name)
            if binding is None or binding.kind == "inner":
                self._computed.reader.value(scope, tree)
            assert binding is not None
            if binding.kind == "edge" and is_key:
                return self._edge(rows, binding)
            if binding.kind in ("vertex", "edge", "value") or not is_result:
                return rows, replace(binding, constant=None)
            if binding.kind == "path":
                tree = _text_of_path(binding)
        if has_plain_values and isinstance(tree, Name):
            binding = scope.get(tree.name.partition(".")[0])
            if binding is not None and binding.kind in ("vertex", "edge"):
                value = self._computed.reader.value(scope, tree)
                rows, name = self._computed.extend(rows, value)
                return rows, NameBinding("value", name, column=ResultColumn("", value.kind, value))
        rows, name, column = self._computed.column(rows, scope, tree)
        return rows, NameBinding("value", name, column=column, may_be_null=True)

    def _edge(self, rows: Operator, binding: NameBinding) -> tuple[Operator, NameBinding]:
        """Return rows in which an edge has one column value for both of its directions."""
        if binding.directions != ("either",):
            return rows, binding
        internal = self._clauses.new_internal(binding.internal)
        rows = Extend(rows, edge_column(internal), EdgeValue(Value("edge", binding.internal)))
        return rows, replace(binding, internal=internal, directions=())

    # --- rows of several branches ----------------------------------------------------------------------------------

    def _union(
        self, branches: Sequence[Branch], names: Sequence[str], after: Mapping[str, Collection[str]]
    ) -> tuple[Operator, dict[str, NameBinding]]:
        """Return the union of branches with the columns of some names, and what the names stand for in it."""
        found: dict[str, NameBinding] = {}
        changed = [branch.rows or algebra.UNIT for branch in branches]
        columns: list[str] = []
        for name in names:
            bindings = [branch.names[name] for branch in branches]
            first = bindings[0]
            is_carried = bool(first.elements) and first.elements[0] in names
            if len(branches) == 1 and (first.kind in ("vertex", "edge", "value") or is_carried):
                found[name] = first
                owner = name.partition(_ELEMENT)[0]
                columns += [column for column, _ in columns_of(first, first.internal, after.get(owner, ()))]
                continue
            if first.kind in ("path", "list"):
                bindings = []
                for place, branch in enumerate(branches):
                    tree: Any = Name(name, column=1)
                    if branch.names[name].kind == "path":
                        self._fail(0, f"{name} is a path, which is read before it passes a WITH that groups or is DISTINCT")
                    changed[place], column, described = self._computed.column(changed[place], _scope(branch), tree)
                    bindings.append(NameBinding("value", column, column=described, may_be_null=True))
                first = bindings[0]
            internal = self._clauses.new_internal(name)
            may_be_null = any(one.may_be_null for one in bindings)
            found[name] = replace(first, internal=internal, may_be_null=may_be_null, constant=None)
            attributes = after.get(name, ()) if first.kind == "vertex" else ()
            for place, binding in enumerate(bindings):
                for column, source in columns_of(binding, internal, attributes):
                    changed[place] = Extend(changed[place], column, Variable(source))
            columns += [column for column, _ in columns_of(first, internal, attributes)]
        unique = tuple(dict.fromkeys(columns))
        return make_union(*(Project(one, unique) for one in changed)), found

    # --- groups ----------------------------------------------------------------------------------------------------

    def _grouped(
        self,
        branches: Sequence[Branch],
        items: Sequence[Item],
        after: Mapping[str, Collection[str]],
        order: Sequence[SortItem],
        *,
        has_plain_values: bool,
    ) -> Branch:
        """Return groups of rows: items without an aggregate are their keys."""
        keys = [item for item in items if not has_aggregate(item.value)]
        calls: dict[Any, AggregateCall] = {}
        trees = [item.value for item in items] + [one.value for one in order]
        for tree in trees:
            for node in condition_nodes(tree):
                if isinstance(node, AggregateCall):
                    calls.setdefault(_without_places(node), node)
        is_plain = has_plain_values and all(isinstance(item.value, (Name, AggregateCall)) for item in items)
        changed: list[Branch] = []
        for branch in branches:
            scope, rows = _scope(branch), branch.rows or algebra.UNIT
            names: dict[str, NameBinding] = {}
            for item in keys:
                rows, names[item.name or item.text] = self._named(
                    rows, scope, item.value, is_result=True, has_plain_values=is_plain, is_key=True
                )
            for place, call in enumerate(calls.values()):
                if call.argument is not None:
                    rows, names[f"#argument {place}"] = self._argument(
                        rows, scope, call, branch.order, has_plain_values=is_plain
                    )
            changed.append(Branch(rows, names))
        needed = dict(after)
        for item in keys:  # properties that items and orders read of keys
            for node in (node for tree in trees for node in condition_nodes(tree) if isinstance(node, Name)):
                owner, _, attribute = node.name.partition(".")
                if attribute not in ("", "id") and isinstance(item.value, Name) and owner in (item.value.name, item.name):
                    needed[item.name or item.text] = {*needed.get(item.name or item.text, ()), attribute}
        rows, found = self._union(changed, [*changed[0].names], needed)
        of_keys = {name: one for name, one in found.items() if not name.startswith("#")}
        key_columns = [
            column
            for name, one in of_keys.items()
            for column, _ in columns_of(one, one.internal, needed.get(name, ()) if one.kind == "vertex" else ())
        ]
        aggregates: dict[str, Aggregate] = {}
        finals: list[tuple[str, Formula]] = []
        results: dict[str, NameBinding] = {}
        for number, call in enumerate(calls.values()):
            argument = found.get(f"#argument {number}")
            results[f"#result {number}"] = self._aggregate(call, argument, aggregates, finals)
        rows = Group(rows, tuple(dict.fromkeys(key_columns)), tuple(aggregates.items()))
        for internal, formula in finals:
            rows = Extend(rows, internal, formula)
        names = {**of_keys, **results}
        replaced = {_without_places(item.value): f"{_ITEM} {place}" for place, item in enumerate(keys)}
        names |= {f"{_ITEM} {place}": of_keys[item.name or item.text] for place, item in enumerate(keys)}
        replaced |= {call: f"#result {number}" for number, call in enumerate(calls)}
        # Beside an aggregate, a name stands for a key; another value of keys might be meant for each row.
        beside = {tree: name for tree, name in replaced.items() if isinstance(tree, (Name, AggregateCall))}
        scope = Scope()
        scope.own = {
            str(one.value.name): of_keys[one.name or one.text] for one in keys if isinstance(one.value, Name)
        } | names

        def computed(rows: Operator, tree: Any) -> tuple[Operator, NameBinding]:
            tree = _replaced(tree, beside if has_aggregate(tree) else replaced)
            if isinstance(tree, Name) and tree.name in names:
                return rows, names[tree.name]
            self._check_keys(tree, scope)
            rows, column, described = self._computed.column(rows, scope, tree)
            return rows, NameBinding("value", column, column=described, may_be_null=True)

        ordered: dict[str, NameBinding] = {}
        for item in items:
            rows, ordered[item.name or item.text] = computed(rows, item.value)
        rows = self._with_facts(rows, ordered, after, items[0].at)
        for place, one in enumerate(order):
            rows, ordered[f"{_ORDER} {place}"] = computed(rows, one.value)
        return Branch(rows, ordered)

    def _check_keys(self, tree: Any, scope: Scope) -> None:
        """Raise `MatchError` for a name beside an aggregate that is no key of the groups."""
        for node in free_names(tree):
            if scope.get(node.name.partition(".")[0]) is None:
                self._fail(
                    node.column - 1,
                    f"{node.name} beside an aggregate is refused: write it as an item of its own, a key of the groups",
                )

    def _argument(
        self, rows: Operator, scope: Scope, call: AggregateCall, order: Sequence[SortItem], *, has_plain_values: bool
    ) -> tuple[Operator, NameBinding]:
        """Return rows with the column of which an aggregate is taken."""
        argument = expand(call.argument, scope.get)
        if any(isinstance(node, AggregateCall) for node in condition_nodes(argument)):
            self._fail(call.column - 1, f"an aggregate in {call.function} is refused: write WITH between the two")
        if call.function == "collect":
            found, formula, column = self._computed.formula(rows, scope, argument, encoding="item", order=order)
            name = self._clauses.new_internal(".item")
            listed = ResultColumn("", "computed", None, ListOf((column.tree,), column=1), column.inputs)
            return Extend(found, name, formula), NameBinding("value", name, column=listed)
        binding = scope.get(argument.name.partition(".")[0]) if isinstance(argument, Name) else None
        if binding is not None and binding.kind in ("vertex", "edge") and isinstance(argument, Name):
            value = self._computed.reader.value(scope, argument)
            if value.is_list and call.function != "count":
                self._fail(call.column - 1, f"{call.function} of labels is refused: count them, or return a property")
            if value.kind == "number" and call.function != "count":
                self._fail(call.column - 1, f"{call.function} of an edge is refused: take one of its properties")
            if value.kind == "timestamp" and call.function in ("sum", "avg"):
                self._fail(
                    call.column - 1,
                    f"{call.function} of timestamps is refused: take min or max of them, or {call.function} of a property",
                )
            if value.kind == "number":
                rows, edge = self._edge(rows, binding)
                return rows, NameBinding("value", edge_column(edge.internal), column=ResultColumn("", "number", value))
            is_number = call.function in ("sum", "avg")
            if has_plain_values or call.function == "count":
                is_summed = call.function != "count"
                rows, name = self._computed.extend(rows, value, is_summed=is_summed, is_number=is_number)
            else:
                rows, name = self._computed.extend(rows, value, is_typed=True)
            return rows, NameBinding("value", name, column=ResultColumn("", value.kind, value))
        is_bound = (
            binding is not None and binding.kind == "value" and isinstance(argument, Name) and "." not in argument.name
        )
        if is_bound and binding is not None and call.function not in ("min", "max"):
            return rows, binding
        encoding: Encoding = "item" if call.function in ("min", "max") else "value"
        rows, formula, column = self._computed.formula(rows, scope, argument, encoding=encoding)
        name = self._clauses.new_internal(".argument")
        return Extend(rows, name, formula), NameBinding("value", name, column=column)

    def _aggregate(
        self,
        call: AggregateCall,
        argument: NameBinding | None,
        aggregates: dict[str, Aggregate],
        finals: list[tuple[str, Formula]],
    ) -> NameBinding:
        """Add an aggregate to those of a group, and return what a name for it stands for."""
        internal = self._clauses.new_internal(".aggregate")
        if call.function == "count" or argument is None:
            of_rows = None if argument is None else Variable(argument.internal)
            aggregates[internal] = Aggregate("COUNT", of_rows, call.is_distinct)
            return NameBinding("value", internal, column=ResultColumn("", "count"))
        of, column = Variable(argument.internal), argument.column
        assert column is not None

        def bound(source: ColumnSource) -> NameBinding:
            described = ResultColumn("", source, None, Name("x", column=1), (replace(column, name="x"),))
            if column.source in ("vertex", "timestamp", "property", "fact", "computed"):
                described = replace(column, source=source)
            return NameBinding("value", internal, column=described, may_be_null=True)

        if call.function == "collect":
            aggregates[internal] = Aggregate("COLLECT", of, call.is_distinct)
            return NameBinding("value", internal, column=column)
        if call.function in ("min", "max"):
            function: AggregateName = "MIN" if call.function == "min" else "MAX"
            if column.source != "computed":
                aggregates[internal] = Aggregate(function, of, call.is_distinct, skips_unbound=True)
                return bound("ends")
            item = f"{internal} item"  # in the order of all values, which is another than that of the algebra
            aggregates[item] = Aggregate(function, of, call.is_distinct, skips_unbound=True)
            finals.append((internal, FunctionCall(ItemValue(), (Variable(item),))))
            return NameBinding("value", internal, column=column, may_be_null=True)
        is_sum = call.function == "sum"
        total = Aggregate("SUM" if is_sum else "AVG", of, call.is_distinct, skips_unbound=True)
        if is_sum and self._dialect == "cypher":
            aggregates[internal] = total
            return bound("sum")
        # SPARQL's sum and average of no values are 0.
        whole, count, nothing = (f"{internal} {part}" for part in ("total", "count", "nothing"))
        aggregates[whole], aggregates[count] = total, Aggregate("COUNT", of, call.is_distinct)
        is_some = FunctionCall(">", (Variable(count), Constant(integer_term(0))))
        finals.append((internal, FunctionCall("IF", (is_some, Variable(whole), Variable(nothing)))))
        return bound("sum" if is_sum else "avg")

    # --- LIMIT -----------------------------------------------------------------------------------------------------

    def _cut(
        self,
        branch: Branch,
        projection: Projection,
        items: Sequence[Item],
        order: Sequence[SortItem],
        after: Mapping[str, Collection[str]],
        *,
        keeps_all: bool,
    ) -> Branch:
        """Return the rows at the positions of SKIP and LIMIT, in the order of ORDER BY and then of all columns."""
        rows = branch.rows or algebra.UNIT
        columns = sorted(algebra.possible_variables(rows)) if keeps_all else []
        scope = _scope(branch)
        of_items = {_without_places(item.value): f"{_ITEM} {place}" for place, item in enumerate(items)}
        keys = [
            replace(one, value=Name(of_items[tree], column=1))
            if (tree := _without_places(one.value)) in of_items
            else hidden
            for one, hidden in zip(order, _hidden_order(order), strict=True)
        ]
        compared = {one.value.name for one in keys}
        ties = (f"{_ITEM} {place}" for place in range(len(items)))
        keys += [SortItem(Name(name, column=1), False) for name in ties if name not in compared]
        scope.own |= {f"{_ITEM} {place}": branch.names[item.name or item.text] for place, item in enumerate(items)}
        places: list[tuple[str, bool]] = []
        for one in keys:
            rows, names = self._keys(rows, scope, one.value.name)
            places += [(name, one.is_descending) for name in names]
        for name, binding in branch.names.items():
            attributes = after.get(name.partition(_ELEMENT)[0], ()) if binding.kind == "vertex" else ()
            columns += [column for column, _ in columns_of(binding, binding.internal, attributes)]
        first = self._number(projection.skip, "SKIP") if projection.skip is not None else 0
        limit = self._number(projection.limit, "LIMIT") if projection.limit is not None else None
        unique = tuple(dict.fromkeys(columns))
        return replace(branch, rows=Slice(rows, unique, tuple(places), first, limit))

    def _keys(self, rows: Operator, scope: Scope, name: str) -> tuple[Operator, list[str]]:
        """Return rows with columns in the order of a value, and the names of these columns."""
        binding = scope.own[name]
        if not binding.may_be_null and (
            binding.kind == "vertex" or (binding.column is not None and binding.column.source == "count")
        ):
            return rows, [binding.internal]  # the algebra has the same order of vertices, and of integers
        trees: list[Any] = [Name(name, column=1)]
        if binding.kind == "path":
            trees = [_text_of_path(binding)]
        elif binding.kind == "edge" and self._clauses.is_triple:
            trees = [Call(function, (Name(name, column=1),), column=1) for function in ("startnode", "type", "endnode")]
        found = []
        for tree in trees:
            rows, formula, _ = self._computed.formula(rows, scope, tree, encoding="key")
            found.append(self._clauses.new_internal(".key"))
            rows = Extend(rows, found[-1], formula)
        return rows, found

    def _number(self, tree: Any, what: str) -> int:
        value = tree.value if isinstance(tree, WhereConstant) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self._fail(getattr(tree, "column", 1) - 1, f"{what} has a number, from 0 on, or a parameter behind it")
        return value


def _with_own_reads(after: Mapping[str, Collection[str]], projection: Projection) -> dict[str, set[str]]:
    """Return the parts of names that are read behind a WITH, with those that its ORDER BY and WHERE read."""
    found = {name: {*attributes} for name, attributes in after.items()}
    for node in walk((projection.order, projection.where)):
        if isinstance(node, Name) and node.name.partition(".")[2] not in ("", "id"):
            found.setdefault(node.name.partition(".")[0], set()).add(node.name.partition(".")[2])
    return found


def _with_elements(names: Mapping[str, NameBinding], before: Mapping[str, NameBinding]) -> dict[str, NameBinding]:
    """Return names with those of the elements of paths and lists among them, which the text does not name any more."""
    found = dict(names)
    for name, binding in names.items():
        if binding.kind in ("path", "list", "shortest"):
            elements = tuple(f"{name}{_ELEMENT} {place}" for place in range(len(binding.elements)))
            found |= {element: before[one] for element, one in zip(elements, binding.elements, strict=True)}
            found[name] = replace(binding, elements=elements)
    return found


def _scope(branch: Branch) -> Scope:
    scope = Scope()
    scope.own = dict(branch.names)
    return scope


def _replaced(tree: Any, names: Mapping[Any, str]) -> Any:
    """Return a tree with names in place of the largest values that they stand for."""
    if isinstance(tree, tuple):
        return tuple(_replaced(part, names) for part in tree)
    if not is_dataclass(tree):
        return tree
    found = names.get(_without_places(tree))
    if found is not None:
        return Name(found, column=getattr(tree, "column", 1))
    if isinstance(tree, (MatchExists, CountOf)):
        return tree
    parts = {name: part for name, part in vars(tree).items() if isinstance(part, tuple) or is_dataclass(part)}
    return replace(tree, **{name: _replaced(part, names) for name, part in parts.items()})  # type: ignore[type-var]


def _hidden_order(order: Sequence[SortItem]) -> list[SortItem]:
    """Return an order by columns that have its values."""
    return [replace(one, value=Name(f"{_ORDER} {place}", column=1)) for place, one in enumerate(order)]


def _with_values_of_items(one: SortItem, items: Sequence[Item]) -> SortItem:
    """Return a value of ORDER BY in which the values of items stand in place of their names."""
    values = {item.name: item.value for item in items if item.name is not None}

    def of(node: Any) -> Any:
        return values.get(node.name, node) if isinstance(node, Name) else node

    return replace(one, value=change(one.value, of))


def _text_of_path(binding: NameBinding) -> Any:
    """Return the text of a path, as in a-[T]->b<-[S]-c, as a value of its nodes and edges."""

    def text(value: str) -> WhereConstant:
        return WhereConstant(value, column=1)

    def name(element: str) -> Call:
        return Call("tostring", (Name(f"{element}.id", column=1),), column=1)

    parts: list[Any] = [name(binding.elements[0])]
    for place, direction in enumerate(binding.directions):
        before, edge, node = binding.elements[2 * place : 2 * place + 3]
        label = Call("type", (Name(edge, column=1),), column=1)
        signs = {"right": ("-[", "]->"), "left": ("<-[", "]-")}
        if direction == "either":
            start = Call("startnode", (Name(edge, column=1),), column=1)
            is_along = Comparison("==", start, Name(before, column=1), column=1)
            ends: list[Any] = [
                Case(None, (is_along,), (text(right),), text(left), column=1)
                for right, left in zip(signs["right"], signs["left"], strict=True)
            ]
        else:
            ends = [*map(text, signs[direction])]
        parts += [ends[0], label, ends[1], name(node)]
    found = parts[0]
    for part in parts[1:]:
        found = Arithmetic("+", found, part, column=1)
    return found
