"""Literals: constants in N-Triples form, and what they say."""

from __future__ import annotations

import re

from rpq.automata.symbols import ESCAPES

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)


def lexical_form(literal: str) -> str:
    r"""What stands between the quotes of a literal in N-Triples form; a text that is none stays as it is.

    >>> lexical_form('"30"^^<http://www.w3.org/2001/XMLSchema#integer>'), lexical_form('"say \\"hello\\""@en')
    ('30', 'say "hello"')
    """
    found = _LITERAL.fullmatch(literal)
    return literal if found is None else _ESCAPE.sub(_character, found[1])


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code is None:
        return ESCAPES.get(escape[3], escape[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else escape[0]
