"""The options of a query, declared once: types, defaults, help, and the notations and commands to which they apply.

From the fields of `QueryOptions` follow the parameters of `rpq.Query`, the fields of files of queries and of requests to a
server, the flags of `rpq run`, `serve` and `spark`, and the JSON of saved queries.
"""
# ruff: noqa: RUF009  # `_option` returns the field of a dataclass

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_type_hints

from rpq.errors import QueryError, did_you_mean
from rpq.language.time_order import Order
from rpq.stream.window import AnyWindow

Vertex = int | str
Language = Literal["path", "pattern", "sparql", "csparql", "cqels", "gql", "cypher"]
Paths = Literal["walk", "simple", "simple_cycle"]
Semantics = Literal["implicit", "explicit"]
OnBudget = Literal["error", "set_aside"]
Matching = Literal["homomorphism", "isomorphism"]
Report = Literal["change", "slide", "time"]

Kind = Literal["window", "words", "text", "names", "vertices", "number", "flag", "length", "parameters"]
"""The kinds of values: `words` are a choice, `names` a list, a `number` is positive, a `length` is one of time, and
`parameters` are values by name."""

_COMMANDS, _NOT_SERVE, _NOT_SPARK = ("run", "serve", "spark"), ("run", "spark"), ("run", "serve")


def _option(
    default: Any, help: str, *, commands: Sequence[str] = _COMMANDS, metavar: str | None = None, hash: bool | None = None
) -> Any:
    """Return the field of an option; `commands` are those with a flag for it, and `metavar` is for the flag's help.

    With `hash=False` its value, which has no hash, is no part of the hash of a query.
    """
    return field(default=default, hash=hash, metadata={"help": help, "commands": commands, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The options of a query, which `rpq.Query` describes."""

    window: AnyWindow | None = _option(
        None,
        "Size of the window: 30d, 10m (minutes), or a number in the stream's unit; count:N, the last N inserts; unbounded.",
        metavar="W",
    )
    name: str = _option("", "Name that identifies its rows; by default the text of the query.", commands=())
    paths: Paths = _option(
        "walk",
        "Kind of paths: any walk; simple paths, which visit no vertex twice; or these and simple cycles, which end where "
        "they begin.",
    )
    semantics: Semantics | None = _option(
        None, "Whether answers that expire leave silently (implicit) or with a - row (explicit).  [default: implicit]"
    )
    sources: Collection[Vertex] | None = _option(
        None, "Report only pairs from these vertices.", commands=_NOT_SERVE, metavar="V..."
    )
    targets: Collection[Vertex] | None = _option(
        None, "Report only pairs to these vertices.", commands=_NOT_SERVE, metavar="V..."
    )
    simple_budget: int = _option(
        10_000_000,
        "Maximum number of nodes that simple paths may expand for one root and one tuple or slide.",
        commands=_NOT_SPARK,
        metavar="N",
    )
    on_budget: OnBudget = _option(
        "error",
        "What to do when a root exceeds the budget: stop, or set it aside until its conflicts have left the window.",
        commands=_NOT_SPARK,
    )
    order: Order | None = _option(
        None,
        "For paths: only those whose edges have timestamps in this order; with edges parallel or id.",
        commands=_NOT_SERVE,
    )
    max_gap: int | str | timedelta | None = _option(
        None, "With an order: largest time from an edge to the next, such as 6h.", commands=_NOT_SERVE, metavar="T"
    )
    max_span: int | str | timedelta | None = _option(
        None, "With an order: largest time from the first edge to the last.", commands=_NOT_SERVE, metavar="T"
    )
    cost: str | None = _option(
        None,
        "For paths: a property of edges, such as amount; rows have the column cost, its smallest sum along a path.",
        commands=_NOT_SPARK,
        metavar="PROPERTY",
    )
    select: Sequence[str] | None = _option(
        None,
        "The columns of the rows.  For patterns, vertices and values of edges: x,e.amount.  [default: all vertices]  "
        "For paths, source,target or source,target,length.",
        metavar="X,Y...",
    )
    distinct: bool = _option(False, "For patterns: report each answer once, however many bindings it has.")
    matching: Matching = _option(
        "homomorphism",
        "For patterns: whether two variables may be the same vertex (homomorphism) or not (isomorphism).",
    )
    report: Report = _option(
        "change", "For patterns: report every change, or the net changes of each slide or timestamp."
    )
    hold: int | str | timedelta | None = _option(
        None, "Report an answer only when it has held without a break for this time, such as 10m.", metavar="T"
    )
    filter: str | None = _option(
        None,
        "For patterns: a condition on vertices and on edges with variables: '?f.timestamp > ?e.timestamp'.",
        metavar="CONDITION",
    )
    language: Language | None = _option(
        None,
        "Notation of the query: a path, a graph pattern, SPARQL (also with the reports of C-SPARQL or CQELS), or MATCH as "
        "in GQL or Cypher.  [default: detected]",
    )
    node_label: str | None = _option(
        "type",
        "For MATCH: the label of the edges to the labels of nodes, which (a:Account) reads beside those of records; with an "
        "empty one it reads records alone.",
        metavar="LABEL",
    )
    parameters: Mapping[str, Any] | None = _option(
        None,
        "For MATCH: the values of parameters, which the text names as $x.  The flag is repeated for each; a VALUE is JSON "
        "(5, true, [1, 2]) or else a text.",
        metavar="NAME=VALUE",
        hash=False,
    )

    @property
    def given_options(self) -> dict[str, Any]:
        """The options that are not the default, by name.

        >>> QueryOptions(paths="simple", report="change").given_options
        {'paths': 'simple'}
        """
        values = {name: getattr(self, name) for name in OPTIONS if hasattr(self, name)}
        return {name: value for name, value in values.items() if is_given(name, value)}


@dataclass(frozen=True, kw_only=True)
class WrittenOptions(QueryOptions):
    """The options of a query in a file or a command: window and slide are texts or numbers of the stream's unit."""

    if TYPE_CHECKING:
        window: Any = None
    slide: int | str | None = _option(None, "Step by which the window moves, written like the window.", metavar="S")
    output: str | None = None


class Option(NamedTuple):
    """The declaration of an option; `words` are the values of a choice, and `commands` those that have it as a flag."""

    name: str
    kind: Kind
    default: Any
    help: str
    words: tuple[str, ...]
    commands: Sequence[str]
    metavar: str | None

    @property
    def flag(self) -> str:
        """The flag of commands; it is repeated for each vertex and each parameter.

        >>> OPTIONS["max_gap"].flag, OPTIONS["sources"].flag, OPTIONS["parameters"].flag
        ('--max-gap', '--source', '--param')
        """
        if self.kind == "parameters":
            return "--param"
        name = self.name.removesuffix("s") if self.kind == "vertices" else self.name
        return f"--{name.replace('_', '-')}"


_KINDS: Mapping[Any, Kind] = {
    AnyWindow | None: "window",
    int | str | None: "window",
    str: "text",
    str | None: "text",
    Sequence[str] | None: "names",
    Collection[Vertex] | None: "vertices",
    int: "number",
    bool: "flag",
    int | str | timedelta | None: "length",
    Mapping[str, Any] | None: "parameters",
}


def _options() -> dict[str, Option]:
    types = get_type_hints(WrittenOptions)
    declared = [(one, types[one.name]) for one in fields(WrittenOptions) if one.metadata]
    declared.sort(key=lambda pair: pair[0].name not in ("window", "slide"))  # these are first, also in the help
    return {
        one.name: Option(one.name, _KINDS.get(type_, "words"), one.default, words=_words_of(type_), **one.metadata)
        for one, type_ in declared
    }


def _words_of(type_: Any) -> tuple[str, ...]:
    """Return the words of a literal type, which may be optional; none for other types."""
    found = [word for one in get_args(type_) for word in (one, *get_args(one))]
    return tuple(word for word in found if isinstance(word, str))


OPTIONS: Mapping[str, Option] = _options()
"""The options of a query by name, with `slide`, which is a part of the window in Python."""

CHOICES: Mapping[str, tuple[str, ...]] = {name: option.words for name, option in OPTIONS.items() if option.words}
"""The options whose values are words, with these words."""

REFUSED_PATHS: Mapping[str, str] = {
    "trail": 'no edge twice, is not available: a walk (paths="walk") gives the same pairs where the expression repeats one '
    'label from once on, as in a+ or a{1,3}; paths="simple_cycle" is stricter, no vertex twice, except that the last may be '
    "the first",
}
"""Kinds of paths that are refused by name, with an explanation and what to write instead."""

REFUSED_OPTIONS: Mapping[str, str] = {
    "rings": 'which reports a cycle once, is not available yet: paths="simple_cycle" reports it from each of its vertices',
}
"""Options of queries that are refused by name, with an explanation and what to write instead."""

_SPARQL: Sequence[Language] = ("sparql", "csparql", "cqels")
_ENDS = ("sources", "targets")
_ORDER = ("order", "max_gap", "max_span")
_OF_TEXT = ("select", "distinct", "matching", "filter")
_IN_ORDER = "?x (a+ in order within 6h gap 1h) ?y"
_UNSUITABLE: Sequence[tuple[Sequence[Language], Sequence[str], str]] = (
    (("path", "pattern", *_SPARQL), ("node_label",),
     "is an option of MATCH; elsewhere an edge to a label is written, as in ?x type Account"),
    (("path", "pattern", *_SPARQL), ("parameters",),
     "is an option of MATCH, whose texts name parameters as $x; {text} is none: write the values in it"),
    (("path",), ("distinct", "matching", "report", "filter"),
     "is an option of graph patterns (?x a ?y . ?y b ?z); {text} is a path"),
    (("pattern", *_SPARQL, "gql", "cypher"), ("on_budget",),
     "is an option of path queries: other answers must not miss a path"),
    (("pattern", *_SPARQL, "gql", "cypher"), ("cost",),
     "is an option of path queries, and {text} is none"),
    (("pattern",), _ENDS,
     "is an option of path queries; in a pattern, write a name instead of a variable, as in alice knows ?y"),
    (("pattern",), _ORDER,
     f"is an option of path queries; in a pattern, write it behind the expression of an atom, as in {_IN_ORDER}"),
    (("gql", "cypher"), _ORDER,
     "is an option of path queries, and MATCH has no paths in time order: write a pattern instead, as in "
     f"{_IN_ORDER}, or compare e.timestamp and f.timestamp in WHERE"),
    (("gql", "cypher"), _ENDS, "is an option of path queries; in MATCH write (a {id: 'name'})"),
    (("gql", "cypher"), _OF_TEXT,
     "is an option of graph patterns; in MATCH, write it in the text (RETURN DISTINCT a, WHERE a <> b)"),
    (_SPARQL, _ORDER,
     f"is an option of path queries, and SPARQL has no paths in time order: write a pattern instead, as in {_IN_ORDER}"),
    (_SPARQL, _ENDS, "is an option of path queries; in SPARQL write VALUES or a FILTER"),
    (_SPARQL, _OF_TEXT,
     "is an option of graph patterns; in SPARQL, write it in the text (SELECT DISTINCT ?x, FILTER(?x != ?y))"),
)  # fmt: skip
"""The options that notations do not support, with the reason or an alternative; {text} is the text of the query."""


class UnsuitableOption(NamedTuple):
    """An option that the notation of a query does not support: its name, and the reason or an alternative."""

    option: str
    reason: str


def is_given(name: str, value: Any) -> bool:
    """Return whether the value of an option is not the default; None stands for the default."""
    return value is not None and value != OPTIONS[name].default


def unsuitable_option(language: Language, text: str, options: Mapping[str, Any]) -> UnsuitableOption | None:
    """Return the first option that is given, and that a text in a notation does not support, with the reason, or None.

    >>> unsuitable_option("path", "a/b*", {"paths": "simple", "distinct": True})
    UnsuitableOption(option='distinct', reason="is an option of graph patterns (?x a ?y . ?y b ?z); 'a/b*' is a path")
    """
    for languages, names, reason in _UNSUITABLE:
        if language in languages:
            for name in names:
                if is_given(name, options.get(name)):
                    return UnsuitableOption(name, reason.replace("{text}", repr(text)))
    return None


def check_word(name: str, value: Any) -> None:
    """Raise `QueryError` for a value of an option that is none of its words.

    >>> check_word("report", "slides")
    Traceback (most recent call last):
    rpq.errors.QueryError: report: expected one of change, slide, time, not 'slides'; did you mean 'slide'?
    """
    if name == "paths" and isinstance(value, str) and value in REFUSED_PATHS:
        raise QueryError(f"{name}: {value!r}, {REFUSED_PATHS[value]}")
    if value not in CHOICES[name]:
        hint = did_you_mean(value, CHOICES[name]) if isinstance(value, str) else ""
        raise QueryError(f"{name}: expected one of {', '.join(CHOICES[name])}, not {value!r}{hint}")
