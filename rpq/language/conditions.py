"""Conditions on the properties of edges, in brackets behind a label: `transfer[amount > 1000]`.

They are written in the language of `rpq.language.where`, over properties and `timestamp`. Conditions with the same meaning
should be one relation, so each has a *normal form*, the text that automata and engines use in its place: nested conjunctions
are flat, their parts are sorted and occur once, the name in a comparison is on the left, and equal constants are written
alike.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import rpq.automata as automata
from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    VertexTest,
)
from rpq.automata.parser import parse, parse_prefix, parse_test
from rpq.automata.symbols import SEPARATORS, ConditionLabel, write_name
from rpq.errors import ExpressionError, WhereError
from rpq.language.where import (
    MIRRORED,
    WORDS,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Logical,
    Name,
    Node,
    Not,
    Where,
    WhereConstant,
    parse_where,
)

MAX_CONDITIONS = 12
"""The largest number of distinct tests of vertices and conditions on one label in one expression."""

TUPLE_COLUMNS = frozenset({"source", "target", "label", "op", "stream", "edge", "event", "delete"})
"""The columns that every tuple may have, other than `timestamp`. No property has one of these names."""

_PLAIN_NAME = re.compile(r"[^\W\d][\w.]*")
_LABEL = re.compile(r"\w[\w.-]*")
_SIGNS = {"==": "="}
_BINDING = {"+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_OR, _AND, _NOT, _COMPARISON, _PRIMARY = 0, 1, 2, 3, 6


@dataclass(frozen=True)
class Condition:
    """A condition in its normal form.

    >>> condition = condition_of("1000 < amount")
    >>> condition.text, sorted(condition.properties)
    ('amount > 1000', ['amount'])
    """

    text: str
    where: Where

    @property
    def properties(self) -> frozenset[str]:
        """The names of the properties in it, without `timestamp`."""
        return self.where.names - {"timestamp"}


@functools.lru_cache(maxsize=65536)
def condition_of(text: str) -> Condition:
    """Parse a condition. Raises `WhereError`, also for a name that cannot be a property.

    >>> condition_of("b = 1.0 and a between 2 and 3").text
    'a <= 3 and a >= 2 and b = 1'
    """
    where = _parsed(text)
    for node in nodes_of(where.tree):
        if isinstance(node, Name) and node.name in TUPLE_COLUMNS:
            raise where.error(
                f"{node.name!r} is no property of an edge; conditions in brackets are on properties and timestamp",
                node.column,
            )
    check_types(where)
    normal = _text(where.tree, 0)
    return Condition(normal, parse_where(normal))


def _parsed(text: str, *, labels: bool = False) -> Where:
    where = parse_where(text, labels=labels)
    if found := SEPARATORS.search(text):  # which `automata.symbols.StepTests` would take for its own
        raise where.error(f"the character U+{ord(found[0]):04X} is not allowed here", found.start() + 1)
    return where


NODE_COLUMNS = frozenset({"node", "labels", "op", "timestamp"})
"""The columns of node records that are no properties. `id` is the name of the vertex."""


@functools.lru_cache(maxsize=65536)
def node_test_of(text: str) -> Condition:
    """Parse a test of a node. Raises `WhereError`, also for a name that cannot be a property.

    The names in it that begin with a colon are labels.

    >>> test = node_test_of("3 < risk and :Account|Person and !:Closed")
    >>> test.text, sorted(test.where.names)
    ('(:Account or :Person) and not :Closed and risk > 3', [':Account', ':Closed', ':Person', 'risk'])
    """
    where = _parsed(text, labels=True)
    for node in nodes_of(where.tree):
        if isinstance(node, Name) and node.name in NODE_COLUMNS:
            raise where.error(f"{node.name!r} is no property of a node", node.column)
    check_types(where)
    normal = _text(where.tree, 0)
    return Condition(normal, parse_where(normal, labels=True))


def check_types(where: Where) -> None:
    """Raise `WhereError` if a condition has an error that no types of the properties would remove."""
    from rpq.language.predicate import ColumnKind, Predicate  # imports Arrow

    kinds = {name: "boolean" if name.startswith(":") else "unknown" for name in where.names}
    Predicate(where, {name: ColumnKind(key=name, kind=kind) for name, kind in kinds.items()})


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node of a condition and all nodes below it."""
    yield node
    match node:
        case Logical():
            inner = node.parts
        case Not() | IsNull():
            inner = (node.inner,)
        case In():
            inner = (node.inner, *node.values)
        case Between():
            inner = (node.inner, node.low, node.high)
        case Comparison() | Arithmetic():
            inner = (node.left, node.right)
        case Call():
            inner = node.arguments
        case _:
            inner = ()
    for part in inner:
        yield from nodes_of(part)


# --- normal forms --------------------------------------------------------------------------------------------

def condition_text(tree: Node) -> str:
    """Return the text of a condition in its normal form.

    >>> condition_text(parse_where("1000 < amount and (a = 1.0 and b is null)").tree)
    'a = 1 and amount > 1000 and b is null'
    """
    return _text(tree, 0)


def _text(node: Node, binding: int) -> str:
    """Write a node in its normal form, in parentheses if it binds less than `binding`."""
    text, own = _text_and_precedence(node)
    return text if own >= binding else f"({text})"


def _text_and_precedence(node: Node) -> tuple[str, int]:
    """Return the text of a node, and the precedence of its operator."""
    match node:
        case WhereConstant(value):
            return _constant(value), _PRIMARY
        case Name(name):
            if name.startswith(":"):
                label = name[1:]
                return ":" + (label if _LABEL.fullmatch(label) else "`" + label.replace("`", "``") + "`"), _PRIMARY
            is_plain = _PLAIN_NAME.fullmatch(name) is not None and name.lower() not in WORDS
            return name if is_plain else "`" + name.replace("`", "``") + "`", _PRIMARY
        case Logical() | Between():
            word = node.word if isinstance(node, Logical) else "and"
            binding = _AND if word == "and" else _OR
            parts = sorted({_text(part, binding + 1) for part in _flat(node, word)})
            return f" {word} ".join(parts), binding if len(parts) > 1 else _NOT
        case Not(inner):
            if isinstance(inner, Not):
                return _text_and_precedence(inner.inner)
            if isinstance(inner, IsNull):
                return f"{_text(inner.inner, 4)} is not null", _COMPARISON
            return f"not {_text(inner, _NOT)}", _NOT
        case IsNull(inner):
            return f"{_text(inner, 4)} is null", _COMPARISON
        case In(inner, values):
            return f"{_text(inner, 4)} in ({', '.join(sorted({_text(value, 4) for value in values}))})", _COMPARISON
        case Comparison(sign, left, right):
            one, other = _text(left, 4), _text(right, 4)
            is_turned = (
                isinstance(left, WhereConstant)
                if isinstance(left, WhereConstant) != isinstance(right, WhereConstant)
                else other < one
            )
            if is_turned:
                one, sign, other = other, MIRRORED[sign], one
            return f"{one} {_SIGNS.get(sign, sign)} {other}", _COMPARISON
        case Arithmetic(sign, left, right):
            binding = _BINDING[sign]
            return f"{_text(left, binding)} {sign} {_text(right, binding + 1)}", binding
        case Call(function, arguments):
            return f"{function}({', '.join(_text(argument, 0) for argument in arguments)})", _PRIMARY
    raise AssertionError(node)


def _flat(node: Node, word: str) -> Iterator[Node]:
    """Yield the parts of nested conjunctions or disjunctions."""
    if isinstance(node, Between) and word == "and":
        yield Comparison(">=", node.inner, node.low, column=node.column)
        yield Comparison("<=", node.inner, node.high, column=node.column)
    elif isinstance(node, Logical) and node.word == word:
        for part in node.parts:
            yield from _flat(part, word)
    else:
        yield node


def _constant(value: int | Decimal | str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower()


# --- expressions ---------------------------------------------------------------------------------------------

def parse_expression(text: str) -> Expression:
    """Parse a path expression with its conditions and tests in normal form. Raises `ExpressionError`.

    >>> print(parse_expression("a[n > 1.0 and n > 1]+/!(b)['x' = kind]/@[3 < risk]"))
    a[n > 1]+/!b[kind = 'x']/@[risk > 3]
    """
    try:
        tree = parse(text, read_condition=_normal_form, read_test=_test_form)
    except automata.ExpressionError as error:
        raise with_hint(error) from None
    _check_tests(tree, text, 1)
    return tree


_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)(\s*\(|\s*[?*{]|\s+\w(?=.*\{))", re.DOTALL)
_THREE_WORDS = re.compile(r"\s*([^\s?]+)\s+(\S+)\s+([^\s?]+)\s*")
_MATCHED = re.compile(r"\s*\([^()\[\]]*\)\s*<?-+\s*[\[(>]")
_KEYWORDS_BEFORE = {"(": ("MATCH",), "?": ("SELECT",), "*": ("SELECT",), "{": ("CONSTRUCT", "ASK")}


def with_hint(error: automata.ExpressionError) -> ExpressionError:
    """Return an error about a text that is neither a path nor a pattern, with a hint at the probable intention.

    >>> print(with_hint(automata.ExpressionError("unexpected '('", 7, "the end", "MATHC (a)-[:pays]->(b) RETURN a")))
    column 7: unexpected '('; expected the end; did you mean MATCH?
      MATHC (a)-[:pays]->(b) RETURN a
            ^
    """
    hint = _hint(error.expression, error.column - 1)
    expected = error.expected if hint is None else f"{error.expected}; {hint}"
    return ExpressionError(error.message, error.column, expected, error.expression)


def _hint(text: str, place: int) -> str | None:
    first = _FIRST_WORD.match(text)
    if first is not None and first.end(1) <= place:
        keywords = _KEYWORDS_BEFORE.get(first[2].strip(), ("SELECT", "CONSTRUCT", "REGISTER", "PREFIX"))
        near = difflib.get_close_matches(first[1].upper(), keywords, n=1, cutoff=0.75)
        if near and near[0] != first[1].upper():
            return f"did you mean {near[0]}?"
    if _MATCHED.match(text):
        return "a pattern with arrows begins with MATCH: MATCH (a)-[:knows]->(b) RETURN a, b"
    words = _THREE_WORDS.fullmatch(text)
    if words is not None and place == words.start(2):
        source, path, target = words.groups()
        return (
            f"for paths from or to a vertex, write a pattern with a variable, {source} {path} ?y or ?x {path} {target}, or "
            f"the path alone with --source {source}"
        )
    return None


def parse_expression_prefix(text: str, start: int) -> tuple[Expression, int]:
    """Parse the longest path expression at `start`, with conditions in normal form (`automata.parser.parse_prefix`)."""
    tree, end = parse_prefix(text, start, read_condition=_normal_form, read_test=_test_form)
    _check_tests(tree, text, start + 1)
    return tree, end


def parse_node_test(text: str, start: int) -> tuple[str, int]:
    """Parse the test of a node in brackets at `start`; return its normal form and the position after it."""
    return parse_test(text, start, read_test=_test_form)


def _normal_form(text: str, read: Callable[[str], Condition] = condition_of) -> str:
    if not text.strip():
        raise automata.ConditionError("the condition is empty", 1)
    try:
        return read(text).text
    except WhereError as error:
        raise automata.ConditionError(error.message, error.column) from None


def _test_form(text: str) -> str:
    return _normal_form(text, node_test_of)


def _conditions(tree: Expression) -> Iterator[tuple[str, str]]:
    """Yield each condition in an expression with the text of the label that it is on, empty for the test of a vertex."""
    pending = [tree]
    while pending:
        node = pending.pop()
        match node:
            case Label(ConditionLabel(label, condition)):
                yield write_name(label or ""), condition
            case NegatedSet(_, condition) if condition is not None:
                yield "a negated set", condition
            case VertexTest(test):
                yield "", test
            case Inverse(inner) | Repetition(inner):
                pending.append(inner)
            case Concatenation(parts) | Alternation(parts):
                pending.extend(parts)


def _check_tests(tree: Expression, text: str, column: int) -> None:
    """Refuse an expression with too many conditions on one label, or that has tests and no edge."""
    conditions: defaultdict[str, set[str]] = defaultdict(set)
    for label, condition in _conditions(tree):
        conditions[label].add(condition)
    tests = conditions.pop("", set())
    if tests and automata.nonempty(tree) is None:
        message = "a test of a vertex without an edge is no path"
        raise ExpressionError(message, column, "a label beside it, as in a/@[…]", text)
    for name, found in (conditions or {"": set[str]()}).items():
        if len(found) + len(tests) > MAX_CONDITIONS:
            counts = [f"{name} has {len(found)} conditions"] if found else []
            counts += [f"there are {len(tests)} tests of vertices"] if tests else []
            message = f"{' and '.join(counts)} in one expression"
            raise ExpressionError(message, column, f"at most {MAX_CONDITIONS} together", text)
