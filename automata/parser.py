"""The parser of path expressions, from text to a tree.

The grammar is that of SPARQL 1.1 property paths (section 9.1, rules 88 to 96), with counted repetitions:

    path          sequence ('|' sequence)*
    sequence      step ('/' step)*
    step          '^'? primary quantifier?              the ^ applies last: ^a* is ^(a*)
    quantifier    '*' | '+' | '?' | '{n}' | '{n,m}' | '{n,}' | '{,m}'
    primary       name condition? | '!' negated condition? | '@' condition | '(' path ')'
    negated       member | '(' (member ('|' member)*)? ')'
    member        '^'? name
    condition     '[' text ']'                          on the edge of this step, or behind '@' a test of the vertex
                                                        between two steps; a ']' may stand in quotes

As in SPARQL a step has at most one `^` and one quantifier; `(a*)+` and `^(^a)` need their parentheses. Blanks are allowed
everywhere except inside a name. `rpq.automata.symbols` describes the notations of names. The text of a condition has no
meaning here: a function that the caller gives reads it, and returns the form under which equal conditions are one; a second
one reads the tests of vertices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from rpq.automata.errors import ConditionError, ExpressionError
from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    SizeError,
    VertexTest,
)
from rpq.automata.symbols import (
    ESCAPES,
    ConditionLabel,
    Symbol,
    bare_name_end,
    in_angle_brackets,
    starts_name,
    write_name,
)

_OPERAND = "a name, '(', '!' or '^'"
_PRIMARY = "a name, '(' or '!'"
_TEST = "a test such as risk > 3"
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_DIGITS = "0123456789"
_HEXADECIMAL = _DIGITS + "abcdefABCDEF"


ReadCondition: TypeAlias = Callable[[str], str]
"""Returns the normal form of the text of a condition; raises `ConditionError`."""

_CONDITION = re.compile(r"""(?:[^]'"`]|'[^']*'|"[^"]*"|`[^`]*`)*""")


def parse(text: str, *, read_condition: ReadCondition = str.strip, read_test: ReadCondition = str.strip) -> Expression:
    """Parse a path expression.

    `read_condition` returns the normal form of a condition on an edge, in brackets, `read_test` that of a test of a vertex.

    Redundant parentheses are dropped, and may be nested to any depth. Raises an `ExpressionError` with the column of the
    error and the text that was expected there. O(length).

    >>> parse("knows / ^likes")
    Concatenation(parts=(Label(name='knows'), Inverse(inner=Label(name='likes'))))
    >>> print(parse(' <a> | ( "b" / ( c{0,1} ) ) '))
    a|b/c?
    >>> print(parse("^transfer[ amount > 1000 ]+"))
    ^transfer[amount > 1000]+
    >>> print(parse("(a / @[ risk > 3 ])+"))
    (a/@[risk > 3])+
    """
    if not isinstance(text, str):
        raise TypeError(f"a path expression is text, not {type(text).__name__}")
    return _Parser(text, read_condition=read_condition, read_test=read_test).parse()


def parse_prefix(
    text: str, start: int, *, read_condition: ReadCondition = str.strip, read_test: ReadCondition = str.strip
) -> tuple[Expression, int]:
    """Parse the longest path expression that begins at `start`; return it and the position after it and following blanks.

    Here a `?` before a letter begins the name of a variable and is not a quantifier, as expressions are between terms.

    >>> expression, end = parse_prefix("?x a2q / c2a* ?y", 3)
    >>> str(expression), end
    ('a2q/c2a*', 14)
    """
    return _Parser(text, start, is_prefix=True, read_condition=read_condition, read_test=read_test).parse_prefix()


def parse_name(text: str, start: int) -> tuple[str | None, int]:
    """Parse a name in any notation; return the name, or None if no name begins at `start`, and the position after it.

    >>> parse_name("x <a b> ", 0), parse_name("/", 0)
    (('x', 1), (None, 0))
    """
    parser = _Parser(text, start)
    name = parser._name()
    return name, parser._position


def parse_test(text: str, start: int, *, read_test: ReadCondition = str.strip) -> tuple[str, int]:
    """Parse the test of a vertex, whose bracket is at `start`; return it and the position after it.

    >>> parse_test("?x[ risk > 3 ] a ?y", 2)
    ('risk > 3', 14)
    """
    parser = _Parser(text, start)
    test = parser._brackets(read_test, _TEST)
    assert test is not None, "there is a bracket"
    return test, parser._position


@dataclass
class _Group:
    """The part of a parenthesized group that has been read."""

    column: int  # of the '(', 0 for the whole expression
    inverse_column: int  # of a '^' before the '(', 0 for none
    sequence: list[Expression] = field(default_factory=list)
    alternatives: list[Expression] = field(default_factory=list)


class _Parser:
    """A parser in one pass over the text, with a list of open parentheses instead of the call stack, for any depth."""

    def __init__(
        self,
        text: str,
        start: int = 0,
        *,
        is_prefix: bool = False,
        read_condition: ReadCondition = str.strip,
        read_test: ReadCondition = str.strip,
    ) -> None:
        self._text = text
        self._read_condition = read_condition
        self._read_test = read_test
        self._position = start
        self._is_prefix = is_prefix
        self._groups = [_Group(0, 0)]
        self._quantified = False  # whether the latest step has a quantifier

    def parse(self) -> Expression:
        """Parse the whole text."""
        expression = self._expression()
        if self._position < len(self._text):
            self._unexpected(self._after_operand("the end"))
        return expression

    def parse_prefix(self) -> tuple[Expression, int]:
        """Parse one expression, and return it with the position after it."""
        return self._expression(), self._position

    def _expression(self) -> Expression:
        while True:
            # An operand starts here: read open parentheses until there is a primary.
            inverse_column = self._optional_inverse()
            if self._take("("):
                self._groups.append(_Group(self._position, inverse_column))
                continue
            self._end_step(self._primary(inverse_column), inverse_column)
            while True:
                if self._take("/"):
                    break
                if self._take("|"):
                    self._end_sequence()
                    break
                self._end_sequence()
                group = self._groups[-1]
                inner = self._combine(group.column, Alternation, group.alternatives)
                if not group.column:
                    return inner
                if not self._take(")"):
                    self._unexpected(self._after_operand("')'"), f"the '(' of column {group.column} is still open")
                self._groups.pop()
                self._end_step(inner, group.inverse_column)

    # Building the tree

    def _end_step(self, primary: Expression, inverse_column: int) -> None:
        quantified = self._quantifier(primary)
        if quantified and (character := self._peek()) and character in "*+?{" and not self._is_variable():
            self._fail(f"a second quantifier {character}", "parentheses around the first, as in (a*)+")
        if self._peek() == "[":
            self._fail("a condition belongs to one label", "one behind each label, as in (a[…]|b[…])")
        self._quantified = quantified is not None
        step = quantified or primary
        if inverse_column:
            step = self._at(inverse_column, Inverse, step)
        self._groups[-1].sequence.append(step)

    def _end_sequence(self) -> None:
        group = self._groups[-1]
        group.alternatives.append(self._combine(group.column, Concatenation, group.sequence))
        group.sequence = []

    def _combine(
        self, column: int, node: type[Concatenation] | type[Alternation], operands: list[Expression]
    ) -> Expression:
        return operands[0] if len(operands) == 1 else self._at(column, node, tuple(operands))

    def _at(self, column: int, node: Callable[..., Expression], *arguments: object) -> Expression:
        """Return a new node; if the node is too large, raise an error at the column."""
        try:
            return node(*arguments)
        except SizeError as error:
            self._fail(str(error), "a smaller expression", max(column, 1))

    # The rules of the grammar that need no recursion

    def _optional_inverse(self) -> int:
        return self._position if self._take("^") else 0

    def _primary(self, inverse_column: int) -> Expression:
        if self._take("!"):
            members = self._negated()
            return NegatedSet(members, self._condition())
        if self._take("@"):
            test = self._brackets(self._read_test, _TEST)
            return self._unexpected("'[' and a test of a vertex after '@'") if test is None else VertexTest(test)
        name = self._name()
        if name is None:
            self._unexpected(_PRIMARY if inverse_column else _OPERAND)
        condition = self._condition()
        return Label(name if condition is None else ConditionLabel(name, condition))

    def _condition(self) -> str | None:
        """Read a condition in brackets, if there is one, and return its normal form."""
        return self._brackets(self._read_condition, "a condition such as amount > 1000")

    def _brackets(self, read: ReadCondition, expected: str) -> str | None:
        if not self._take("["):
            return None
        start = self._position
        end = _CONDITION.match(self._text, start).end()  # type: ignore[union-attr]  # it matches the empty text as well
        if self._text[end : end + 1] != "]":
            self._fail("the '[' is not closed", "']'", start)
        self._position = end + 1
        try:
            return read(self._text[start:end])
        except ConditionError as error:
            self._fail(error.message, expected, start + error.column)

    def _negated(self) -> tuple[Symbol, ...]:
        if not self._take("("):
            return (self._member("a name, '^' or '(' after '!'"),)
        if self._take(")"):
            return ()
        members = [self._member("a name, '^' or ')' in the negated set")]
        while self._take("|"):
            members.append(self._member("a name or '^' in the negated set"))
        if self._peek() == "[":
            self._fail("a condition inside a negated set", "one condition behind the set, as in !(a|b)[…]")
        if not self._take(")"):
            self._unexpected("'|' or ')' in the negated set")
        return tuple(members)

    def _member(self, expected: str) -> Symbol:
        inverse = bool(self._optional_inverse())
        name = self._name()
        if name is None:
            self._unexpected("a name after '^' in the negated set" if inverse else expected)
        return Symbol(name, inverse)

    def _quantifier(self, inner: Expression) -> Expression | None:
        character = self._peek()
        column = self._position + 1
        if character in _QUANTIFIERS and not self._is_variable():
            self._position += 1
            return self._at(column, Repetition, inner, *_QUANTIFIERS[character])
        if not self._take("{"):
            return None
        minimum = self._number()
        maximum = minimum
        if self._take(","):
            self._peek()
            maximum_column = self._position + 1
            maximum = self._number()
            if minimum is None and maximum is None:
                self._unexpected("a number")
            if minimum is not None and maximum is not None and maximum < minimum:
                message = f"the maximum {maximum} is below the minimum {minimum}"
                self._fail(message, f"{minimum} or more", maximum_column)
            if not self._take("}"):
                self._unexpected("'}'" if maximum is not None else "a number or '}'")
        elif minimum is None:
            self._unexpected("a number or ','")
        elif not self._take("}"):
            self._unexpected("',' or '}'")
        return self._at(column, Repetition, inner, minimum or 0, maximum)

    def _number(self) -> int | None:
        self._peek()
        start = self._position
        while self._text[self._position : self._position + 1] in set(_DIGITS):
            self._position += 1
        digits = self._text[start : self._position].lstrip("0")
        if len(digits) > 9:
            self._fail("the count is too large", "a smaller one", start + 1)
        return int(digits or "0") if self._position > start else None

    def _is_variable(self) -> bool:
        """Return whether the next character begins the name of a variable."""
        following = self._text[self._position + 1 : self._position + 2]
        return self._is_prefix and self._peek() == "?" and bool(following) and starts_name(following)

    # Names

    def _name(self) -> str | None:
        """Read and return a name in any notation, or return None if no name starts here."""
        character = self._peek()
        if character == "<":
            return self._angle_name()
        if character and character in "\"'":
            return self._quoted_name(character)
        end = bare_name_end(self._text, self._position)
        name = self._text[self._position : end]
        self._position = end
        return name or None

    def _angle_name(self) -> str:
        start = self._position
        self._position += 1
        while (character := self._text[self._position : self._position + 1]) != ">":
            if not character:
                self._fail("the '<' is not closed", "'>'", start + 1)
            if not in_angle_brackets(character):
                self._fail(f"{_show(character)} inside <…>", "'>' (names with such characters go in quotes)")
            self._position += 1
        self._position += 1
        return self._text[start + 1 : self._position - 1]

    def _quoted_name(self, quote: str) -> str:
        start = self._position
        self._position += 1
        characters = []
        while (character := self._text[self._position : self._position + 1]) != quote:
            if not character:
                self._fail(f"the {quote} is not closed", f"another {quote}", start + 1)
            if character in "\r\n":
                self._line_end_in_quotes(quote)
            characters.append(self._escape() if character == "\\" else character)
            self._position += 1
        self._position += 1
        return "".join(characters)

    def _line_end_in_quotes(self, quote: str) -> NoReturn:
        if self._text.startswith("\r\n", self._position):
            what, end, written = "the line ends", "the end of the line", r"\r\n"
        elif self._text[self._position] == "\n":
            what, end, written = "the line ends", "the end of the line", r"\n"
        else:
            what, end, written = "a carriage return", "it", r"\r"
        self._fail(f"{what} inside a quoted name", f"{quote} before {end}, or {written} for it")

    def _escape(self) -> str:
        """Read an escape, and return its character; the position is then at the last character of the escape."""
        start = self._position
        self._position += 1
        kind = self._text[self._position : self._position + 1]
        if kind in ESCAPES:
            return ESCAPES[kind]
        length = {"u": 4, "U": 8}.get(kind)
        if length is None:
            self._fail(f"unknown escape \\{kind}", r"""one of \\ \" \' \t \n \r \b \f \uXXXX \UXXXXXXXX""", start + 1)
        digits = self._text[self._position + 1 : self._position + 1 + length]
        if len(digits) < length or not set(digits) <= set(_HEXADECIMAL):
            self._fail(f"incomplete escape \\{kind}", f"{length} hexadecimal digits", start + 1)
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self._fail(f"there is no character \\{kind}{digits}", "a Unicode character", start + 1)
        self._position += length
        return chr(code)

    # Reading the text

    def _peek(self) -> str:
        """Skip blanks and return the next character, empty at the end."""
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1
        return self._text[self._position : self._position + 1]

    def _take(self, character: str) -> bool:
        """Skip a character if it is the next one; return whether it was."""
        if self._peek() != character:
            return False
        self._position += 1
        return True

    # Errors

    def _after_operand(self, closing: str) -> str:
        quantifier = "" if self._quantified else ", a quantifier (* + ? {n,m})"
        return f"'/', '|'{quantifier} or {closing}"

    def _unexpected(self, expected: str, context: str = "") -> NoReturn:
        found = self._peek()
        hint = f" ({context})" if context else ""
        if not found:
            what = "the expression is empty" if not self._text.strip() else "the expression ends too early"
        elif (end := bare_name_end(self._text, self._position)) > self._position:
            what = f"unexpected {write_name(self._text[self._position : end])}"
        else:
            what = f"unexpected {_show(found)}"
        self._fail(what + hint, expected)

    def _fail(self, message: str, expected: str, column: int | None = None) -> NoReturn:
        raise ExpressionError(message, column or self._position + 1, expected, self._text)


def _show(character: str) -> str:
    if not character.isprintable():
        return f"character U+{ord(character):04X}"
    return "a blank" if character.isspace() else f"'{character}'" if character != "'" else '"\'"'
