"""What a run counts: the engine's figures, those of each query, and how much memory it took."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from rpq.cli.asked import Asked

if TYPE_CHECKING:
    from rpq.engine import Engine

ENGINE_FIGURES = (
    "tuples",
    "inserted",
    "refreshed",
    "deleted",
    "absent_deletes",
    "late",
    "irrelevant",
    "rows_added",
    "rows_removed",
    "answers_live",
    "edges_live",
    "vertices_live",
    "index_cells",
    "index_bytes",
    "engine_seconds",
    "latency_p50_us",
    "latency_p99_us",
    "conflicts",
    "conflicted_roots",
    "pairs_in_doubt",
    "searches",
    "roots_set_aside",
)
"""Fields of the engine's statistics that are passed on under their own names."""

_IN_COMMON = frozenset({"vertices_live", "engine_seconds"})
"""Those that the queries of an engine have in common."""


def figures_of_engine(engine: Engine) -> dict[str, Any]:
    """The figures of all queries together; None where there is nothing to say yet."""
    statistics = engine.statistics()
    known = {name: getattr(statistics, name) for name in ENGINE_FIGURES}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in known.items()}


def figures_of_queries(engine: Engine, asked: Asked) -> list[dict[str, Any]]:
    """The figures of each query of a file, for summary and `--stats`."""
    outputs = {query.name: query.output for query in asked.entries}
    found = []
    for query in engine.queries:
        statistics = engine.statistics(query.name)
        found.append(
            {
                "name": query.name,
                "expression": query.expression,
                "window": query.window.size,
                "slide": query.window.slide,
                "paths": query.paths,
                "semantics": query.semantics,
                "output": outputs[query.name],
                **{name: getattr(statistics, name) for name in ENGINE_FIGURES if name not in _IN_COMMON},
            }
        )
    return found


def peak_memory_bytes() -> int:
    """The most memory that this process ever had resident, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
