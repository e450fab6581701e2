"""The figures at the end of a run: for people on stderr, for programs in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rpq.cli.progress import readable_bytes
from rpq.files.destinations import replacing
from rpq.stream.durations import length_text

SHOWN = 10
"""How many queries the summary tells of, one by one; `--stats` has all."""


def write_stats(path: str, figures: dict[str, Any]) -> None:
    """Write the figures as JSON; the file is replaced as a whole.  Raises `rpq.files.destinations.WriteError`."""
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())


def summary_text(figures: dict[str, Any]) -> str:
    """The figures in some lines of text."""
    counted = ("inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant")
    tuples = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in counted if figures[name])
    if "queries" in figures:
        queries = _of_queries(figures["queries"])
    else:
        text = " ".join(figures["expression"].split())
        queries = [("query", f"{text}   {_window(figures)}, {figures['semantics']}")]
    lines = [
        *queries,
        ("ended", figures["ended"]),
        ("tuples", f"{figures['tuples']:,}" + (f": {tuples}" if tuples else "")),
        ("static", f"{figures['static_edges']:,} edges without time" if figures.get("static_edges") else ""),
        ("rejected", f"{figures['rejected']:,} lines" if figures["rejected"] else ""),
        ("filtered", _filtered(figures)),
        ("rows", f"{figures['rows_added']:,} added, {figures['rows_removed']:,} removed"),
        ("waiting", _waiting(figures)),
        ("answers", f"{figures['answers_live']:,} now"),
        (
            "window",
            f"{figures['edges_live']:,} edges, {figures['index_cells']:,} index cells, "
            f"{readable_bytes(figures['index_bytes'])}; peak memory {readable_bytes(figures['peak_memory_bytes'])}",
        ),
        (
            "conflicts",
            f"met by roots {figures['conflicts']:,} times, by {figures['conflicted_roots']:,} now; "
            f"{figures['pairs_in_doubt']:,} pairs in doubt now, {figures['searches']:,} searches, "
            f"{figures['roots_set_aside']:,} roots set aside now"
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


def _waiting(figures: dict[str, Any]) -> str:
    """How many rows no report has told yet."""
    waiting = figures.get("rows_waiting")
    return f"{waiting:,} rows, which the next report tells, once the time has passed it" if waiting else ""


def _window(figures: Mapping[str, Any]) -> str:
    window, slide, unit = figures["window"], figures["slide"], figures["time_unit"]
    if slide is None:
        return "no default window" if window is None else f"window {window}"
    if isinstance(window, str):
        return f"window {window}, step {slide:,}"
    return f"window {length_text(window, unit)}, slide {length_text(slide, unit)}"


def _filtered(figures: dict[str, Any]) -> str:
    """How many tuples --where left out."""
    undecided = figures.get("undecided")
    doubt = f", {undecided:,} of them because a value is missing or no number" if undecided else ""
    return f"{figures['filtered']:,} tuples{doubt}" if figures.get("filtered") else ""


def _microseconds(value: float | None) -> str:
    return "unknown" if value is None or value != value else f"{value:,.1f} µs"


def _of_queries(figures: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Lines of the summary about each query, or about the first of many."""
    lines = [
        (
            "query" if not number else "",
            f"{printable(query['name'])}   {query['rows_added']:,} rows added, "
            f"{query['rows_removed']:,} removed, {query['answers_live']:,} answers now",
        )
        for number, query in enumerate(figures[:SHOWN])
    ]
    return [*lines, ("", f"… and {len(figures) - SHOWN:,} more queries")] if len(figures) > SHOWN else lines


def printable(name: str) -> str:
    """A name on one line of a terminal."""
    return name if name.isprintable() else repr(name)
