r"""The regular expressions of XPath (F&O 5.6.1, XML Schema appendix F), which REGEX and REPLACE take, as those of Python.

What Python has and XPath has not (`\b`, look-around, possessive quantifiers) is no expression here; what XPath has besides
(`\i`, `\c`, `\p{Lu}`, `[a-z-[aeiou]]`) is translated. `\w` is Python's, which has `_` and accents: libraries of SPARQL
agree on it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

from rpq.sparql.typed_values import NoValue

_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE}
_CLASSES = {
    "s": r" \t\n\r",
    "d": r"\d",
    "w": r"\w",
    "i": ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff",
}
_CLASSES["c"] = _CLASSES["i"] + r"\-.0-9" + "\u00b7\u0300-\u036f\u203f-\u2040"
_PLAIN_ESCAPES = r"nrt\|.?*+(){}-[]^$"
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
_CATEGORY = re.compile(r"\{(Is[A-Za-z0-9-]+|[LMNPZSC][a-z]?)\}")


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: str) -> re.Pattern[str]:
    """The expression of Python that a pattern with flags (s, m, i, x, q) is. Raises `NoValue` for what is none.

    >>> compiled("^a.*[a-z-[aeiou]]$", "i").search("ABC") is not None
    True
    """
    unknown = set(flags) - {"s", "m", "i", "x", "q"}
    if unknown:
        raise NoValue(f"there is no flag {min(unknown)} of regular expressions")
    options = re.NOFLAG
    for flag in flags:
        options |= _FLAGS.get(flag, re.NOFLAG)
    translated = re.escape(pattern) if "q" in flags else _Translation(pattern, flags).translated()
    try:
        return re.compile(translated, options)
    except (re.error, OverflowError, RecursionError):
        raise NoValue(f"{pattern!r} is no regular expression") from None


def replaced(text: str, pattern: str, replacement: str, flags: str) -> str:
    r"""Every match of a pattern in a text replaced (F&O 5.6.4). Raises `NoValue`, also where nothing at all is a match.

    >>> replaced("abracadabra", "a(.)", "a$1$1", "")
    'abbraccaddabbra'
    """
    expression = compiled(pattern, flags)
    if expression.search("") is not None:
        raise NoValue(f"{pattern!r} matches the empty string, which cannot be replaced")
    pieces = [replacement] if "q" in flags else _pieces(replacement, expression.groups)
    return expression.sub(
        lambda found: "".join(piece if isinstance(piece, str) else (found[piece] or "") for piece in pieces), text
    )


def _pieces(replacement: str, groups: int) -> list[str | int]:
    """The texts and groups that a replacement is made of."""
    pieces: list[str | int] = []
    place = 0
    while place < len(replacement):
        character, following = replacement[place], replacement[place + 1 : place + 2]
        if character == "\\":
            if following not in ("\\", "$"):
                raise NoValue(f"a backslash in the replacement {replacement!r} stands before \\ or $")
            pieces.append(following)
            place += 2
        elif character == "$":
            digits = re.match(r"[0-9]+", replacement[place + 1 :])
            if digits is None:
                raise NoValue(f"a $ in the replacement {replacement!r} stands before a number")
            # As many digits as make the number of a group.
            length = next((n for n in range(len(digits[0]), 1, -1) if int(digits[0][:n]) <= groups), 1)
            number = int(digits[0][:length])
            pieces.append(number if number <= groups else "")
            place += 1 + length
        else:
            pieces.append(character)
            place += 1
    return pieces


class _Translation:
    """One pattern on its way to Python."""

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._free = "x" in flags
        self._many_lines = "m" in flags
        self._place = 0

    def translated(self) -> str:
        made: list[str] = []
        is_quantified = False
        while self._place < len(self._pattern):
            character = self._pattern[self._place]
            if self._free and character in " \t\n\r":
                self._place += 1
                continue
            quantifier = _QUANTIFIER.match(self._pattern, self._place)
            if quantifier:
                if is_quantified and quantifier[0] != "?":
                    raise self._wrong()
                made.append(quantifier[0])
                self._place = quantifier.end()
                is_quantified = True
                if self._pattern.startswith("?", self._place):
                    made.append("?")
                    self._place += 1
                continue
            is_quantified = False
            made.append(self._one(character))
        return "".join(made)

    def _one(self, character: str) -> str:
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape(in_class=False)
        self._place += 1
        if character in "{}]":
            raise self._wrong()
        if character == "(" and self._pattern.startswith("?", self._place):
            if not self._pattern.startswith("?:", self._place):
                raise self._wrong()
            self._place += 2
            return "(?:"
        if character == "$" and not self._many_lines:  # Python's also stands before a line end that is the last
            return r"\Z"
        return character

    def _class(self) -> str:
        """A class in brackets, perhaps without those of another."""
        self._place += 1
        negation = "^" if self._pattern.startswith("^", self._place) else ""
        self._place += len(negation)
        made: list[str] = []
        without = ""
        while True:
            if self._place >= len(self._pattern):
                raise self._wrong()
            character = self._pattern[self._place]
            if character == "]" and made:
                self._place += 1
                break
            if character == "-" and self._pattern.startswith("-[", self._place) and made:
                self._place += 1
                without = self._class()
                if not self._pattern.startswith("]", self._place):
                    raise self._wrong()
                self._place += 1
                break
            if character in "[]":
                raise self._wrong()
            if character == "\\":
                made.append(self._escape(in_class=True))
            else:
                self._place += 1
                made.append(rf"\{character}" if character in "&~|^" else character)
        inside = f"[{negation}{''.join(made)}]"
        return f"(?:(?!{without}){inside})" if without else inside

    def _escape(self, *, in_class: bool) -> str:
        letter = self._pattern[self._place + 1 : self._place + 2]
        self._place += 2
        if not letter:
            raise self._wrong()
        if letter in _PLAIN_ESCAPES:
            return f"\\{letter}"
        if letter.lower() in _CLASSES:
            return self._of_class(_CLASSES[letter.lower()], is_negated=letter.isupper(), in_class=in_class)
        if letter in "pP" and (category := _CATEGORY.match(self._pattern, self._place)):
            self._place = category.end()
            return self._of_class(_of_category(category[1]), is_negated=letter == "P", in_class=in_class)
        if letter in "123456789" and not in_class:
            return f"\\{letter}"
        raise self._wrong()

    def _of_class(self, characters: str, *, is_negated: bool, in_class: bool) -> str:
        if not in_class:
            return f"[{'^' if is_negated else ''}{characters}]"
        return _complement(characters) if is_negated else characters

    def _wrong(self) -> NoValue:
        return NoValue(f"{self._pattern!r} is no regular expression")


@lru_cache(maxsize=64)
def _of_category(name: str) -> str:
    """The characters of a category of Unicode, as ranges in a class. Raises `NoValue` for blocks, unknown to Python."""
    if name.startswith("Is"):
        raise NoValue(f"blocks of Unicode such as {name} are not known")
    return _ranges([code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith(name)])


@lru_cache(maxsize=64)
def _complement(characters: str) -> str:
    inside = re.compile(f"[{characters}]")
    return _ranges([code for code in range(sys.maxunicode + 1) if not inside.match(chr(code))])


def _ranges(codes: list[int]) -> str:
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
