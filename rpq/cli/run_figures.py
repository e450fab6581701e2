"""What a run counts: the engine's figures, those of each query, and how much memory it took."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rpq.cli.asked import Asked
from rpq.cli.query_options import has_default_window
from rpq.errors import RpqError
from rpq.queries.query import PatternQuery
from rpq.stream.window import size_and_slide

if TYPE_CHECKING:
    from rpq.engine import Engine

_IN_COMMON = frozenset({"vertices_live", "engine_seconds"})
"""Fields of `Statistics` that the queries of an engine have in common; all others are told of each query too."""


def figures_of_engine(engine: Engine) -> dict[str, Any]:
    """The figures of all queries together; None where there is nothing to say yet."""
    known = asdict(engine.statistics())
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in known.items()}


def figures_of_queries(engine: Engine, asked: Asked) -> list[dict[str, Any]]:
    """The figures of each query of a file, for summary and `--stats`."""
    outputs = {query.name: query.output for query in asked.entries}
    found = []
    for query in engine.queries:
        known = asdict(engine.statistics(query.name))
        window, slide = size_and_slide(query.window) if has_default_window(query) else (None, None)
        found.append(
            {
                "name": query.name,
                "expression": query.expression,
                "window": window,
                "slide": slide,
                "paths": query.paths,
                "semantics": query.semantics,
                "columns": list(query.columns),
                "output": outputs[query.name],
                **{name: value for name, value in known.items() if name not in _IN_COMMON},
            }
        )
    return found


def explanations_of(engine: Engine) -> list[dict[str, Any]]:
    """How each pattern was evaluated, with what was counted at each step; nothing of an engine that failed in a tuple."""
    patterns = [query for query in engine.queries if isinstance(query, PatternQuery)]
    try:
        return [{"name": query.name, **engine.explain(query.name).to_dict()} for query in patterns]
    except RpqError:  # what it had counted then is neither that before the tuple nor that behind it
        return []


def peak_memory_bytes() -> int:
    """The most memory that this process ever had resident, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
