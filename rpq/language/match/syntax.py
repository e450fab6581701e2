"""The syntax tree of a MATCH text, made by the grammar in `match.lark`, and errors that point to their place in the text.

Conditions are trees of `rpq.language.where`, whose names are variables (`a`) and properties (`e.amount`). `MatchExists` and
`AggregateCall` stand only where the grammar of MATCH has them. Every part has its place, an offset in the text.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import InvalidOperation
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from rpq.errors import MatchError, QueryError, did_you_mean, install_command
from rpq.language.where import (
    FUNCTIONS,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Logical,
    Name,
    Node,
    Not,
    WhereConstant,
    exact_number,
    negated,
)

if TYPE_CHECKING:
    from lark import Lark, Token

Dialect = Literal["gql", "cypher"]

LABELS_OF = "labels()"
"""The name of the labels of a node among its properties, which stands for the call of `labels`."""

AGGREGATES = ("count", "sum", "avg", "min", "max")

# --- the tree ------------------------------------------------------------------------------------------------------


class LabelTree(NamedTuple):
    """A label expression: a name, `%`, or an operator (`!`, `&`, `|`) over others."""

    operator: Literal["name", "%", "!", "&", "|"]
    name: str = ""
    parts: tuple[LabelTree, ...] = ()


class Property(NamedTuple):
    """A property and its value in `{amount: 1}`."""

    name: str
    value: WhereConstant
    at: int


@dataclass(frozen=True)
class NodePattern:
    """A node: `(a:Label {id: 'x'} WHERE …)`."""

    variable: str | None
    label: LabelTree | None
    properties: tuple[Property, ...]
    where: Node | None
    at: int

    @property
    def is_bare(self) -> bool:
        """True if the node has no labels and no conditions."""
        return self.label is None and not self.properties and self.where is None


class Quantifier(NamedTuple):
    """The number of repetitions of an edge or a path, at least `least`; without an upper bound, `most` is None."""

    least: int
    most: int | None
    text: str
    at: int
    is_cypher: bool = False
    """True if it is written as in Cypher, `*1..3`."""


Direction = Literal["right", "left", "either"]


@dataclass(frozen=True)
class EdgePattern:
    """An edge: `-[e:LABEL WHERE …]->{1,3}`."""

    variable: str | None
    label: LabelTree | None
    properties: tuple[Property, ...]
    where: Node | None
    direction: Direction
    quantifier: Quantifier | None
    at: int


@dataclass(frozen=True)
class QuantifiedGroup:
    """A quantified path in parentheses: `((x)-[:a]->(y)){1,3}`."""

    elements: tuple[Element, ...]
    where: Node | None
    quantifier: Quantifier
    at: int


Element = NodePattern | EdgePattern | QuantifiedGroup
PathMode = Literal["WALK", "TRAIL", "ACYCLIC", "SIMPLE"]


@dataclass(frozen=True)
class PathPattern:
    """A path of a clause, with the words before it."""

    is_any: bool
    mode: PathMode | None
    elements: tuple[Element, ...]
    at: int


@dataclass(frozen=True)
class GraphPattern:
    """The paths and the condition of a clause, or of an EXISTS."""

    different_edges: bool | None
    """True if the edges of a solution must differ; None if the text does not specify it."""
    paths: tuple[PathPattern, ...]
    where: Node | None
    at: int


@dataclass(frozen=True)
class Clause:
    """MATCH or OPTIONAL MATCH."""

    is_optional: bool
    pattern: GraphPattern
    at: int


@dataclass(frozen=True)
class MatchExists:
    """A condition: whether a pattern has a match."""

    pattern: GraphPattern
    column: int
    node: Name | None = None
    """The node whose labels the condition tests, as in `a:Account`; None for a pattern in braces."""
    returned_values: tuple[Any, ...] = ()
    """The items after RETURN. They have no effect, but may name only variables in scope."""


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate in RETURN; without an argument it counts rows."""

    function: str
    argument: Node | None
    is_distinct: bool
    column: int


@dataclass(frozen=True)
class Item:
    """A column of RETURN."""

    value: Any
    name: str | None
    text: str
    at: int


@dataclass(frozen=True)
class MatchText:
    """A whole text."""

    text: str
    clauses: tuple[Clause, ...]
    is_distinct: bool
    items: tuple[Item, ...]


# --- refused words -------------------------------------------------------------------------------------------------

REFUSED = {
    "ORDER": "ORDER BY is refused: a stream of changes has no order of rows; sort the rows after collecting them",
    "LIMIT": "LIMIT is refused: a stream of changes does not determine which rows remain; leave it out",
    "SKIP": "SKIP is refused: a stream of changes does not determine which rows to skip; leave it out",
    "OFFSET": "OFFSET is refused: a stream of changes does not determine which rows to skip; leave it out",
    "GROUP": "GROUP BY is refused: leave it out; the items of RETURN without an aggregate are the keys of the groups",
    "HAVING": "HAVING is refused: filter the rows of the groups after collecting them",
    "WITH": "WITH is refused: write all MATCH clauses one after the other, and the values in RETURN",
    "UNWIND": "UNWIND is refused: write the values in a condition, as in a.id IN ['x', 'y']",
    "FOR": "FOR is refused: write the values in a condition, as in a.id IN ['x', 'y']",
    "LET": "LET is refused: write the value where it is used",
    "CREATE": "CREATE is refused: edges arrive with the stream",
    "INSERT": "INSERT is refused: edges arrive with the stream",
    "MERGE": "MERGE is refused: edges arrive with the stream",
    "SET": "SET is refused: an edge with the same identity that arrives replaces the values of the one before",
    "REMOVE": "REMOVE is refused: the stream changes edges",
    "DELETE": "DELETE is refused: the stream deletes edges",
    "DETACH": "DETACH DELETE is refused: the stream deletes edges",
    "CALL": "CALL is refused: there are no procedures; write all paths in MATCH",
    "YIELD": "YIELD is refused: name the columns in RETURN",
    "UNION": "UNION is refused: write labels with |, or register a query for each part",
    "EXCEPT": "EXCEPT is refused: write NOT EXISTS { … }",
    "INTERSECT": "INTERSECT is refused: write EXISTS { … }",
    "NEXT": "NEXT is refused: write all MATCH clauses one after the other",
    "USE": "USE is refused: a query reads its stream",
    "FINISH": "FINISH is refused: name the columns in RETURN",
    "XOR": "XOR is refused: write (p AND NOT q) OR (q AND NOT p)",
    "CASE": "CASE is refused: write a query for each case, with its condition in WHERE",
    "STARTS": "STARTS WITH is refused: write starts_with(value, 'text')",
    "ENDS": "ENDS WITH is refused: write ends_with(value, 'text')",
    "CONTAINS": "CONTAINS is refused: write contains(value, 'text')",
    "ORDERED": "ORDERED is refused: paths in time order are written in the pattern notation, ?x (a+ in order) ?y",
}
"""Words that are refused where they stand in place of what the grammar expects, with what to write."""

REFUSED_SIGNS = {
    "!=": "!= is refused: write <>",
    "==": "== is refused: write =",
    "=~": "=~ is refused: write matches(value, 'expression')",
    "$": "parameters ($name) are refused: write the value",
    "||": "|| is refused: there is no concatenation of values",
    "^": "^ is refused: there are + - * / and %",
}
REFUSED_FUNCTIONS = {
    "collect": "the order of its values is not determined; return them as rows",
    "collect_list": "the order of its values is not determined; return them as rows",
    "type": "the label of an edge is no value; write the labels in its brackets, as in -[e:KNOWS|HATES]->",
    "id": "write the variable itself: a node is its name, an edge its number or id",
    "element_id": "write the variable itself: a node is its name, an edge its number or id",
    "elementid": "write the variable itself: a node is its name, an edge its number or id",
    "properties": "name the properties, as in e.amount",
    "keys": "name the properties, as in e.amount",
    "startnode": "name the node at the start of the edge",
    "endnode": "name the node at the end of the edge",
    "nodes": "there are no path variables; name the nodes of a path edge by edge",
    "relationships": "there are no path variables; name the edges of a path one by one",
    "size": "there are no lists; count(*) counts rows, and length(text) the letters of a text",
    "coalesce": "compute with the rows; in WHERE, write (x IS NULL OR …)",
}
"""Functions of GQL and Cypher that are refused by name, with what to write."""

_LISTS = "lists and maps are refused: return their values as columns, and write IN ['a', 'b'] in conditions"
_EXISTS = "exists(…) is refused: write x IS NOT NULL for a property, and EXISTS { … } for a path"
_PATTERN_IN_CONDITION = "a path as a condition is refused: write EXISTS { … } around it"
_EDGE_SIGNS = ("-[", "<-[", "-->", "<--", "--", "->", "<-", "~[")

# --- parsing -------------------------------------------------------------------------------------------------------


@functools.cache
def grammar() -> Lark:
    """Return the parser of the grammar. Raises `QueryError` without lark.

    Building its tables takes half a second. They are stored in the folder in which Python stores this module's bytecode.
    """
    try:
        from lark import Lark
        from lark import __version__ as version
    except ImportError as error:
        raise QueryError(f"MATCH needs the package lark: {install_command('match')}") from error
    text = files("rpq.language.match").joinpath("match.lark").read_text("utf-8")
    cache = _tables(version)
    return Lark(
        text,
        start="query",
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
        cache=False if cache is None else str(cache),
    )


def _tables(version: str) -> Path | None:
    """Return the file for the tables of the parser; None where no bytecode is written."""
    if sys.dont_write_bytecode:
        return None
    folder = Path(__file__).parent / "__pycache__"
    return folder / f"match.{sys.implementation.cache_tag}.lark-{version}" if folder.is_dir() else None


@functools.lru_cache(maxsize=256)
def parse(text: str) -> MatchText:
    """Parse a MATCH text. Raises `MatchError` at the place of an error, and for a construct that is refused. O(length).

    >>> tree = parse("MATCH (a)-[e:transfer]->(b) RETURN a, e.amount AS amount")
    >>> [item.name or item.text for item in tree.items]
    ['a', 'amount']
    """
    parser = grammar()
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

    try:
        tree = parser.parse(text)
        found: MatchText = _reader(text).transform(tree)
    except UnexpectedToken as error:
        at = len(text.rstrip()) if error.token.type == "$END" else int(error.token.start_pos or 0)
        word = "" if error.token.type == "$END" else str(error.token)
        raise _unexpected(text, at, word, error.accepts or error.expected) from None
    except UnexpectedCharacters as error:
        found_there = re.match(r"[^\W\d]\w*|!=|==|=~|\|\||.", text[error.pos_in_stream :], re.DOTALL)
        word = "" if found_there is None else found_there[0]
        raise _unexpected(text, error.pos_in_stream or 0, word, error.allowed or ()) from None
    except UnexpectedInput as error:
        raise match_error(text, getattr(error, "pos_in_stream", None) or 0, "the text is not understood") from None
    except VisitError as error:
        raise error.orig_exc from None
    except RecursionError:
        raise match_error(text, 0, "the text is nested too deeply") from None
    return found


def match_error(text: str, at: int, message: str, expected: str | None = None) -> MatchError:
    """Return an error at an offset in a text."""
    before = re.split(r"\r\n|\r|\n", text[:at])
    return MatchError(message, text=text, line=len(before), column=len(before[-1]) + 1, expected=expected)


def _unexpected(text: str, at: int, word: str, accepted: Iterable[str]) -> MatchError:
    """Return the error for a word that stands where the grammar does not expect it."""
    refusal = REFUSED.get(word.upper())
    if refusal is None:
        sign = text[at : at + 2]
        refusal = REFUSED_SIGNS.get(sign) or REFUSED_SIGNS.get(word)
    words = [name for name in sorted(accepted) if name != "$END"]
    is_path = any(text.startswith(sign, place) for sign in _EDGE_SIGNS for place in (at, at - 1) if place >= 0)
    if refusal is None and is_path and not {"AND", "EXISTS"}.isdisjoint(words) and "WALK" not in words:
        refusal = _PATTERN_IN_CONDITION
    if refusal is None and word == "(" and text[:at].rstrip().lower().endswith("exists"):
        refusal = _EXISTS
    if refusal is None and word in ("[", "{") and {"TEXT", "TRUE"} <= {*words}:
        refusal = _LISTS
    if refusal is None and word.upper() == "RETURN" and "MATCH" not in words and at > 0 and not text[:at].strip():
        refusal = "a text begins with MATCH"
    if refusal is not None:
        return match_error(text, at, refusal)
    found = f"unexpected {word!r}" if word else "the text ends too early"
    hint = did_you_mean(word.upper(), [one for one in words if one in _KEYWORDS]) if word else ""
    terminals = {one.name: one.pattern.value for one in grammar().terminals}
    listed = dict.fromkeys(_terminal_name(name, terminals, are_edges="WHERE" in words) for name in words)
    return match_error(text, at, f"{found}{hint}", ", ".join(listed) or "the end")


def _terminal_name(name: str, terminals: dict[str, str], *, are_edges: bool) -> str:
    """Return the name of a terminal of the grammar in an error. With `are_edges` an edge is expected there."""
    if name in _SHOWN_TERMINALS:
        return _SHOWN_TERMINALS[name]
    if name in _KEYWORDS:
        return name
    sign = terminals.get(name, name)
    return "an edge" if are_edges and sign[0] in "-<~" else repr(sign)


_SHOWN_TERMINALS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "INTEGER": "a number",
    "NUMBER": "a number",
    "TEXT": "a text in quotes",
    "COMPARISON": "a comparison",
    "EQUAL": "a comparison",
}
_KEYWORDS = frozenset(
    "ACYCLIC ALL AND ANY AS BETWEEN BINDINGS DIFFERENT DISTINCT EDGE EDGES ELEMENT ELEMENTS EXISTS FALSE IN IS LABELED "
    "MATCH NOT NULL OPTIONAL OR RELATIONSHIP RELATIONSHIPS REPEATABLE RETURN SHORTEST SIMPLE TRAIL TRUE WALK WHERE".split()
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


def _text_value(token: str) -> str:
    r"""Return the text that a token in quotes stands for. Raises `ValueError` for an escape of no character.

    >>> _text_value(r"'it''s \u0041'")
    "it's A"
    """
    quote, inner = token[0], token[1:-1]

    def unescape(found: re.Match[str]) -> str:
        escaped: str = found[0]
        if escaped[1] in "uU":
            code = None if found[1] is None else int(found[1], 16)
            if code is None or 0xD800 <= code < 0xE000:
                advice = "write \\u and four hexadecimal digits, or the character itself"
                raise ValueError(f"{escaped} is no character: {advice}")
            return chr(code)
        return quote if escaped == quote * 2 else _ESCAPES.get(escaped[1], escaped[1])

    return re.sub(rf"\\u([0-9a-fA-F]{{4}})|\\.|{quote}{quote}", unescape, inner, flags=re.DOTALL)


def _reader(text: str) -> Any:
    """Return the function object that makes the syntax tree of lark's tree."""
    from lark import Token, Transformer, v_args

    def start(meta: Any) -> int:
        return 0 if meta.empty else int(meta.start_pos)

    def refuse(at: int, message: str) -> NoReturn:
        raise match_error(text, at, message)

    def words(children: Sequence[Any]) -> list[str]:
        return [one.type for one in children if isinstance(one, Token)]

    def trees(children: Sequence[Any]) -> list[Any]:
        return [one for one in children if not isinstance(one, Token)]

    def of_type(children: Sequence[Any], kind: type | tuple[type, ...]) -> Any:
        return next((one for one in children if isinstance(one, kind)), None)

    class Where(NamedTuple):
        condition: Any

    class Properties(NamedTuple):
        all: tuple[Property, ...]

    class NameOf(NamedTuple):
        name: str
        at: int

    class ReadValue(NamedTuple):
        value: Any
        text: str

    class SetQuantifier(NamedTuple):
        is_distinct: bool

    class ReturnedValues(NamedTuple):
        values: tuple[Any, ...]

    class Mode(NamedTuple):
        different_edges: bool

    class Search(NamedTuple):
        is_any: bool

    class Filler(NamedTuple):
        children: tuple[Any, ...]

    @v_args(meta=True)
    class Reader(Transformer):  # type: ignore[type-arg]
        """Makes the syntax tree, bottom up; methods have the names of rules."""

        def name(self, meta: Any, children: list[Token]) -> NameOf:
            token = children[0]
            written = str(token)
            plain = written[1:-1].replace("``", "`") if token.type == "QUOTED" else written
            return NameOf(plain, start(meta))

        def value(self, meta: Any, children: list[Token]) -> WhereConstant:
            (token,), column = children, start(meta) + 1
            match token.type:
                case "TEXT":
                    try:
                        return WhereConstant(_text_value(str(token)), column=column)
                    except ValueError as error:
                        refuse(column - 1, str(error))
                case "TRUE" | "FALSE":
                    return WhereConstant(token.type == "TRUE", column=column)
            try:
                return WhereConstant(exact_number(token), column=column)
            except InvalidOperation:
                refuse(column - 1, "the exponent has too many digits")

        def negative_value(self, meta: Any, children: list[Token]) -> Node:
            return self.negative(meta, [self.value(meta, children[1:])])

        # --- labels

        def one_label(self, meta: Any, children: list[Any]) -> LabelTree:
            return LabelTree("name", children[0].name)

        def some_label(self, meta: Any, children: list[Any]) -> LabelTree:
            return LabelTree("%")

        def not_label(self, meta: Any, children: list[Any]) -> LabelTree:
            return LabelTree("!", parts=tuple(children))

        def both_labels(self, meta: Any, children: list[Any]) -> LabelTree:
            return LabelTree("&", parts=tuple(children))

        def either_label(self, meta: Any, children: list[Any]) -> LabelTree:
            return LabelTree("|", parts=tuple(children))

        # --- conditions

        def variable(self, meta: Any, children: list[NameOf]) -> Name:
            return Name(children[0].name, column=start(meta) + 1)

        def property(self, meta: Any, children: list[NameOf]) -> Name:
            if children[1].name == LABELS_OF:
                refuse(children[1].at, f"a property called {LABELS_OF} is refused: write labels(a) for the labels of a node")
            return Name(f"{children[0].name}.{children[1].name}", column=start(meta) + 1)

        def enclosed(self, meta: Any, children: list[Any]) -> Any:
            return children[0]

        def disjunction(self, meta: Any, children: list[Any]) -> Logical:
            return Logical("or", tuple(trees(children)), column=start(meta) + 1)

        def conjunction(self, meta: Any, children: list[Any]) -> Logical:
            return Logical("and", tuple(trees(children)), column=start(meta) + 1)

        def negation(self, meta: Any, children: list[Any]) -> Not:
            return Not(trees(children)[0], column=start(meta) + 1)

        def comparison(self, meta: Any, children: list[Any]) -> Comparison:
            left, sign, right = children
            return Comparison({"=": "==", "<>": "!="}.get(str(sign), str(sign)), left, right, column=start(meta) + 1)

        def is_in(self, meta: Any, children: list[Any]) -> In:
            inner, *values = trees(children)
            return In(inner, tuple(values), column=start(meta) + 1)

        def is_not_in(self, meta: Any, children: list[Any]) -> Not:
            return Not(self.is_in(meta, children), column=start(meta) + 1)

        def between(self, meta: Any, children: list[Any]) -> Between:
            inner, low, high = trees(children)
            return Between(inner, low, high, column=start(meta) + 1)

        def is_null(self, meta: Any, children: list[Any]) -> IsNull:
            return IsNull(trees(children)[0], column=start(meta) + 1)

        def is_not_null(self, meta: Any, children: list[Any]) -> Not:
            return Not(self.is_null(meta, children), column=start(meta) + 1)

        def arithmetic(self, meta: Any, children: list[Any]) -> Arithmetic:
            left, sign, right = children
            return Arithmetic(str(sign), left, right, column=start(meta) + 1)

        def negative(self, meta: Any, children: list[Any]) -> Node:
            inner, column = children[-1], start(meta) + 1
            return negated(inner, column)

        def exists_result(self, meta: Any, children: list[Any]) -> ReturnedValues:
            return ReturnedValues(tuple(one for one in trees(children) if not isinstance(one, SetQuantifier)))

        def has_labels(self, meta: Any, children: list[Any]) -> MatchExists | Not:
            named, label = trees(children)
            at = start(meta)
            if label.operator == "!":
                inner: Any = self.has_labels(meta, [named, label.parts[0]])
                return Not(inner, column=at + 1)
            if not isinstance(named, Name) or "." in named.name:
                refuse(at, "a label is that of a node: write its variable before it, as in a:Account")
            path = PathPattern(False, None, (NodePattern(named.name, label, (), None, at),), at)
            return MatchExists(GraphPattern(None, (path,), None, at), at + 1, named)

        def has_no_labels(self, meta: Any, children: list[Any]) -> Not:
            found: Any = self.has_labels(meta, children)
            return Not(found, column=start(meta) + 1)

        def exists(self, meta: Any, children: list[Any]) -> MatchExists:
            returned = of_type(children, ReturnedValues)
            return MatchExists(
                of_type(children, GraphPattern), start(meta) + 1, returned_values=() if returned is None else returned.values
            )

        def call(self, meta: Any, children: list[Any]) -> Any:
            named, *arguments = children
            quantified = of_type(arguments, SetQuantifier)
            values = [one for one in arguments if not isinstance(one, SetQuantifier)]
            function = named.name.lower()
            if function in AGGREGATES:
                if len(values) != 1:
                    refuse(named.at, f"{named.name} has one argument, not {len(values)}")
                return AggregateCall(function, values[0], quantified is not None and quantified.is_distinct, named.at + 1)
            if function == "labels":
                if quantified is not None or len(values) != 1 or not isinstance(values[0], Name) or "." in values[0].name:
                    refuse(named.at, f"{named.name} has the variable of a node as its argument, as in labels(a)")
                return Name(f"{values[0].name}.{LABELS_OF}", column=named.at + 1)
            if function in REFUSED_FUNCTIONS:
                refuse(named.at, f"{named.name} is refused: {REFUSED_FUNCTIONS[function]}")
            if quantified is not None:
                refuse(named.at, f"DISTINCT in {named.name} is refused: it stands in aggregates, {', '.join(AGGREGATES)}")
            if function not in FUNCTIONS:
                names = [*FUNCTIONS, *AGGREGATES]
                hint = did_you_mean(function, names)
                refuse(named.at, f"unknown function {named.name!r}: expected one of {', '.join(names)}{hint}")
            if len(values) != FUNCTIONS[function]:
                refuse(named.at, f"{function} has {FUNCTIONS[function]} arguments, not {len(values)}")
            return Call(function, tuple(values), column=named.at + 1)

        def call_of_rows(self, meta: Any, children: list[NameOf]) -> AggregateCall:
            named = children[0]
            if named.name.lower() != "count":
                refuse(named.at, f"{named.name}(*) is refused: count(*) alone counts rows")
            return AggregateCall("count", None, False, named.at + 1)

        def where(self, meta: Any, children: list[Any]) -> Where:
            return Where(children[-1])

        # --- nodes and edges

        def properties(self, meta: Any, children: list[Any]) -> Properties:
            pairs = zip(children[::2], children[1::2], strict=True)
            return Properties(tuple(Property(named.name, value, named.at) for named, value in pairs))

        def node(self, meta: Any, children: list[Any]) -> NodePattern:
            found = NodePattern(*self._filled(children), start(meta))
            for entry in found.properties:
                if entry.name.startswith(":"):
                    refuse(entry.at, f"{entry.name!r} is no name of a property of a node: it begins with a colon")
            return found

        def _filled(self, children: Sequence[Any]) -> tuple[str | None, LabelTree | None, tuple[Property, ...], Any]:
            named, label = of_type(children, NameOf), of_type(children, LabelTree)
            properties, where = of_type(children, Properties), of_type(children, Where)
            return (
                None if named is None else named.name,
                label,
                () if properties is None else properties.all,
                None if where is None else where.condition,
            )

        def edge_filler(self, meta: Any, children: list[Any]) -> Filler:
            return Filler(tuple(children))

        def _edge(self, meta: Any, children: list[Any], direction: Direction) -> EdgePattern:
            filler = of_type(children, Filler)
            inside = () if filler is None else filler.children
            quantifiers = [one for one in (*inside, *children) if isinstance(one, Quantifier)]
            if len(quantifiers) > 1:
                refuse(quantifiers[1].at, f"{quantifiers[1].text} is a second quantifier of the edge: write one")
            quantifier = quantifiers[0] if quantifiers else None
            return EdgePattern(*self._filled(inside), direction, quantifier, start(meta))

        def right(self, meta: Any, children: list[Any]) -> EdgePattern:
            return self._edge(meta, children, "right")

        def left(self, meta: Any, children: list[Any]) -> EdgePattern:
            return self._edge(meta, children, "left")

        def either(self, meta: Any, children: list[Any]) -> EdgePattern:
            return self._edge(meta, children, "either")

        bare_right, bare_left, bare_either = right, left, either

        def undirected(self, meta: Any, children: list[Any]) -> EdgePattern:
            refuse(start(meta), "an undirected edge (~) is refused: edges have a direction; -[…]- matches either one")

        # --- quantifiers

        def _quantifier(self, meta: Any, least: int, most: int | None, *, is_cypher: bool = False) -> Quantifier:
            at, written = start(meta), text[start(meta) : int(meta.end_pos)]
            if least == 0:
                least_text = "+" if most is None else f"{{1,{most}}}"
                if is_cypher:
                    least_text = "*" if most is None else f"*1..{most}"
                refuse(
                    at,
                    f"{written} is refused: a path has at least one edge here; write {least_text}, and a query without the "
                    "path for its absence",
                )
            if most is not None and most < least:
                refuse(at, f"{written} is empty: {most} is less than {least}")
            return Quantifier(least, most, written, at, is_cypher)

        def times(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, int(children[0]), int(children[0]))

        def times_from(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, int(children[0]), int(children[1]) if len(children) > 1 else None)

        def times_to(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, 0, int(children[0]))

        def plus(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, 1, None)

        def star(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, 0, None)

        def question_mark(self, meta: Any, children: list[Any]) -> Quantifier:
            refuse(
                start(meta), "? is refused: a path has at least one edge here; write OPTIONAL MATCH for a path that may lack"
            )

        def any_length(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, 1, None, is_cypher=True)

        def exact_length(self, meta: Any, children: list[Any]) -> Quantifier:
            number = self._numbers(children)[0]
            return self._quantifier(meta, number, number, is_cypher=True)

        def length_from(self, meta: Any, children: list[Any]) -> Quantifier:
            least, *most = self._numbers(children)
            return self._quantifier(meta, least, most[0] if most else None, is_cypher=True)

        def length_to(self, meta: Any, children: list[Any]) -> Quantifier:
            return self._quantifier(meta, 1, self._numbers(children)[0], is_cypher=True)

        @staticmethod
        def _numbers(children: Sequence[Token]) -> list[int]:
            return [int(one) for one in children if one.type == "INTEGER"]

        # --- paths

        def any_path(self, meta: Any, children: list[Any]) -> Search:
            return Search(True)

        def all_paths(self, meta: Any, children: list[Any]) -> Search:
            if "SHORTEST" in words(children):
                refuse(start(meta), "ALL SHORTEST is refused: paths themselves are not returned; write ANY SHORTEST")
            return Search(False)

        def shortest_paths(self, meta: Any, children: list[Any]) -> Search:
            refuse(start(meta), "SHORTEST with a number is refused: paths themselves are not returned; write ANY SHORTEST")

        def path_mode(self, meta: Any, children: list[Token]) -> str:
            return children[0].type

        def path(self, meta: Any, children: list[Any]) -> tuple[Element, ...]:
            return tuple(children)

        def group(self, meta: Any, children: list[Any]) -> QuantifiedGroup:
            where = of_type(children, Where)
            condition = None if where is None else where.condition
            return QuantifiedGroup(children[0], condition, of_type(children, Quantifier), start(meta))

        def path_pattern(self, meta: Any, children: list[Any]) -> PathPattern:
            if (named := of_type(children, NameOf)) is not None:
                self._refuse_path_variable(named)
            search, mode = of_type(children, Search), of_type(children, str)
            return PathPattern(search is not None and search.is_any, mode, children[-1], start(meta))

        def path_function(self, meta: Any, children: list[Any]) -> PathPattern:
            *named, function, path = trees(children)
            if named:
                self._refuse_path_variable(named[0])
            if function.name.lower() not in ("shortestpath", "allshortestpaths"):
                hint = did_you_mean(function.name.lower(), ["shortestpath"]).replace("shortestpath", "shortestPath")
                refuse(function.at, f"unknown function {function.name!r} around a path: expected shortestPath{hint}")
            if function.name.lower() != "shortestpath":
                advice = "paths themselves are not returned; write ANY SHORTEST before the path, or shortestPath(…)"
                refuse(function.at, f"{function.name}(…) is refused: {advice}")
            return PathPattern(True, None, path, start(meta))

        def _refuse_path_variable(self, named: NameOf) -> NoReturn:
            refuse(
                named.at,
                f"the path variable {named.name} is refused: several paths can have the same ends, and its value would not "
                "be determined; leave it out: the witness of a row lists the edges of one path",
            )

        # --- clauses

        def repeatable_elements(self, meta: Any, children: list[Any]) -> Mode:
            return Mode(False)

        def different_edges(self, meta: Any, children: list[Any]) -> Mode:
            return Mode(True)

        def graph_pattern(self, meta: Any, children: list[Any]) -> GraphPattern:
            mode, where = of_type(children, Mode), of_type(children, Where)
            paths = tuple(one for one in children if isinstance(one, PathPattern))
            different_edges = None if mode is None else mode.different_edges
            return GraphPattern(different_edges, paths, None if where is None else where.condition, start(meta))

        def clause(self, meta: Any, children: list[Any]) -> Clause:
            return Clause("OPTIONAL" in words(children), of_type(children, GraphPattern), start(meta))

        def distinct(self, meta: Any, children: list[Any]) -> SetQuantifier:
            return SetQuantifier(True)

        def all_rows(self, meta: Any, children: list[Any]) -> SetQuantifier:
            return SetQuantifier(False)

        def all_columns(self, meta: Any, children: list[Any]) -> Item:
            refuse(start(meta), "RETURN * is refused: name the columns, as in RETURN a, b")

        def written(self, meta: Any, children: list[Any]) -> ReadValue:
            return ReadValue(children[0], " ".join(text[start(meta) : int(meta.end_pos)].split()))

        def item(self, meta: Any, children: list[Any]) -> Item:
            value, alias = of_type(children, ReadValue), of_type(children, NameOf)
            return Item(value.value, None if alias is None else alias.name, value.text, start(meta))

        def query(self, meta: Any, children: list[Any]) -> MatchText:
            quantified = of_type(children, SetQuantifier)
            return MatchText(
                text,
                tuple(one for one in children if isinstance(one, Clause)),
                quantified is not None and quantified.is_distinct,
                tuple(one for one in children if isinstance(one, Item)),
            )

    return Reader()
