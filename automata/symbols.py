r"""The alphabet of an automaton, and how a label is written in an expression.

A `Symbol` is a step along an edge with some label, or against its direction. A label is any text. Three notations name
it, and `x`, `<x>` and `"x"` name the same one:

- **bare**: starts with a letter or digit of any script, `_` or `:`; goes on with these, `-`, `.` and combining
  marks; does not end with `.`. So `a2q`, `foaf:knows`, `rdf-type`, `v1.2`, `名前` and `26` are bare names: `-` and `.`
  are never operators, and a prefixed name is its literal text (no prefix is ever expanded, `a` is just a label);
- **`<…>`**: everything up to the next `>`, without blanks, control characters and `<`; taken literally, there are
  no escapes in it;
- **`"…"` or `'…'`**: any text in one line, with SPARQL's escapes: `\\ \" \' \t \n \r \b \f \uXXXX \UXXXXXXXX`.

Labels are compared character by character: nothing is normalised.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
"""What the character after a backslash stands for in a quoted name (`\\u` and `\\U` apart)."""

_BACKSLASHED = {value: "\\" + key for key, value in ESCAPES.items() if key != "'"}
_PLAIN = re.compile(r"[A-Za-z0-9_:.\-]*")
"""What nearly all names are made of, found faster than character by character."""
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian and Indic words; SPARQL's PN_CHARS has them too


def starts_name(character: str) -> bool:
    """Return whether a bare name can start with this character.

    >>> [starts_name(c) for c in "a9_:é-.*"]
    [True, True, True, True, True, False, False, False]
    """
    return character.isalnum() or character in "_:"


def continues_name(character: str) -> bool:
    """Return whether this character can stand inside a bare name.

    >>> [continues_name(c) for c in "a-./"]
    [True, True, True, False]
    """
    return starts_name(character) or character in "-." + _JOINERS or unicodedata.category(character)[0] == "M"


def bare_name_end(text: str, start: int) -> int:
    """Return the position after the bare name that begins at `start`, or `start` where none does. O(length).

    >>> bare_name_end("v1.2./b", 0)
    4
    """
    if start >= len(text) or not starts_name(text[start]):
        return start
    end = _PLAIN.match(text, start + 1).end()  # type: ignore[union-attr]  # it matches nothing, too
    while end < len(text) and continues_name(text[end]):
        end += 1
    while text[end - 1] == ".":
        end -= 1
    return end


def in_angle_brackets(character: str) -> bool:
    """Return whether this character can stand in `<…>`."""
    return character not in "<>" and character.isprintable() and not character.isspace()


def write_name(label: str) -> str:
    """Write a label in the plainest notation that names it: bare, else `<…>`, else quoted. O(length).

    >>> print(write_name("knows"), write_name("http://a/b"), write_name('say "a b"'), write_name(""))
    knows <http://a/b> "say \\"a b\\"" ""
    """
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
    """One step of a path: a label, and whether the edge is taken against its direction.

    In the alphabet of a DFA the label `None` stands for every label that the alphabet does not name in that direction.

    >>> print(Symbol("knows"), Symbol("knows", inverse=True), Symbol(None), Symbol(None, inverse=True))
    knows ^knows (other) ^(other)
    """

    label: str | None
    inverse: bool = False

    def __str__(self) -> str:
        name = "(other)" if self.label is None else write_name(self.label)  # no name is written with parentheses
        return "^" + name if self.inverse else name

    def reversed(self) -> Symbol:
        """Return the same label in the other direction.

        >>> print(Symbol("knows").reversed())
        ^knows
        """
        return Symbol(self.label, not self.inverse)

    def sort_key(self) -> tuple[bool, bool, str]:
        """Order of an alphabet: forward before inverse, "other" last in its direction, labels by code point.

        >>> print(*sorted([Symbol(None), Symbol("b", inverse=True), Symbol("c"), Symbol("a")], key=Symbol.sort_key))
        a c (other) ^b
        """
        return (self.inverse, self.label is None, self.label or "")
