"""Persistent regular path queries over streaming graphs.

- Queries: `Query`; `Window`, `CountWindow`, `UnboundedWindow`; `read_queries` reads several from a file
- Evaluation: `Engine`, whose `push` returns `Changes` (rows: `Change`) and whose `answers` are `Answers`; `Path`, and
  `Witness` with `AtomWitness` and `Step`
- Inspection: `Statistics`; `explain` returns an `Explanation` of the evaluation of a pattern
- `warm_up` compiles the kernels ahead of time
- Errors: `RpqError` and its subclasses

Importing this package compiles nothing and loads neither numba nor Arrow; the first use loads them.
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
from rpq.stream.window import CountWindow, UnboundedWindow, Window

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.paths.path import Path
    from rpq.patterns.explanation import Explanation, explain
    from rpq.patterns.witness import AtomWitness, Step, Witness
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
    "AtomWitness": "rpq.patterns.witness",
    "Change": "rpq.results.changes",
    "Changes": "rpq.results.changes",
    "Engine": "rpq.engine",
    "Explanation": "rpq.patterns.explanation",
    "Path": "rpq.paths.path",
    "Query": "rpq.queries.query",
    "SetAside": "rpq.results.changes",
    "Statistics": "rpq.running.statistics",
    "Step": "rpq.patterns.witness",
    "Witness": "rpq.patterns.witness",
    "explain": "rpq.patterns.explanation",
    "read_queries": "rpq.queries.query_file",
    "warm_up": "rpq.warmup",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
