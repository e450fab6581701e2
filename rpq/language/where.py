"""The language of conditions on columns, of an input and of edges: `amount > 1000 and kind in ('buy', 'sell')`.

    condition     conjunction ('or' conjunction)*
    conjunction   negation ('and' negation)*
    negation      'not'* comparison
    comparison    sum (('=' | '==' | '!=' | '<>' | '<' | '<=' | '>' | '>=') sum
                       | 'not'? 'in' '(' sum (',' sum)* ')' | 'not'? 'between' sum 'and' sum | 'is' 'not'? 'null')?
    sum           product (('+' | '-') product)*
    product       unary (('*' | '/' | '%') unary)*
    unary         '-'* primary
    primary       number | text | 'true' | 'false' | name | variable | function '(' condition (',' condition)* ')'
                       | '(' condition ')'

Text is in single or double quotes, which are doubled inside; a name that is not a plain word is in backticks.  Keywords are
case-insensitive.  `rpq.language.predicate` defines the meaning of values.

A condition on a node has labels as further primaries: ':A', ':A|B', ':A&B', '!:A'; a label is a name, or text in backticks.

A filter of a pattern has variables in place of names, of vertices and of properties of edges: `?x`, `?e.amount`.
"""

from __future__ import annotations

import decimal
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from rpq.errors import WhereError, did_you_mean

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<variable>\?\w+(?:\.(?:\w+|`(?:[^`]|``)+`))?)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<word>[^\W\d][\w.]*)
    |(?P<label>!?:(?!:)\s*(?:\w[\w.-]*|`(?:[^`]|``)+`)(?:\s*(?:\|\s*(?:\w[\w.-]*|`(?:[^`]|``)+`)
        |&\s*(?:\w[\w.-]*|`(?:[^`]|``)+`)))*)
    |(?P<sign>==|!=|<>|<=|>=|[-+*/%=<>(),]))""",
    re.VERBOSE,
)
_LABEL = re.compile(r"([:|&])\s*(\w[\w.-]*|`(?:[^`]|``)+`)")
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The comparisons by sign, of numbers and of numpy arrays."""

MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The sign of a comparison whose operands change places."""

EXACT = 2.0**53
"""The bound below which floats represent integers exactly."""

_COMPARISONS = {"=": "==", "==": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
WORDS = frozenset({"and", "between", "or", "not", "in", "is", "null", "true", "false"})
"""Words that are names only in backticks."""

FUNCTIONS = {
    "lower": 1,
    "upper": 1,
    "length": 1,
    "starts_with": 2,
    "ends_with": 2,
    "contains": 2,
    "matches": 2,
    "number": 1,
    "text": 1,
    "abs": 1,
}
"""The number of arguments of each function."""


UNROUNDED = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
"""The context in which no decimal is rounded."""


def exact_number(text: str) -> int | Decimal:
    """Return the exact number that a text represents: an `int` if it is an integer of 64 bits, else a `Decimal`.

    Equal numbers have equal representations. Raises `decimal.InvalidOperation` for an exponent of more than 17 digits.

    >>> exact_number("1e3"), exact_number("19.90"), exact_number("9223372036854775808")
    (1000, Decimal('19.9'), Decimal('9223372036854775808'))
    """
    number = UNROUNDED.normalize(Decimal(text))
    if number.adjusted() < 19 and number == (integer := number.to_integral_value()) and -(2**63) <= integer < 2**63:
        return int(integer)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    is_plain = 0 < exponent <= 20
    return Decimal((sign, (*digits, *(0,) * exponent), 0)) if is_plain else number


def negated(node: Node, column: int) -> Node:
    """Return the negation of a number: a literal for a literal."""
    if isinstance(node, WhereConstant) and isinstance(node.value, (int, Decimal)) and not isinstance(node.value, bool):
        return WhereConstant(exact_number(str(UNROUNDED.minus(Decimal(node.value)))), column=column)
    return Arithmetic("-", WhereConstant(0, column=column), node, column=column)


@dataclass(frozen=True)
class _Part:
    """A part of a condition; `column` is its place in the text."""

    column: int = field(kw_only=True)


@dataclass(frozen=True)
class WhereConstant(_Part):
    """A value. A number is the exact one that is written: an `int` of 64 bits, or else a `Decimal`."""

    value: int | Decimal | str | bool


@dataclass(frozen=True)
class Name(_Part):
    """A column of the input."""

    name: str


@dataclass(frozen=True)
class Logical(_Part):
    """`and` or `or` of several conditions."""

    word: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class _Inner(_Part):
    inner: Node


class Not(_Inner):
    """The negation of a condition."""


class IsNull(_Inner):
    """A test for a missing value."""


@dataclass(frozen=True)
class In(_Inner):
    """A test for membership in a list of values."""

    values: tuple[Node, ...]


@dataclass(frozen=True)
class Between(_Inner):
    """A test whether a value is neither below one nor above another."""

    low: Node
    high: Node


@dataclass(frozen=True)
class _Pair(_Part):
    sign: str
    left: Node
    right: Node


class Comparison(_Pair):
    """A comparison; `sign` is one of == != < <= > >=."""


class Arithmetic(_Pair):
    """An arithmetic operation; `sign` is one of + - * / %."""


@dataclass(frozen=True)
class Call(_Part):
    """A call of one of `FUNCTIONS`."""

    function: str
    arguments: tuple[Node, ...]


Node: TypeAlias = WhereConstant | Name | Logical | Not | Comparison | In | Between | IsNull | Arithmetic | Call


@dataclass(frozen=True)
class Where:
    """A parsed condition: its text, its tree, and the names of columns in it.

    >>> condition = parse_where("amount > 10 and kind = 'sell'")
    >>> condition.text, sorted(condition.names)
    ("amount > 10 and kind = 'sell'", ['amount', 'kind'])
    """

    text: str
    tree: Node = field(compare=False)
    names: frozenset[str] = field(compare=False)

    def error(self, message: str, column: int) -> WhereError:
        """Return an error that points to a column of this condition.

        >>> print(parse_where("amount > 1").error("no such column", 1))
        --where: column 1: no such column
          amount > 1
          ^
        """
        return WhereError(message, column, self.text)


def parse_where(text: str, *, variables: bool = False, labels: bool = False) -> Where:
    """Parse a condition; raise `WhereError` with the place of an error.  O(length).

    With `variables` its names are those of variables, `?x`, and of properties of variables, `?e.amount`. With `labels` it
    may test labels of a node, which are names that begin with a colon.

    >>> sorted(parse_where("amount > 10 and not starts_with(`first name`, 'A')").names)
    ['amount', 'first name']
    >>> sorted(parse_where("?e.amount > 10 and ?x <> ?y", variables=True).names)
    ['e.amount', 'x', 'y']
    >>> sorted(parse_where(":Account|`a b` and !:Closed and risk > 3", labels=True).names)
    [':Account', ':Closed', ':a b', 'risk']
    """
    try:
        return _Parser(text, variables=variables, labels=labels).parse()
    except RecursionError:
        raise WhereError("the parentheses are nested too deeply", 1, text) from None


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


class _Parser:
    def __init__(self, text: str, *, variables: bool = False, labels: bool = False) -> None:
        self._text = text
        self._has_variables = variables
        self._has_labels = labels
        self._names: set[str] = set()
        self._tokens = self._cut()
        self._place = 0

    def parse(self) -> Where:
        tree = self._condition()
        if self._next.kind != "end":
            self._refuse("an operator or the end")
        return Where(self._text, tree, frozenset(self._names))

    def _cut(self) -> list[_Token]:
        tokens: list[_Token] = []
        place, end = 0, len(self._text.rstrip())
        while place < end:
            match = _TOKEN.match(self._text, place)
            if match is None:
                place += len(self._text[place:]) - len(self._text[place:].lstrip())
                found = self._text[place]
                hint = "; the quote is not closed" if found in "'\"`" else ""
                raise WhereError(f"{found!r} is not valid here{hint}", place + 1, self._text)
            kind = str(match.lastgroup)
            word, column = match[kind], match.start(kind) + 1
            if kind == "word" and word.lower() in WORDS:
                kind, word = "sign", word.lower()
            tokens.append(_Token(kind, word, column))
            place = match.end()
        return [*tokens, _Token("end", "", end + 1)]

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, *signs: str) -> _Token | None:
        """Consume the next token if it is one of these signs or words, and return it; otherwise return None."""
        token = self._next
        if token.kind != "sign" or token.text not in signs:
            return None
        self._place += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            self._refuse(repr(sign))

    def _refuse(self, expected: str) -> NoReturn:
        token = self._next
        found = "the end" if token.kind == "end" else repr(token.text)
        raise WhereError(f"unexpected {found}; expected {expected}", token.column, self._text)

    def _condition(self) -> Node:
        return self._join("or", lambda: self._join("and", self._negation))

    def _join(self, word: str, part: Callable[[], Node]) -> Node:
        parts, column = [part()], self._next.column
        while self._take(word) is not None:
            parts.append(part())
        return Logical(word, tuple(parts), column=column) if len(parts) > 1 else parts[0]

    def _negation(self) -> Node:
        token = self._take("not")
        return self._comparison() if token is None else Not(self._negation(), column=token.column)

    def _comparison(self) -> Node:
        left = self._sum()
        if (sign := self._take(*_COMPARISONS)) is not None:
            node: Node = Comparison(_COMPARISONS[sign.text], left, self._sum(), column=sign.column)
            if self._next.text in _COMPARISONS and self._next.kind == "sign":
                self._refuse("'and': comparisons are joined, as in 1 < a and a < 5")
            return node
        if (word := self._take("is")) is not None:
            negated = self._take("not")
            self._expect("null")
            node = IsNull(left, column=word.column)
            return Not(node, column=negated.column) if negated else node
        negated = self._take("not")
        word = self._take("in", "between")
        if word is None:
            if negated:
                self._refuse("'in' or 'between'")
            return left
        if word.text == "between":
            low = self._sum()
            self._expect("and")
            node = Between(left, low, self._sum(), column=word.column)
        else:
            self._expect("(")
            node = In(left, self._list(self._sum), column=word.column)
        return Not(node, column=negated.column) if negated else node

    def _list(self, part: Callable[[], Node]) -> tuple[Node, ...]:
        """Parse a list up to its closing parenthesis; the caller has consumed the opening one."""
        parts = [part()]
        while self._take(","):
            parts.append(part())
        if self._take(")") is None:
            self._refuse("',' or ')'")
        return tuple(parts)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._unary))

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        node = part()
        while (token := self._take(*signs)) is not None:
            node = Arithmetic(token.text, node, part(), column=token.column)
        return node

    def _unary(self) -> Node:
        token = self._take("-")
        if token is None:
            return self._primary()
        return negated(self._unary(), token.column)

    def _primary(self) -> Node:
        token = self._next
        if self._take("("):
            node = self._condition()
            self._expect(")")
            return node
        if self._take("true", "false"):
            return WhereConstant(token.text == "true", column=token.column)
        if token.kind in ("end", "sign"):
            self._refuse("a column, a value or '('")
        self._place += 1
        if token.kind == "number":
            try:
                return WhereConstant(exact_number(token.text), column=token.column)
            except decimal.InvalidOperation:
                raise WhereError("the exponent has too many digits", token.column, self._text) from None
        if token.kind == "text":
            quote = token.text[0]
            return WhereConstant(token.text[1:-1].replace(quote * 2, quote), column=token.column)
        if token.kind == "word" and self._take("("):
            return self._call(token)
        if token.kind == "label":
            return self._labels(token)
        if (token.kind == "variable") != self._has_variables:
            hint = "variables, as in ?x or ?e.amount" if self._has_variables else "names without ?"
            raise WhereError(f"unexpected {token.text!r}; values are named by {hint}", token.column, self._text)
        if token.kind == "variable":
            variable, dot, attribute = token.text[1:].partition(".")
            name = variable + dot + (attribute[1:-1].replace("``", "`") if attribute.startswith("`") else attribute)
        else:
            name = token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")
        self._names.add(name)
        return Name(name, column=token.column)

    def _labels(self, token: _Token) -> Node:
        """Return the test of labels that a token is."""
        if not self._has_labels:
            raise WhereError(f"unexpected {token.text!r}; only nodes have labels", token.column, self._text)
        text = token.text.removeprefix("!")
        found = [(sign, name.strip()) for sign, name in _LABEL.findall(text)]
        if len({sign for sign, _ in found[1:]}) > 1:
            raise WhereError("& beside | in labels; write :A and (:B or :C)", token.column, self._text)
        names = [":" + (name[1:-1].replace("``", "`") if name.startswith("`") else name) for _, name in found]
        self._names.update(names)
        parts = tuple(Name(name, column=token.column) for name in names)
        word = "and" if found[-1][0] == "&" else "or"
        node = Logical(word, parts, column=token.column) if len(parts) > 1 else parts[0]
        return Not(node, column=token.column) if token.text.startswith("!") else node

    def _call(self, token: _Token) -> Node:
        function = token.text.lower()
        if function not in FUNCTIONS:
            raise WhereError(
                f"unknown function {token.text!r}: expected one of {', '.join(FUNCTIONS)}"
                f"{did_you_mean(function, list(FUNCTIONS))}",
                token.column,
                self._text,
            )
        arguments = self._list(self._condition)
        if len(arguments) != FUNCTIONS[function]:
            raise WhereError(
                f"{function} has {FUNCTIONS[function]} arguments, not {len(arguments)}", token.column, self._text
            )
        return Call(function, arguments, column=token.column)
