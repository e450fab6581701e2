"""Values that MATCH computes: trees of `rpq.language.match.tree`, evaluated over terms.

A tree is compiled once, to functions over a frame: the values of the inputs, and behind them those of variables that lists
bind (`x` in `[x IN xs | x + 1]`). The kind of an input says how its terms are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Literal

from rpq.language.match.tree import (
    Attribute,
    Case,
    Comprehension,
    Dialect,
    Index,
    InList,
    ListOf,
    ListSlice,
    MapOf,
    Null,
    QuantifiedList,
    Reduce,
    SortItem,
    walk,
)
from rpq.language.match.values.functions import FUNCTIONS
from rpq.language.match.values.operations import (
    COMPARISONS,
    WrittenNumber,
    all_of,
    any_of,
    arithmetic,
    decimal_text,
    equals,
    float_text,
    negation,
    sort_key,
    truth_of,
)
from rpq.language.match.values.times import DURATION_PARTS, TIME_PARTS, literal_time, time_literal
from rpq.language.sparql.values.moments import Duration, Moment
from rpq.language.sparql.values.typed_values import FALSE, TRUE, NoValue
from rpq.language.where import Arithmetic, Between, Call, Comparison, In, IsNull, Logical, Name, Not, WhereConstant
from rpq.stream.names import terms
from rpq.stream.names.list_terms import EdgeRef, Loose, Vertex, VertexName, decode_list, encode_list, item_json
from rpq.stream.names.terms import LIST_TYPE, LOOSE_TYPE, XSD, lexical_form, literal_text, read_literal

InputKind = Literal["vertex", "name", "value", "edge", "computed"]
"""What a plain text among the terms is: the name of a vertex, that name as a value, a loose value, the identity of an edge,
or, of a computed value, a vertex."""
Encoding = Literal["value", "column", "truth", "key", "item"]

_MAX_CACHED = 65_536
_NUL = "\x00"


@dataclass(frozen=True, eq=False)
class Computation:
    """A value that is computed from the values of variables, in place of the name of a function in `FunctionCall`.

    The names in `tree` are those of `inputs`, in the order of the arguments, or variables that a list binds. `encoding`
    says what the result is: the term of the value, for aggregates or for a column; its truth as a boolean; a text in the
    order of all values (`sort_key`); or that text, U+0000 and the value as it stands in a list, where the keys of `order`,
    values or items of ORDER BY, replace that of the value. Two computations are equal if they have the same text, inputs,
    dialect and encoding.

    >>> from rpq.language.where import parse_where
    >>> twice = Computation(parse_where("`a.risk` * 2").tree, (("a.risk", "value"),), "cypher")
    >>> str(twice), twice('"4"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ('a.risk * 2', '"8"^^<http://www.w3.org/2001/XMLSchema#integer>')
    """

    tree: Any
    inputs: tuple[tuple[str, InputKind], ...]
    dialect: Dialect
    encoding: Encoding = "value"
    order: tuple[Any, ...] = ()

    def __call__(self, *terms: str | None) -> str:
        """Return the term of the result for terms of the inputs, None for unbound ones. Raises `NoValue` for null."""
        return self._run(terms)

    @property
    def accepted_names(self) -> frozenset[str] | None:
        """The names of vertices that satisfy a condition on a single name, or None for other computations.

        >>> from rpq.language.where import parse_where
        >>> condition = parse_where("`a.id` in ('x', 'y')").tree
        >>> sorted(Computation(condition, (("a.id", "name"),), "gql", "truth").accepted_names)
        ['x', 'y']
        """
        match self.tree:
            case In(Name(), values):
                pass
            case Comparison("==", Name(), value) | Comparison("==", value, Name()):
                values = (value,)
            case _:
                return None
        texts = [one.value for one in values if isinstance(one, WhereConstant) and isinstance(one.value, str)]
        is_name = self.encoding == "truth" and [kind for _, kind in self.inputs] == ["name"]
        return frozenset(texts) if is_name and len(texts) == len(values) else None

    @cached_property
    def _run(self) -> Callable[[Sequence[str | None]], str]:
        compiler = _Compiler(self.dialect, [name for name, _ in self.inputs])
        value = compiler.value(self.tree)
        encode = _ENCODINGS[self.encoding]
        if self.encoding == "item":
            keys = [_key_of(one, compiler) for one in self.order] or [_key_of(self.tree, compiler)]
        readers = [_READERS[kind] for _, kind in self.inputs]
        free = [None] * compiler.bound_count

        def run(terms: Sequence[str | None]) -> str:
            frame = [None if term is None else read(term) for read, term in zip(readers, terms, strict=True)]
            frame += free
            return encode(value(frame))

        def run_item(terms: Sequence[str | None]) -> str:
            frame = [None if term is None else read(term) for read, term in zip(readers, terms, strict=True)]
            frame += free
            found = value(frame)
            if found is None:
                raise NoValue("null is no item of a list")
            return _NUL.join([*(key(frame) for key in keys), item_json(_for_list(found))])

        return run_item if self.encoding == "item" else run

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        return str(self), self.inputs, self.dialect, self.encoding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Computation) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __str__(self) -> str:
        text = value_text(self.tree)
        return text if not self.order else f"{text} ORDER BY {', '.join(map(_sort_text, self.order))}"


Frame = list[Any]
Run = Callable[[Frame], Any]


def _key_of(tree: Any, compiler: _Compiler) -> Callable[[Frame], str]:
    """Return the function that gives the key of a value or of an item of ORDER BY."""
    if not isinstance(tree, SortItem):
        value = compiler.value(tree)
        return lambda frame: sort_key(value(frame))
    ascending = _key_of(tree.value, compiler)
    if not tree.is_descending:
        return ascending
    # In bytes taken from 511, and with a last character behind all of these, texts have the opposite order.
    return lambda frame: "".join([chr(511 - byte) for byte in ascending(frame).encode()]) + "\u0200"


# --- terms -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_MAX_CACHED)
def read_value(term: str) -> Any:
    """Return the value of a literal, or of a plain text, which is loose; an empty plain text is null.

    >>> read_value('"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'), read_value('"a"'), read_value("7")
    (Decimal('1.5'), 'a', Loose(text='7'))
    """
    literal = read_literal(term) if term.startswith('"') else None
    if literal is None:
        return Loose(term) if term else None
    read = _LITERALS.get(literal.datatype)
    return literal.text if read is None else read(literal)


def _read_float(literal: terms.Literal) -> float:
    return float(literal.text)


_LITERALS: dict[str, Callable[[terms.Literal], Any]] = {
    XSD + "integer": lambda literal: int(literal.text),
    XSD + "decimal": lambda literal: Decimal(literal.text),
    XSD + "double": _read_float,
    XSD + "float": _read_float,
    XSD + "boolean": lambda literal: literal.text in ("true", "1"),
    LOOSE_TYPE: lambda literal: Loose(literal.text),
    LIST_TYPE: lambda literal: tuple(map(_from_list, decode_list(literal.text))),
    **{XSD + name: literal_time for name in ("date", "dateTime", "duration", "dayTimeDuration", "yearMonthDuration")},
}


def _from_list(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_from_list, value))
    return literal_time(value) if isinstance(value, terms.Literal) else value


def _for_list(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_for_list, value))
    return time_literal(value) if isinstance(value, (Moment, Duration)) else value


def term_of(value: Any) -> str:
    """Return the term of a value: of a vertex and an edge the name, of a loose value the text, else a literal.

    Raises `NoValue` for null.

    >>> print(term_of((1, Vertex("a"))), term_of(Vertex("a")), term_of(2.0))
    "[1,{\\"vertex\\":\\"a\\"}]"^^<urn:x-rpq:list> a "2.0"^^<http://www.w3.org/2001/XMLSchema#double>
    """
    return _TERMS[type(value)](value)


def column_term(value: Any) -> str:
    """Return the term of a value in a column: that of a loose value is a literal, so that it differs from a vertex.

    >>> print(column_term(Loose("7")), column_term(Vertex("7")))
    "7"^^<urn:x-rpq:loose> 7
    """
    return literal_text(value.text, LOOSE_TYPE) if isinstance(value, Loose) else term_of(value)


def terms_of_elements(term: str) -> list[str | None]:
    """Return the terms of the elements of a list, None for null; of a value that is no list its own.

    >>> terms_of_elements(term_of((1, None, Vertex("a"))))
    ['"1"^^<http://www.w3.org/2001/XMLSchema#integer>', None, 'a']
    """
    value = _read_computed(term)
    elements = value if isinstance(value, tuple) else (value,)
    return [None if one is None else column_term(one) for one in elements]


def _read_computed(term: str) -> Any:
    return read_value(term) if term.startswith('"') else Vertex(term)


@dataclass(frozen=True)
class ItemValue:
    """The function from an item of COLLECT to the value in it, without its keys, as the term of a column."""

    def __call__(self, *terms: str | None) -> str:
        """Return the term. Raises `NoValue` without an item."""
        (term,) = terms
        if term is None:
            raise NoValue("there is no item")
        (value,) = decode_list(f"[{lexical_form(term).partition(_NUL)[2]}]")
        return column_term(_from_list(value))

    def __str__(self) -> str:
        return "value of an item"


def _no_term(value: None) -> str:
    raise NoValue("null has no term")


def _term_of_float(value: float) -> str:
    return f'"{float_text(value)}"^^<{XSD}double>'


def _term_of_loose(value: Loose) -> str:
    return literal_text(value.text) if value.text.startswith('"') else value.text


def _term_of_time(value: Moment | Duration) -> str:
    return str(time_literal(value))


_TERMS: dict[type, Callable[[Any], str]] = {
    type(None): _no_term,
    bool: lambda value: TRUE if value else FALSE,
    int: lambda value: f'"{value}"^^<{XSD}integer>',
    float: _term_of_float,
    WrittenNumber: _term_of_float,
    Decimal: lambda value: f'"{decimal_text(value)}"^^<{XSD}decimal>',
    str: literal_text,
    tuple: lambda value: encode_list(map(_for_list, value)),
    Vertex: lambda value: value.name,
    EdgeRef: lambda value: value.identity,
    Loose: _term_of_loose,
    VertexName: _term_of_loose,
    Moment: _term_of_time,
    Duration: _term_of_time,
}


def _truth_term(value: Any) -> str:
    truth = truth_of(value)
    if truth is None:
        raise NoValue("the condition is null, or neither true nor false")
    return TRUE if truth else FALSE


_READERS: dict[InputKind, Callable[[str], Any]] = {
    "vertex": lru_cache(maxsize=_MAX_CACHED)(Vertex),
    "name": lru_cache(maxsize=_MAX_CACHED)(VertexName),
    "edge": lru_cache(maxsize=_MAX_CACHED)(EdgeRef),
    "value": read_value,
    "computed": _read_computed,
}

_ENCODINGS: dict[Encoding, Callable[[Any], str]] = {
    "value": term_of,
    "column": column_term,
    "truth": _truth_term,
    "key": sort_key,
    "item": term_of,
}


# --- compilation -----------------------------------------------------------------------------------------------------


class _Compiler:
    """Makes functions over frames of trees; `bound_count` places of a frame behind the inputs are for variables of lists."""

    def __init__(self, dialect: Dialect, inputs: Sequence[str]) -> None:
        self._truncates = dialect == "cypher"
        self._place = {name: place for place, name in enumerate(inputs)}
        self._input_count = len(inputs)
        self.bound_count = 0

    def value(self, tree: Any) -> Run:
        """Return the function that gives the value of a tree. A value that reads no names is computed here."""
        if isinstance(tree, WhereConstant):
            return _constant(WrittenNumber(tree.value) if isinstance(tree.value, Decimal) else tree.value)
        run = self._value(tree)
        return run if any(isinstance(node, Name) for node in walk(tree)) else _constant(run([]))

    def _value(self, tree: Any) -> Run:
        match tree:
            case Null():
                return _constant(None)
            case Name(name):
                return self._name(name)
            case ListOf(values):
                elements = [*map(self.value, values)]
                return lambda frame: tuple([one(frame) for one in elements])
            case MapOf(names, values):
                fields = [*zip(names, map(self.value, values), strict=True)]
                return lambda frame: {name: one(frame) for name, one in fields}
            case Attribute(inner, name):
                return _attribute(self.value(inner), name)
            case Index(inner, index):
                source, place = self.value(inner), self.value(index)
                return lambda frame: _element(source(frame), place(frame))
            case ListSlice(inner, low, high):
                source, first, last = self.value(inner), self._bound(low), self._bound(high)
                return lambda frame: _slice(source(frame), first(frame), last(frame))
            case Arithmetic(sign, left, right):
                one, other, calculate = self.value(left), self.value(right), arithmetic(sign, truncates=self._truncates)
                return lambda frame: calculate(one(frame), other(frame))
            case Call(function, arguments):
                return self._call(function, arguments)
            case Case():
                return self._case(tree)
            case Comprehension():
                return self._comprehension(tree)
            case Reduce():
                return self._reduce(tree)
        return self._condition(tree)

    def _condition(self, tree: Any) -> Run:
        match tree:
            case Comparison(sign, left, right):
                one, other, compare = self.value(left), self.value(right), COMPARISONS[sign]
                return lambda frame: compare(one(frame), other(frame))
            case Between(inner, low, high):
                value, least, most = self.value(inner), self.value(low), self.value(high)
                at_least, at_most = COMPARISONS[">="], COMPARISONS["<="]

                def between(frame: Frame) -> bool | None:
                    found = value(frame)
                    return all_of((at_least(found, least(frame)), at_most(found, most(frame))))

                return between
            case In(inner, values):
                value, members = self.value(inner), [*map(self.value, values)]
                return lambda frame: _is_in(value(frame), [member(frame) for member in members])
            case InList(inner, source):
                value, elements = self.value(inner), self.value(source)
                return lambda frame: _is_in(value(frame), elements(frame))
            case IsNull(inner):
                value = self.value(inner)
                return lambda frame: value(frame) is None
            case Not(inner):
                value = self.value(inner)
                return lambda frame: negation(truth_of(value(frame)))
            case Logical(word, parts):
                truths = [*map(self.value, parts)]
                if word == "xor":
                    return lambda frame: _exclusive([truth_of(one(frame)) for one in truths])
                combine = all_of if word == "and" else any_of
                return lambda frame: combine(truth_of(one(frame)) for one in truths)
            case QuantifiedList():
                return self._quantified(tree)
        raise TypeError(f"no value can be computed from {tree!r}")

    def _name(self, name: str) -> Run:
        if name in self._place:
            place = self._place[name]
            return lambda frame: frame[place]
        inner, dot, part = name.partition(".")
        if not dot or inner not in self._place:
            raise ValueError(f"{name!r} is none of the inputs, nor a variable of a list")
        return _attribute(self._name(inner), part)

    def _bound(self, tree: Any) -> Run:
        """Return the function for an end of a slice; a missing one is not null."""
        return _constant(_END) if tree is None else self.value(tree)

    def _bind(self, *names: str) -> tuple[list[int], Callable[[], None]]:
        """Give variables of a list their places in the frame. Return these, and a function that ends the scope."""
        hidden = {name: self._place.get(name) for name in names}
        places = []
        for name in names:
            places.append(self._input_count + self.bound_count)
            self._place[name] = places[-1]
            self.bound_count += 1

        def end() -> None:
            for name, place in hidden.items():
                if place is None:
                    del self._place[name]
                else:
                    self._place[name] = place

        return places, end

    def _call(self, function: str, arguments: Sequence[Any]) -> Run:
        called = FUNCTIONS[function.lower()]
        values = [*map(self.value, arguments)]
        run = called.run
        if len(values) == 1 and called.is_strict:
            (only,) = values

            def call_one(frame: Frame) -> Any:
                value = only(frame)
                return None if value is None else run(value)

            return call_one

        def call(frame: Frame) -> Any:
            found = [value(frame) for value in values]
            return None if called.is_strict and None in found else run(*found)

        return call

    def _case(self, tree: Case) -> Run:
        subject = None if tree.subject is None else self.value(tree.subject)
        branches = [(self.value(one), self.value(value)) for one, value in zip(tree.conditions, tree.values, strict=True)]
        otherwise = _constant(None) if tree.otherwise is None else self.value(tree.otherwise)

        def searched(frame: Frame) -> Any:
            for condition, value in branches:
                if truth_of(condition(frame)):
                    return value(frame)
            return otherwise(frame)

        def simple(frame: Frame) -> Any:
            assert subject is not None
            compared = subject(frame)
            for candidate, value in branches:
                if equals(compared, candidate(frame)):
                    return value(frame)
            return otherwise(frame)

        return searched if subject is None else simple

    def _comprehension(self, tree: Comprehension) -> Run:
        source = self.value(tree.source)
        (place,), end = self._bind(tree.variable)
        accepts = _constant(True) if tree.where is None else self.value(tree.where)
        value = None if tree.value is None else self.value(tree.value)
        end()

        def run(frame: Frame) -> Any:
            elements = source(frame)
            if type(elements) is not tuple:
                return None
            found = []
            for element in elements:
                frame[place] = element
                if truth_of(accepts(frame)):
                    found.append(element if value is None else value(frame))
            return tuple(found)

        return run

    def _quantified(self, tree: QuantifiedList) -> Run:
        source = self.value(tree.source)
        (place,), end = self._bind(tree.variable)
        accepts = self.value(tree.where)
        end()
        decide = _QUANTIFIERS[tree.quantifier]

        def run(frame: Frame) -> bool | None:
            elements = source(frame)
            if type(elements) is not tuple:
                return None
            truths = []
            for element in elements:
                frame[place] = element
                truths.append(truth_of(accepts(frame)))
            return decide(truths)

        return run

    def _reduce(self, tree: Reduce) -> Run:
        source, initial = self.value(tree.source), self.value(tree.initial)
        (total, place), end = self._bind(tree.accumulator, tree.variable)
        value = self.value(tree.value)
        end()

        def run(frame: Frame) -> Any:
            elements = source(frame)
            if type(elements) is not tuple:
                return None
            found = initial(frame)
            for element in elements:
                frame[total], frame[place] = found, element
                found = value(frame)
            return found

        return run


_END = object()
"""The end of a list in a slice."""


def _constant(value: Any) -> Run:
    return lambda frame: value


def _single(truths: Sequence[bool | None]) -> bool | None:
    if truths.count(True) > 1:
        return False
    return None if None in truths else truths.count(True) == 1


_QUANTIFIERS: dict[str, Callable[[Sequence[bool | None]], bool | None]] = {
    "all": all_of,
    "any": any_of,
    "none": lambda truths: negation(any_of(truths)),
    "single": _single,
}


def _exclusive(truths: Sequence[bool | None]) -> bool | None:
    return None if None in truths else truths.count(True) % 2 == 1


def _is_in(value: Any, elements: Sequence[Any] | None) -> bool | None:
    if not isinstance(elements, (tuple, list)):
        return None
    return any_of(equals(value, element) for element in elements)


def _element(source: Any, place: Any) -> Any:
    if type(source) is not tuple or type(place) is not int or not -len(source) <= place < len(source):
        return None
    return source[place]


def _slice(source: Any, low: Any, high: Any) -> Any:
    ends = [None if one is _END else one for one in (low, high)]
    if type(source) is not tuple or any(type(one) is not int and one is not _END for one in (low, high)):
        return None
    return source[slice(*ends)]


def _attribute(inner: Run, name: str) -> Run:
    of_time, of_duration = TIME_PARTS.get(name), DURATION_PARTS.get(name)

    def run(frame: Frame) -> Any:
        value = inner(frame)
        if isinstance(value, Moment):
            return None if of_time is None else of_time(value)
        if isinstance(value, Duration):
            return None if of_duration is None else of_duration(value)
        return VertexName(value.name) if isinstance(value, Vertex) and name == "id" else None

    return run


# --- texts -----------------------------------------------------------------------------------------------------------

_OR, _XOR, _AND, _NOT, _COMPARED, _SUM, _PRODUCT, _POWER, _PRIMARY = range(9)
_LOGICAL = {"or": _OR, "xor": _XOR, "and": _AND}
_SIGNS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "^": _POWER}
_PREDICATES = {"starts_with": "STARTS WITH", "ends_with": "ENDS WITH", "contains": "CONTAINS", "=~": "=~"}


def value_text(tree: Any) -> str:
    """Return a value as Cypher writes it; different trees have different texts.

    >>> from rpq.language.where import parse_where
    >>> value_text(parse_where("(a + 1) * 2 > 3 and not (b = 'x' or c is null)").tree)
    "(a + 1) * 2 > 3 AND NOT (b = 'x' OR c IS NULL)"
    """
    return _text(tree, _OR)


def _text(tree: Any, binding: int) -> str:
    """Write a value, in parentheses if it binds less than `binding`."""
    text, own = _text_and_binding(tree)
    return text if own >= binding else f"({text})"


def _list_text(trees: Sequence[Any]) -> str:
    return ", ".join(_text(one, _OR) for one in trees)


def _text_and_binding(tree: Any) -> tuple[str, int]:
    match tree:
        case WhereConstant(value):
            return _constant_text(value), _PRIMARY
        case Null():
            return "null", _PRIMARY
        case Name(name):
            return name, _PRIMARY
        case Logical(word, parts):
            own = _LOGICAL[word]
            return f" {word.upper()} ".join(_text(part, own + 1) for part in parts), own
        case Not(IsNull(inner)):
            return f"{_text(inner, _SUM)} IS NOT NULL", _COMPARED
        case Not(inner):
            return f"NOT {_text(inner, _NOT)}", _NOT
        case IsNull(inner):
            return f"{_text(inner, _SUM)} IS NULL", _COMPARED
        case Comparison(sign, left, right):
            written_sign = {"==": "=", "!=": "<>"}.get(sign, sign)
            return f"{_text(left, _SUM)} {written_sign} {_text(right, _SUM)}", _COMPARED
        case Between(inner, low, high):
            return f"{_text(inner, _SUM)} BETWEEN {_text(low, _SUM)} AND {_text(high, _SUM)}", _COMPARED
        case In(inner, values):
            return f"{_text(inner, _SUM)} IN [{_list_text(values)}]", _COMPARED
        case InList(inner, source):
            return f"{_text(inner, _SUM)} IN {_text(source, _SUM)}", _COMPARED
        case Call(function, (left, right)) if function in _PREDICATES:
            return f"{_text(left, _SUM)} {_PREDICATES[function]} {_text(right, _SUM)}", _COMPARED
        case Arithmetic(sign, left, right) | Call("^" as sign, (left, right)):
            own = _SIGNS[sign]
            return f"{_text(left, own + (own == _POWER))} {sign} {_text(right, own + (own != _POWER))}", own
        case Call(function, arguments):
            return f"{function}({_list_text(arguments)})", _PRIMARY
    return _text_of_other(tree), _PRIMARY


def _text_of_other(tree: Any) -> str:
    match tree:
        case ListOf(values):
            return f"[{_list_text(values)}]"
        case MapOf(names, values):
            return f"{{{', '.join(f'{name}: {_text(one, _OR)}' for name, one in zip(names, values, strict=True))}}}"
        case Attribute(inner, name):
            return f"{_text(inner, _PRIMARY)}.{name}"
        case Index(inner, index):
            return f"{_text(inner, _PRIMARY)}[{_text(index, _OR)}]"
        case ListSlice(inner, low, high):
            first, last = ("" if one is None else _text(one, _OR) for one in (low, high))
            return f"{_text(inner, _PRIMARY)}[{first}..{last}]"
        case Case(subject, conditions, values, otherwise):
            parts = ["CASE" if subject is None else f"CASE {_text(subject, _OR)}"]
            branches = zip(conditions, values, strict=True)
            parts += [f"WHEN {_text(condition, _OR)} THEN {_text(value, _OR)}" for condition, value in branches]
            parts += [] if otherwise is None else [f"ELSE {_text(otherwise, _OR)}"]
            return f"{' '.join(parts)} END"
        case Comprehension(variable, source, where, value):
            condition = "" if where is None else f" WHERE {_text(where, _OR)}"
            return f"[{variable} IN {_text(source, _OR)}{condition}{'' if value is None else f' | {_text(value, _OR)}'}]"
        case QuantifiedList(quantifier, variable, source, where):
            return f"{quantifier}({variable} IN {_text(source, _OR)} WHERE {_text(where, _OR)})"
        case Reduce(accumulator, initial, variable, source, value):
            start = f"{accumulator} = {_text(initial, _OR)}"
            return f"reduce({start}, {variable} IN {_text(source, _OR)} | {_text(value, _OR)})"
    raise TypeError(f"no value can be computed from {tree!r}")


def _constant_text(value: int | float | Decimal | str | bool) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, Decimal):
        text = decimal_text(value)
        return text if "." in text or "E" in text else f"{text}.0"
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def _sort_text(tree: Any) -> str:
    if isinstance(tree, SortItem):
        return f"{_text(tree.value, _OR)}{' DESC' if tree.is_descending else ''}"
    return _text(tree, _OR)
