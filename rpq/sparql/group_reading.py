"""From the parse tree of a group to operators, as section 18.2.2 of the standard has it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from rpq.automata.expressions import SizeError
from rpq.queries.pattern import Blank, Variable
from rpq.sparql.algebra import (
    UNIT,
    Call,
    Extend,
    Formula,
    LeftJoin,
    Minus,
    Operator,
    Values,
    filtered,
    joined,
    united,
)
from rpq.sparql.formula_reading import FormulaReader
from rpq.sparql.grammar import Leaf
from rpq.sparql.naming_scopes import Prologue, Scope, written_name
from rpq.sparql.property_paths import accepts_empty, atoms_of_path, path_expression
from rpq.sparql.refused import refusal
from rpq.sparql.scope import aggregates_in, possible
from rpq.sparql.solution_modifiers import Selection, modified
from rpq.sparql.source_text import SourceText


class GroupReader:
    """Reads groups, and the subselects in them; what it learns on the way is for all of a query."""

    def __init__(
        self, source: SourceText, prologue: Prologue, *, windows: frozenset[str], uses: frozenset[int], is_simple: bool
    ) -> None:
        self.source = source
        self.prologue = prologue
        self.formulas = FormulaReader(source, prologue, self._body_of_exists)
        self.warnings: dict[str, None] = {}
        self.assigned: dict[str, int] = {}
        """The variables that BIND and AS give values to, and where."""
        self._windows = windows
        self._uses = uses
        self._is_simple = is_simple
        self._subselects = 0
        self._blocks = 0
        self._block_of_blank: dict[str, int] = {}
        self._window: str | None = None
        self._out_of_sight: list[tuple[str, int]] = []
        """Variables, as written, that a FILTER looks at and its own group does not bind, and where."""
        self._correlated = 0
        """How many EXISTS and OPTIONAL are around."""

    def group(self, node: Any, scope: Scope, *, optional: bool = False) -> tuple[Operator, list[Formula]]:
        """The operator of a group, and its conditions, which OPTIONAL has for itself, in place of filters."""
        if node.name == "SubSelect":
            return self._subselect(node, scope), []
        seen_before = len(self._out_of_sight)
        operator: Operator = UNIT
        conditions: list[tuple[Formula, int]] = []
        block = self._new_block()
        for part in node.part or ():
            if part.name == "TriplesBlock":
                operator = joined(operator, *(self._triple(*triple, scope, block) for triple in _triples(part.triples)))
                continue
            if part.name == "Filter":
                conditions.append((self._condition(part.expr, scope, "FILTER", part.place), part.place))
                continue
            operator = self._with(operator, part, scope)
            block = self._new_block()
        self._check_sight(operator, scope, seen_before)
        if optional:
            return operator, [condition for condition, _ in conditions]
        for condition, place in conditions:
            if not self._correlated:
                hidden = _looked_at(condition) - possible(operator)
                self._out_of_sight.extend((written_name(name), place) for name in sorted(hidden))
            operator = filtered(operator, condition)
        return operator, []

    def triple_terms(self, triples: Any, scope: Scope) -> list[tuple[Any, str, Any]]:
        """The triples of a template: terms, with the labels between them. Raises `SparqlError` for what is refused."""
        made = []
        for subject, predicate, object_ in _triples(triples):
            self._check_predicate(predicate)
            terms = [self.formulas.term(one, scope) for one in (subject, object_)]
            for node, term in zip((subject, object_), terms, strict=True):
                if isinstance(term, Blank):
                    places = [one.place for one in (node, predicate, subject, object_) if isinstance(one, Leaf)]
                    raise refusal(self.source, "a blank node in a CONSTRUCT template", places[0] if places else None)
            made.append((terms[0], self.prologue.iri(predicate), terms[1]))
        return made

    def assign(self, leaf: Leaf, scope: Scope, bound: frozenset[str]) -> str:
        """The name of a variable that BIND or AS gives a value to. Raises `SparqlError` where it has one already."""
        name = self.formulas.variable(leaf, scope)
        if name in bound:
            raise self.source.error(f"?{leaf.text} has a value already", leaf.place, "a name of its own behind AS")
        self.assigned.setdefault(name, leaf.place)
        return name

    # --- the parts of a group ----------------------------------------------------------------------------------------

    def _with(self, operator: Operator, part: Any, scope: Scope) -> Operator:
        match part.name:
            case "GroupOrUnionGraphPattern":
                return joined(operator, united(*(self.group(one, scope)[0] for one in part.graph)))
            case "OptionalGraphPattern":
                self._correlated += 1
                right, conditions = self.group(part.graph, scope, optional=True)
                self._correlated -= 1
                return LeftJoin(operator, right, _all_of(conditions))
            case "MinusGraphPattern":
                return Minus(operator, self.group(part.graph, scope)[0])
            case "Bind":
                formula = self._condition(part.expr, scope, "BIND", part.place)
                return Extend(operator, self.assign(part.var, scope, possible(operator)), formula)
            case "InlineData":
                return joined(operator, self.values(part, scope))
            case "GraphGraphPattern":
                return joined(operator, self._in_window(part, scope))
            case "ServiceGraphPattern":
                raise refusal(self.source, "SERVICE", part.place)
        raise AssertionError(part.name)

    def _in_window(self, part: Any, scope: Scope) -> Operator:
        if part.place not in self._uses:
            raise refusal(self.source, "GRAPH", part.place)
        name = self.prologue.iri(part.term)
        if name not in self._windows:
            near = get_close_matches(name, self._windows, 1)
            hint = f"did you mean <{near[0]}>?" if near else "declare it with FROM NAMED WINDOW"
            place = getattr(part.term, "place", part.place)
            raise self.source.error(f"there is no window <{name}>; {hint}", place)
        around, self._window = self._window, name
        try:
            return self.group(part.graph, scope)[0]
        finally:
            self._window = around

    def _body_of_exists(self, node: Any, scope: Scope) -> Operator:
        self._correlated += 1
        body = self.group(node, scope)[0]
        self._correlated -= 1
        return body

    def _condition(self, node: Any, scope: Scope, where: str, place: int) -> Formula:
        formula = self.formulas.formula(node, scope)
        if any(True for _ in aggregates_in(formula)):
            raise self.source.error(f"an aggregate cannot stand in {where}", place, "it in SELECT (… AS ?name) or HAVING")
        return formula

    def values(self, node: Any, scope: Scope) -> Values:
        """VALUES."""
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

    def _triple(self, subject: Any, path: Any, object_: Any, scope: Scope, block: int) -> Operator:
        self._check_predicate(path)
        try:
            expression = path_expression(
                path, self.prologue.iri, lambda construct, node: refusal(self.source, construct, node.place)
            )
        except SizeError as problem:
            raise self.source.error(str(problem), getattr(path, "place", None), "a smaller path") from None
        if accepts_empty(expression):
            self.warnings[f"the path {expression} accepts the empty path too, which is never an answer"] = None
        ends = []
        for end in (subject, object_):
            term = self.formulas.term(end, scope)
            if isinstance(end, Leaf) and end.kind == "blank" and self._block_of_blank.setdefault(end.text, block) != block:
                message = f"_:{end.text} stands in two groups, and would be two nodes"
                raise self.source.error(message, end.place, "a variable in its place")
            ends.append(term)
        return atoms_of_path(
            ends[0],
            expression,
            ends[1],
            window=self._window,
            fresh=self.formulas.fresh,
            whole=self._is_simple,
        )

    def _check_predicate(self, node: Any) -> None:
        if isinstance(node, Leaf) and node.kind == "variable":
            raise refusal(self.source, "a variable as a predicate", node.place)

    def _new_block(self) -> int:
        self._blocks += 1
        return self._blocks

    # --- subselects, and what a FILTER cannot see --------------------------------------------------------------------

    def _subselect(self, node: Any, scope: Scope) -> Operator:
        selection = Selection.of(node, is_whole=False)
        inner = scope
        if selection.columns is not None:
            self._subselects += 1
            inner = Scope(scope, frozenset(leaf.text for leaf in selection.columns), self._subselects)
        return modified(self, selection, inner)[0]

    def _check_sight(self, operator: Operator, scope: Scope, since: int) -> None:
        bound = possible(operator)
        for written, place in self._out_of_sight[since:]:
            if scope.name(written) in bound:
                message = f"the FILTER looks at ?{written}, which only an outer group binds: here it is unbound"
                raise self.source.error(message, place, f"the FILTER in the group that binds ?{written}")


def _triples(blocks: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The triples of a block, which stand one after the other in flat lists."""
    for block in blocks or ():
        flat = list(block)
        for start in range(0, len(flat), 3):
            yield flat[start], flat[start + 1], flat[start + 2]


def _all_of(conditions: list[Formula]) -> Formula | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Call("&&", tuple(conditions))


def _looked_at(formula: Formula) -> frozenset[str]:
    """The variables that a formula looks at itself, not inside EXISTS."""
    if isinstance(formula, Variable):
        return frozenset({formula.name})
    if isinstance(formula, Call):
        return frozenset().union(*map(_looked_at, formula.arguments))
    return frozenset()
