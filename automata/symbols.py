r"""The alphabet of an automaton, and the notations for a label in an expression.

A `Symbol` is a step along an edge with some label, or against its direction. A label is any text. There are three
notations; `x`, `<x>` and `"x"` are the same label:

- **bare**: starts with a letter or digit of any script, `_` or `:`; continues with these characters, `-`, `.` and
  combining marks; does not end with `.`. So `a2q`, `foaf:knows`, `rdf-type`, `v1.2`, `名前` and `26` are bare names: `-`
  and `.` are never operators, and a prefixed name is its literal text (no prefix is ever expanded, `a` is just a label);
- **`<…>`**: everything up to the next `>`, without blanks, control characters and `<`; the text is literal, without
  escapes;
- **`"…"` or `'…'`**: any text in one line, with SPARQL's escapes: `\\ \" \' \t \n \r \b \f \uXXXX \UXXXXXXXX`.

Labels are compared character by character, without normalisation. A label may be restricted by a condition
(`ConditionLabel`), written in brackets behind it: `transfer[amount > 1000]`. What a condition means plays no part here.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
"""The meaning of the character after a backslash in a quoted name (except `\\u` and `\\U`)."""

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_BACKSLASHED = {value: "\\" + key for key, value in ESCAPES.items() if key != "'"}
_PLAIN = re.compile(r"[A-Za-z0-9_:.\-]*")
"""The characters of nearly all names, which a regular expression finds faster than a loop over characters."""
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian and Indic words, and of SPARQL's PN_CHARS


def unescape(text: str) -> str:
    r"""Return a text in which the characters replace their escapes; unknown escapes lose their backslash.

    >>> unescape(r"\"tab\"\t\u0041")
    '"tab"\tA'
    """
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code is None:
        return ESCAPES.get(escape[3], escape[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else escape[0]


def starts_name(character: str) -> bool:
    """Return whether a bare name can start with this character.

    >>> [starts_name(c) for c in "a9_:é-.*"]
    [True, True, True, True, True, False, False, False]
    """
    return character.isalnum() or character in "_:"


def continues_name(character: str) -> bool:
    """Return whether this character can occur inside a bare name.

    >>> [continues_name(c) for c in "a-./"]
    [True, True, True, False]
    """
    return starts_name(character) or character in "-." + _JOINERS or unicodedata.category(character)[0] == "M"


def bare_name_end(text: str, start: int) -> int:
    """Return the position after the bare name that begins at `start`, or `start` if no name begins there. O(length).

    >>> bare_name_end("v1.2./b", 0)
    4
    """
    if start >= len(text) or not starts_name(text[start]):
        return start
    end = _PLAIN.match(text, start + 1).end()  # type: ignore[union-attr]  # the pattern also matches the empty text
    while end < len(text) and continues_name(text[end]):
        end += 1
    while text[end - 1] == ".":
        end -= 1
    return end


def in_angle_brackets(character: str) -> bool:
    """Return whether this character can occur in `<…>`."""
    return character not in "<>" and character.isprintable() and not character.isspace()


@dataclass(frozen=True, order=False)
class ConditionLabel:
    """A label restricted by a condition: of the edges with the label only those that satisfy it.

    Without a label it stands for all labels that an alphabet does not contain with this condition. Such labels sort behind
    the plain label, and compare with texts.

    >>> print(ConditionLabel("transfer", "amount > 1000"))
    transfer[amount > 1000]
    >>> print(*sorted(["b", ConditionLabel("a", "n > 1"), "a"]))
    a a[n > 1] b
    """

    label: str | None
    condition: str
    """The condition, or `StepTests.condition` of one and of tests of the ends of an edge."""

    def __str__(self) -> str:
        tests = StepTests.of(self.condition)
        name = "(other)" if self.label is None else write_name(self.label)
        step = f"{name}[{tests.edge}]" if tests.edge else name
        return "/".join([*(f"@[{test}]" for test in tests.source), step, *(f"@[{test}]" for test in tests.target)])

    def __lt__(self, other: LabelSymbol) -> bool:
        return _order(self) < _order(other)

    def __gt__(self, other: LabelSymbol) -> bool:
        return _order(self) > _order(other)


LabelSymbol: TypeAlias = str | ConditionLabel
"""A label, with or without a condition."""

_PART, _TEST = "\x1f", "\x1e"
SEPARATORS = re.compile(f"[{_PART}{_TEST}]")
"""The characters that no condition and no test may contain."""


class StepTests(NamedTuple):
    """The condition on an edge, empty for none, and the tests of its two vertices.

    >>> condition = StepTests("n > 1", target=("risk > 3",)).condition
    >>> StepTests.of(condition).target, StepTests.of("n > 1").edge, print(ConditionLabel("transfer", condition))
    transfer[n > 1]/@[risk > 3]
    (('risk > 3',), 'n > 1', None)
    """

    edge: str = ""
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()

    @property
    def are_of_ends(self) -> bool:
        """True if there are tests of a vertex."""
        return bool(self.source or self.target)

    @property
    def condition(self) -> str:
        """All of them as the condition of a `ConditionLabel`; equal ones are equal texts."""
        if not self.are_of_ends:
            return self.edge
        return _PART.join([self.edge, *(_TEST.join(sorted({*tests})) for tests in (self.source, self.target))])

    @classmethod
    def of(cls, condition: str) -> StepTests:
        """Return what a condition of a `ConditionLabel` consists of."""
        if _PART not in condition:
            return cls(condition)
        edge, source, target = condition.split(_PART)
        return cls(edge, *(tuple(tests.split(_TEST)) if tests else () for tests in (source, target)))


def _order(label: LabelSymbol) -> tuple[str, str]:
    return (label.label or "", label.condition) if isinstance(label, ConditionLabel) else (label, "")


def write_name(label: LabelSymbol) -> str:
    """Write a label in the simplest possible notation: bare, otherwise `<…>`, otherwise quoted. O(length).

    >>> print(write_name("knows"), write_name("http://a/b"), write_name('say "a b"'), write_name(""))
    knows <http://a/b> "say \\"a b\\"" ""
    """
    if isinstance(label, ConditionLabel):
        return str(label)
    if label and bare_name_end(label, 0) == len(label):
        return label
    if label and all(map(in_angle_brackets, label)):
        return f"<{label}>"
    return '"' + "".join(map(_write_quoted, label)) + '"'


def _write_quoted(character: str) -> str:
    if character in _BACKSLASHED:
        return _BACKSLASHED[character]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"


class Symbol(NamedTuple):
    """One step of a path: a label, and whether the edge is followed against its direction.

    In the alphabet of a DFA the label `None` represents every label that the alphabet does not contain in that direction;
    a `ConditionLabel` without a label represents those with its condition.

    >>> print(Symbol("knows"), Symbol("knows", inverse=True), Symbol(None), Symbol(None, inverse=True))
    knows ^knows (other) ^(other)
    """

    label: LabelSymbol | None
    inverse: bool = False

    def __str__(self) -> str:
        name = "(other)" if self.label is None else write_name(self.label)  # no name is written with parentheses
        if not self.inverse:
            return name
        return f"^({name})" if isinstance(self.label, ConditionLabel) and _PART in self.label.condition else "^" + name

    def reversed(self) -> Symbol:
        """Return the same label in the other direction.

        >>> print(Symbol("knows").reversed())
        ^knows
        """
        return Symbol(self.label, not self.inverse)

    @property
    def is_other(self) -> bool:
        """True if the symbol represents the labels that an alphabet does not contain.

        >>> [symbol.is_other for symbol in (Symbol("a"), Symbol(None), Symbol(ConditionLabel(None, "n > 1")))]
        [False, True, True]
        """
        return self.label is None or (isinstance(self.label, ConditionLabel) and self.label.label is None)

    def sort_key(self) -> tuple[bool, bool, str, str]:
        """Return the sort key of an alphabet: forward before inverse, "other" last in its direction, labels by code point.

        >>> print(*sorted([Symbol(None), Symbol("b", inverse=True), Symbol("c"), Symbol("a")], key=Symbol.sort_key))
        a c (other) ^b
        """
        return (self.inverse, self.is_other, *_order(self.label or ""))


def condition_of(symbol: Symbol) -> str | None:
    """Return the condition of a symbol's label, or None if it has none.

    >>> condition_of(Symbol("a")), condition_of(Symbol(ConditionLabel("a", "n > 1")))
    (None, 'n > 1')
    """
    return symbol.label.condition if isinstance(symbol.label, ConditionLabel) else None
