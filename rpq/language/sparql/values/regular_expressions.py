r"""The regular expressions of XPath (F&O 5.6.1, XML Schema appendix F) for REGEX and REPLACE, matched by RE2.

Patterns come from users and from data. RE2 never backtracks, so a match takes at most the size of the pattern times the
length of the text, and that product is bounded (`MAX_STEPS`). Constructs of XPath that RE2 lacks (`\i`, `\c`,
`[a-z-[aeiou]]`, a negated class inside another as in `[\I:]`) are translated to unions and complements of ranges of code
points; constructs that need backtracking raise `UnsupportedPattern`. Constructs of RE2 that XPath lacks (`\b`, `(?i)`,
named groups) are errors. `\w` includes `_` and accented letters, as in other SPARQL libraries.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from rpq.errors import QueryError, install_command
from rpq.language.sparql.values.typed_values import NoValue

CharacterSet = tuple[tuple[int, int], ...]
"""Ranges from a first to a last code point, in order, with gaps between them."""


def union(*sets: Iterable[tuple[int, int]]) -> CharacterSet:
    """Return the characters that are in any of the sets; the ranges of a set can have any order.

    >>> union([(97, 99)], [(100, 101), (48, 57)])
    ((48, 57), (97, 101))
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(one for ranges in sets for one in ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def complement(characters: CharacterSet) -> CharacterSet:
    """Return all characters that are not in the set.

    >>> complement(((0, 47), (58, sys.maxunicode)))
    ((48, 57),)
    """
    firsts = [0, *(last + 1 for _, last in characters)]
    lasts = [*(first - 1 for first, _ in characters), sys.maxunicode]
    return tuple((first, last) for first, last in zip(firsts, lasts, strict=True) if first <= last)


def difference(characters: CharacterSet, without: CharacterSet) -> CharacterSet:
    """Return the characters of the first set that are not in the second."""
    return complement(union(complement(characters), without))


def characters_of(text: str) -> CharacterSet:
    """Return the characters in a text, where `a-z` is a range, as in a class.

    >>> characters_of("a-c_")
    ((95, 95), (97, 99))
    """
    ranges = re.findall(r"(.)(?:-(.))?", text, re.DOTALL)
    return union([(ord(first), ord(last or first)) for first, last in ranges])


def with_other_case(characters: CharacterSet) -> CharacterSet:
    """Return a set extended by the other case of its letters. O(letters in the set).

    >>> with_other_case(((97, 98),))
    ((65, 66), (97, 98))
    """
    letters, alike = _letters_alike()
    more: list[tuple[int, int]] = []
    for first, last in characters:
        for letter in letters[bisect_left(letters, first) : bisect_right(letters, last)]:
            more += [(other, other) for other in alike[letter]]
    return union(characters, more)


@lru_cache(maxsize=1)
def _letters_alike() -> tuple[list[int], dict[int, list[int]]]:
    """Return the letters that have case, in order, and for each letter those that differ from it in case alone."""
    together: dict[str, list[int]] = {}
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        capital = letter.upper()
        small = (capital if len(capital) == 1 else letter).lower()
        if small != letter or capital != letter:
            together.setdefault(small, []).append(code)
    alike = {code: codes for codes in together.values() if len(codes) > 1 for code in codes}
    return sorted(alike), alike


@lru_cache(maxsize=64)
def category_characters(name: str) -> CharacterSet:
    """Return the characters of a Unicode category (`Lu`), or of a group of categories (`L`)."""
    return union(*(ranges for category, ranges in _categories().items() if category.startswith(name)))


@lru_cache(maxsize=1)
def word_characters() -> CharacterSet:
    r"""Return the characters that `\w` matches: letters, numbers and `_`."""
    return union(category_characters("L"), category_characters("N"), characters_of("_"))


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for category, codes in groupby(range(sys.maxunicode + 1), lambda code: unicodedata.category(chr(code))):
        first, *others = codes
        found.setdefault(category, []).append((first, others[-1] if others else first))
    return found


MAX_STEPS = 1 << 26
"""The limit of pattern instructions times text bytes in one call: at worst about a second."""

_MAX_STEPS_OF_ALL_SEARCHES = 4 * MAX_STEPS
"""The same limit for all searches of one REPLACE, each of which can scan the rest of the text."""
_LONGEST_PATTERN = 5_000
_LONGEST_TRANSLATION = 4_000_000
_LONGEST_RESULT = 1 << 24
"""The limit of a result of REPLACE, in bytes."""
_BYTES_A_PIECE = 16
"""The cost of each group or text of the replacement, in addition to its bytes, for every match."""
_MEMORY = 2 << 20
"""The memory limit of a compiled pattern, in bytes."""

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
_LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")


class UnsupportedPattern(NoValue):
    """A pattern that RE2 cannot match; `construct` is a key of `rpq.language.sparql.syntax.source_text.REFUSED`."""

    def __init__(self, construct: str) -> None:
        super().__init__(construct)
        self.construct = construct


@dataclass(frozen=True)
class RegularExpression:
    """A compiled pattern of RE2."""

    program: Any

    def steps_over(self, data: bytes) -> int:
        """Return the maximum number of steps of one search. Raises `NoValue` if the text is too long for the pattern."""
        steps: int = self.program.programsize * len(data)
        if steps > MAX_STEPS:
            raise NoValue(f"a text of {len(data):,} bytes is too long for its pattern")
        return steps

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches anywhere. Raises `NoValue` if the text is too long for the pattern."""
        data = _encode(text)
        self.steps_over(data)
        return self.program.search(data) is not None


def require_engine() -> Any:
    """Return the package that compiles and matches patterns. Raises `QueryError` if it is not installed."""
    try:
        import re2
    except ImportError:
        raise QueryError(f"REGEX and REPLACE need google-re2: {install_command('sparql')}") from None
    return re2


def compile_pattern(pattern: str, flags: str) -> RegularExpression:
    """Compile a pattern with flags (s, m, i, x, q). Raises `NoValue` for an invalid pattern.

    >>> compile_pattern("^a.*[a-z-[aeiou]]$", "i").matches("ABC")
    True
    """
    found = _compile_pattern(pattern, flags)
    if isinstance(found, NoValue):
        raise type(found)(*found.args)
    return found


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str, flags: str) -> RegularExpression | NoValue:
    """Return the compiled pattern, or the error as a value, so that errors are cached too."""
    engine = require_engine()
    try:
        if unknown := set(flags) - {"s", "m", "i", "x", "q"}:
            raise NoValue(f"unknown flag {min(unknown)} of a regular expression")
        if len(pattern) > _LONGEST_PATTERN:
            raise UnsupportedPattern("a regular expression that is too large")
        translated = engine.escape(pattern) if "q" in flags else _Translation(pattern, flags).translate()
        if len(translated) > _LONGEST_TRANSLATION:
            raise UnsupportedPattern("a regular expression that is too large")
        options = engine.Options()
        options.log_errors = False  # otherwise RE2 writes them to the standard error
        options.max_mem = _MEMORY
        inline_flags = "".join(sorted(set(flags) & {"s", "m", "i"}))
        return RegularExpression(engine.compile(f"(?{inline_flags})" * bool(inline_flags) + translated, options))
    except NoValue as problem:
        return problem
    except UnicodeEncodeError:
        return NoValue(f"{pattern!r} has half a surrogate pair")
    except engine.error as problem:
        message = str(problem)
        if "repetition size" in message:
            return UnsupportedPattern("a repetition of more than 1,000 in a regular expression")
        if "too large" in message:
            return UnsupportedPattern("a regular expression that is too large")
        return NoValue(f"{pattern!r} is not a regular expression")


def replace_matches(text: str, pattern: str, replacement: str, flags: str) -> str:
    r"""Replace every match of a pattern in a text (F&O 5.6.4).

    Raises `NoValue` if the pattern matches the empty string, and for texts and results that are too long.

    >>> replace_matches("abracadabra", "a(.)", "a$1$1", "")
    'abbraccaddabbra'
    """
    expression = compile_pattern(pattern, flags)
    if expression.matches(""):
        raise NoValue(f"{pattern!r} matches the empty string, which cannot be replaced")
    pieces = [_encode(replacement)] if "q" in flags else _pieces(replacement, expression.program.groups)
    data = _encode(text)
    steps = expression.steps_over(data)
    parts: list[bytes] = []
    length = end = 0
    for found in expression.program.finditer(data):
        instead = [piece if isinstance(piece, bytes) else (found[piece] or b"") for piece in pieces]
        parts += [data[end : found.start()], *instead]
        length += found.start() - end + sum(map(len, instead)) + _BYTES_A_PIECE * len(instead)
        end = found.end()
        steps += expression.program.programsize * (len(data) - end)  # an upper bound for the next search
        if steps > _MAX_STEPS_OF_ALL_SEARCHES or length > _LONGEST_RESULT:
            raise NoValue(f"a text of {len(data):,} bytes is too long for so many replacements")
    return b"".join([*parts, data[end:]]).decode()


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NoValue("a text has half a surrogate pair") from None


def _pieces(replacement: str, groups: int) -> list[bytes | int]:
    """Split a replacement into its texts and group numbers."""
    pieces: list[bytes | int] = []
    place = 0
    while place < len(replacement):
        character, following = replacement[place], replacement[place + 1 : place + 2]
        if character == "\\":
            if following not in ("\\", "$"):
                raise NoValue(f"a backslash in the replacement {replacement!r} must precede \\ or $")
            pieces.append(following.encode())
            place += 2
        elif character == "$":
            digits = re.match(r"[0-9]{1,9}", replacement[place + 1 :])
            if digits is None:
                raise NoValue(f"a $ in the replacement {replacement!r} must precede a number")
            # Use as many digits as form the number of a group.
            length = next((n for n in range(len(digits[0]), 1, -1) if int(digits[0][:n]) <= groups), 1)
            number = int(digits[0][:length])
            pieces.append(number if number <= groups else b"")
            place += 1 + length
        else:
            plain = _PLAIN.match(replacement, place)
            assert plain is not None  # neither \ nor $ is at this place
            pieces.append(_encode(plain[0]))
            place = plain.end()
    return pieces


class _Translation:
    """The translation of one pattern to the syntax of RE2."""

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._free = "x" in flags
        self._many_lines = "m" in flags
        self._ignores_case = "i" in flags
        self._place = 0

    def translate(self) -> str:
        parts: list[str] = []
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
                parts.append(quantifier[0])
                self._place = quantifier.end()
                is_quantified = True
                if self._sees("?"):
                    parts.append("?")
                    self._place += 1
                continue
            is_quantified = False
            parts.append(self._one(character))
        return "".join(parts)

    def _one(self, character: str) -> str:
        if character == "[":
            return self._class_text(self._class())
        if character == "\\":
            escape = self._escape()
            return f"\\x{{{ord(escape):x}}}" if isinstance(escape, str) else self._class_text(escape)
        self._place += 1
        if character in "{}]":
            raise self._wrong()
        if character == "(" and self._sees("?"):
            if self._sees(*_LOOKAROUNDS):
                raise UnsupportedPattern("look-around in a regular expression")
            if not self._sees("?:"):
                raise self._wrong()
            self._place += 2
            return "(?:"
        return r"\z" if character == "$" and not self._many_lines else character

    def _class(self) -> CharacterSet:
        """Read a class in brackets, including a class that is subtracted from it."""
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
        if self._ignores_case:  # this applies to the characters of a class, but not to categories (F&O 5.6.1.1)
            found = with_other_case(found)
        found = union(found, *others)
        return difference(complement(found) if is_negated else found, without)

    def _member(self) -> str | CharacterSet:
        """Read a character of a class, or the set of an escape."""
        character = self._pattern[self._place : self._place + 1]
        if not character or character in "[]":
            raise self._wrong()
        if character == "\\":
            return self._escape()
        self._place += 1
        return character

    def _escape(self) -> str | CharacterSet:
        """Read an escape: return its character or its set of characters."""
        letter = self._pattern[self._place + 1 : self._place + 2]
        self._place += 2
        if not letter:
            raise self._wrong()
        if letter in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[letter]
        if letter in "pP" and (category := _CATEGORY.match(self._pattern, self._place)):
            self._place = category.end()
            if category[1].startswith("Is"):
                raise NoValue(f"blocks of Unicode such as {category[1]} are not supported")
            found = category_characters(category[1])
        elif letter in "123456789":
            raise UnsupportedPattern("a back-reference in a regular expression")
        elif letter.lower() in "sdwic":
            found = _escape_characters(letter.lower())
        else:
            raise self._wrong()
        return complement(found) if letter.isupper() else found

    def _class_text(self, characters: CharacterSet) -> str:
        """Return a class in the syntax of RE2, whose letters match only their own case."""
        written = _as_ranges(characters)
        return f"(?-i:{written})" if self._ignores_case else written

    def _sees(self, *texts: str) -> bool:
        return self._pattern.startswith(texts, self._place)

    def _wrong(self) -> NoValue:
        return NoValue(f"{self._pattern!r} is not a regular expression")


def _escape_characters(letter: str) -> CharacterSet:
    """Return the characters that `\\s`, `\\d`, `\\w`, `\\i` or `\\c` matches."""
    match letter:
        case "s":
            return _BLANKS
        case "d":
            return category_characters("Nd")
        case "w":
            return word_characters()
    return _NAME_BEGINS if letter == "i" else _NAME_GOES_ON


@lru_cache(maxsize=64)
def _as_ranges(characters: CharacterSet) -> str:
    if not characters:
        return r"[^\x00-\x{10ffff}]"
    ranges = (f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in characters)
    return f"[{''.join(ranges)}]"
