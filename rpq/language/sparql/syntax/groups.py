"""The translation of groups, property paths and solution modifiers to operators (sections 18.2.2 and 18.2.4).

A path is split where the standard splits it: a sequence is a join through a fresh variable, an inverse swaps its ends, and
an alternative is a union, all with bag semantics. Closures and negated sets remain path atoms: sets of pairs. Under simple
paths nothing is split, because a concatenation of simple paths need not be simple. Atoms whose paths may be empty are
replaced when the query has been read (`rpq.language.sparql.empty_paths`).

Groups contain subselects, which contain groups; therefore both are in this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    SizeError,
)
from rpq.automata.symbols import Symbol
from rpq.language.pattern import Atom, Blank, Constant, Term, Variable
from rpq.language.sparql.algebra import (
    UNIT,
    Aggregate,
    Conjunction,
    Distinct,
    Extend,
    Formula,
    FunctionCall,
    Group,
    LeftJoin,
    Minus,
    Operator,
    Project,
    Slice,
    TemplateTriple,
    Values,
    WindowAtom,
    aggregates_in,
    make_filter,
    make_join,
    make_union,
    possible_variables,
    variables_of,
)
from rpq.language.sparql.empty_paths import with_empty_paths
from rpq.language.sparql.syntax.formulas import FormulaReader, Prologue, VariableScope, source_name
from rpq.language.sparql.syntax.grammar import Leaf
from rpq.language.sparql.syntax.source_text import SourceText, refusal

_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


_REPETITIONS = re.compile(r"\s*\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}", re.ASCII)


def path_expression(node: Any, label_of: Callable[[Any], str], refuse: Callable[[str, Any], Exception]) -> Expression:
    """Translate a path of the parse tree to an expression. Raises `SizeError`, and the error that `refuse` returns."""

    def read(node: Any) -> Expression:
        name = getattr(node, "name", None)
        if name == "PathAlternative":
            return _combine(Alternation, [read(part) for part in node.part])
        if name == "PathSequence":
            return _combine(Concatenation, [read(part) for part in node.part])
        if name == "PathEltOrInverse":
            return Inverse(read(node.part))
        if name == "PathElt":
            inner = read(node.part)
            return inner if node.mod is None else Repetition(inner, *_bounds(node.mod))
        if name == "PathNegatedPropertySet":
            return NegatedSet(tuple(member(part) for part in node.part or ()))
        if name == "DistinctPath":
            raise refuse("DISTINCT in a path", node)
        return Label(label_of(node))

    def member(node: Any) -> Symbol:
        if getattr(node, "name", None) == "InversePath":
            return Symbol(label_of(node.part), inverse=True)
        return Symbol(label_of(node))

    return read(node)


def _bounds(quantifier: str) -> tuple[int, int | None]:
    """Return the minimum and the maximum of a quantifier: `*`, `+`, `?`, `{2}`, `{2,}`, `{,4}` or `{2,4}`.

    >>> _bounds("+"), _bounds("{2}"), _bounds("{2,}"), _bounds("{,4}")
    ((1, None), (2, 2), (2, None), (0, 4))
    """
    found = _REPETITIONS.fullmatch(quantifier)
    if found is None:
        return _QUANTIFIERS[quantifier]
    minimum, comma, maximum = found.groups()
    return int(minimum or 0), int(maximum) if maximum else None if comma else int(minimum)


def atoms_of_path(
    subject: Term,
    expression: Expression,
    object_: Term,
    *,
    windows: Sequence[str | None] = (None,),
    new_blank: Callable[[], Blank],
    is_single: bool,
) -> Operator:
    """Return the atoms of a path between two terms: a conjunction, or a union of conjunctions.

    With `is_single`, it is a conjunction of a single atom. Of several `windows` each atom matches the merged content.

    >>> from rpq.automata import parse
    >>> from rpq.language.pattern import Variable
    >>> names = iter("123")
    >>> conjunction = atoms_of_path(
    ...     Variable("x"), parse("a/^b"), Variable("y"), new_blank=lambda: Blank(next(names)), is_single=False
    ... )
    >>> [str(one.atom) for one in conjunction.atoms]
    ['?x a _:1', '?y b _:1']
    """

    def operator_of(subject: Term, expression: Expression, object_: Term) -> Operator:
        if isinstance(expression, Inverse) and (not is_single or isinstance(expression.inner, Label)):
            return operator_of(object_, expression.inner, subject)
        if not is_single and isinstance(expression, Alternation):
            return make_union(*(operator_of(subject, part, object_) for part in expression.parts))
        if not is_single and isinstance(expression, Concatenation):
            inner = [new_blank() for _ in expression.parts[1:]]
            ends = [subject, *inner, object_]
            return make_join(
                *(operator_of(start, part, end) for start, part, end in zip(ends, expression.parts, ends[1:], strict=False))
            )
        return _matches(windows, lambda window: WindowAtom(Atom(subject, expression, object_), window))

    return operator_of(subject, expression, object_)


def _matches(windows: Sequence[str | None], atom_in: Callable[[str | None], WindowAtom]) -> Operator:
    """Return the matches of an atom in the merged content of windows, where a triple of several counts once."""
    found = [Conjunction((atom_in(window),)) for window in windows]
    return found[0] if len(found) == 1 else Distinct(make_union(*found))


def _combine(kind: type[Alternation] | type[Concatenation], parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


@dataclass(frozen=True)
class Selection:
    """A query or a subselect of the parse tree: its node, its columns (None for all), and whether it is the whole query."""

    node: Any
    columns: tuple[Leaf, ...] | None
    is_whole: bool

    @classmethod
    def of(cls, node: Any, *, is_whole: bool) -> Selection:
        """Return the selection at a node of the parse tree."""
        if node.projection is None:
            return cls(node, None, is_whole)
        return cls(node, tuple(one.evar or one.var for one in node.projection), is_whole)

    @property
    def is_select(self) -> bool:
        """True if the selection has columns; ASK and CONSTRUCT have none."""
        return self.node.name in ("SelectQuery", "SubSelect")


def apply_modifiers(reader: GroupReader, selection: Selection, scope: VariableScope) -> tuple[Operator, tuple[str, ...]]:
    """Return the operator of a whole selection, and the names of its columns. Raises `SparqlError`."""
    return _ModifierReader(reader, selection, scope).operator_and_columns()


class _ModifierReader:
    """The translation of one selection, from its group to its columns."""

    def __init__(self, reader: GroupReader, selection: Selection, scope: VariableScope) -> None:
        self._reader = reader
        self._selection = selection
        self._node = selection.node
        self._scope = scope
        self._aggregates: dict[Aggregate, str] = {}

    def operator_and_columns(self) -> tuple[Operator, tuple[str, ...]]:
        node, reader, scope = self._node, self._reader, self._scope
        inner: Operator = reader.group(node.where, scope)[0] if node.where is not None else make_join()
        select = [(one, reader.formulas.formula(one.expr, scope)) for one in node.projection or () if one.expr is not None]
        having = [reader.formulas.formula(one, scope) for one in (node.having.condition if node.having else ())]
        having = self._without_columns(having, select, possible_variables(inner))
        conditions_of_groups = node.groupby.condition if node.groupby else ()
        order = self._order()
        of_groups = [*(one for _, one in select), *having, *(formula for formula, _ in order)]
        has_aggregates = any(True for formula in of_groups for _ in aggregates_in(formula))
        operator = inner
        keys: tuple[str, ...] | None = None
        if node.groupby or having or has_aggregates:
            operator, keys = self._keys(operator, conditions_of_groups)
            if self._selection.is_select and self._selection.columns is None:
                raise reader.source.error("SELECT * cannot be grouped", node.place, "the keys and aggregates by name")
            having = [self._without_aggregates(formula, keys, "HAVING", node.having.place) for formula in having]
            select = [(one, self._without_aggregates(formula, None, "SELECT", one.place)) for one, formula in select]
            place = node.orderby.place if order else node.place
            order = [(self._without_aggregates(formula, None, "ORDER BY", place), desc) for formula, desc in order]
            operator = Group(operator, keys, tuple((name, one) for one, name in self._aggregates.items()))
        for formula in having:
            operator = make_filter(operator, formula)
        if node.valuesClause is not None:  # `VALUES () {}`, which has no rows, is an empty node
            operator = make_join(operator, reader.values(node.valuesClause, scope))
        operator, columns = self._columns(operator, inner, select, keys)
        if keys is not None:
            self._check_order(order, {*keys, *self._aggregates.values(), *columns})
        if node.limitoffset:
            operator = self._slice(operator, columns, order)
        elif order:
            line, column = reader.source.place_of(node.orderby.place)
            reader.warnings[
                f"line {line}, column {column}: ORDER BY without LIMIT or OFFSET changes no row, and rows are in no order: "
                "sort them after collecting them"
            ] = None
        if self._selection.is_select:
            operator = Project(operator, columns)
            if node.modifier == "DISTINCT" and not node.limitoffset:
                operator = Distinct(operator)
        return operator, columns

    # --- positions ---------------------------------------------------------------------------------------------------

    def _order(self) -> list[tuple[Formula, bool]]:
        """Return the conditions of ORDER BY, each with whether it is descending."""
        found = []
        for one in self._node.orderby.condition if self._node.orderby else ():
            is_named = getattr(one, "name", None) == "OrderCondition"
            formula = self._reader.formulas.formula(one.expr if is_named else one, self._scope)
            found.append((formula, is_named and str(one.order or "").upper() == "DESC"))
        return found

    def _check_order(self, order: list[tuple[Formula, bool]], visible: set[str]) -> None:
        for formula, _ in order:
            if hidden := _plain_variables(formula) - visible:
                raise self._ungrouped(min(hidden), "ORDER BY", self._node.orderby.place)

    def _slice(self, operator: Operator, columns: tuple[str, ...], order: list[tuple[Formula, bool]]) -> Operator:
        """Return the solutions at the positions of LIMIT and OFFSET."""
        node = self._node
        if not self._selection.is_select:
            columns = tuple(sorted(name for name in possible_variables(operator) if not name.startswith(("_:", "."))))
        if node.modifier == "DISTINCT":
            visible = possible_variables(operator)  # EXISTS may name others, which are its own
            used = frozenset().union(*(_plain_variables(one) | (variables_of(one) & visible) for one, _ in order))
            operator = Distinct(Project(operator, columns))
            if hidden := used - frozenset(columns):
                name = source_name(min(hidden))
                what = f"?{name}" if name else "an aggregate"
                message = f"SELECT DISTINCT has no order by {what}, which it does not select"
                expected = "a column, or GROUP BY and an aggregate" if name else "the aggregate as a column"
                raise self._reader.source.error(message, node.orderby.place, expected)
        names = []
        for formula, is_descending in order:
            if isinstance(formula, Variable):
                names.append((formula.name, is_descending))
                continue
            names.append((f".order{len(names) + 1}", is_descending))
            operator = Extend(operator, names[-1][0], formula)
        limit, offset = (None if one is None else int(one.text) for one in (node.limitoffset.limit, node.limitoffset.offset))
        return Slice(operator, columns, tuple(names), offset or 0, limit)

    def _without_columns(
        self, having: list[Formula], select: list[tuple[Any, Formula]], bound: frozenset[str]
    ) -> list[Formula]:
        """Replace the columns that SELECT computes by their formulas, unless the group binds variables with these names."""
        formulas: dict[str, Formula] = {}
        for one, formula in select:
            name = self._scope.name(one.evar.text)
            if name not in bound:
                formulas[name] = _replace_variables(formula, formulas)
        return [_replace_variables(formula, formulas) for formula in having]

    # --- groups ------------------------------------------------------------------------------------------------------

    def _keys(self, operator: Operator, conditions: Iterable[Any]) -> tuple[Operator, tuple[str, ...]]:
        """Extend the operator by a variable for every key, and return it with the names of the keys."""
        keys: list[str] = []
        for condition in conditions:
            is_named = getattr(condition, "name", None) == "GroupAs"
            formula = self._reader.formulas.formula(condition.expr if is_named else condition, self._scope)
            if any(True for _ in aggregates_in(formula)):
                place = getattr(condition, "place", None)
                raise self._reader.source.error("an aggregate is not allowed in GROUP BY", place, "it in SELECT or HAVING")
            if is_named and condition.var is not None:
                name = self._reader.assign(condition.var, self._scope, possible_variables(operator))
            elif isinstance(formula, Variable):
                keys.append(formula.name)
                continue
            else:
                name = f".key{len(keys) + 1}"
            operator = Extend(operator, name, formula)
            keys.append(name)
        return operator, tuple(dict.fromkeys(keys))

    def _without_aggregates(self, formula: Formula, keys: tuple[str, ...] | None, where: str, place: int) -> Formula:
        """Replace the aggregates in a formula by names. With `keys`, every other variable must be one of them."""
        if isinstance(formula, Aggregate):
            inner = formula.argument
            if inner is not None and any(True for _ in aggregates_in(inner)):
                raise self._reader.source.error("an aggregate is not allowed in an aggregate", place, "a subselect")
            return Variable(self._aggregates.setdefault(formula, f".{len(self._aggregates) + 1}"))
        if isinstance(formula, FunctionCall):
            arguments = [self._without_aggregates(one, keys, where, place) for one in formula.arguments]
            return FunctionCall(formula.function, tuple(arguments))
        if isinstance(formula, Variable) and keys is not None and formula.name not in keys:
            raise self._ungrouped(formula.name, where, place)
        return formula

    def _ungrouped(self, name: str, where: str, place: int) -> Exception:
        written = source_name(name)
        message = f"?{written} in {where} is not a key of GROUP BY, and can have several values in a group"
        return self._reader.source.error(
            message, place, f"an aggregate such as SAMPLE(?{written}), or ?{written} in GROUP BY"
        )

    # --- columns -----------------------------------------------------------------------------------------------------

    def _columns(
        self, operator: Operator, inner: Operator, select: list[tuple[Any, Formula]], keys: tuple[str, ...] | None
    ) -> tuple[Operator, tuple[str, ...]]:
        reader, scope = self._reader, self._scope
        # An expression may use the columns before it. Variables that grouping hides keep their names reserved.
        bound = possible_variables(inner) | possible_variables(operator)
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
                raise reader.source.error(f"SELECT names ?{source_name(name)} twice", one.place, "each column once")
            columns.append(name)
        if self._selection.is_select and self._selection.columns is None:
            named = [name for name in possible_variables(operator) if not name.startswith("_:") and not name.startswith(".")]
            columns = sorted(named, key=lambda name: reader.formulas.places[name])
        return operator, tuple(columns)


def _replace_variables(formula: Formula, formulas: Mapping[str, Formula]) -> Formula:
    """Return a formula with others in place of variables, except in aggregates and EXISTS."""
    if isinstance(formula, Variable):
        return formulas.get(formula.name, formula)
    if isinstance(formula, FunctionCall):
        return FunctionCall(formula.function, tuple(_replace_variables(one, formulas) for one in formula.arguments))
    return formula


def _plain_variables(formula: Formula) -> frozenset[str]:
    """Return the variables of a formula, except those inside EXISTS."""
    if isinstance(formula, FunctionCall):
        return frozenset().union(*map(_plain_variables, formula.arguments))
    return variables_of(formula) if isinstance(formula, Variable) else frozenset()


class GroupReader:
    """Translates groups and the subselects in them; its warnings and assignments cover the whole query."""

    def __init__(
        self,
        source: SourceText,
        prologue: Prologue,
        *,
        windows: tuple[str, ...],
        default: tuple[str | None, ...] = (None,),
        named_graphs: tuple[str, ...] | None,
        dataset: tuple[str, ...] = (),
        uses: Mapping[int, str | None],
        is_split: bool,
    ) -> None:
        self.source = source
        self.prologue = prologue
        self.formulas = FormulaReader(source, prologue, self._body_of_exists)
        self.warnings: dict[str, None] = {}
        self._windows = windows
        self._named_graphs = named_graphs
        """The graphs of FROM NAMED; None for a query with neither FROM nor FROM NAMED, which may read any graph."""
        self._dataset = dataset
        self.reads_dataset = False
        """True if a GRAPH with a variable reads all graphs of the dataset."""
        self._uses = uses
        self._is_split = is_split
        self._subselects = 0
        self._blocks = 0
        self._block_of_blank: dict[str, int] = {}
        self._read_windows = default
        """The windows, or the graph, that triples read; None is the default window with the edges without time."""
        self._is_in_window = False
        self._out_of_sight: list[tuple[str, int]] = []
        """Variables, by their names in the text, that a FILTER uses and its own group does not bind, with the places."""
        self._enclosing_count = 0
        """The number of EXISTS and OPTIONAL that enclose the current group."""

    def group(self, node: Any, scope: VariableScope, *, optional: bool = False) -> tuple[Operator, list[Formula]]:
        """Translate a group. With `optional`, return its conditions separately instead of applying them as filters."""
        if node.name == "SubSelect":
            return self._subselect(node, scope), []
        hidden_before = len(self._out_of_sight)
        operator: Operator = UNIT
        conditions: list[tuple[Formula, int]] = []
        block = self._new_block()
        pattern: list[Operator] = []  # the triples of a basic graph pattern, which filters do not end
        for part in node.part or ():
            if part.name == "TriplesBlock":
                pattern += [self._triple(*triple, scope, block) for triple in _triples(part.triples)]
                continue
            if part.name == "Filter":
                conditions.append((self._condition(part.expr, scope, "FILTER", part.place), part.place))
                continue
            operator = self._add_part(self._with_pattern(operator, pattern), part, scope)
            pattern = []
            block = self._new_block()
        operator = self._with_pattern(operator, pattern)
        self._warn_of_invisible_variables(operator, scope, hidden_before)
        if optional:
            return operator, [condition for condition, _ in conditions]
        for condition, place in conditions:
            if not self._enclosing_count:
                hidden = _plain_variables(condition) - possible_variables(operator)
                self._out_of_sight.extend((source_name(name), place) for name in sorted(hidden))
            operator = make_filter(operator, condition)
        return operator, []

    def template(self, blocks: Any, scope: VariableScope) -> list[TemplateTriple]:
        """Return the triples of a template, which blocks of triples, or of a graph, contain."""
        triples: list[TemplateTriple] = []
        for block in blocks or ():
            if getattr(block, "name", None) == "GraphTemplate":
                graph = self.formulas.term(block.term, scope)
                assert not isinstance(graph, Blank)  # not in the grammar
                triples += [triple._replace(graph=graph) for triple in self.template(block.template, scope)]
                continue
            for subject, predicate, object_ in _triples([block]):
                source, target = (self.formulas.term(one, scope) for one in (subject, object_))
                label = self._predicate(predicate, scope) or self.prologue.iri(predicate)
                triples.append(TemplateTriple(source, label, target))
        return triples

    def assign(self, leaf: Leaf, scope: VariableScope, bound: frozenset[str]) -> str:
        """Return the name of a variable that BIND or AS assigns. Raises `SparqlError` if the variable is already bound."""
        name = self.formulas.variable(leaf, scope)
        if name in bound:
            raise self.source.error(f"?{leaf.text} is already bound", leaf.place, "another name after AS")
        return name

    def _with_pattern(self, operator: Operator, pattern: list[Operator]) -> Operator:
        """Return the join of an operator with the triples of a basic graph pattern."""
        return make_join(operator, with_empty_paths(make_join(*pattern), self.formulas.new_blank)) if pattern else operator

    # --- the parts of a group ----------------------------------------------------------------------------------------

    def _add_part(self, operator: Operator, part: Any, scope: VariableScope) -> Operator:
        match part.name:
            case "GroupOrUnionGraphPattern":
                return make_join(operator, make_union(*(self.group(one, scope)[0] for one in part.graph)))
            case "OptionalGraphPattern":
                self._enclosing_count += 1
                right, conditions = self.group(part.graph, scope, optional=True)
                self._enclosing_count -= 1
                return LeftJoin(operator, right, _conjoin(conditions))
            case "MinusGraphPattern":
                return Minus(operator, self.group(part.graph, scope)[0])
            case "Bind":
                formula = self._condition(part.expr, scope, "BIND", part.place)
                return Extend(operator, self.assign(part.var, scope, possible_variables(operator)), formula)
            case "InlineData":
                return make_join(operator, self.values(part, scope))
            case "GraphGraphPattern":
                return make_join(operator, self._in_window(part, scope))
            case "ServiceGraphPattern":
                raise refusal(self.source, "SERVICE", part.place)
        raise AssertionError(part.name)

    def _in_graph(self, part: Any, scope: VariableScope) -> Operator:
        """Translate GRAPH, which reads a graph of edges without time."""
        if self._is_in_window:
            raise refusal(self.source, "GRAPH in WINDOW", part.place)
        if isinstance(part.term, Leaf) and part.term.kind == "variable":
            if self._named_graphs is None:
                self.reads_dataset = True
                return self._in_each(self._dataset, part, scope)
            if not self._named_graphs:
                line, column = self.source.place_of(part.place)
                self.warnings[
                    f"line {line}, column {column}: GRAPH with a variable has no solution: in a query with FROM it reads "
                    "the graphs of FROM NAMED, and there is none"
                ] = None
            return self._in_each(self._named_graphs, part, scope)
        name = self.prologue.iri(part.term)
        place = getattr(part.term, "place", part.place)
        if name in self._windows:
            raise self.source.error(f"<{name}> is a window, not a graph", place, f"WINDOW <{name}> {{ … }}")
        if self._named_graphs is not None and name not in self._named_graphs:
            message = f"the query says which graphs it reads, and <{name}> is not among those of FROM NAMED"
            raise self.source.error(message, place, f"FROM NAMED <{name}>, or neither FROM nor FROM NAMED")
        return self._group_in(name, part, scope)

    def _in_window(self, part: Any, scope: VariableScope) -> Operator:
        if part.place not in self._uses:
            return self._in_graph(part, scope)
        if (window := self._uses[part.place]) is not None:  # CQELS
            return self._group_in(window, part, scope, is_window=True)
        if isinstance(part.term, Leaf) and part.term.kind == "variable":
            if not self._windows:
                message = "WINDOW with a variable reads all windows that the query declares, which are none"
                expected = "FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]"
                raise self.source.error(message, part.place, expected)
            return self._in_each(self._windows, part, scope, are_windows=True)
        name = self.prologue.iri(part.term)
        if name not in self._windows:
            near = get_close_matches(name, self._windows, 1)
            hint = f"did you mean <{near[0]}>?" if near else "declare it with FROM NAMED WINDOW"
            place = getattr(part.term, "place", part.place)
            raise self.source.error(f"there is no window <{name}>; {hint}", place)
        return self._group_in(name, part, scope, is_window=True)

    def _in_each(
        self, windows: tuple[str, ...], part: Any, scope: VariableScope, *, are_windows: bool = False
    ) -> Operator:
        """Translate WINDOW or GRAPH with a variable: the union over windows or graphs, each of which the variable names."""
        name = self.formulas.variable(part.term, scope)
        if not windows:  # no solution, with the variables that others would have
            variables = possible_variables(self._group_in("", part, scope)) | {name}
            return Values(tuple(sorted(one for one in variables if not one.startswith("_:"))), ())
        blocks = self._blocks
        branches = []
        for window in windows:
            self._blocks = blocks  # the blank nodes of the group stand in the same blocks each time
            group = self._group_in(window, part, scope, is_window=are_windows)
            if name in possible_variables(group):
                branches.append(make_join(group, Values((name,), ((window,),))))
            else:
                branches.append(Extend(group, name, Constant(window), is_joined=True))
        return make_union(*branches)

    def _group_in(self, window: str, part: Any, scope: VariableScope, *, is_window: bool = False) -> Operator:
        around = self._read_windows, self._is_in_window
        self._read_windows, self._is_in_window = (window,), is_window
        try:
            return self.group(part.graph, scope)[0]
        finally:
            self._read_windows, self._is_in_window = around

    def _body_of_exists(self, node: Any, scope: VariableScope) -> Operator:
        self._enclosing_count += 1
        body = self.group(node, scope)[0]
        self._enclosing_count -= 1
        return body

    def _condition(self, node: Any, scope: VariableScope, where: str, place: int) -> Formula:
        formula = self.formulas.formula(node, scope)
        if any(True for _ in aggregates_in(formula)):
            raise self.source.error(
                f"an aggregate is not allowed in {where}", place, "it in SELECT (… AS ?name) or HAVING"
            )
        return formula

    def values(self, node: Any, scope: VariableScope) -> Values:
        """Translate VALUES."""
        leaves = node.var or ()
        names = tuple(self.formulas.variable(leaf, scope) for leaf in leaves)
        if len(set(names)) < len(names):
            raise self.source.error("VALUES names a variable twice", node.place)
        rows = []
        for value in node.value or ():
            row = list(value) if type(value).__name__ == "ParseResults" else [value]
            if len(row) != len(names):
                raise self.source.error(f"VALUES has {len(names)} variables and a row of {len(row)}", node.place)
            rows.append(tuple(None if one == "UNDEF" else self.formulas.constant(one) for one in row))
        return Values(names, tuple(rows))

    # --- triples -----------------------------------------------------------------------------------------------------

    def _triple(self, subject: Any, path: Any, object_: Any, scope: VariableScope, block: int) -> Operator:
        predicate = self._predicate(path, scope)
        if predicate is not None:
            source, target = self._ends((subject, object_), scope, block)
            return self._triple_of_every_label(source, target, predicate)
        try:
            expression = path_expression(
                path, self.prologue.iri, lambda construct, node: refusal(self.source, construct, node.place)
            )
        except SizeError as problem:
            raise self.source.error(str(problem), getattr(path, "place", None), "a smaller path") from None
        except ValueError as problem:  # the maximum of a repetition is below its minimum
            raise self.source.error(str(problem), getattr(path, "place", None), "{2,4}, for instance") from None
        source, target = self._ends((subject, object_), scope, block)
        if len(self._read_windows) > 1 and _has_longer_paths(expression, is_split=self._is_split):
            message = "a path may not cross from window to window, so a query of several streams or graphs has none"
            raise self.source.error(message, getattr(path, "place", None), "triples, or a path in WINDOW <name> { … }")
        return atoms_of_path(
            source,
            expression,
            target,
            windows=self._read_windows,
            new_blank=self.formulas.new_blank,
            is_single=not self._is_split,
        )

    def _ends(self, ends: Iterable[Any], scope: VariableScope, block: int) -> list[Term]:
        """Return the terms of a subject and an object. Raises `SparqlError` for a blank node of another block."""
        terms = []
        for end in ends:
            terms.append(self.formulas.term(end, scope))
            if isinstance(end, Leaf) and end.kind == "blank" and self._block_of_blank.setdefault(end.text, block) != block:
                message = f"_:{end.text} occurs in two groups, where it would denote two nodes"
                raise self.source.error(message, end.place, "a variable in its place")
        return terms

    def _predicate(self, node: Any, scope: VariableScope) -> Variable | None:
        """Return the variable in the place of a predicate; None for an IRI or a path."""
        if isinstance(node, Leaf) and node.kind == "variable":
            return Variable(self.formulas.variable(node, scope))
        return None

    def _triple_of_every_label(self, subject: Term, object_: Term, predicate: Variable) -> Operator:
        """Return the matches of a triple with a variable as its predicate, which may be a variable of its ends too."""
        if predicate not in (subject, object_):
            return _matches(
                self._read_windows, lambda window: WindowAtom.of_every_label(subject, predicate, object_, window)
            )
        blank = self.formulas.new_blank()
        label = Variable(f"_:{blank.name}")
        inner = _matches(self._read_windows, lambda window: WindowAtom.of_every_label(subject, label, object_, window))
        return make_filter(inner, FunctionCall("SAMETERM", (label, predicate)))

    def _new_block(self) -> int:
        self._blocks += 1
        return self._blocks

    # --- subselects, and variables that a FILTER cannot see ----------------------------------------------------------

    def _subselect(self, node: Any, scope: VariableScope) -> Operator:
        selection = Selection.of(node, is_whole=False)
        inner = scope
        if selection.columns is not None:
            self._subselects += 1
            inner = VariableScope(scope, frozenset(leaf.text for leaf in selection.columns), self._subselects)
        return apply_modifiers(self, selection, inner)[0]

    def _warn_of_invisible_variables(self, operator: Operator, scope: VariableScope, since: int) -> None:
        bound = possible_variables(operator)
        for written, place in self._out_of_sight[since:]:
            if scope.name(written) in bound:
                line, column = self.source.place_of(place)
                self.warnings[
                    f"line {line}, column {column}: the FILTER uses ?{written}, which only an outer group binds: it is "
                    "unbound here, so a comparison with it is an error; move the FILTER to the group that binds it"
                ] = None


def _has_longer_paths(expression: Expression, *, is_split: bool) -> bool:
    """Return whether an atom of an expression may match paths of several edges, or of none."""
    match expression:
        case Concatenation(parts) | Alternation(parts) if is_split:
            return any(_has_longer_paths(part, is_split=is_split) for part in parts)
        case Inverse(inner):
            return _has_longer_paths(inner, is_split=is_split)
    return not isinstance(expression, Label | NegatedSet)


def _triples(blocks: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the triples of blocks, whose flat lists contain one triple after the other."""
    for block in blocks or ():
        flat = list(block)
        for start in range(0, len(flat), 3):
            yield flat[start], flat[start + 1], flat[start + 2]


def _conjoin(conditions: list[Formula]) -> Formula | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return FunctionCall("&&", tuple(conditions))
