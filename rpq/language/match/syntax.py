"""From a MATCH text to its syntax tree, by the grammar in `match.lark`, and errors that point to their place in the text."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rpq.errors import MatchError, QueryError, did_you_mean, install_command
from rpq.language.match.tree import (
    AGGREGATES,
    GRAPH_FUNCTIONS,
    LABELS_OF,
    AggregateCall,
    Attribute,
    Case,
    Clause,
    Comprehension,
    CountOf,
    Direction,
    EdgePattern,
    Element,
    GraphPattern,
    Index,
    InList,
    Item,
    LabelTree,
    ListOf,
    ListSlice,
    MapOf,
    MatchExists,
    MatchText,
    NodePattern,
    Null,
    Parameter,
    PathPattern,
    Projection,
    Property,
    QuantifiedGroup,
    QuantifiedList,
    Quantifier,
    QueryPart,
    Reduce,
    SingleQuery,
    SortItem,
    Unwind,
)
from rpq.language.match.values.functions import FUNCTIONS, MAX_RANGE
from rpq.language.where import (
    Arithmetic,
    Between,
    Call,
    Comparison,
    IsNull,
    Logical,
    Name,
    Not,
    WhereConstant,
    exact_number,
    negated,
)

if TYPE_CHECKING:
    from lark import Lark, Token


# --- refused words -------------------------------------------------------------------------------------------------

REFUSED = {
    "GROUP": "GROUP BY is refused: leave it out; the items of RETURN without an aggregate are the keys of the groups",
    "HAVING": "HAVING is refused: write WITH and a WHERE behind it",
    "FOR": 'FOR is refused: write UNWIND list AS x, with language="cypher"',
    "LET": "LET is refused: write the value where it is used",
    "FILTER": "FILTER is refused: write WHERE behind MATCH or WITH",
    "CREATE": "CREATE is refused: edges arrive with the stream",
    "INSERT": "INSERT is refused: edges arrive with the stream",
    "MERGE": "MERGE is refused: edges arrive with the stream",
    "SET": "SET is refused: an edge with the same identity that arrives replaces the values of the one before",
    "REMOVE": "REMOVE is refused: the stream changes edges",
    "DELETE": "DELETE is refused: the stream deletes edges",
    "DETACH": "DETACH DELETE is refused: the stream deletes edges",
    "CALL": "CALL is refused: there are no procedures and no subqueries in rows; write all paths in MATCH",
    "YIELD": "YIELD is refused: name the columns in RETURN",
    "LOAD": "LOAD CSV is refused: rpq run reads files, and facts of nodes with --nodes",
    "FOREACH": "FOREACH is refused: the stream changes edges",
    "EXCEPT": "EXCEPT is refused: write NOT EXISTS { … }",
    "INTERSECT": "INTERSECT is refused: write EXISTS { … }",
    "NEXT": 'NEXT is refused: write WITH between the clauses, with language="cypher"',
    "USE": "USE is refused: a query reads its stream",
    "FINISH": "FINISH is refused: name the columns in RETURN",
    "ORDERED": "ORDERED is refused: paths in time order are written in the pattern notation, ?x (a+ in order) ?y",
}
"""Words that are refused where they stand in place of what the grammar expects, with what to write."""

REFUSED_SIGNS = {
    "==": "== is refused: write =",
    "||": "|| is refused: + joins texts, and lists",
}
REFUSED_FUNCTIONS = {
    "properties": "name the properties, as in a.amount",
    "keys": "name the properties, as in a.amount",
    "rand": "the rows of a query depend on the graph alone",
    "randomuuid": "the rows of a query depend on the graph alone",
}
"""Functions of GQL and Cypher that are refused by name, with what to write."""

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
    >>> [item.name or item.text for item in tree.queries[0].parts[0].projection.items]
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
        sign = "==" if text[max(at - 1, 0) : at + 1] == "==" else text[at : at + 2]
        refusal = REFUSED_SIGNS.get(sign) or REFUSED_SIGNS.get(word)
    words = [name for name in sorted(accepted) if name != "$END"]
    is_path = any(text.startswith(sign, place) for sign in _EDGE_SIGNS for place in (at, at - 1) if place >= 0)
    if refusal is None and is_path and not {"AND", "EXISTS"}.isdisjoint(words) and "WALK" not in words:
        refusal = "a path as a condition begins with a node in parentheses, as in (a)-[:T]->(b)"
    if refusal is None and word.upper() in ("WITH", "UNWIND", "UNION", "ORDER", "LIMIT") and "RBRACE" in words:
        refusal = f"{word.upper()} in EXISTS {{ … }} and COUNT {{ … }} is refused: a pattern and its WHERE stand there"
    if refusal is None and word == "{" and "PLUS" in words:
        refusal = "a map projection, a{.x}, is refused: return the properties as columns"
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
    "ACYCLIC ALL AND ANY AS ASC BETWEEN BINDINGS BY CASE CONTAINS DESC DIFFERENT DISTINCT EDGE EDGES ELEMENT ELEMENTS ELSE "
    "END ENDS EXISTS FALSE IN IS LABELED LIMIT MATCH NOT NULL OFFSET OPTIONAL OR ORDER RELATIONSHIP RELATIONSHIPS "
    "REPEATABLE RETURN SHORTEST SIMPLE SKIP STARTS THEN TRAIL TRUE UNION UNWIND WALK WHEN WHERE WITH XOR".split()
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
        is_shortest: bool = False

    class Filler(NamedTuple):
        children: tuple[Any, ...]

    class Order(NamedTuple):
        items: tuple[SortItem, ...]

    class Skip(NamedTuple):
        value: Any

    class Limit(NamedTuple):
        value: Any

    class Results(NamedTuple):
        has_all: bool
        items: tuple[Item, ...]

    class Branch(NamedTuple):
        condition: Any
        value: Any

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
                number = exact_number(token)
            except InvalidOperation:
                refuse(column - 1, "the exponent has too many digits")
            is_float = token.type == "NUMBER" and isinstance(number, int)
            return WhereConstant(Decimal(f"{number}.0") if is_float else number, column=column)

        def null(self, meta: Any, children: list[Any]) -> Null:
            return Null(column=start(meta) + 1)

        def parameter(self, meta: Any, children: list[Any]) -> Parameter:
            named = children[0]
            return Parameter(named.name if isinstance(named, NameOf) else str(named), column=start(meta) + 1)

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

        def attribute(self, meta: Any, children: list[Any]) -> Any:
            inner, named = children
            if named.name == LABELS_OF:
                refuse(named.at, f"a property called {LABELS_OF} is refused: write labels(a) for the labels of a node")
            if isinstance(inner, Name):
                return Name(f"{inner.name}.{named.name}", column=inner.column)
            if isinstance(inner, Parameter):
                return Parameter(inner.name, (*inner.keys, named.name), column=inner.column)
            return Attribute(inner, named.name, column=start(meta) + 1)

        def index(self, meta: Any, children: list[Any]) -> Any:
            inner, place = children
            if isinstance(inner, Parameter) and isinstance(place, WhereConstant) and isinstance(place.value, (str, int)):
                return Parameter(inner.name, (*inner.keys, place.value), column=inner.column)
            return Index(inner, place, column=start(meta) + 1)

        def list_slice(self, meta: Any, children: list[Any]) -> ListSlice:
            inner, *others = children
            dots = next(place for place, one in enumerate(others) if isinstance(one, Token))
            low, high = others[:dots], others[dots + 1 :]
            return ListSlice(inner, low[0] if low else None, high[0] if high else None, column=start(meta) + 1)

        def list_of(self, meta: Any, children: list[Any]) -> Any:
            values = trees(children)
            if len(values) == 1 and isinstance(values[0], InList) and isinstance(values[0].inner, Name):
                return self._over_list(meta, values[0], None, None)  # [x IN list] is a comprehension
            return ListOf(tuple(values), column=start(meta) + 1)

        def _over_list(self, meta: Any, elements: Any, where: Any, value: Any) -> Comprehension:
            variable, source = self._element(elements)
            return Comprehension(variable, source, where, value, column=start(meta) + 1)

        def _element(self, elements: Any) -> tuple[str, Any]:
            """Return the variable and the list of `x IN list`."""
            if isinstance(elements, MatchExists):
                refuse(
                    elements.column - 1,
                    "a pattern comprehension is refused: write OPTIONAL MATCH, and collect(…) in WITH, or COUNT { … }",
                )
            if not isinstance(elements, InList) or not isinstance(elements.inner, Name) or "." in elements.inner.name:
                refuse(elements.column - 1, "a variable and its list stand here, as in x IN nodes(p)")
            return elements.inner.name, elements.source

        def comprehension(self, meta: Any, children: list[Any]) -> Comprehension:
            where = of_type(children, Where)
            elements, *values = [one for one in trees(children) if not isinstance(one, Where)]
            return self._over_list(meta, elements, None if where is None else where.condition, values[0] if values else None)

        def quantified_list(self, meta: Any, children: list[Any]) -> QuantifiedList:
            first, elements, where = children
            word: Any = str(first).lower() if isinstance(first, Token) else getattr(first, "name", "").lower()
            if word not in ("all", "any", "none", "single"):
                refuse(start(meta), "WHERE over the elements of a list stands in all(…), any(…), none(…) and single(…)")
            variable, source = self._element(elements)
            return QuantifiedList(word, variable, source, where.condition, column=start(meta) + 1)

        def reduce(self, meta: Any, children: list[Any]) -> Reduce:
            named, first, elements, value = children
            is_first = isinstance(first, Comparison) and first.sign == "==" and isinstance(first.left, Name)
            if not isinstance(named, Name) or named.name.lower() != "reduce" or not is_first:
                refuse(start(meta), "| between values stands in reduce(total = 0, x IN list | total + x)")
            variable, source = self._element(elements)
            return Reduce(first.left.name, first.right, variable, source, value, column=start(meta) + 1)

        def map(self, meta: Any, children: list[Any]) -> MapOf:
            names, values = children[::2], children[1::2]
            return MapOf(tuple(one.name for one in names), tuple(values), column=start(meta) + 1)

        def branch(self, meta: Any, children: list[Any]) -> Branch:
            return Branch(*trees(children))

        def case(self, meta: Any, children: list[Any]) -> Case:
            has_else = any(isinstance(one, Token) and one.type == "ELSE" for one in children)
            values = trees(children)
            branches = [one for one in values if isinstance(one, Branch)]
            others = [one for one in values if not isinstance(one, Branch)]
            otherwise = others.pop() if has_else else None
            return Case(
                others[0] if others else None,
                tuple(one.condition for one in branches),
                tuple(one.value for one in branches),
                otherwise,
                column=start(meta) + 1,
            )

        def enclosed(self, meta: Any, children: list[Any]) -> Any:
            return children[0]

        def disjunction(self, meta: Any, children: list[Any]) -> Logical:
            return Logical("or", tuple(trees(children)), column=start(meta) + 1)

        def conjunction(self, meta: Any, children: list[Any]) -> Logical:
            return Logical("and", tuple(trees(children)), column=start(meta) + 1)

        def exclusion(self, meta: Any, children: list[Any]) -> Logical:
            return Logical("xor", tuple(trees(children)), column=start(meta) + 1)

        def negation(self, meta: Any, children: list[Any]) -> Not:
            return Not(trees(children)[0], column=start(meta) + 1)

        def comparison(self, meta: Any, children: list[Any]) -> Any:
            signs = {"=": "==", "<>": "!="}
            column = start(meta) + 1
            compared = [
                Comparison(signs.get(str(sign), str(sign)), left, right, column=column)
                for left, sign, right in zip(children[::2], children[1::2], children[2::2], strict=False)
            ]
            return compared[0] if len(compared) == 1 else Logical("and", tuple(compared), column=column)

        def is_in(self, meta: Any, children: list[Any]) -> Any:
            inner, source = trees(children)
            return InList(inner, source, column=start(meta) + 1)

        def is_not_in(self, meta: Any, children: list[Any]) -> Not:
            return Not(self.is_in(meta, children), column=start(meta) + 1)

        def _call(self, function: str, meta: Any, children: list[Any]) -> Call:
            return Call(function, tuple(trees(children)), column=start(meta) + 1)

        def starts_with(self, meta: Any, children: list[Any]) -> Call:
            return self._call("starts_with", meta, children)

        def ends_with(self, meta: Any, children: list[Any]) -> Call:
            return self._call("ends_with", meta, children)

        def contains(self, meta: Any, children: list[Any]) -> Call:
            return self._call("contains", meta, children)

        def matches(self, meta: Any, children: list[Any]) -> Call:
            return self._call("=~", meta, children)

        def power(self, meta: Any, children: list[Any]) -> Call:
            return self._call("^", meta, children)

        def positive(self, meta: Any, children: list[Any]) -> Any:
            return children[-1]

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

        def negative(self, meta: Any, children: list[Any]) -> Any:
            inner, column = children[-1], start(meta) + 1
            if isinstance(inner, WhereConstant) and isinstance(inner.value, Decimal):
                return WhereConstant(-inner.value, column=column)
            return negated(inner, column)

        def exists_result(self, meta: Any, children: list[Any]) -> ReturnedValues:
            return ReturnedValues(tuple(one for one in trees(children) if not isinstance(one, SetQuantifier)))

        def has_labels(self, meta: Any, children: list[Any]) -> MatchExists | Not:
            named, label = trees(children)
            at = start(meta)
            if isinstance(named, NameOf):
                named = Name(named.name, column=named.at + 1)
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

        def exists_of(self, meta: Any, children: list[Any]) -> Any:
            inner = children[-1]
            if isinstance(inner, MatchExists) and inner.node is None:
                return inner
            return Not(IsNull(inner, column=start(meta) + 1), column=start(meta) + 1)

        def count_of(self, meta: Any, children: list[Any]) -> CountOf:
            return CountOf(of_type(children, GraphPattern), column=start(meta) + 1)

        def inner_path(self, meta: Any, children: list[Any]) -> tuple[Element, ...]:
            return tuple(children)

        def inner_node(self, meta: Any, children: list[Any]) -> NodePattern:
            found: NodePattern = children[0]
            return found

        def named_node(self, meta: Any, children: list[Any]) -> NodePattern:
            return self.node(meta, children)

        def inner_edge(self, meta: Any, children: list[Any]) -> EdgePattern:
            found: EdgePattern = children[0]
            return found

        def path_condition(self, meta: Any, children: list[Any]) -> MatchExists:
            path = PathPattern(False, None, children[0], start(meta))
            return MatchExists(GraphPattern(None, (path,), None, start(meta)), start(meta) + 1)

        def enclosed_variable(self, meta: Any, children: list[Any]) -> Any:
            node = children[0]
            name = Name(node.variable, column=start(meta) + 2)
            return name if node.label is None else self.has_labels(meta, [name, node.label])

        def call(self, meta: Any, children: list[Any]) -> Any:
            callee, *arguments = children
            at = start(meta)
            if not isinstance(callee, Name):
                refuse(at, "a function has a name, as in size(list)")
            function = callee.name.lower()
            quantified = of_type(arguments, SetQuantifier)
            values = [one for one in trees(arguments) if not isinstance(one, SetQuantifier)]
            if function == "collect_list":
                function = "collect"
            if function in AGGREGATES:
                if len(values) != 1:
                    refuse(at, f"{callee.name} has one argument, not {len(values)}")
                return AggregateCall(function, values[0], quantified is not None and quantified.is_distinct, at + 1)
            if quantified is not None:
                refuse(at, f"DISTINCT in {callee.name} is refused: it stands in aggregates, {', '.join(AGGREGATES)}")
            if function == "labels":
                if len(values) != 1 or not isinstance(values[0], Name) or "." in values[0].name:
                    refuse(at, f"{callee.name} has the variable of a node as its argument, as in labels(a)")
                return Name(f"{values[0].name}.{LABELS_OF}", column=at + 1)
            if function in REFUSED_FUNCTIONS:
                refuse(at, f"{callee.name} is refused: {REFUSED_FUNCTIONS[function]}")
            if function == "size" and len(values) == 1 and isinstance(values[0], MatchExists) and values[0].node is None:
                return CountOf(values[0].pattern, column=at + 1)
            if function not in FUNCTIONS and function not in GRAPH_FUNCTIONS:
                names = () if "." in function else (*FUNCTIONS, *GRAPH_FUNCTIONS, *AGGREGATES)
                hint = did_you_mean(function, names)
                refuse(at, f"unknown function {callee.name!r}{hint}: docs/match.md lists the functions")
            numbers = [one.value for one in values if isinstance(one, WhereConstant) and isinstance(one.value, int)]
            if (
                function == "range"
                and len(numbers) > 1
                and abs(numbers[1] - numbers[0]) >= MAX_RANGE * max(1, abs((*numbers, 1)[2]))
            ):
                refuse(at, f"a range is refused: it has more than {MAX_RANGE:,} numbers")
            if not values and function in ("date", "datetime", "localdatetime", "timestamp"):
                advice = "compare with the times of edges, or with a parameter"
                refuse(at, f"{callee.name}() is refused: rows depend on the stream alone; {advice}")
            known = FUNCTIONS.get(function)
            least, most = (1, 1) if known is None else (known.least, known.most)
            if len(values) < least or (most is not None and len(values) > most):
                expected = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
                refuse(at, f"{callee.name} has {expected} arguments, not {len(values)}")
            return Call(function, tuple(values), column=at + 1)

        def call_of_rows(self, meta: Any, children: list[Any]) -> AggregateCall:
            callee = children[0]
            if not isinstance(callee, Name) or callee.name.lower() != "count":
                refuse(start(meta), "count(*) alone counts rows")
            return AggregateCall("count", None, False, start(meta) + 1)

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
            return self._quantifier(meta, 0, 1)

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
            return Search(True, "SHORTEST" in words(children))

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
            children = [one for one in children if not isinstance(one, Token)]
            search, mode, named = (of_type(children, kind) for kind in (Search, str, NameOf))
            return PathPattern(
                search is not None and search.is_any,
                mode,
                children[-1],
                start(meta),
                variable=None if named is None else named.name,
                is_shortest=search is not None and search.is_shortest,
            )

        def path_function(self, meta: Any, children: list[Any]) -> PathPattern:
            *named, function, path = trees(children)
            if function.name.lower() not in ("shortestpath", "allshortestpaths"):
                hint = did_you_mean(function.name.lower(), ["shortestpath"]).replace("shortestpath", "shortestPath")
                refuse(function.at, f"unknown function {function.name!r} around a path: expected shortestPath{hint}")
            if function.name.lower() != "shortestpath":
                advice = (
                    "of several shortest paths one is determined; write ANY SHORTEST before the path, or shortestPath(…)"
                )
                refuse(function.at, f"{function.name}(…) is refused: {advice}")
            name = named[0].name if named else None
            return PathPattern(True, None, path, start(meta), variable=name, is_shortest=True, is_function=True)

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

        def all_columns(self, meta: Any, children: list[Any]) -> str:
            return "*"

        def results(self, meta: Any, children: list[Any]) -> Results:
            return Results("*" in children, tuple(one for one in children if isinstance(one, Item)))

        def order(self, meta: Any, children: list[Any]) -> Order:
            return Order(tuple(one for one in children if isinstance(one, SortItem)))

        def order_item(self, meta: Any, children: list[Any]) -> SortItem:
            return SortItem(trees(children)[0], "DESC" in words(children))

        def skip(self, meta: Any, children: list[Any]) -> Skip:
            return Skip(children[-1])

        def limit(self, meta: Any, children: list[Any]) -> Limit:
            return Limit(children[-1])

        def written(self, meta: Any, children: list[Any]) -> ReadValue:
            return ReadValue(children[0], " ".join(text[start(meta) : int(meta.end_pos)].split()))

        def item(self, meta: Any, children: list[Any]) -> Item:
            value, alias = of_type(children, ReadValue), of_type(children, NameOf)
            return Item(value.value, None if alias is None else alias.name, value.text, start(meta))

        def projection(self, meta: Any, children: list[Any]) -> Projection:
            results = of_type(children, Results)
            quantified, order, skip, limit = (of_type(children, kind) for kind in (SetQuantifier, Order, Skip, Limit))
            return Projection(
                results.items,
                results.has_all,
                quantified is not None and quantified.is_distinct,
                () if order is None else order.items,
                None if skip is None else skip.value,
                None if limit is None else limit.value,
                None,
                start(meta),
            )

        def unwind(self, meta: Any, children: list[Any]) -> Unwind:
            value, named = trees(children)
            return Unwind(value, named.name, start(meta))

        def single(self, meta: Any, children: list[Any]) -> SingleQuery:
            parts: list[QueryPart] = []
            clauses: list[Clause | Unwind] = []
            for one in trees(children):
                if isinstance(one, Projection):
                    parts.append(QueryPart(tuple(clauses), one))
                    clauses = []
                else:
                    clauses.append(one)
            return SingleQuery(tuple(parts), start(meta))

        def with_clause(self, meta: Any, children: list[Any]) -> Projection:
            projection, where = of_type(children, Projection), of_type(children, Where)
            found: Projection = replace(projection, where=None if where is None else where.condition)
            return found

        def union(self, meta: Any, children: list[Any]) -> bool:
            return "ALL" in words(children)

        def query(self, meta: Any, children: list[Any]) -> MatchText:
            queries = tuple(one for one in children if isinstance(one, SingleQuery))
            unions = {one for one in children if isinstance(one, bool)}
            if len(unions) > 1:
                refuse(queries[2].at, "UNION and UNION ALL are mixed: write one of them between all queries")
            return MatchText(text, queries, unions == {True})

    return Reader()
