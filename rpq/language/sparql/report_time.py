"""NOW() in terms of a variable: the operators whose formulas use it are joined with the time of the report (`ReportTime`).

    FILTER(?until < NOW())    =    filter ?until < ?now over the join of the group with the time of the report

So a report has the effect of a change of one row, and a comparison with NOW() is a join by value, which reads only the rows
between the times of two reports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rpq.language.pattern import Variable
from rpq.language.sparql.algebra import (
    NOW,
    Aggregate,
    Conjunction,
    Distinct,
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
    formulas_of,
    make_join,
    operators_of,
    possible_variables,
)

_CALL = FunctionCall("NOW", ())


def reads_report_time(operator: Operator) -> bool:
    """Return whether an operator has solutions that depend on the time of the report. O(size)."""
    return any(isinstance(one, ReportTime) for one in operators_of(operator))


def with_report_time(operator: Operator) -> Operator:
    """Return an operator in which no formula calls NOW, but reads the variable of `ReportTime`. O(size · depth).

    >>> from rpq.language.pattern import Constant
    >>> from rpq.language.sparql.algebra_text import algebra_text
    >>> late = Filter(Values(("x",), (("1",),)), FunctionCall("<", (Variable("x"), _CALL)))
    >>> print(algebra_text(with_report_time(late)))
    project ?x                    binds x
      filter ?x < NOW()           binds .now, x
        join                      binds .now, x
          values ?x of 1 row      binds x
          the time of the report  binds .now
    """
    match operator:
        case Conjunction() | Values() | ReportTime():
            return operator
        case Join(parts):
            return make_join(*map(with_report_time, parts))
        case Union(branches):
            return Union(tuple(map(with_report_time, branches)))
        case SemiJoin(left, right) | Minus(left, right):
            return replace(operator, left=with_report_time(left), right=with_report_time(right))
        case Project(inner) | Distinct(inner) | Slice(inner):
            return replace(operator, inner=with_report_time(inner))
        case Filter(inner, condition):
            changed: Operator = Filter(_join_report_time(inner, operator), _replace_call(condition))
        case Extend(inner, _, formula) | Unwind(inner, _, formula):
            changed = replace(operator, inner=_join_report_time(inner, operator), formula=_replace_call(formula))
        case LeftJoin(left, right, optional_condition):
            condition_of_both = None if optional_condition is None else _replace_call(optional_condition)
            changed = LeftJoin(with_report_time(left), _join_report_time(right, operator), condition_of_both)
        case Group(inner, keys, aggregates):
            replaced = tuple((name, _replace_in_aggregate(one)) for name, one in aggregates)
            return Group(_join_report_time(inner, operator), keys, replaced)
        case _:
            assert_never(operator)
    return Project(changed, tuple(sorted(possible_variables(operator)))) if _calls_now(operator) else changed


def _calls_now(operator: Operator) -> bool:
    """Return whether a formula of an operator calls NOW, outside the bodies of EXISTS."""

    def calls(formula: Formula) -> bool:
        match formula:
            case FunctionCall(_, arguments):
                return formula == _CALL or any(map(calls, arguments))
            case Aggregate(_, argument) if argument is not None:
                return calls(argument)
        return False

    return any(map(calls, formulas_of(operator)))


def _join_report_time(inner: Operator, around: Operator) -> Operator:
    """Return an operand, joined with the time of the report if a formula of the operator `around` it calls NOW."""
    timed = with_report_time(inner)
    return make_join(timed, ReportTime()) if _calls_now(around) else timed


def _replace_call(formula: Formula) -> Formula:
    match formula:
        case FunctionCall(_, arguments):
            if formula == _CALL:
                return Variable(NOW)
            return replace(formula, arguments=tuple(map(_replace_call, arguments)))
        case Exists(body):
            return replace(formula, body=with_report_time(body))
        case Aggregate():
            return _replace_in_aggregate(formula)
    return formula


def _replace_in_aggregate(aggregate: Aggregate) -> Aggregate:
    argument = aggregate.argument
    return aggregate if argument is None else replace(aggregate, argument=_replace_call(argument))
