"""The algebra as readable text: indented operators with the variables that they bind, and formulas in SPARQL syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rpq.automata.expressions import Label
from rpq.language.pattern import Atom, Blank, Constant, Variable
from rpq.language.sparql.algebra import (
    NOW,
    Aggregate,
    Conjunction,
    Distinct,
    EdgeCondition,
    EdgeValue,
    Exists,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    ReportTime,
    SemiJoin,
    Slice,
    Union,
    Unwind,
    Values,
    WindowAtom,
    bodies_of,
    certain_variables,
    children,
    formulas_of,
    possible_variables,
)
from rpq.language.sparql.values.typed_values import FALSE, TRUE
from rpq.stream.names.stream_labels import EdgeEnd, NodeValue
from rpq.stream.names.terms import XSD, is_blank, is_literal, literal_text, number_literal, read_literal

_INFIX = {"||": 0, "&&": 1, "=": 2, "!=": 2, "<": 2, ">": 2, "<=": 2, ">=": 2, "IN": 2, "NOT IN": 2, "+": 3, "-": 3}
_INFIX |= {"*": 4, "/": 4}
_PREFIX = {"!": "!", "unary -": "-", "unary +": "+"}
_TIGHTEST = 6
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?<!\.)")


def algebra_text(operator: Operator) -> str:
    """Return an operator and all operators below it, one indented line each, followed by the variables that it binds.

    >>> from rpq.language.sparql.syntax.reading import read
    >>> print(algebra_text(read("SELECT ?x { ?x <a2q> ?y OPTIONAL { ?y <c2q> ?z } FILTER(?y > 3) }").body))
    project ?x         binds x
      filter ?y > 3    binds x, y, perhaps z
        optional       binds x, y, perhaps z
          conjunction  binds x, y
            ?x a2q ?y
          conjunction  binds y, z
            ?y c2q ?z
    """
    lines = _lines(operator, 0)
    width = max(len(text) for text, bindings in lines if bindings) + 2
    return "\n".join(f"{text:{width}}{bindings}" if bindings else text for text, bindings in lines)


def formula_text(formula: Formula) -> str:
    """Return a formula in SPARQL syntax, without the bodies of EXISTS.

    >>> is_bound = FunctionCall("BOUND", (Variable("x"),))
    >>> print(formula_text(FunctionCall("&&", (is_bound, FunctionCall("<", (Variable("x"), Constant("7")))))))
    BOUND(?x) && ?x < <7>
    """
    return _formula(formula, 0)


def term_text(term: str) -> str:
    """Return a term in SPARQL syntax, abbreviated if possible.

    >>> print(term_text(f'"007"^^<{XSD}integer>'), term_text(f'"2024-01-01"^^<{XSD}date>'), term_text('"x"'), term_text("x"))
    007 "2024-01-01"^^xsd:date "x" <x>
    """
    literal = read_literal(term) if is_literal(term) else None
    if literal is None:
        return term if is_literal(term) or is_blank(term) else f"<{term}>"
    if number_literal(literal.text) == term and _NUMBER.fullmatch(literal.text):
        return literal.text
    if term in (TRUE, FALSE):
        return literal.text
    return re.sub(rf"\^\^<{re.escape(XSD)}(\w+)>$", r"^^xsd:\1", term)


def _lines(operator: Operator, depth: int) -> list[tuple[str, str]]:
    indent = "  " * depth
    lines = [(indent + _head(operator), _bound(operator))]
    if isinstance(operator, Conjunction):
        lines += [(f"{indent}  {text}", "") for text in atom_texts(operator.atoms)]
    for formula in formulas_of(operator):
        for body in bodies_of(formula):
            lines += [(f"{indent}  exists", ""), *_lines(body, depth + 2)]
    for inner in children(operator):
        lines += _lines(inner, depth + 1)
    return lines


def _head(operator: Operator) -> str:
    match operator:
        case Conjunction(atoms):
            return "conjunction" if atoms else "one solution"
        case Join():
            return "join"
        case LeftJoin(_, _, condition):
            return "optional" if condition is None else f"optional if {formula_text(condition)}"
        case Union():
            return "union"
        case Filter(_, condition):
            return f"filter {formula_text(condition)}"
        case SemiJoin(_, _, is_negated):
            return "not exists" if is_negated else "exists"
        case Minus():
            return "minus"
        case Extend(_, variable, formula):
            return f"bind ?{variable} = {formula_text(formula)}"
        case Unwind(_, variable, formula):
            return f"unwind ?{variable} in {formula_text(formula)}"
        case Values(variables, rows):
            return f"values {_variables(variables)} of {len(rows)} row{'' if len(rows) == 1 else 's'}"
        case ReportTime():
            return "the time of the report"
        case Group(_, keys, aggregates):
            aggregate_texts = [f"?{name} = {formula_text(one)}" for name, one in aggregates]
            return ", ".join([f"group by {_variables(keys)}" if keys else "one group", *aggregate_texts])
        case Project(_, columns):
            return f"project {_variables(columns)}"
        case Distinct():
            return "distinct"
        case Slice(_, columns, order, offset, limit):
            names = [f"?{name}{' descending' if is_descending else ''}" for name, is_descending in order]
            texts = [
                f"order by {', '.join([*names, _variables(columns)])}",
                *([f"from {offset:,} on"] if offset else []),
                *([] if limit is None else [f"at most {limit:,}"]),
            ]
            return ", ".join(texts)


def _bound(operator: Operator) -> str:
    sure = certain_variables(operator)
    perhaps = ", ".join(sorted(possible_variables(operator) - sure))
    parts = [", ".join(sorted(sure))] if sure else []
    return "binds " + (", ".join([*parts, *([f"perhaps {perhaps}"] if perhaps else [])]) or "nothing")


def atom_texts(atoms: Sequence[WindowAtom]) -> Iterator[str]:
    """Yield the texts of atoms. The two atoms of a bound edge are written as one, as in a pattern."""
    waiting: Atom | None = None
    for one in atoms:
        label = one.atom.expression.name if isinstance(one.atom.expression, Label) else None
        if not isinstance(label, EdgeEnd):
            yield _atom(one)
        elif waiting is None:
            waiting = one.atom
        else:
            assert isinstance(waiting.object, Variable)
            yield f"{waiting.subject} ?{waiting.object.name.removeprefix('.')}:{label.label} {one.atom.object}"
            waiting = None


def _atom(one: WindowAtom) -> str:
    if (fact := one.atom.fact) is not None:
        if isinstance(fact, NodeValue):
            return f"{one.atom.subject}.{fact.condition}"
        return str(one.atom) if fact.condition else f"{one.atom.subject} has a record"
    text = str(one.atom) if one.predicate is None else f"{one.atom.subject} {one.predicate} {one.atom.object}"
    return text if one.window is None else f"{text} in <{one.window}>"


def _variables(names: tuple[str, ...]) -> str:
    return " ".join(f"?{name}" for name in names) or "nothing"


def _formula(formula: Formula, outer_binding: int) -> str:
    """Return a formula, in parentheses if it binds its operands less tightly than `outer_binding`."""
    match formula:
        case Variable(name) if name == NOW:
            return "NOW()"
        case Variable() | Blank():
            return str(formula)
        case Constant(name):
            return term_text(name)
        case Exists(_, is_negated):
            return "NOT EXISTS {…}" if is_negated else "EXISTS {…}"
        case Aggregate(function, argument, is_distinct):
            inner = "*" if argument is None else _formula(argument, 0)
            option = f"; SEPARATOR = {term_text(literal_text(formula.separator))}" if formula.separator != " " else ""
            return f"{function}({'DISTINCT ' if is_distinct else ''}{inner}{option})"
        case EdgeCondition(condition):
            return condition.text
        case EdgeValue(value):
            return f"number of {value.variable}" if value.kind == "number" else value.column
        case FunctionCall(function, arguments) if function in _PREFIX:
            return _PREFIX[function] + _formula(arguments[0], _TIGHTEST)
        case FunctionCall(function, arguments) if function in _INFIX:
            binding = _INFIX[function]
            first, *others = [_formula(one, binding + 1) for one in arguments]
            if function in ("IN", "NOT IN"):
                members = ", ".join(_formula(one, 0) for one in arguments[1:])
                text = f"{first} {function} ({members})"
            else:
                text = f" {function} ".join([_formula(arguments[0], binding if binding > 2 else binding + 1), *others])
            return f"({text})" if binding < outer_binding else text
        case FunctionCall(str(function), arguments):
            name = f"xsd:{function.removeprefix(XSD)}" if function.startswith(XSD) else function
            return f"{name}({', '.join(_formula(one, 0) for one in arguments)})"
        case FunctionCall(function):
            return f"({function})" if outer_binding else str(function)
