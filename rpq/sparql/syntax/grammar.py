"""rdflib's grammar of SPARQL, in a copy of our own: with places, with numbers as they were written, and with better errors.

What rdflib makes of a text is a tree of `CompValue`s. The copy differs from the original in these points:

- every node has a `place` in the text, and what stands at the leaves is a `Leaf`, which has one too;
- numbers and strings keep what was written (rdflib makes `7` of `007`);
- `^a` in a negated set keeps its label;
- triples of a block follow one another in a loop, where the original calls itself once a triple;
- `<` is no operator where an IRI begins: in `?x<?a&&?b>?y` one does;
- a second copy remembers the furthest place at which anything failed: there the error is, whereas the original names the
  beginning of the group that holds it.

The original stays as it is, for others in the process who use rdflib.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from threading import Lock
from typing import Any, Literal

from rpq.automata.symbols import ESCAPES
from rpq.errors import QueryError, SparqlError, install_command
from rpq.sparql.syntax.source_text import SourceText

LeafKind = Literal["variable", "iri", "blank", "anonymous", "number", "string"]

_BLANK = re.compile(r"(?:\s+|#[^\r\n]*)*")
_IRI = re.compile(r"<[^<>\"{}|^`\\\x00-\x20]*>")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MOST_NAMED = 8
_REFUSED = frozenset({"GRAPH", "SERVICE", "DESCRIBE", "ORDER", "LIMIT", "OFFSET", "GROUP_CONCAT"})
"""Keywords that the grammar has and the language has not: an error does not advise to write them."""
_KINDS_OF_LEAVES = {
    "?": "a variable", "$": "a variable", "<": "an IRI", ":": "a prefixed name", '"': "a literal", "_:": "a blank node",
    "true": "a literal", "false": "a literal", "[": "a blank node",
}  # fmt: skip
_lock = Lock()


@dataclass(frozen=True)
class Leaf:
    """A term as it was written: the name of a variable, an IRI (not yet resolved), a number, the content of a string."""

    kind: LeafKind
    text: str
    place: int


def parse(source: SourceText, text: str) -> Any:
    """Parse a text of plain SPARQL, whose places are those of `source`. Raises `SparqlError`, `QueryError`."""
    try:
        import rdflib.plugins.sparql  # noqa: F401  # pyparsing may be there without it
        from pyparsing import ParseBaseException
    except ImportError:
        raise QueryError(f"SPARQL needs rdflib: {install_command('sparql')}") from None
    with _lock:  # the copies are not made for two at once
        try:
            return _grammar().parse_string(text, parse_all=True)
        except ParseBaseException:
            with suppress(RecursionError):
                place, expected = _furthest(text)
                raise _problem(source, text, place, expected) from None
        except RecursionError:
            pass
    raise source.error("the query is nested too deep", None)


def _problem(source: SourceText, text: str, place: int, expected: set[str]) -> SparqlError:
    found = text[place:]
    before = re.search(r"[^\W\d]\w*$", text[:place])
    if expected == {":"} and before:  # a word that could only have been a prefix
        place = before.start()
        words = sorted(_keywords())
        meant = {word.upper(): word for word in words}
        if before[0].upper() in meant:
            return source.error(f"unexpected {before[0]}", place)
        near = [meant[one] for one in get_close_matches(before[0].upper(), list(meant), 1, 0.8)]
        hint = f"did you mean {near[0]}?" if near else "a prefixed name has a colon"
        return source.error(f"unexpected {before[0]}: {hint}", place)
    if not found.strip():
        return source.error("the query ends too early", len(text.rstrip()), _named(expected))
    token = next((one.text for one in SourceText(found, found).tokens()), found[:1])
    if token[0].isalpha() and (near := get_close_matches(token.upper(), [one.upper() for one in expected], 1, 0.8)):
        return source.error(f"unexpected {token}: did you mean {near[0]}?", place)
    if "!=" in expected and _IRI.fullmatch(token):  # an operator could have stood here
        told = f"unexpected {token}: it is an IRI as it stands; put a blank behind < where less is meant"
        return source.error(told, place)
    return source.error(f"unexpected {token}", place, _named(expected))


def _named(expected: Iterable[str]) -> str:
    """Return a short list of what was expected: kinds of terms, signs, keywords, and "a function" for all functions."""
    expected = set(expected) - _REFUSED
    functions = expected & _function_words()
    if len(functions) > 3:  # else they are NOT and EXISTS alone
        expected = expected - functions | {"a function"}
    kinds = {**_KINDS_OF_LEAVES, "<": "<"} if "<=" in expected else _KINDS_OF_LEAVES
    named = {kinds.get(one, one) for one in expected}
    if "an IRI" in named:
        named.discard("a prefixed name")
    told = sorted(named, key=lambda one: (not one.startswith(("a ", "an ", "the ")), not one[0].isalpha(), one))
    return ", ".join(told[:_MOST_NAMED]) + (" …" if len(told) > _MOST_NAMED else "")


# --- the copies ------------------------------------------------------------------------------------------------------


@cache
def _grammar() -> Any:
    """Return the copy with which texts are parsed."""
    from pyparsing import ParserElement
    from rdflib.plugins.sparql import parser
    from rdflib.plugins.sparql.parserutils import Comp, CompValue

    grammar, elements = _copied()
    actions = _actions(parser)
    for element in elements:
        if element.parseAction and element.parseAction[0] in actions:
            element.set_parse_action(actions[element.parseAction[0]])

    def place(text: str, start: int, found: Any) -> None:
        if isinstance(found[0], CompValue):
            found[0].place = _behind_blanks(text, start)

    for element in elements:
        if isinstance(element, Comp):
            element.add_parse_action(place)
            if element.name == "InversePath":  # the original drops what is inverse
                vars(element)["postParse"] = lambda text, place, found: CompValue("InversePath", part=found[1])
    assert isinstance(grammar, ParserElement)
    return grammar


def _behind_blanks(text: str, place: int) -> int:
    """Return the place behind blanks and comments; pyparsing gives the place before them."""
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _copied() -> tuple[Any, list[Any]]:
    """Return a copy of the grammar, and all its elements."""
    from pyparsing import Optional, ParserElement, Suppress, ZeroOrMore
    from rdflib.plugins.sparql import parser
    from rdflib.plugins.sparql.parserutils import Param, ParamList

    nothing = Optional(".").defaultValue  # known by its identity
    memory: dict[int, Any] = {id(nothing): nothing}
    grammar = copy.deepcopy(parser.Query, memory).parse_with_tabs()
    elements = [one for one in memory.values() if isinstance(one, ParserElement)]
    for block, name, triples in (
        (parser.TriplesBlock, "triples", parser.TriplesSameSubjectPath),
        (parser.ConstructTriples, "template", parser.TriplesSameSubject),
    ):
        one, dot = ParamList(name, memory[id(triples)]), Suppress(".")
        block_of_triples = one + ZeroOrMore(dot + one) + Optional(dot)
        for element in grammar.ignoreExprs:
            block_of_triples.ignore(element)
        memory[id(block)].expr = block_of_triples
        elements += [one, dot.expr]
    for element in elements:
        if isinstance(element, Param) and getattr(element.expr, "match", None) in ("<", "<="):
            element.expr.add_condition(_is_no_iri)
    return grammar, elements


def _is_no_iri(text: str, place: int, found: Any) -> bool:
    """Return whether a `<` is an operator: if an IRI begins there, the longest token counts (§19.8 of the standard)."""
    return _IRI.match(text, _behind_blanks(text, place)) is None


def _actions(parser: Any) -> dict[Any, Callable[..., Any]]:
    """Return the parse actions of leaves in the copy by those in the original."""

    def leaf(kind: LeafKind) -> Callable[..., Leaf]:
        return lambda text, place, found: Leaf(kind, found[0], _behind_blanks(text, place))

    def quoted(length: int) -> Callable[..., Leaf]:
        def action(text: str, place: int, found: Any) -> Leaf:
            content = _ESCAPED.sub(lambda escape: ESCAPES.get(escape[1], escape[1]), found[0][length:-length])
            return Leaf("string", content, _behind_blanks(text, place))

        return action

    def signed(sign: str) -> Callable[..., Leaf]:
        return lambda text, place, found: Leaf("number", sign + found[0].text, _behind_blanks(text, place))

    made: list[tuple[Any, Callable[..., Any]]] = [
        (parser.Var, leaf("variable")),
        (parser.IRIREF, leaf("iri")),
        (parser.BLANK_NODE_LABEL, lambda text, place, found: Leaf("blank", found[0][2:], _behind_blanks(text, place))),
        (parser.ANON, lambda text, place, found: Leaf("anonymous", f".{place}", _behind_blanks(text, place))),
        (parser.INTEGER, leaf("number")),
        (parser.DECIMAL, leaf("number")),
        (parser.DOUBLE, leaf("number")),
        (parser.INTEGER_POSITIVE, signed("+")),
        (parser.INTEGER_NEGATIVE, signed("-")),
        (parser.DECIMAL_NEGATIVE, signed("-")),
        (parser.DOUBLE_NEGATIVE, signed("-")),
        (parser.STRING_LITERAL1, quoted(1)),
        (parser.STRING_LITERAL2, quoted(1)),
        (parser.STRING_LITERAL_LONG1, quoted(3)),
        (parser.STRING_LITERAL_LONG2, quoted(3)),
    ]
    return {element.parseAction[0]: action for element, action in made}


# --- where a text fails ----------------------------------------------------------------------------------------------


class _Furthest:
    """The furthest place of a text at which something failed, and what would have been right there."""

    def __init__(self) -> None:
        self.place = 0
        self.expected: set[str] = set()

    def failed(self, text: str, place: int, element: Any, error: Any) -> None:
        if getattr(element, "match", "") == "#":  # a comment that is none
            return
        # A keyword that goes on with other letters fails behind it.
        reached = _behind_blanks(text, place) if hasattr(element, "identChars") else error.loc
        if reached > self.place:
            self.place = reached
            self.expected = set()
        if reached == self.place:
            self.expected.add(_meaning(element))


@cache
def _failing() -> tuple[Any, list[_Furthest]]:
    """Return the copy that records failures, and the stack of its current recorders."""
    from pyparsing import ParseElementEnhance, ParseExpression

    grammar, elements = _copied()
    asking: list[_Furthest] = []

    def failed(text: str, place: int, element: Any, error: Any) -> None:
        asking[-1].failed(text, place, element, error)

    for element in elements:
        if not isinstance(element, (ParseExpression, ParseElementEnhance)):
            element.set_fail_action(failed)
    return grammar, asking


def _furthest(text: str) -> tuple[int, set[str]]:
    from pyparsing import ParseBaseException

    grammar, asking = _failing()
    furthest = _Furthest()
    asking.append(furthest)
    try:
        grammar.parse_string(text, parse_all=True)
    except ParseBaseException as problem:
        if problem.loc > furthest.place and "end of text" in problem.msg:  # something stands behind a whole query
            return problem.loc, {"the end of the query"}
    finally:
        asking.pop()
    furthest.expected.discard("")
    return furthest.place, furthest.expected


def _meaning(element: Any) -> str:
    """Return what a leaf of the grammar stands for."""
    from pyparsing import Regex

    if not isinstance(element, Regex):
        return str(getattr(element, "match", ""))
    pattern = str(element.pattern)
    if pattern.startswith(("'", '"')):
        return '"'
    if pattern.startswith(("[0-9]", "[0-9]*")):
        return "a number" if "A-Za-z" not in pattern else "a variable"
    return ":" if pattern.startswith("[A-Z") else pattern if len(pattern) < 3 else "_:" if pattern[0] == "_" else ""


@cache
def _keywords() -> frozenset[str]:
    from pyparsing import CaselessKeyword

    return frozenset(str(one.match) for one in _failing_elements() if isinstance(one, CaselessKeyword))


@cache
def _failing_elements() -> tuple[Any, ...]:
    return tuple(_copied()[1])


@cache
def _function_words() -> frozenset[str]:
    """Return the words with which calls of functions begin."""
    from rdflib.plugins.sparql import parser

    words: set[str] = set()
    waiting: list[Any] = [parser.BuiltInCall]
    while waiting:
        element = waiting.pop()
        inner = getattr(element, "exprs", None)
        if hasattr(element, "match"):
            words.add(str(element.match))
        elif type(element).__name__ == "And" and inner:
            waiting.append(inner[0])
        elif inner:
            waiting.extend(inner)
        elif getattr(element, "expr", None) is not None:
            waiting.append(element.expr)
    return frozenset(words)
