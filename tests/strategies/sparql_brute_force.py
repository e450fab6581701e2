"""The algebra of SPARQL evaluated on a handful of triples, operator by operator as its definition says: slow, and obvious.

Paths are joined by search, EXISTS is answered by putting the bindings around it into its body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
)
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    SemiJoin,
    Union,
    Values,
    name_of,
)
from rpq.language.sparql.values.aggregates import accumulator
from rpq.language.sparql.values.formula_values import evaluator, holds, value_or_unbound

Triples = frozenset[tuple[str, str, str]]
Solution = dict[str, str]


def rows(operator: Operator, columns: tuple[str, ...], triples: Triples) -> Counter[tuple[str | None, ...]]:
    """The bag of rows of a question."""
    return Counter(tuple(found.get(name) for name in columns) for found in solutions(operator, triples, {}))


def solutions(operator: Operator, triples: Triples, given: Solution) -> list[Solution]:
    """The solutions of an operator in which the variables of `given` are replaced by its terms."""

    def of(inner: Operator, given: Solution = given) -> list[Solution]:
        return solutions(inner, triples, given)

    def judged(formula):
        return evaluator(formula, lambda exists, binding: bool(of(exists.body, {**given, **binding})))

    match operator:
        case Conjunction(atoms):
            found = [dict(given)]
            for one in atoms:
                ends: tuple = (one.atom.subject, one.atom.object)
                pairs: set = _pairs(one.atom.expression, triples)
                if one.predicate is not None:
                    ends = (*ends, one.predicate)
                    pairs = {(subject, object_, label) for subject, label, object_ in triples}
                found = [more for solution in found for pair in pairs for more in _bound(solution, ends, pair)]
            return found
        case Join(parts):
            found = [dict(given)]
            for part in parts:
                found = [{**left, **right} for left in found for right in of(part) if _agree(left, right)]
            return found
        case LeftJoin(left, right, condition):
            test = None if condition is None else judged(condition)
            found = []
            for one in of(left):
                both = [{**one, **other} for other in of(right) if _agree(one, other)]
                kept = [more for more in both if test is None or holds(test, {**given, **more})]
                found += kept or [one]
            return found
        case Union(branches):
            return [one for branch in branches for one in of(branch)]
        case Filter(inner, condition):
            test = judged(condition)
            return [one for one in of(inner) if holds(test, {**given, **one})]
        case SemiJoin(left, right, is_negated):
            return [one for one in of(left) if bool(of(right, {**given, **one})) != is_negated]
        case Minus(left, right):
            others = of(right)
            return [one for one in of(left) if not any(_agree(one, other) and one.keys() & other.keys() for other in others)]
        case Extend(inner, variable, formula):
            value = judged(formula)
            found = []
            for one in of(inner):
                term = value_or_unbound(value, {**given, **one})
                found.append(one if term is None else {**one, variable: term})
            return found
        case Values(variables, table):
            return [{name: term for name, term in zip(variables, row, strict=True) if term is not None} for row in table]
        case Project(inner, columns):
            return [{name: one[name] for name in columns if name in one} for one in of(inner)]
        case Distinct(inner):
            return [dict(one) for one in {tuple(sorted(one.items())): None for one in of(inner)}]
        case Group():
            return _groups(operator, of(operator.inner), judged)
    raise AssertionError(operator)


def _groups(group: Group, found: list[Solution], judged) -> list[Solution]:
    members: dict[tuple[str | None, ...], list[Solution]] = {} if group.keys else {(): []}
    for one in found:
        members.setdefault(tuple(one.get(key) for key in group.keys), []).append(one)
    made = []
    for key, solutions_of_key in members.items():
        row = {name: term for name, term in zip(group.keys, key, strict=True) if term is not None}
        for name, aggregate in group.aggregates:
            kept = accumulator(aggregate)
            for one in solutions_of_key:
                whole = tuple(sorted(one.items()))
                kept.insert(whole if aggregate.argument is None else value_or_unbound(judged(aggregate.argument), one))
            if (result := kept.result()) is not None:
                row[name] = result
        made.append(row)
    return made


def _agree(left: Solution, right: Solution) -> bool:
    return all(left[name] == right[name] for name in left.keys() & right.keys())


def _bound(solution: Solution, ends, pair: tuple[str, ...]) -> Iterator[Solution]:
    made = dict(solution)
    for end, term in zip(ends, pair, strict=True):
        name = name_of(end)
        if (end.name if name is None else made.setdefault(name, term)) != term:
            return
    yield made


def _pairs(expression: Expression, triples: Triples) -> set[tuple[str, str]]:
    """The pairs that a path joins, which is not empty."""
    match expression:
        case Label(name):
            return {(subject, object_) for subject, label, object_ in triples if label == name}
        case NegatedSet(members):
            forward = {one.label for one in members if not one.inverse}
            backward = {one.label for one in members if one.inverse}
            pairs = {(s, o) for s, label, o in triples if label not in forward and (forward or not backward)}
            return pairs | {(o, s) for s, label, o in triples if backward and label not in backward}
        case Inverse(inner):
            return {(object_, subject) for subject, object_ in _pairs(inner, triples)}
        case Alternation(parts):
            return set().union(*(_pairs(part, triples) for part in parts))
    vertices = {term for subject, _, object_ in triples for term in (subject, object_)}
    # With the empty path, which is taken out of what is left in the end.
    return _with_length(expression, triples, vertices)


def _with_length(expression: Expression, triples: Triples, vertices: set[str]) -> set[tuple[str, str]]:
    """The pairs that a path of some step joins."""
    none = {(vertex, vertex, False) for vertex in vertices}

    def walked(expression: Expression) -> set[tuple[str, str, bool]]:
        match expression:
            case Concatenation(parts):
                found = none
                for part in parts:
                    found = _composed(found, walked(part))
                return found
            case Repetition(inner, minimum, maximum):
                step = walked(inner)
                found = none
                for _ in range(minimum):
                    found = _composed(found, step)
                for _ in range(maximum - minimum if maximum is not None else 2 * len(vertices)):
                    found = found | _composed(found, step)
                return found
            case Inverse(inner):
                return {(end, start, moved) for start, end, moved in walked(inner)}
            case Alternation(parts):
                return set().union(*map(walked, parts))
        return {(start, end, True) for start, end in _pairs(expression, triples)}

    return {(start, end) for start, end, moved in walked(expression) if moved}


def _composed(left: set[tuple[str, str, bool]], right: set[tuple[str, str, bool]]) -> set[tuple[str, str, bool]]:
    return {(start, end, a or b) for start, middle, a in left for again, end, b in right if middle == again}
