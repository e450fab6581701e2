"""The figures at the end of a run: for people on stderr, for programs in a JSON file."""

from __future__ import annotations

import json
import sys
from typing import Any

from rpq.cli.progress import readable_bytes
from rpq.files.destinations import replacing

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


def peak_memory_bytes() -> int:
    """The most memory that this process ever had resident, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def write_stats(path: str, figures: dict[str, Any]) -> None:
    """Write the figures as JSON; the file is replaced as a whole.  Raises `rpq.files.destinations.WriteError`."""
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())


def summary_text(figures: dict[str, Any]) -> str:
    """The figures in some lines of text."""
    unit = f" {figures['time_unit']}" if figures["time_unit"] else ""
    counted = ("inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant")
    tuples = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in counted if figures[name])
    if "queries" in figures:
        from rpq.cli.asked_queries import summary_lines

        queries = summary_lines(figures["queries"])
    else:
        window = f"window {figures['window']:,}{unit}, slide {figures['slide']:,}{unit}"
        queries = [("query", f"{figures['expression']}   {window}, {figures['semantics']}")]
    lines = [
        *queries,
        ("ended", figures["ended"]),
        ("tuples", f"{figures['tuples']:,}" + (f": {tuples}" if tuples else "")),
        ("rejected", f"{figures['rejected']:,} lines" if figures["rejected"] else ""),
        ("filtered", _filtered(figures)),
        ("rows", f"{figures['rows_added']:,} added, {figures['rows_removed']:,} removed"),
        ("answers", f"{figures['answers_live']:,} now"),
        (
            "window",
            f"{figures['edges_live']:,} edges, {figures['index_cells']:,} index cells, "
            f"{readable_bytes(figures['index_bytes'])}; peak memory {readable_bytes(figures['peak_memory_bytes'])}",
        ),
        (
            "conflicts",
            f"met by roots {figures['conflicts']:,} times, by {figures['conflicted_roots']:,} now; "
            f"{figures['pairs_in_doubt']:,} pairs in doubt now, {figures['searches']:,} searches, {figures['roots_set_aside']:,} roots set aside now"
            if figures.get("conflicts")
            else "",
        ),
        (
            "time",
            f"{figures['engine_seconds']:.3f} s in the engine, {figures['total_seconds']:.3f} s in all"
            + (f", compiling apart {figures['compile_seconds']:.1f} s" if figures["compile_seconds"] >= 0.05 else ""),
        ),
        (
            "speed",
            f"{figures['tuples_per_second']:,.0f} tuples/s; latency p50 {_microseconds(figures['latency_p50_us'])}, "
            f"p99 {_microseconds(figures['latency_p99_us'])}",
        ),
    ]
    return "\n".join(f"{name:<10}{text}" for name, text in lines if text)


def _filtered(figures: dict[str, Any]) -> str:
    """How many tuples --where left out."""
    undecided = figures.get("undecided")
    doubt = f", {undecided:,} of them because a value is missing or no number" if undecided else ""
    return f"{figures['filtered']:,} tuples{doubt}" if figures.get("filtered") else ""


def _microseconds(value: float | None) -> str:
    return "unknown" if value is None or value != value else f"{value:,.1f} µs"
