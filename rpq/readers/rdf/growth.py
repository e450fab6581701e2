"""Limits on the bytes that a document of RDF stands for: few bytes may stand for many.

Prefixes, bases, and subjects that are written once for many statements make much of few bytes: a document of N bytes can
stand for N² bytes, and with entities for exponentially many. Documents that are written for use stand for five to fifty
times their bytes; collections of digits, each of which makes two statements, stand for 130 to 240 times theirs. `TermGrowth`
counts the statements of any syntax as they are written out. That suffices if the parser passes statements on one by one; but
it keeps the nodes of JSON-LD and the values of entities, so that posts and messages are examined before they are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, TypeAlias

from rpq.errors import InputError
from rpq.readers.source import LONGEST_LINE, check_size
from rpq.stream.gc_pause import gc_paused

_ENTITY = re.compile(rb'<!ENTITY\s+([^\s%"&<>;]+)\s+"([^"<]*)"\s*>')
_REFERENCE = re.compile(rb"&([^\s#&;<]+);")

MAX_GROWTH = 16
"""How many times as large the entities of a document in RDF/XML may make it, besides a megabyte."""

MAX_TERM_GROWTH, FREE_TERM_BYTES = 250, 1 << 24
"""How many times as large as an input its statements may be when each is written out, besides 16 MB."""

_TOO_LARGE = (
    f"written out in full, its statements have over {MAX_TERM_GROWTH} times as many bytes; expected shorter prefixes and "
    "subjects"
)


class GrowthError(Exception):
    """A document stands for too many bytes; the message is the reason. `line` is the place, if it is known."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TermGrowth:
    """The bytes of an input that were `read`, and of its statements, each written out in full.

    >>> growth = TermGrowth()
    >>> growth.read = 100
    >>> growth.count_statements(b"a line")
    """

    def __init__(self) -> None:
        self.read = 0
        self._written = 0

    def count_statements(self, lines: bytes) -> None:
        """Count further statements. Raises `GrowthError` if there are too many bytes of them, or if one is too long."""
        self._written += len(lines)
        if self._written > MAX_TERM_GROWTH * self.read + FREE_TERM_BYTES:
            raise GrowthError(_TOO_LARGE)
        if len(lines) > LONGEST_LINE and max(map(len, lines.split(b"\n"))) > LONGEST_LINE:
            raise GrowthError(
                f"a statement written out in full is longer than {LONGEST_LINE:,} bytes; expected shorter IRIs"
            )


def check_entities(data: bytes, *, name: str) -> None:
    """Raise `InputError` for RDF/XML from elsewhere whose entities make much of few bytes.  O(bytes).

    The parser replaces entities in entities, so that a document of a thousand bytes could stand for terabytes.

    >>> check_entities(b'<!DOCTYPE r [<!ENTITY a "aaa"> <!ENTITY b "&a;&a;">]>', name="it")
    >>> check_entities(b"<!DOCTYPE r [<!ENTITY a SYSTEM 'a.txt'>]>", name="it")
    Traceback (most recent call last):
    rpq.errors.InputError: it: declares an entity that is not a plain text; expected <!ENTITY name "text">
    """
    declared = data.count(b"<!ENTITY")
    if not declared:
        return
    entities = _ENTITY.findall(data)
    if len(entities) != declared:
        raise InputError(f'{name}: declares an entity that is not a plain text; expected <!ENTITY name "text">')
    lengths: dict[bytes, int] = {}
    for entity, text in entities:  # each may contain those before it
        length = len(text) + sum(lengths.get(one, 0) for one in _REFERENCE.findall(text))
        lengths[entity] = max(length, lengths.get(entity, 0))
    left = MAX_GROWTH * len(data) + (1 << 20)
    for reference in _REFERENCE.finditer(data):
        left -= lengths.get(reference[1], 0)
        if left < 0:
            raise InputError(f"{name}: its entities stand for over {MAX_GROWTH} times as many bytes; write them out")


_Pairs: TypeAlias = tuple[tuple[str, Any], ...]
"""An object of JSON: a name can occur several times."""

_SMALL_JSON = 6_000
"""The bytes of a document that cannot exceed `FREE_TERM_BYTES`: at most 3/8 of their square."""


def check_json_growth(data: bytes, *, most_bytes: int | None = None) -> None:
    """Raise `GrowthError` if the statements of a document of JSON-LD may have too many bytes. O(bytes).

    The parser keeps the statements of a node or of a graph in memory until it has read all of it. Their bytes are estimated
    from the longest IRI that contexts can make of a name, and the longest names and ids in the objects around each value.
    Raises `InputSizeError` if they may have over `most_bytes`, and over `FREE_TERM_BYTES`.

    >>> check_json_growth(b'{"@id": "x:a", "x:p": [1, 2]}')
    """
    limit = MAX_TERM_GROWTH * len(data) + FREE_TERM_BYTES
    if most_bytes is not None:
        limit = min(limit, max(most_bytes, FREE_TERM_BYTES))
    if len(data) <= _SMALL_JSON or _is_surely_small(data, limit):
        return
    try:
        with gc_paused():
            text = data.decode("utf-8-sig", "replace")
            document = json.loads(text, object_pairs_hook=tuple, parse_int=str, parse_float=str)
            contexts = list(_contexts_of(document))
            depth = _depth(document) if contexts else 0
            size = _written_size(document, _id_names(contexts), depth, 0, 0)
    except RecursionError:
        raise GrowthError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        message = f"is no JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        raise GrowthError(message, line=error.lineno) from None
    if size > MAX_TERM_GROWTH * len(data) + FREE_TERM_BYTES:
        raise GrowthError(_TOO_LARGE)
    check_size(size, most_bytes=limit, name="a document of JSON-LD")


def _is_surely_small(data: bytes, limit: int) -> bool:
    """Return whether a document has at most one context, and no name so long that its values could have over `limit` bytes.

    That is so of most documents, and is known without reading all of the document as JSON.
    """
    contexts = data.count(b'"@context"')
    if contexts > 1 or b"\\u" in data:
        return False
    expansion = 0
    if contexts:
        _, _, rest = data.partition(b'"@context"')
        text = rest.decode(errors="replace").lstrip()
        try:
            context, _ = json.JSONDecoder(object_pairs_hook=tuple).raw_decode(text.removeprefix(":").lstrip())
            expansion = _expansion(context, 0, 0)
        except (ValueError, RecursionError):
            return False
    values = data.count(b",") + data.count(b"{") + data.count(b"[") + 1  # each but the first of a list is behind a comma
    longest = limit // (3 * values) - expansion
    return longest > 0 and re.search(rb'"[^"\s]{%d}' % longest, data) is None


def _written_size(value: Any, id_names: Collection[str], depth: int, expansion: int, longest: int) -> int:
    """Return an upper bound on the bytes that the values in a value contribute to statements.

    `expansion` is the length of the longest IRI that contexts make of a name, and `longest` that of names and ids around it.
    """
    if isinstance(value, list):
        return sum(_written_size(one, id_names, depth, expansion, longest) for one in value)
    if not isinstance(value, tuple):
        return 3 * (expansion + longest) + (len(value) if isinstance(value, str) else 0)
    for name, one in value:
        if name == "@context":
            expansion = _expansion(one, depth, expansion)
        else:
            is_id = isinstance(one, str) and name in id_names
            longest = max(longest, len(name), len(one) if is_id else 0)
    rest = (one for name, one in value if name != "@context")
    return sum(_written_size(one, id_names, depth, expansion, longest) for one in rest)


class _Lengths(NamedTuple):
    """The longest IRI of a context, and the most that it appends to one of the contexts around it."""

    absolute: int
    relative: int


def _expansion(context: Any, depth: int, outer: int) -> int:
    """Return the length of the longest IRI that a context makes of a name, where those around it make one of `outer`."""
    for one in context if isinstance(context, list) else [context]:
        if isinstance(one, tuple):
            found = _lengths(one)
            outer = max(found.absolute, outer + found.relative)
            # A context in the definition of a term applies whenever the term occurs, also within itself.
            scoped = [_lengths(inner) for inner in _contexts_of(one) if isinstance(inner, tuple)]
            outer += max((inner.absolute for inner in scoped), default=0) + depth * sum(inner.relative for inner in scoped)
    return outer


def _lengths(context: _Pairs) -> _Lengths:
    """Return the lengths of the IRIs that the definitions of a context make."""
    definitions: dict[str, list[str]] = {}
    for name, value in context:
        given = [one for key, one in value if key != "@context"] if isinstance(value, tuple) else [value]
        definitions.setdefault(name, []).extend(one for one in given if isinstance(one, str))
    known: dict[str, _Lengths] = {}

    def of_name(name: str) -> _Lengths:
        if name not in known:
            known[name] = _Lengths(0, 0)  # a cycle is an error of the parser
            found = [of_text(text) for text in definitions[name]]
            known[name] = _Lengths(max((one[0] for one in found), default=0), max((one[1] for one in found), default=0))
        return known[name]

    def of_text(text: str) -> _Lengths:
        prefix, colon, rest = text.partition(":")
        if rest.startswith("//"):
            return _Lengths(len(text), 0)
        base = prefix if colon and prefix in definitions else text if text in definitions else "@vocab"
        inner = of_name(base) if base in definitions else _Lengths(0, 0)
        return _Lengths(inner.absolute + len(text) if inner.absolute else 0, inner.relative + len(text))

    found = [of_name(name) for name in definitions]
    return _Lengths(max((one.absolute for one in found), default=0), max((one.relative for one in found), default=0))


def _contexts_of(value: Any) -> Iterator[Any]:
    """Yield the contexts in a value, also those in contexts."""
    if isinstance(value, list):
        for one in value:
            yield from _contexts_of(one)
    elif isinstance(value, tuple):
        for name, one in value:
            if name == "@context":
                yield from one if isinstance(one, list) else [one]
            yield from _contexts_of(one)


def _id_names(contexts: Collection[Any]) -> set[str]:
    """Return the names that can stand for `@id`."""
    pairs = [(name, one) for context in contexts if isinstance(context, tuple) for name, one in context]
    found = {"@id"}
    while True:
        more = {
            name
            for name, one in pairs
            if (isinstance(one, str) and one in found)
            or (isinstance(one, tuple) and any(isinstance(text, str) and text in found for key, text in one if key == "@id"))
        }
        if more <= found:
            return found
        found |= more


def _depth(value: Any) -> int:
    """Return the number of values within each other."""
    if isinstance(value, tuple):
        value = [one for _, one in value]
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
