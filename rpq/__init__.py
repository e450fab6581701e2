"""Persistent regular path queries over streaming graphs.

- Queries: `Query`; `Window`, `CountWindow`, `UnboundedWindow`; `read_queries` reads several from a file;
  `motif` translates a motif of GraphFrames
- Evaluation: `Engine`, whose `push` returns `Changes` (rows: `Change`) and whose `answers` are `Answers`; `find` returns
  `Found`; `Path`, and `Witness` with `AtomWitness` and `Step`; `NodeFacts` is what `Engine.node` returns
- Inputs of other packages: `Source`, which yields `Records`
- Inspection: `Statistics`; `explain` returns an `Explanation` of the evaluation of a pattern
- `run_topics` runs queries from topics of Kafka to topics or tables
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
    FindLimitError,
    InputError,
    MemoryLimitError,
    PushLimitError,
    QueryError,
    RegistrationError,
    RowLimitError,
    RpqError,
    StateFormatError,
    SumLimitError,
)
from rpq.stream.window import CountWindow, UnboundedWindow, Window

if TYPE_CHECKING:
    from rpq.cli.topics import run_topics
    from rpq.engine.engine import Engine, NodeFacts
    from rpq.engine.statistics import Statistics
    from rpq.engine.warmup import warm_up
    from rpq.language.motifs import motif
    from rpq.language.query import Query
    from rpq.language.query_file import read_queries
    from rpq.operators.paths.path import Path
    from rpq.operators.patterns.explanation import Explanation, explain
    from rpq.operators.patterns.witness import AtomWitness, Step, Witness
    from rpq.rows.answers import Answers, Found
    from rpq.rows.changes import Change, Changes, SetAside
    from rpq.stream.sinks import Sink
    from rpq.stream.sources import Records, Source

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
    "FindLimitError",
    "Found",
    "InputError",
    "MemoryLimitError",
    "NodeFacts",
    "Path",
    "PushLimitError",
    "Query",
    "QueryError",
    "Records",
    "RegistrationError",
    "RowLimitError",
    "RpqError",
    "SetAside",
    "Sink",
    "Source",
    "StateFormatError",
    "Statistics",
    "Step",
    "SumLimitError",
    "UnboundedWindow",
    "Window",
    "Witness",
    "explain",
    "motif",
    "read_queries",
    "run_topics",
    "warm_up",
]

_LAZY = {
    "Answers": "rpq.rows.answers",
    "AtomWitness": "rpq.operators.patterns.witness",
    "Change": "rpq.rows.changes",
    "Changes": "rpq.rows.changes",
    "Engine": "rpq.engine.engine",
    "Explanation": "rpq.operators.patterns.explanation",
    "Found": "rpq.rows.answers",
    "NodeFacts": "rpq.engine.engine",
    "Path": "rpq.operators.paths.path",
    "Query": "rpq.language.query",
    "Records": "rpq.stream.sources",
    "SetAside": "rpq.rows.changes",
    "Sink": "rpq.stream.sinks",
    "Source": "rpq.stream.sources",
    "Statistics": "rpq.engine.statistics",
    "Step": "rpq.operators.patterns.witness",
    "Witness": "rpq.operators.patterns.witness",
    "explain": "rpq.operators.patterns.explanation",
    "motif": "rpq.language.motifs",
    "read_queries": "rpq.language.query_file",
    "run_topics": "rpq.cli.topics",
    "warm_up": "rpq.engine.warmup",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
