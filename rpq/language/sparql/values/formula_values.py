"""The values of formulas over a binding, and whether a condition holds (section 17.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rpq.language.pattern import Constant, Variable
from rpq.language.sparql.algebra import Exists, Formula, FunctionCall
from rpq.language.sparql.values.functions import FUNCTIONS
from rpq.language.sparql.values.operators import is_equal, is_true
from rpq.language.sparql.values.typed_values import NoValue, boolean_term

Binding = Mapping[str, str]
"""Terms by the names of their variables, without the unbound variables."""

Evaluator = Callable[[Binding], str]
"""A function that evaluates a formula over a binding to a term. Raises `NoValue`."""

HasSolution = Callable[[Exists, Binding], bool]
"""A function that returns whether the body of an EXISTS has a solution that agrees with a binding, ignoring a NOT."""


def evaluator(formula: Formula, has_solution: HasSolution | None = None) -> Evaluator:
    """Return a function that evaluates a formula; `has_solution` evaluates the EXISTS in it.

    >>> from rpq.language.sparql.algebra import FunctionCall
    >>> evaluator(FunctionCall("CONCAT", (Variable("x"), Constant('"!"'))))({"x": "hello"})
    '"hello!"'
    """
    match formula:
        case Variable(name):
            return lambda binding: _value_of(binding, name)
        case Constant(name):
            return lambda binding: name
        case FunctionCall(function, arguments):
            inner = [evaluator(one, has_solution) for one in arguments]
            if not isinstance(function, str):
                compute = function
                return lambda binding: compute(*[value_or_unbound(one, binding) for one in inner])
            if function == "BOUND":
                (variable,) = arguments
                assert isinstance(variable, Variable)  # by the grammar
                return lambda binding: boolean_term(variable.name in binding)
            if function in _SPECIAL:
                special = _SPECIAL[function]
                return lambda binding: special(binding, inner)
            plain = FUNCTIONS[function]
            return lambda binding: plain(*[one(binding) for one in inner])
        case Exists(_, is_negated):
            if has_solution is None:
                raise ValueError("a formula with EXISTS needs has_solution")
            answer, exists = has_solution, formula
            return lambda binding: boolean_term(answer(exists, binding) != is_negated)
    raise TypeError(f"an aggregate has no value outside of its group: {formula}")


def holds(evaluate: Evaluator, binding: Binding) -> bool:
    """Return whether a condition is true. An error counts as false."""
    try:
        return is_true(evaluate(binding))
    except NoValue:
        return False


def value_or_unbound(evaluate: Evaluator, binding: Binding) -> str | None:
    """Return the value of a formula for BIND and AS, or None (unbound) for an error."""
    try:
        return evaluate(binding)
    except NoValue:
        return None


def _value_of(binding: Binding, name: str) -> str:
    try:
        return binding[name]
    except KeyError:
        raise NoValue(f"?{name} is unbound") from None


def _evaluate_logic(binding: Binding, evaluators: list[Evaluator], decisive: bool) -> str:
    """Evaluate `&&` and `||`: one decisive argument determines the value, even if others are errors."""
    problem: NoValue | None = None
    for one in evaluators:
        try:
            if is_true(one(binding)) == decisive:
                return boolean_term(decisive)
        except NoValue as error:
            problem = error
    if problem is not None:
        raise problem
    return boolean_term(not decisive)


def _if(binding: Binding, evaluators: list[Evaluator]) -> str:
    condition, then, otherwise = evaluators
    return then(binding) if is_true(condition(binding)) else otherwise(binding)


def _coalesce(binding: Binding, evaluators: list[Evaluator]) -> str:
    for one in evaluators:
        try:
            return one(binding)
        except NoValue:
            pass
    raise NoValue("no argument of COALESCE has a value")


def _evaluate_in(binding: Binding, evaluators: list[Evaluator], *, is_negated: bool) -> str:
    """Evaluate IN: true if any member is equal, otherwise an error if any comparison is an error.

    The operator tests a term (section 17.4.1.9), so without one it is an error, even if there are no members.
    """
    first, *members = evaluators
    term = first(binding)
    problem: NoValue | None = None
    for one in members:
        try:
            if is_equal(term, one(binding)):
                return boolean_term(not is_negated)
        except NoValue as error:
            problem = error
    if problem is not None:
        raise problem
    return boolean_term(is_negated)


_SPECIAL: dict[str, Callable[[Binding, list[Evaluator]], str]] = {
    "&&": lambda binding, evaluators: _evaluate_logic(binding, evaluators, False),
    "||": lambda binding, evaluators: _evaluate_logic(binding, evaluators, True),
    "IF": _if,
    "COALESCE": _coalesce,
    "IN": lambda binding, evaluators: _evaluate_in(binding, evaluators, is_negated=False),
    "NOT IN": lambda binding, evaluators: _evaluate_in(binding, evaluators, is_negated=True),
}
"""Functions that evaluate their arguments one by one."""
