"""Persistent regular path queries over streaming graphs.

- Ask: `Query`; `Window`, `CountWindow`, `UnboundedWindow`; `read_queries` reads many from a file
- Run: `Engine`, whose `push` returns `Changes` (rows: `Change`) and whose `answers` are `Answers`; `Path`, and
  `Witness` with `AtomWitness` and `Step`
- Look: `Statistics`; `explain` says how a pattern is evaluated, an `Explanation`
- `warm_up` compiles the kernels ahead of time
- Errors: `RpqError` and those derived from it

Importing this package compiles nothing and loads neither numba nor Arrow; first use does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rpq.errors import (
    ConflictBudgetError,
    ExpressionError,
    InputError,
    MemoryLimitError,
    QueryError,
    RegistrationError,
    RowLimitError,
    RpqError,
    StateFormatError,
)
from rpq.queries import sparql_home
from rpq.stream.window import CountWindow, UnboundedWindow, Window

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.paths.path import Path
    from rpq.patterns.explained import Explanation, explain
    from rpq.patterns.witnessed import AtomWitness, Step, Witness
    from rpq.queries.query import Query
    from rpq.queries.query_file import read_queries
    from rpq.results.answers import Answers
    from rpq.results.changes import Change, Changes, SetAside
    from rpq.running.statistics import Statistics
    from rpq.warmup import warm_up

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "AtomWitness",
    "Change",
    "Changes",
    "ConflictBudgetError",
    "CountWindow",
    "Engine",
    "Explanation",
    "ExpressionError",
    "InputError",
    "MemoryLimitError",
    "Path",
    "Query",
    "QueryError",
    "RegistrationError",
    "RowLimitError",
    "RpqError",
    "SetAside",
    "StateFormatError",
    "Statistics",
    "Step",
    "UnboundedWindow",
    "Window",
    "Witness",
    "explain",
    "read_queries",
    "warm_up",
]

_LAZY = {
    "Answers": "rpq.results.answers",
    "AtomWitness": "rpq.patterns.witnessed",
    "Change": "rpq.results.changes",
    "Changes": "rpq.results.changes",
    "Engine": "rpq.engine",
    "Explanation": "rpq.patterns.explained",
    "Path": "rpq.paths.path",
    "Query": "rpq.queries.query",
    "SetAside": "rpq.results.changes",
    "Statistics": "rpq.running.statistics",
    "Step": "rpq.patterns.witnessed",
    "Witness": "rpq.patterns.witnessed",
    "explain": "rpq.patterns.explained",
    "read_queries": "rpq.queries.query_file",
    "warm_up": "rpq.warmup",
}


def _sparql_query() -> type:
    found: type = import_module("rpq.sparql.query").SparqlQuery
    return found


sparql_home.home = _sparql_query


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
