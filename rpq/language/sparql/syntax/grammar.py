"""A private copy of rdflib's SPARQL grammar, with places in the text, numbers as written, and better errors.

rdflib parses a text to a tree of `CompValue`s. The copy differs from the original in these points:

- Every node has a `place` in the text, and every leaf is a `Leaf`, which also has a place.
- Numbers and strings keep their spelling (rdflib reads `007` as `7`).
- `^a` in a negated set keeps its label.
- The triples of a block are parsed in a loop, whereas the original recurses once per triple.
- `<` is not an operator where an IRI begins, as in `?x<?a&&?b>?y`.
- A path may be followed by numbers of repetitions, `{2}`, `{2,}`, `{,4}` or `{2,4}`, as in QLever.
- A second copy records the furthest place at which parsing failed and reports the error there, whereas the original
  reports the beginning of the enclosing group.

The original grammar is not modified, so other users of rdflib in the process are not affected.
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
from rpq.language.sparql.syntax.source_text import SourceText

LeafKind = Literal["variable", "iri", "blank", "anonymous", "number", "string"]

_BLANK = re.compile(r"(?:\s+|#[^\r\n]*)*")
_IRI = re.compile(r"<[^<>\"{}|^`\\\x00-\x20]*>")
_REPETITIONS = re.compile(r"\s*\{\s*(?:\d+\s*(?:,\s*\d*\s*)?|,\s*\d+\s*)\}", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MAX_NAMED = 8
_REFUSED = frozenset({"SERVICE", "DESCRIBE"})
"""Keywords of the grammar that the language refuses; error messages do not suggest them."""
_KINDS_OF_LEAVES = {
    "?": "a variable", "$": "a variable", "<": "an IRI", ":": "a prefixed name", '"': "a literal", "_:": "a blank node",
    "true": "a literal", "false": "a literal", "[": "a blank node",
}  # fmt: skip
_lock = Lock()


@dataclass(frozen=True)
class Leaf:
    """A term as it appears in the text: a variable name, an unresolved IRI, a number, or the content of a string."""

    kind: LeafKind
    text: str
    place: int


def parse(source: SourceText, text: str) -> Any:
    """Parse a text of plain SPARQL, whose places match those of `source`. Raises `SparqlError`, `QueryError`."""
    try:
        import rdflib.plugins.sparql  # noqa: F401  # pyparsing may be installed without rdflib
        from pyparsing import ParseBaseException, ParserElement
    except ImportError:
        raise QueryError(f"SPARQL needs rdflib: {install_command('sparql')}") from None
    with _lock:  # only one thread builds the copies
        try:
            return _grammar().parse_string(text, parse_all=True)
        except ParseBaseException:
            with suppress(RecursionError):
                place, expected = _furthest(text)
                raise _problem(source, text, place, expected) from None
        except RecursionError:
            pass
        finally:
            # Matplotlib makes pyparsing cache errors, whose frames hold the objects of all callers.
            ParserElement.reset_cache()
    raise source.error("the query is nested too deep", None)


def _problem(source: SourceText, text: str, place: int, expected: set[str]) -> SparqlError:
    found = text[place:]
    before = re.search(r"[^\W\d]\w*$", text[:place])
    if expected == {":"} and before:  # the word could only have been a prefix
        place = before.start()
        words = sorted(_keywords())
        keywords = {word.upper(): word for word in words}
        if before[0].upper() in keywords:
            return source.error(f"unexpected {before[0]}", place)
        near = [keywords[one] for one in get_close_matches(before[0].upper(), list(keywords), 1, 0.8)]
        hint = f"did you mean {near[0]}?" if near else "a prefixed name has a colon"
        return source.error(f"unexpected {before[0]}: {hint}", place)
    if not found.strip():
        return source.error("the query ends too early", len(text.rstrip()), _describe_tokens(expected) or None)
    token = next((one.text for one in SourceText(found, found).tokens()), found[:1])
    if token[0].isalpha() and (near := get_close_matches(token.upper(), [one.upper() for one in expected], 1, 0.8)):
        return source.error(f"unexpected {token}: did you mean {near[0]}?", place)
    if "!=" in expected and _IRI.fullmatch(token):  # an operator is valid here
        message = f"unexpected {token}, which reads as an IRI; for less-than, put a blank after <"
        return source.error(message, place)
    return source.error(f"unexpected {token}", place, _describe_tokens(expected) or None)


def _describe_tokens(expected: Iterable[str]) -> str:
    """Return a short list of the expected tokens: kinds of terms, signs, keywords, and "a function" for all functions."""
    expected = set(expected) - _REFUSED
    functions = expected & _function_words()
    if len(functions) > 3:  # otherwise only NOT and EXISTS
        expected = expected - functions | {"a function"}
    kinds = {**_KINDS_OF_LEAVES, "<": "<"} if "<=" in expected else _KINDS_OF_LEAVES
    named = {kinds.get(one, one) for one in expected}
    if "an IRI" in named:
        named.discard("a prefixed name")
    names = sorted(named, key=lambda one: (not one.startswith(("a ", "an ", "the ")), not one[0].isalpha(), one))
    return ", ".join(names[:_MAX_NAMED]) + (" …" if len(names) > _MAX_NAMED else "")


# --- the copies ------------------------------------------------------------------------------------------------------


@cache
def _grammar() -> Any:
    """Return the copy that parses texts."""
    from pyparsing import ParserElement
    from rdflib.plugins.sparql import parser
    from rdflib.plugins.sparql.parserutils import Comp, CompValue

    grammar, elements = _copy_grammar()
    actions = _actions(parser)
    for element in elements:
        if element.parseAction and element.parseAction[0] in actions:
            element.set_parse_action(actions[element.parseAction[0]])

    def place(text: str, start: int, found: Any) -> None:
        if isinstance(found[0], CompValue):
            found[0].place = _skip_blanks(text, start)

    for element in elements:
        if isinstance(element, Comp):
            element.add_parse_action(place)
            if element.name == "InversePath":  # the original drops the inner path
                vars(element)["postParse"] = lambda text, place, found: CompValue("InversePath", part=found[1])
    assert isinstance(grammar, ParserElement)
    return grammar


def _skip_blanks(text: str, place: int) -> int:
    """Return the place after blanks and comments; pyparsing reports the place before them."""
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _copy_grammar() -> tuple[Any, list[Any]]:
    """Return a copy of the grammar, and all its elements."""
    from pyparsing import Optional, ParserElement, Regex, Suppress, ZeroOrMore
    from rdflib.plugins.sparql import parser
    from rdflib.plugins.sparql.parserutils import Param, ParamList

    nothing = Optional(".").defaultValue  # compared by identity
    memory: dict[int, Any] = {id(nothing): nothing}
    grammar = copy.deepcopy(parser.Query, memory).parse_with_tabs()
    repetitions = Regex(_REPETITIONS.pattern, _REPETITIONS.flags).leave_whitespace()
    memory[id(parser.PathMod)].exprs.append(repetitions)
    elements = [*(one for one in memory.values() if isinstance(one, ParserElement)), repetitions]
    for block, name, triples in (
        (parser.TriplesBlock, "triples", parser.TriplesSameSubjectPath),
        (parser.ConstructTriples, "template", parser.TriplesSameSubject),
    ):
        one, dot = ParamList(name, memory[id(triples)]), Suppress(".")
        block_of_triples = one + ZeroOrMore(dot + one) + Optional(dot)
        content = block_of_triples
        if block is parser.ConstructTriples:
            content, more = _with_graphs(block_of_triples, memory[id(parser.VarOrIri)])
            elements += more
        for element in grammar.ignoreExprs:
            content.ignore(element)
        memory[id(block)].expr = content
        elements += [one, dot.expr]
    for element in elements:
        if isinstance(element, Param) and getattr(element.expr, "match", None) in ("<", "<="):
            element.expr.add_condition(_is_no_iri)
    return grammar, elements


def _with_graphs(triples: Any, graph: Any) -> tuple[Any, list[Any]]:
    """Return the content of a template, some triples of which may be in graphs, and its new elements.

    It is that of the templates of updates: Quads in the standard.
    """
    from pyparsing import CaselessKeyword, Optional, Suppress, ZeroOrMore
    from rdflib.plugins.sparql.parserutils import Comp, Param, ParamList

    keyword, opening, closing, dot = CaselessKeyword("GRAPH"), *map(Suppress, "{}.")
    named = Comp("GraphTemplate", keyword + Param("term", graph) + opening + Optional(triples) + closing)
    one = ParamList("template", named)
    content = Optional(triples) + ZeroOrMore(one + Optional(dot) + Optional(triples))
    return content, [keyword, named, one, *(sign.expr for sign in (opening, closing, dot))]


def _is_no_iri(text: str, place: int, found: Any) -> bool:
    """Return whether a `<` is an operator: an IRI at this place is the longer token, and wins (§19.8 of the standard)."""
    return _IRI.match(text, _skip_blanks(text, place)) is None


def _actions(parser: Any) -> dict[Any, Callable[..., Any]]:
    """Return the parse actions for the leaves of the copy, by the corresponding actions of the original."""

    def leaf(kind: LeafKind) -> Callable[..., Leaf]:
        return lambda text, place, found: Leaf(kind, found[0], _skip_blanks(text, place))

    def unquote(length: int) -> Callable[..., Leaf]:
        def action(text: str, place: int, found: Any) -> Leaf:
            content = _ESCAPED.sub(lambda escape: ESCAPES.get(escape[1], escape[1]), found[0][length:-length])
            return Leaf("string", content, _skip_blanks(text, place))

        return action

    def with_sign(sign: str) -> Callable[..., Leaf]:
        return lambda text, place, found: Leaf("number", sign + found[0].text, _skip_blanks(text, place))

    actions: list[tuple[Any, Callable[..., Any]]] = [
        (parser.Var, leaf("variable")),
        (parser.IRIREF, leaf("iri")),
        (parser.BLANK_NODE_LABEL, lambda text, place, found: Leaf("blank", found[0][2:], _skip_blanks(text, place))),
        (parser.ANON, lambda text, place, found: Leaf("anonymous", f".{place}", _skip_blanks(text, place))),
        (parser.INTEGER, leaf("number")),
        (parser.DECIMAL, leaf("number")),
        (parser.DOUBLE, leaf("number")),
        (parser.INTEGER_POSITIVE, with_sign("+")),
        (parser.INTEGER_NEGATIVE, with_sign("-")),
        (parser.DECIMAL_NEGATIVE, with_sign("-")),
        (parser.DOUBLE_NEGATIVE, with_sign("-")),
        (parser.STRING_LITERAL1, unquote(1)),
        (parser.STRING_LITERAL2, unquote(1)),
        (parser.STRING_LITERAL_LONG1, unquote(3)),
        (parser.STRING_LITERAL_LONG2, unquote(3)),
    ]
    return {element.parseAction[0]: action for element, action in actions}


# --- places of errors ------------------------------------------------------------------------------------------------


class _Furthest:
    """The furthest place of a text at which parsing failed, and the tokens that are valid there."""

    def __init__(self) -> None:
        self.place = 0
        self.expected: set[str] = set()

    def record_failure(self, text: str, place: int, element: Any, error: Any) -> None:
        if getattr(element, "match", "") == "#":  # not a comment
            return
        # A keyword that continues with other letters fails behind its end.
        reached = _skip_blanks(text, place) if hasattr(element, "identChars") else error.loc
        if reached > self.place:
            self.place = reached
            self.expected = set()
        if reached == self.place:
            self.expected.add(_meaning(element))


@cache
def _recording_grammar() -> tuple[Any, list[_Furthest]]:
    """Return the copy that records failures, and the stack of its current recorders."""
    from pyparsing import ParseElementEnhance, ParseExpression

    grammar, elements = _copy_grammar()
    recorders: list[_Furthest] = []

    def record_failure(text: str, place: int, element: Any, error: Any) -> None:
        recorders[-1].record_failure(text, place, element, error)

    for element in elements:
        if not isinstance(element, (ParseExpression, ParseElementEnhance)):
            element.set_fail_action(record_failure)
    return grammar, recorders


def _furthest(text: str) -> tuple[int, set[str]]:
    from pyparsing import ParseBaseException

    grammar, recorders = _recording_grammar()
    furthest = _Furthest()
    recorders.append(furthest)
    try:
        grammar.parse_string(text, parse_all=True)
    except ParseBaseException as problem:
        if problem.loc > furthest.place and "end of text" in problem.msg:  # the text continues after a complete query
            return problem.loc, {"the end of the query"}
    finally:
        recorders.pop()
    furthest.expected.discard("")
    return furthest.place, furthest.expected


def _meaning(element: Any) -> str:
    """Return the token or kind of term that a leaf of the grammar matches."""
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
    return tuple(_copy_grammar()[1])


@cache
def _function_words() -> frozenset[str]:
    """Return the keywords that begin function calls."""
    from rdflib.plugins.sparql import parser

    words: set[str] = set()
    pending: list[Any] = [parser.BuiltInCall]
    while pending:
        element = pending.pop()
        inner = getattr(element, "exprs", None)
        if hasattr(element, "match"):
            words.add(str(element.match))
        elif type(element).__name__ == "And" and inner:
            pending.append(inner[0])
        elif inner:
            pending.extend(inner)
        elif getattr(element, "expr", None) is not None:
            pending.append(element.expr)
    return frozenset(words)
