"""The functions on strings of section 17.4.3: terms in, terms out.

Each raises `NoValue` for arguments that are no strings, and where SPARQL has an error.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from rpq.sparql.operators import number_of
from rpq.sparql.regular_expressions import compiled, replaced
from rpq.sparql.terms import is_literal, literal_text, read_literal
from rpq.sparql.typed_values import NoValue, Text, boolean_term, integer_term, value_of


def string_of(term: str) -> Text:
    """The string that a term has as its value. Raises `NoValue`."""
    value = value_of(term)
    if not isinstance(value, Text):
        raise NoValue(f"{term} is no string")
    return value


def plain_string_of(term: str) -> str:
    """The string that a term has as its value, which must have no language. Raises `NoValue`."""
    value = string_of(term)
    if value.language:
        raise NoValue(f"{term} has a language")
    return value.text


def language_of(term: str) -> str:
    """The language of a term as it is written; empty for one without."""
    literal = read_literal(term) if is_literal(term) else None
    return "" if literal is None else literal.language


def strlen(term: str) -> str:
    """STRLEN: how many code points."""
    return integer_term(len(string_of(term).text))


def substr(term: str, start: str, length: str | None = None) -> str:
    """SUBSTR: from a place counted from 1.

    >>> substr('"foobar"', "4"), substr('"foobar"@en', "0", "3")
    ('"bar"', '"fo"@en')
    """
    text = string_of(term).text
    first = _integer(start)
    end = len(text) + 1 if length is None else first + _integer(length)
    return literal_text(text[max(first - 1, 0) : max(end - 1, 0)], language=language_of(term))


def concat(*terms: str) -> str:
    """CONCAT: in a language if all parts are in that one."""
    values = [string_of(term) for term in terms]
    languages = {value.language for value in values}
    language = language_of(terms[0]) if len(languages) == 1 else ""
    return literal_text("".join(value.text for value in values), language=language)


def strbefore(term: str, part: str) -> str:
    """STRBEFORE: what stands before the first place of a part; empty, and without a language, where there is none."""
    whole, cut = _compatible(term, part)
    before, found, _ = whole.partition(cut) if cut else ("", True, "")
    return literal_text(before, language=language_of(term)) if found else literal_text("")


def strafter(term: str, part: str) -> str:
    """STRAFTER: what stands behind the first place of a part; empty, and without a language, where there is none."""
    whole, cut = _compatible(term, part)
    _, found, after = whole.partition(cut) if cut else ("", True, whole)
    return literal_text(after, language=language_of(term)) if found else literal_text("")


def langmatches(language: str, wanted: str) -> str:
    """LANGMATCHES: the basic filtering of RFC 4647.

    >>> [langmatches(f'"{one}"', '"FR"') == boolean_term(True) for one in ("fr-BE", "fr", "frr", "")]
    [True, True, False, False]
    """
    tag, range_ = plain_string_of(language).lower(), plain_string_of(wanted).lower()
    return boolean_term(tag != "" if range_ == "*" else tag == range_ or (tag.startswith(f"{range_}-") and range_ != ""))


def encode_for_uri(term: str) -> str:
    """ENCODE_FOR_URI: everything but letters, digits and `-_.~` as bytes of UTF-8 in per cent."""
    return literal_text(quote(string_of(term).text.encode("utf-8", "surrogatepass"), safe="-_.~"))


def regex(term: str, pattern: str, flags: str = '""') -> str:
    """REGEX: whether a pattern matches somewhere."""
    expression = compiled(plain_string_of(pattern), plain_string_of(flags))
    return boolean_term(expression.matches(string_of(term).text))


def replace(term: str, pattern: str, replacement: str, flags: str = '""') -> str:
    """REPLACE: every match replaced."""
    made = replaced(string_of(term).text, plain_string_of(pattern), plain_string_of(replacement), plain_string_of(flags))
    return literal_text(made, language=language_of(term))


def changed(change: Callable[[str], str]) -> Callable[[str], str]:
    """A function that changes the text of a string, and leaves its language."""
    return lambda term: literal_text(change(string_of(term).text), language=language_of(term))


def tested(holds: Callable[[str, str], bool]) -> Callable[[str, str], str]:
    """A function that tests two strings which may be compared."""
    return lambda left, right: boolean_term(holds(*_compatible(left, right)))


def _compatible(left: str, right: str) -> tuple[str, str]:
    """Two strings, of which the second has no language, or that of the first (section 17.4.3.1.2)."""
    first, second = string_of(left), string_of(right)
    if second.language and second.language != first.language:
        raise NoValue(f"{left} and {right} are in different languages")
    return first.text, second.text


def _integer(term: str) -> int:
    number = number_of(term)
    if number.type != "integer":
        raise NoValue(f"{term} is no integer")
    return int(number.amount)
