r"""The regular expressions of XPath (F&O 5.6.1, XML Schema appendix F), which REGEX and REPLACE take, matched by RE2.

Patterns come from who asks, and from data; RE2 never backtracks, so that no pattern takes longer than its size times the
length of the text, and that product is bounded (`MOST_STEPS`). What XPath has and RE2 has not (`\i`, `\c`,
`[a-z-[aeiou]]`) is written out as ranges of characters; what needs backtracking is an `UnsupportedPattern`. What RE2 has
and XPath has not (`\b`, `(?i)`, named groups) is no expression here. `\w` has `_` and letters with accents: libraries of
SPARQL agree on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rpq.errors import QueryError, install_command
from rpq.sparql.character_sets import (
    CharacterSet,
    characters_of,
    complement,
    difference,
    of_category,
    union,
    with_other_case,
    word_characters,
)
from rpq.sparql.typed_values import NoValue

MOST_STEPS = 1 << 26
"""How often a character of a text may meet an instruction of a pattern in one call: at worst about a second."""

_MOST_STEPS_OF_ALL_SEARCHES = 4 * MOST_STEPS
"""The same of REPLACE, where the search for each match may look at all that follows."""
_LONGEST_PATTERN = 5_000
_LONGEST_TRANSLATION = 4_000_000
_LONGEST_RESULT = 1 << 24
"""Bytes of what REPLACE makes."""
_BYTES_A_PIECE = 16
"""What a group or a text of the replacement counts, beside its bytes, each time that it is written."""
_MEMORY = 2 << 20
"""Bytes of a pattern that is compiled."""

_BLANKS = characters_of(" \t\n\r")
_NAME_BEGINS = characters_of(
    ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME_GOES_ON = union(_NAME_BEGINS, characters_of("-.0-9\u00b7\u0300-\u036f\u203f-\u2040"))
_PLAIN_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"} | {sign: sign for sign in r"\|.?*+(){}-[]^$"}
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
_CATEGORY = re.compile(r"\{(Is[A-Za-z0-9-]+|[LMNPZSC][a-z]?)\}")
_PLAIN = re.compile(r"[^\\$]+")
_AROUND = ("?=", "?!", "?<=", "?<!")


class UnsupportedPattern(NoValue):
    """A pattern that cannot be matched here, by the name that `rpq.sparql.refused` has for the `construct` in it."""

    def __init__(self, construct: str) -> None:
        super().__init__(construct)
        self.construct = construct


@dataclass(frozen=True)
class RegularExpression:
    """A pattern that is compiled: RE2's."""

    program: Any

    def steps_over(self, data: bytes) -> int:
        """How many steps one search takes at most. Raises `NoValue` for a text that is too long for the pattern."""
        steps: int = self.program.programsize * len(data)
        if steps > MOST_STEPS:
            raise NoValue(f"a text of {len(data):,} bytes is too long for its pattern")
        return steps

    def matches(self, text: str) -> bool:
        """Whether it matches somewhere. Raises `NoValue` for a text that is too long for it."""
        data = _encoded(text)
        self.steps_over(data)
        return self.program.search(data) is not None


def require_engine() -> Any:
    """Return the package that compiles and matches. Raises `QueryError` where it is not installed."""
    try:
        import re2
    except ImportError:
        raise QueryError(f"REGEX and REPLACE need google-re2: {install_command('sparql')}") from None
    return re2


def compiled(pattern: str, flags: str) -> RegularExpression:
    """The expression that a pattern with flags (s, m, i, x, q) is. Raises `NoValue` for what is none.

    >>> compiled("^a.*[a-z-[aeiou]]$", "i").matches("ABC")
    True
    """
    found = _compiled(pattern, flags)
    if isinstance(found, NoValue):
        raise type(found)(*found.args)
    return found


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: str) -> RegularExpression | NoValue:
    """The same, with the error as a value: that a pattern is none is remembered as well."""
    engine = require_engine()
    try:
        if unknown := set(flags) - {"s", "m", "i", "x", "q"}:
            raise NoValue(f"there is no flag {min(unknown)} of regular expressions")
        if len(pattern) > _LONGEST_PATTERN:
            raise UnsupportedPattern("a regular expression that is too large")
        translated = engine.escape(pattern) if "q" in flags else _Translation(pattern, flags).translated()
        if len(translated) > _LONGEST_TRANSLATION:
            raise UnsupportedPattern("a regular expression that is too large")
        options = engine.Options()
        options.log_errors = False  # RE2 would write them to the standard error
        options.max_mem = _MEMORY
        chosen = "".join(sorted(set(flags) & {"s", "m", "i"}))
        return RegularExpression(engine.compile(f"(?{chosen})" * bool(chosen) + translated, options))
    except NoValue as problem:
        return problem
    except UnicodeEncodeError:
        return NoValue(f"{pattern!r} has half a surrogate pair")
    except engine.error as problem:
        said = str(problem)
        if "repetition size" in said:
            return UnsupportedPattern("a repetition of more than 1,000 in a regular expression")
        if "too large" in said:
            return UnsupportedPattern("a regular expression that is too large")
        return NoValue(f"{pattern!r} is no regular expression")


def replaced(text: str, pattern: str, replacement: str, flags: str) -> str:
    r"""Every match of a pattern in a text replaced (F&O 5.6.4).

    Raises `NoValue`, also where nothing at all is a match, and for what is too long.

    >>> replaced("abracadabra", "a(.)", "a$1$1", "")
    'abbraccaddabbra'
    """
    expression = compiled(pattern, flags)
    if expression.matches(""):
        raise NoValue(f"{pattern!r} matches the empty string, which cannot be replaced")
    pieces = [_encoded(replacement)] if "q" in flags else _pieces(replacement, expression.program.groups)
    data = _encoded(text)
    steps = expression.steps_over(data)
    made: list[bytes] = []
    length = end = 0
    for found in expression.program.finditer(data):
        instead = [piece if isinstance(piece, bytes) else (found[piece] or b"") for piece in pieces]
        made += [data[end : found.start()], *instead]
        length += found.start() - end + sum(map(len, instead)) + _BYTES_A_PIECE * len(instead)
        end = found.end()
        steps += expression.program.programsize * (len(data) - end)  # what the search for the next match may take
        if steps > _MOST_STEPS_OF_ALL_SEARCHES or length > _LONGEST_RESULT:
            raise NoValue(f"a text of {len(data):,} bytes is too long for so many replacements")
    return b"".join([*made, data[end:]]).decode()


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NoValue("a text has half a surrogate pair") from None


def _pieces(replacement: str, groups: int) -> list[bytes | int]:
    """The texts and groups that a replacement is made of."""
    pieces: list[bytes | int] = []
    place = 0
    while place < len(replacement):
        character, following = replacement[place], replacement[place + 1 : place + 2]
        if character == "\\":
            if following not in ("\\", "$"):
                raise NoValue(f"a backslash in the replacement {replacement!r} stands before \\ or $")
            pieces.append(following.encode())
            place += 2
        elif character == "$":
            digits = re.match(r"[0-9]{1,9}", replacement[place + 1 :])
            if digits is None:
                raise NoValue(f"a $ in the replacement {replacement!r} stands before a number")
            # As many digits as make the number of a group.
            length = next((n for n in range(len(digits[0]), 1, -1) if int(digits[0][:n]) <= groups), 1)
            number = int(digits[0][:length])
            pieces.append(number if number <= groups else b"")
            place += 1 + length
        else:
            plain = _PLAIN.match(replacement, place)
            assert plain is not None  # neither of the two signs stands here
            pieces.append(_encoded(plain[0]))
            place = plain.end()
    return pieces


class _Translation:
    """One pattern on its way to RE2."""

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._free = "x" in flags
        self._many_lines = "m" in flags
        self._ignores_case = "i" in flags
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
                if self._sees("?"):
                    made.append("?")
                    self._place += 1
                continue
            is_quantified = False
            made.append(self._one(character))
        return "".join(made)

    def _one(self, character: str) -> str:
        if character == "[":
            return self._written(self._class())
        if character == "\\":
            escape = self._escape()
            return f"\\x{{{ord(escape):x}}}" if isinstance(escape, str) else self._written(escape)
        self._place += 1
        if character in "{}]":
            raise self._wrong()
        if character == "(" and self._sees("?"):
            if self._sees(*_AROUND):
                raise UnsupportedPattern("look-around in a regular expression")
            if not self._sees("?:"):
                raise self._wrong()
            self._place += 2
            return "(?:"
        return r"\z" if character == "$" and not self._many_lines else character

    def _class(self) -> CharacterSet:
        """A class in brackets, perhaps without those of another."""
        self._place += 1
        is_negated = self._sees("^")
        self._place += is_negated
        characters: list[tuple[int, int]] = []
        others: list[CharacterSet] = []
        without: CharacterSet = ()
        while not (self._sees("]") and (characters or others)):
            if self._sees("-[") and (characters or others):
                self._place += 1
                without = self._class()
                if not self._sees("]"):
                    raise self._wrong()
                break
            first = self._member()
            is_range = self._sees("-") and not self._sees("-]", "-[", "--[")
            if not isinstance(first, str):
                if is_range:
                    raise self._wrong()
                others.append(first)
                continue
            last = first
            if is_range:
                self._place += 1
                end = self._member()
                if not isinstance(end, str) or end < first:
                    raise self._wrong()
                last = end
            characters.append((ord(first), ord(last)))
        self._place += 1
        found = union(characters)
        if self._ignores_case:  # which is about characters as they are written, and not about categories (F&O 5.6.1.1)
            found = with_other_case(found)
        found = union(found, *others)
        return difference(complement(found) if is_negated else found, without)

    def _member(self) -> str | CharacterSet:
        """A character of a class, or what an escape stands for."""
        character = self._pattern[self._place : self._place + 1]
        if not character or character in "[]":
            raise self._wrong()
        if character == "\\":
            return self._escape()
        self._place += 1
        return character

    def _escape(self) -> str | CharacterSet:
        """The character that an escape is, or the characters that it stands for."""
        letter = self._pattern[self._place + 1 : self._place + 2]
        self._place += 2
        if not letter:
            raise self._wrong()
        if letter in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[letter]
        if letter in "pP" and (category := _CATEGORY.match(self._pattern, self._place)):
            self._place = category.end()
            if category[1].startswith("Is"):
                raise NoValue(f"blocks of Unicode such as {category[1]} are not known")
            found = of_category(category[1])
        elif letter in "123456789":
            raise UnsupportedPattern("a back-reference in a regular expression")
        elif letter.lower() in "sdwic":
            found = _of_letter(letter.lower())
        else:
            raise self._wrong()
        return complement(found) if letter.isupper() else found

    def _written(self, characters: CharacterSet) -> str:
        """A class of RE2, whatever the case of letters means elsewhere."""
        written = _as_ranges(characters)
        return f"(?-i:{written})" if self._ignores_case else written

    def _sees(self, *texts: str) -> bool:
        return self._pattern.startswith(texts, self._place)

    def _wrong(self) -> NoValue:
        return NoValue(f"{self._pattern!r} is no regular expression")


def _of_letter(letter: str) -> CharacterSet:
    """What `\\s`, `\\d`, `\\w`, `\\i` and `\\c` stand for."""
    match letter:
        case "s":
            return _BLANKS
        case "d":
            return of_category("Nd")
        case "w":
            return word_characters()
    return _NAME_BEGINS if letter == "i" else _NAME_GOES_ON


@lru_cache(maxsize=64)
def _as_ranges(characters: CharacterSet) -> str:
    if not characters:
        return r"[^\x00-\x{10ffff}]"
    ranges = (f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in characters)
    return f"[{''.join(ranges)}]"
