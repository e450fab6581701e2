"""The kinds of queries that there are: how each starts, and how it is written down.

One is registered where the engine is put together (`rpq.engine`); another package may register its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rpq.errors import QueryError
from rpq.files.json_values import Damage, JsonValue
from rpq.queries.protocol import Host, Question, Resources, RunningQuery


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of query: the type of its questions, how one starts to run, and how it becomes JSON and is read again.

    `read` raises `Damage` for what `described` cannot have given. Where queries of the kind share what they hold, `host`
    makes that, once an engine, and each that starts finds it in its resources.
    """

    name: str
    question: type
    start: Callable[[Any, Resources], RunningQuery]
    described: Callable[[Any], dict[str, Any]]
    read: Callable[[JsonValue], Any]
    host: Callable[[Resources], Host] | None = None


_NAMED = 10
"""So many queries are named in a warning."""
_kinds: dict[str, Kind] = {}
_PLAIN = "path"  # the kind that is not written down: there was no other once


def register(kind: Kind) -> None:
    """Let queries of a kind be asked; one of the same name is replaced."""
    _kinds[kind.name] = kind


def kind_of(question: Any) -> Kind:
    """The kind of a question, by the nearest of its classes that has one. Raises `QueryError` for what is none."""
    for one in type(question).__mro__:
        for kind in _kinds.values():
            if kind.question is one:
                return kind
    raise QueryError(f"a query is a rpq.Query(expression, window=…), not {question!r}")


def undivided(questions: Iterable[Question], threads: int) -> str | None:
    """Return a warning that names the queries which several threads do not divide; None where all are divided."""
    names = [repr(one.name) for one in questions if threads > 1 and kind_of(one).name != _PLAIN]
    if not names:
        return None
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    verb = "is" if len(names) == 1 else "are each"
    return f"{threads} threads divide path queries alone: {', '.join(names[:_NAMED])}{more} {verb} evaluated by one thread"


def described(question: Question) -> dict[str, Any]:
    """A question as JSON values: in saved states, checkpoints, and on the way to Spark's workers."""
    kind = kind_of(question)
    return {**({} if kind.name == _PLAIN else {"kind": kind.name}), **kind.described(question)}


def read(content: JsonValue) -> Any:
    """The question that `described` made these of. Raises `Damage`."""
    name = content["kind"].text() if "kind" in content else _PLAIN
    if name not in _kinds:
        raise Damage(f"a query is of kind {name!r}, which this release does not know")
    return _kinds[name].read(content)
