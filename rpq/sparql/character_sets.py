r"""Sets of characters as ranges of code points: the classes of regular expressions, and what they are made of.

A class of XPath can be taken away from another (`[a-z-[aeiou]]`), and a negated one stand inside another (`[\I:]`), which
other notations do not have. As ranges all of them are unions and complements.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

CharacterSet = tuple[tuple[int, int], ...]
"""Ranges from a first to a last code point, in order, with gaps between them."""


def union(*sets: Iterable[tuple[int, int]]) -> CharacterSet:
    """Return the characters that are in any of some sets, of which each may have its ranges in any order.

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
    """Return all other characters.

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
    """Return the characters that a text is made of: `a-z` is a range, as in a class.

    >>> characters_of("a-c_")
    ((95, 95), (97, 99))
    """
    ranges = re.findall(r"(.)(?:-(.))?", text, re.DOTALL)
    return union([(ord(first), ord(last or first)) for first, last in ranges])


def with_other_case(characters: CharacterSet) -> CharacterSet:
    """Return a set with the capital or small letters of its letters. O(letters in the set).

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
    """The letters that have two cases, in order, and with each of them all that differ from it in case alone."""
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
def of_category(name: str) -> CharacterSet:
    """Return the characters of a category of Unicode (`Lu`), or of a group of them (`L`)."""
    return union(*(ranges for category, ranges in _categories().items() if category.startswith(name)))


@lru_cache(maxsize=1)
def word_characters() -> CharacterSet:
    r"""Return what `\w` matches: letters, numbers and `_`."""
    return union(of_category("L"), of_category("N"), characters_of("_"))


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for category, codes in groupby(range(sys.maxunicode + 1), lambda code: unicodedata.category(chr(code))):
        first, *others = codes
        found.setdefault(category, []).append((first, others[-1] if others else first))
    return found
