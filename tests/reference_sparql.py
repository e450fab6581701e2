"""The oracle of SPARQL: the solutions of a query on given graphs, by brute force, as standard and contract word them.

It is an evaluator of its own, over bags of bindings in plain Python, rather than rdflib and pyoxigraph alone: what
the contract says otherwise than SPARQL (values of IRIs, exact aggregates, literals that match vertices, paths)
neither can say, and where they disagree somebody has to judge. Under the rules `STANDARD` all three must agree; the
random tests hold it against both. Numbers in brackets name rules of the contract:

[2.1] paths, [2.2] bags, [2.3] windows, [2.8] aggregates, [2.10] ASK and CONSTRUCT, [2.11] what is refused, [2.13]
terms.

A binding is a dict from names of variables to terms; a bag of bindings a list. Decided here:

- **Paths** are split as written: parentheses count. A sequence is a join, with a bag of ways through the middle, an
  alternative a union; what is left is a set of pairs. One that can be empty joins every node of the active graph with
  itself, and each constant at its ends. A variable that EXISTS replaces stays a node: its value alone joins nothing.
- **A variable as a predicate** matches edges one by one. Under simple paths no loop.
- **Columns** of `*` are the variables in scope, in the order of the text.
- **REDUCED** takes nothing away.
- **EXISTS** replaces the variables of the group by their values (§18.6), in VALUES by leaving out the rows that say
  otherwise; a value is a term and, unlike a literal constant, means no other. The variables that a subselect does not
  show are its own, and stay. MINUS within EXISTS, too, sees values where the variables were.
- **Errors** in GROUP BY and SELECT leave the variable unbound; a group may have an unbound key. HAVING does not see
  the names of SELECT.
- **Blank nodes** of a query are variables of one basic graph pattern, which filters do not end.
- **CONSTRUCT** gives the text of a literal in N-Triples form as target.
- **Rows carry terms** and are netted as terms; `shown` says how a column is written: vertices as they came, COUNT as
  an integer, what an expression computed by its lexical form. A column is computed unless its formula is a variable
  that is not, or MIN, MAX or SAMPLE of one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from tests.reference import evaluate
from tests.reference_patterns import Blank, Ends, Graphs, Labels, accepted, is_relevant, labels_in
from tests.reference_sparql_syntax import (
    Aggregate,
    Bind,
    Call,
    Constant,
    Element,
    Exists,
    Filter,
    Formula,
    Group,
    InWindow,
    Minus,
    Optional,
    Query,
    Select,
    Term,
    Triple,
    Triples,
    Union,
    Values,
    Variable,
    formulas_in,
    formulas_of,
    groups_of,
    query_elements,
)
from tests.reference_sparql_values import (
    CONTRACT,
    NoValue,
    Rules,
    aggregate,
    call,
    equal,
    is_literal,
    of_boolean,
    sort_key,
    text_of,
    truth,
)

Binding = dict[str, str]
Bag = list[Binding]
Solution = tuple[str | None, ...]


@dataclass(frozen=True)
class Value(Constant):
    """A value in the place of a variable: it means itself alone."""

    @property
    def meanings(self) -> set[str]:
        return {self.value}


@dataclass
class Evaluation:
    """The evaluation of one query on graphs: a window's name -> its edges, None -> the default graph."""

    query: Query
    graphs: Graphs
    rules: Rules = CONTRACT
    paths: str = "walk"
    now: str | None = None
    """The time of the report, a term [2.9]."""
    named: tuple[str, ...] = ()
    """The named graphs of edges without time, which GRAPH with a variable reads unless FROM NAMED names others."""
    _pairs: dict = field(default_factory=dict)
    _middles: int = 0

    # --- results

    def answer(self) -> Counter:
        """Return the bag of solutions; of ASK the empty solution or none; of CONSTRUCT the set of edges [2.10]."""
        bag = self.select(self.query.select, None, is_shown=self.query.form == "SELECT")
        if self.query.form == "ASK":
            return Counter([()] if bag else [])
        if self.query.form == "CONSTRUCT":
            return Counter({edge for binding in bag for edge in self.instantiated(binding)})
        return Counter(tuple(binding.get(name) for name in columns(self.query.select)) for binding in bag)

    def instantiated(self, binding: Binding) -> Iterator[tuple[str | None, ...]]:
        """Yield the triples of a solution; if the template has graphs, with the graph of each, None for the default one."""
        names = sorted(columns(self.query.select))

        def made(end: Any) -> str | None:
            if isinstance(end, Blank):  # [2.10] named by a hash of the solution
                text = json.dumps([end.label, *map(binding.get, names)], ensure_ascii=False)
                return "_:b" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
            if isinstance(end, Label):
                return end.name
            return binding.get(end.name) if isinstance(end, Variable) else end.value

        for triple, graph in zip_longest(self.query.template, self.query.template_graphs):
            source, label, target = map(made, (triple.subject, triple.path, triple.object))
            if source is None or label is None or target is None or is_literal(source):
                continue
            if is_literal(label) or label.startswith("_:"):
                continue
            name = None if graph is None else made(graph)
            if graph is None or not (name is None or is_literal(name)):
                yield (source, label, target, name) if self.query.makes_quads else (source, label, target)

    # --- groups: §18.2.2.6, §18.5

    def group(self, group: Group, window: str | None) -> Bag:
        bag: Bag = [{}]
        for element in merged(group.elements):
            match element:
                case Triples(triples):
                    bag = joined(bag, self.matched(triples, window))
                case Optional(inner):
                    bag = self.left_joined(bag, inner, window)
                case Union(groups):
                    bag = joined(bag, [binding for one in groups for binding in self.group(one, window)])
                case Minus(inner):
                    others = self.group(inner, window)
                    bag = [one for one in bag if not any(one.keys() & o.keys() and compatible(one, o) for o in others)]
                case Bind(formula, variable):
                    bag = [self.extended(one, variable, self.value(formula, one, window)) for one in bag]
                case Values():
                    bag = joined(bag, rows(element))
                case InWindow(Variable() as variable, inner):
                    bag = joined(bag, self.in_each_graph(variable, inner))
                case InWindow(name, inner):
                    bag = joined(bag, self.group(inner, name.value if isinstance(name, Value) else name))
                case Select():
                    bag = joined(bag, self.select(element, window))
        return [one for one in bag if all(self.holds(condition, one, window) for condition in conditions(group))]

    def in_each_graph(self, variable: Variable, inner: Group) -> Bag:
        """Return the solutions of a group in every named graph, each with the name as a variable (§18.6)."""
        has_clauses = self.query.from_graphs or self.query.from_named
        names = self.query.from_named if has_clauses else self.named
        name_of = {name: {variable.name: name} for name in names}
        return [one | name_of[name] for name in names for one in self.group(inner, name) if compatible(one, name_of[name])]

    def left_joined(self, bag: Bag, inner: Group, window: str | None) -> Bag:
        """LeftJoin: the conditions of the optional group see the bindings on both sides."""
        without = Group(tuple(element for element in inner.elements if not isinstance(element, Filter)))
        others = self.group(without, window)
        found: Bag = []
        for one in bag:
            both = [
                one | other
                for other in others
                if compatible(one, other) and all(self.holds(c, one | other, window) for c in conditions(inner))
            ]
            found += both or [one]
        return found

    def extended(self, binding: Binding, variable: Variable, value: str | None) -> Binding:
        return binding if value is None else binding | {variable.name: value}

    # --- triples and paths [2.1, 2.13]

    def matched(self, triples: Sequence[Triple], window: str | None) -> Bag:
        """Return the bindings of a basic graph pattern, without those of its blank nodes."""
        found: list[dict[Term, str]] = [{}]
        for triple in triples:
            found = [more for binding in found for more in self.walked(binding, triple, window)]
        return [{term.name: value for term, value in one.items() if isinstance(term, Variable)} for one in found]

    def walked(self, binding: dict[Term, str], triple: Triple, window: str | None) -> list[dict[Term, str]]:
        """Return a binding with those of a triple, once for each match."""
        source, path, target = triple
        if not isinstance(path, Expression):
            edges = [edge for edge in self.graphs.get(window, ()) if self.paths != "simple" or edge[0] != edge[2]]
            terms = source, target, path
            return [more for s, label, t in edges for more in self.at_values(binding, terms, (s, t, label))]
        if self.paths != "walk" or not splits(path):
            pairs = self.pairs(path, window, frozenset(end.value for end in (source, target) if type(end) is Constant))
            return [more for pair in pairs for more in self.at_values(binding, (source, target), pair)]
        if isinstance(path, Inverse):
            return self.walked(binding, Triple(target, path.inner, source), window)
        if isinstance(path, Alternation):
            return [more for part in path.parts for more in self.walked(binding, Triple(source, part, target), window)]
        self._middles += 1
        inner = [Blank(f"{place} of {self._middles}") for place in range(1, len(path.parts))]
        found = [binding]
        for part, start, end in zip(path.parts, [source, *inner], [*inner, target], strict=True):
            found = [more for one in found for more in self.walked(one, Triple(start, part, end), window)]
        return found

    def at_values(self, binding: dict[Term, str], terms: Sequence[Term], values: Sequence[str]) -> list[dict[Term, str]]:
        more = dict(binding)
        for term, value in zip(terms, values, strict=True):
            if isinstance(term, Constant):
                if value != term.value and not (self.rules.literals_match_vertices and value in term.meanings):
                    return []
            elif more.setdefault(term, value) != value:
                return []
        return [more]

    def pairs(self, path: Expression, window: str | None, constants: frozenset[str]) -> list[tuple[str, str]]:
        """Return the pairs that a path joins which is not split; `constants` stand at its ends (§18.4)."""
        key = path, window, constants
        if key not in self._pairs:
            edges = self.graphs.get(window, ())
            found = set(evaluate(path, edges, self.paths))
            if can_be_empty(path):
                found |= {(node, node) for node in {end for s, _, t in edges for end in (s, t)} | constants}
            self._pairs[key] = sorted(found)
        return self._pairs[key]

    # --- SELECT: §18.2.4, §18.5.1 [2.8]

    def select(self, select: Select, window: str | None, is_shown: bool = True) -> Bag:
        bag = self.group(select.body, window)
        # A solution goes with the bindings of its group, if there are groups.
        found: list[tuple[Binding, Bag | None]] = [(one, None) for one in bag]
        if is_grouped(select):
            found = self.grouped(select, bag, window)
        found = [
            (one, inside)
            for one, inside in found
            if all(self.holds(condition, one, window, inside) for condition in select.having)
        ]
        if select.values is not None:
            data = rows(select.values)
            found = [(one | row, inside) for one, inside in found for row in data if compatible(one, row)]
        names = columns(select)
        projected: list[tuple[Binding, list[str | None]]] = []
        for one, inside in found:
            for column in select.columns or ():
                if column.formula is not None:
                    one = self.extended(one, column.variable, self.value(column.formula, one, window, inside))
            conditions = [self.value(formula, one, window, inside) for formula, _ in select.order]
            projected.append(({name: one[name] for name in names if name in one}, conditions))
        if select.modifier == "DISTINCT":
            projected = [*{tuple(sorted(one.items())): (one, values) for one, values in projected}.values()]
        if select.is_slice:
            end = None if select.limit is None else select.offset + select.limit
            projected = self.ordered(projected, names if is_shown else sorted(names), select)[select.offset : end]
        return [one for one, _ in projected]

    def ordered(
        self, found: list[tuple[Binding, list[str | None]]], names: Sequence[str], select: Select
    ) -> list[tuple[Binding, list[str | None]]]:
        """Return solutions in the order of the conditions, by value, and then in that of the columns, by value and text."""

        def by_text(term: str | None) -> tuple:
            return (-1,) if term is None else sort_key(term, self.rules)

        def by_value(term: str | None) -> tuple:
            key = by_text(term)
            return key[:-1] if key[0] in (1, 2, 3, 4) else key

        found = sorted(found, key=lambda one: [by_text(one[0].get(name)) for name in names])
        for place, (_, descending) in reversed([*enumerate(select.order)]):
            found.sort(key=lambda one, place=place: by_value(one[1][place]), reverse=descending)
        return found

    def grouped(self, select: Select, bag: Bag, window: str | None) -> list[tuple[Binding, Bag | None]]:
        groups: dict[tuple[str | None, ...], Bag] = {} if select.group_by else {(): []}
        for one in bag:
            key = []
            for condition in select.group_by:
                key.append(self.value(condition.formula, one, window))
                if condition.variable is not None:
                    one = self.extended(one, condition.variable, key[-1])
            groups.setdefault(tuple(key), []).append(one)
        names = [
            condition.variable.name
            if condition.variable is not None
            else condition.formula.name
            if isinstance(condition.formula, Variable)
            else None
            for condition in select.group_by
        ]
        return [
            ({name: value for name, value in zip(names, key, strict=True) if name and value is not None}, inside)
            for key, inside in groups.items()
        ]

    # --- formulas: §17

    def holds(self, condition: Formula, binding: Binding, window: str | None, inside: Bag | None = None) -> bool:
        try:
            return truth(self.term(condition, binding, window, inside), self.rules)
        except NoValue:
            return False

    def value(self, formula: Formula, binding: Binding, window: str | None, inside: Bag | None = None) -> str | None:
        """Return the value of a formula, None for an error."""
        try:
            return self.term(formula, binding, window, inside)
        except NoValue:
            return None

    def term(self, formula: Formula, binding: Binding, window: str | None, inside: Bag | None = None) -> str:
        """Return the value of a formula; `inside` are the bindings of the group that aggregates go over."""

        def of(argument: Formula) -> str:
            return self.term(argument, binding, window, inside)

        match formula:
            case Variable(name):
                if name not in binding:
                    raise NoValue(f"?{name} is unbound")
                return binding[name]
            case Constant(text):
                return text
            case Exists(group, negated):
                return of_boolean(bool(self.group(substituted(group, binding), window)) != negated)
            case Aggregate():
                return self.aggregated(formula, inside, window)
            case Call("NOW", ()):
                if self.now is None:
                    raise NoValue("NOW without a report")
                return self.now
            case Call("BOUND", (Variable(name),)):
                return of_boolean(name in binding)
            case Call("BOUND", _):
                return of_boolean(True)  # of a value in the place of a variable
            case Call("||" | "&&" as name, (left, right)):
                return of_boolean(self.connected(name, lambda: of(left), lambda: of(right)))
            case Call("!", (inner,)):
                return of_boolean(not truth(of(inner), self.rules))
            case Call("IF", (condition, yes, no)):
                return of(yes) if truth(of(condition), self.rules) else of(no)
            case Call("COALESCE", arguments):
                found = (self.value(argument, binding, window, inside) for argument in arguments)
                first = next((value for value in found if value is not None), None)
                if first is None:
                    raise NoValue("nothing in COALESCE has a value")
                return first
            case Call("IN" | "NOT IN" as name, (first, *others)):
                return of_boolean(
                    self.is_among(of(first), [lambda other=other: of(other) for other in others]) == (name == "IN")
                )
            case Call(name, arguments):
                return call(name, [of(argument) for argument in arguments], self.rules, self.query.base)
        raise TypeError(formula)

    def connected(self, name: str, left: Callable[[], str], right: Callable[[], str]) -> bool:
        """`||` and `&&`: one side decides even if the other is an error."""
        decides, errors = name == "||", 0
        for side in (left, right):
            try:
                if truth(side(), self.rules) == decides:
                    return decides
            except NoValue:
                errors += 1
        if errors:
            raise NoValue(f"a side of {name} is an error")
        return not decides

    def is_among(self, term: str, others: list[Callable[[], str]]) -> bool:
        errors = 0
        for other in others:
            try:
                if equal(term, other(), self.rules):
                    return True
            except NoValue:
                errors += 1
        if errors:
            raise NoValue("IN an error")
        return False

    def aggregated(self, call: Aggregate, inside: Bag | None, window: str | None) -> str:
        if inside is None:
            raise NoValue("an aggregate outside a group")
        if call.argument is None:
            number = len({tuple(sorted(one.items())) for one in inside}) if call.distinct else len(inside)
            return aggregate("COUNT", ["x"] * number)
        values = [self.value(call.argument, one, window) for one in inside]
        result = aggregate(call.name, list(dict.fromkeys(values)) if call.distinct else values, self.rules, call.separator)
        if result is None:
            raise NoValue(f"{call.name} is unbound")
        return result


# --- bags -----------------------------------------------------------------------------------------------------------


def compatible(one: Binding, other: Binding) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def joined(left: Bag, right: Bag) -> Bag:
    return [one | other for one in left for other in right if compatible(one, other)]


def rows(values: Values) -> Bag:
    names = [variable.name for variable in values.variables]
    return [{name: term for name, term in zip(names, row, strict=True) if term is not None} for row in values.rows]


def conditions(group: Group) -> list[Formula]:
    return [element.condition for element in group.elements if isinstance(element, Filter)]


def merged(elements: Iterable[Element]) -> list[Element]:
    """Return the elements without the filters, triples that then stand side by side as one pattern."""
    found: list[Element] = []
    for element in elements:
        if isinstance(element, Triples) and found and isinstance(found[-1], Triples):
            found[-1] = Triples(found[-1].triples + element.triples)
        elif not isinstance(element, Filter):
            found.append(element)
    return found


# --- paths ----------------------------------------------------------------------------------------------------------


def can_be_empty(path: Expression) -> bool:
    match path:
        case Repetition(inner, minimum, _):
            return minimum == 0 or can_be_empty(inner)
        case Inverse(inner):
            return can_be_empty(inner)
        case Concatenation(parts):
            return all(map(can_be_empty, parts))
        case Alternation(parts):
            return any(map(can_be_empty, parts))
    return False


def splits(path: Expression) -> bool:
    """Return whether a path is a join or union of its parts; otherwise it is a set of pairs."""
    return isinstance(path, Alternation | Concatenation) or (isinstance(path, Inverse) and not isinstance(path.inner, Label))


def split(subject: Term, path: Expression, target: Term) -> Iterator[Triple]:
    """Yield the triples that a path stands for, with a blank node of its own for each vertex between two steps."""
    if not splits(path):
        yield Triple(subject, path, target)
    elif isinstance(path, Inverse):
        yield from split(target, path.inner, subject)
    elif isinstance(path, Alternation):
        for part in path.parts:
            yield from split(subject, part, target)
    else:
        inner = [Blank(f"{place} of {id(path)}") for place in range(1, len(path.parts))]
        for part, start, end in zip(path.parts, [subject, *inner], [*inner, target], strict=True):
            yield from split(start, part, end)


def basic_patterns(group: Group, window: str | None = None) -> Iterator[tuple[tuple[Triple, ...], str | None]]:
    """Yield the basic graph patterns of a group and of all groups within it, with the window that they stand in."""
    for element in merged(group.elements):
        if isinstance(element, Triples):
            yield element.triples, window
    for element in group.elements:
        for below in groups_of(element):
            yield from basic_patterns(below, element.name if isinstance(element, InWindow) else window)


def conjunctions(triples: Iterable[Triple]) -> list[list[Triple]]:
    """Return the steps of the paths of a basic graph pattern, those of each alternative apart."""
    own: list[Triple] = []
    apart: list[list[Triple]] = []

    def walk(triple: Triple) -> None:
        path = triple.path
        if not isinstance(path, Expression) or not splits(path):
            own.append(triple)
        elif isinstance(path, Alternation):
            for part in path.parts:
                apart.extend(conjunctions([Triple(triple.subject, part, triple.object)]))
        elif isinstance(path, Inverse):
            walk(Triple(triple.object, path.inner, triple.subject))
        else:
            ends = [triple.subject, *(Blank(f"{place} of {id(path)}") for place in range(1, len(path.parts))), triple.object]
            for part, start, end in zip(path.parts, ends, ends[1:], strict=False):
                walk(Triple(start, part, end))

    for triple in triples:
        walk(triple)
    return [own, *apart]


def nodes_read(triples: Sequence[Triple]) -> set[Constant | None]:
    """Return which terms have to be nodes in a conjunction: None is any, because a path joins all nodes with themselves.

    Paths that can be empty make one of all the terms that they join through variables. Nothing is asked if one of these
    stands in a triple that cannot be empty, as a path between two constants cannot. Otherwise a constant among them has to
    be a node if some path joins two variables, and without a constant all nodes are asked for. A path is by itself which
    has a literal at an end (then all nodes are) or a variable that is a predicate too, and of others the fifth and those
    behind it. So is a triple whose predicate is one of its ends.
    """
    triples = [triple for triple in triples if triple.path not in (triple.subject, triple.object)]
    predicates = {triple.path for triple in triples if not isinstance(triple.path, Expression)}
    bound: set[Term] = set()
    together: list[list[set[Term]]] = []  # the ends of paths, which share variables
    number = 0
    for triple in triples:
        ends = {triple.subject, triple.object}
        if not can_be_empty(triple.expression):
            bound |= ends
        elif any(isinstance(end, Constant) and len(end.meanings) > 1 for end in ends):
            return {None}
        elif number == 4 or predicates & ends:
            if not has_constant(ends):
                return {None}
        else:
            number += 1
            others = [one for one in together if any(not has_constant(ends & more) and ends & more for more in one)]
            together = [one for one in together if one not in others] + [[ends, *itertools.chain(*others)]]
    groups = [(set().union(*one), any(not has_constant(ends) for ends in one)) for one in together]
    for terms, _ in groups:
        constants = {term for term in terms if isinstance(term, Constant)}
        bound |= constants if len(constants) > 1 else set()
    found: set[Constant | None] = set()
    for terms, joins_variables in groups:
        if not terms & bound and joins_variables:
            found |= {next((term for term in terms if isinstance(term, Constant)), None)}
    return found


def has_constant(ends: Iterable[Term]) -> bool:
    return any(isinstance(end, Constant) for end in ends)


# --- EXISTS ---------------------------------------------------------------------------------------------------------


def substituted(group: Group, binding: Mapping[str, str]) -> Group:
    """Return a group with values in the places of variables (§18.6)."""

    def term(end: Any) -> Any:
        return Value(binding[end.name]) if isinstance(end, Variable) and end.name in binding else end

    def formula(node: Formula) -> Formula:
        match node:
            case Variable():
                return term(node)
            case Call(name, arguments):
                return Call(name, tuple(map(formula, arguments)))
            case Exists(inner, negated):
                return Exists(substituted(inner, binding), negated)
            case Aggregate(name, argument, distinct):
                return Aggregate(name, argument if argument is None else formula(argument), distinct, node.separator)
        return node

    def element(node: Element) -> Element:
        match node:
            case Triples(triples):
                return Triples(tuple(Triple(term(t.subject), term(t.path), term(t.object)) for t in triples))
            case Filter(condition):
                return Filter(formula(condition))
            case Optional(inner) | Minus(inner):
                return type(node)(substituted(inner, binding))
            case InWindow(name, inner, is_graph):
                return InWindow(term(name), substituted(inner, binding), is_graph)
            case Union(groups):
                return Union(tuple(substituted(inner, binding) for inner in groups))
            case Bind(inner, variable):
                return Bind(formula(inner), variable)
            case Values(variables, table):
                places = [i for i, variable in enumerate(variables) if variable.name not in binding]
                kept = [
                    row
                    for row in table
                    if all(t in (None, binding.get(v.name, t)) for v, t in zip(variables, row, strict=True))
                ]
                return Values(tuple(variables[i] for i in places), tuple(tuple(row[i] for i in places) for row in kept))
            case Select():
                shown = columns(node)
                outer = {name: value for name, value in binding.items() if name in shown}
                left = None if node.columns is None else tuple(c for c in node.columns if c.variable.name not in outer)
                renames = any(c.formula is not None and c.variable.name in outer for c in node.columns or ())
                if node.is_slice or is_grouped(node) or renames:
                    data = Values(tuple(map(Variable, outer)), (tuple(outer.values()),))
                    return replace(node, values=None) if not outer else Select(None, Group((node, data)))
                return replace(node, columns=left, body=substituted(node.body, outer))
        raise TypeError(node)

    return Group(tuple(map(element, group.elements)))


# --- what a query says of itself ------------------------------------------------------------------------------------


def in_scope(group: Group) -> dict[str, None]:
    """Return the variables that a group may bind, in the order of the text (§18.2.1)."""
    found: dict[str, None] = {}
    for element in group.elements:
        match element:
            case Triples(triples):
                ends = [end for triple in triples for end in triple.terms]
                found |= dict.fromkeys(end.name for end in ends if isinstance(end, Variable))
            case InWindow(Variable(name), inner):
                found |= {name: None} | in_scope(inner)
            case Optional(inner) | InWindow(_, inner):
                found |= in_scope(inner)
            case Union(groups):
                for inner in groups:
                    found |= in_scope(inner)
            case Bind(_, variable):
                found[variable.name] = None
            case Values(variables, _):
                found |= dict.fromkeys(variable.name for variable in variables)
            case Select():
                found |= dict.fromkeys(columns(element))
    return found


def columns(select: Select) -> tuple[str, ...]:
    """Return the names of the columns of a SELECT."""
    if select.columns is not None:
        return tuple(dict.fromkeys(column.variable.name for column in select.columns))
    found = in_scope(select.body)
    if select.values is not None:
        found |= dict.fromkeys(variable.name for variable in select.values.variables)
    return tuple(found)


def has_aggregate(formula: Formula) -> bool:
    match formula:
        case Aggregate():
            return True
        case Call(_, arguments):
            return any(map(has_aggregate, arguments))
    return False


def is_grouped(select: Select) -> bool:
    formulas = [column.formula for column in select.columns or () if column.formula is not None]
    formulas += [formula for formula, _ in select.order]
    return bool(select.group_by) or any(map(has_aggregate, [*formulas, *select.having]))


def is_monotone(query: Query) -> bool:
    """Return whether more edges only mean more solutions, so that implicit windows have a meaning [2.6]."""
    if query.form != "SELECT" or query.operator:
        return False
    elements = [element for element, _ in query_elements(query)]
    formulas = [below for element in elements for below in _all_formulas(element)]
    return not (
        any(isinstance(element, Optional | Minus) for element in elements)
        or any(isinstance(element, Select) and (is_grouped(element) or element.is_slice) for element in elements)
        or any(isinstance(formula, Exists) and formula.negated for formula in formulas)
        or any(_hides_negation(element) for element in elements)
    )


def _all_formulas(element: Element) -> Iterator[Formula]:
    for formula in formulas_of(element):
        yield from formulas_in(formula)


def _hides_negation(element: Element) -> bool:
    """An EXISTS that is not a whole condition, or part of a conjunction, may be negated by what stands around it."""

    def hides(formula: Formula) -> bool:
        if isinstance(formula, Exists):
            return False
        if isinstance(formula, Call) and formula.name == "&&":
            return any(map(hides, formula.arguments))
        return any(isinstance(below, Exists) for below in formulas_in(formula))

    return (
        any(map(hides, [element.condition]))
        if isinstance(element, Filter)
        else any(isinstance(below, Exists) for below in _all_formulas(element))
    )


@dataclass(frozen=True, kw_only=True)
class SparqlPattern:
    """A query in the place of a pattern: what the oracle of streams asks of one (`tests.reference_pattern_stream`)."""

    query: Query
    paths: str = "walk"
    rules: Rules = CONTRACT

    @cached_property
    def _triples(self) -> list[tuple[Triple, str | None]]:
        return [
            (triple, window)
            for element, window in query_elements(self.query)
            if isinstance(element, Triples)
            for triple in element.triples
        ]

    @cached_property
    def _atoms(self) -> list[tuple[Expression, str | None]]:
        return [(triple.expression, window) for triple, window in self._triples]

    @property
    def windows(self) -> set[str | None]:
        """The windows that the query reads; None is the default graph."""
        inside = [element for element, _ in query_elements(self.query) if isinstance(element, InWindow)]
        graphs = {element.name for element in inside if element.is_graph}
        reading = {window for element, window in query_elements(self.query) if isinstance(element, Triples)}
        return (reading | {element.name for element in inside}) - graphs

    @property
    def columns(self) -> tuple[str, ...]:
        if self.query.form == "SELECT":
            return columns(self.query.select)
        made = ("source", "label", "target", "graph") if self.query.makes_quads else ("source", "label", "target")
        return () if self.query.form == "ASK" else made

    @cached_property
    def _nodes_read(self) -> set[tuple[str | None, Constant | None]]:
        """The windows whose nodes are read, and so the edges of all labels, each with a node, None for all."""
        found = set()
        for triples, window in basic_patterns(Group((self.query.select,))):
            patterns = conjunctions(triples) if self.paths == "walk" else [list(triples)]
            found |= {(window, node) for pattern in patterns for node in nodes_read(pattern)}
        return found

    def labels_read(self, window: str | None) -> Labels:
        """Return the labels that the query has a use for in this window [2.15]."""
        paths = [path for path, own in self._atoms if own == window]
        if self.paths == "walk":  # of which those that always join one end with itself are not looked at
            basic = [triples for triples, own in basic_patterns(Group((self.query.select,))) if own == window]
            steps = [triple for triples in basic for pattern in conjunctions(triples) for triple in pattern]
            paths = [one.expression for one in steps if one.subject != one.object or not can_be_empty(one.expression)]
        paths += [NegatedSet(()) for own, _ in self._nodes_read if own == window]
        named = {label for path in paths for label in labels_in(path)}
        never_named = max(named, default="") + "?"
        used = {label for label in {*named, never_named} for path in paths if is_relevant(path, label)}
        others = never_named in used
        return Labels(frozenset(label for label in named if (label in used) != others), others)

    def accepts(self, label: str) -> set[Ends]:
        """Return which edges of a label some triple pattern has a use for [2.15], split as the standard splits it [2.1]."""
        atoms = [triple for triple, _ in self._triples]
        if self.paths == "walk":
            atoms = [one for triple in atoms for one in split(triple.subject, triple.expression, triple.object)]
            atoms = [one for one in atoms if one.subject != one.object or not can_be_empty(one.path)]
        for _, node in self._nodes_read:
            for ends in [(node or Blank("source"), Blank("target")), (Blank("source"), node or Blank("target"))]:
                atoms.append(Triple(ends[0], NegatedSet(()), ends[1]))
        return {ends for atom in atoms for ends in accepted(*atom, label)}

    def solutions(self, graphs: Graphs, now: str | None = None, named: Sequence[str] = ()) -> Counter[Solution]:
        return Evaluation(self.query, graphs, self.rules, self.paths, now, tuple(named)).answer()

    @property
    def calls_now(self) -> bool:
        """True if a formula calls NOW."""
        elements = [element for element, _ in query_elements(self.query)]
        return any(below == Call("NOW", ()) for element in elements for below in _all_formulas(element))

    def shown(self, solution: Solution) -> tuple[object, ...]:
        """Return a solution as a row of results shows it."""
        if self.query.form != "SELECT":
            return solution
        computed = computed_columns(self.query.select)
        return tuple(
            term if term is None or kind == "vertex" else int(text_of(term)) if kind == "count" else text_of(term)
            for term, kind in ((term, computed[name]) for name, term in zip(self.columns, solution, strict=True))
        )


def computed_columns(select: Select) -> dict[str, str]:
    """Return of each column whether it shows a vertex, a count or another computed value as text.

    What is of two kinds, in an atom and computed, is shown as text.
    """
    kinds: dict[str, str] = {}

    def add(name: str, kind: str) -> None:
        kinds[name] = kind if kinds.get(name, kind) == kind else "text"

    for element, _ in _own_elements(select.body):
        match element:
            case Triples(triples):
                for triple in triples:
                    for end in triple.terms:
                        if isinstance(end, Variable):  # one that is an end too has vertices that are labels
                            add(end.name, "vertex" if end in (triple.subject, triple.object) else "text")
            case Values(variables, _):
                for variable in variables:
                    add(variable.name, "vertex")
            case Bind(formula, variable):
                add(variable.name, _kind(formula, kinds))
            case InWindow(Variable(name)):
                add(name, "vertex")
            case Select():
                for name, kind in computed_columns(element).items():
                    add(name, kind)
    for condition in select.group_by:
        if condition.variable is not None:
            kinds[condition.variable.name] = _kind(condition.formula, kinds)
    for column in select.columns or ():
        if column.formula is not None:
            kinds[column.variable.name] = _kind(column.formula, kinds)
    return {name: kinds.get(name, "vertex") for name in columns(select)}


def _own_elements(group: Group) -> Iterator[tuple[Element, None]]:
    for element in group.elements:
        yield element, None
        inner = (
            element.groups
            if isinstance(element, Union)
            else (element.group,)
            if isinstance(element, Optional | InWindow)
            else ()
        )
        for below in inner:
            yield from _own_elements(below)


def _kind(formula: Formula, kinds: Mapping[str, str]) -> str:
    match formula:
        case Variable(name):
            return kinds.get(name, "vertex")
        case Aggregate("COUNT"):
            return "count"
        case Aggregate("MIN" | "MAX" | "SAMPLE", Variable(name)):
            return kinds.get(name, "vertex")
    return "text"
