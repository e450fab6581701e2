"""Figures for the comparison of two streams of interactions: degrees, reciprocity, cycles, labels, rhythm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MONTH = 30 * 86_400
_MONTHS_LOOKED_AT = 5


def stream_figures(table: pa.Table) -> Mapping[str, float]:
    """Return named figures of a stream with timestamps in seconds; all but the first two are independent of its length."""
    names = pc.unique(pa.chunked_array([*table["source"].chunks, *table["target"].chunks]))
    source, target = (pc.index_in(table[end], names).to_numpy().astype(np.int64) for end in ("source", "target"))
    size, loop = len(names), source == target
    time = table["timestamp"].to_numpy()
    label = table["label"].cast(pa.string()).to_numpy(zero_copy_only=False)
    pairs = np.unique(source[~loop] * size + target[~loop])
    out, into = np.bincount(source, minlength=size), np.bincount(target, minlength=size)
    figures: dict[str, float] = {"edges": len(source), "vertices": size, "edges a vertex": len(source) / size}
    for name in sorted(set(label)):
        figures[f"label {name}"] = float((label == name).mean())
    for name in sorted(set(label)):
        figures[f"self-loops of {name}"] = float(loop[label == name].mean())
    figures |= {
        "distinct pairs an edge": len(pairs) / max(1, int((~loop).sum())),
        "reciprocal pairs": _reciprocity(pairs, size),
        "largest out-degree, of the edges": out.max() / len(source),
        "largest in-degree, of the edges": into.max() / len(source),
        "out-edges of the top 1 %": _top(out, 0.01),
        "out-edges of the top 10 %": _top(out, 0.1),
        "in-edges of the top 1 %": _top(into, 0.01),
        "in-edges of the top 10 %": _top(into, 0.1),
        "vertices without out-edges": float((out == 0).mean()),
        "vertices without in-edges": float((into == 0).mean()),
    }
    hours = np.bincount((time // 3600) % 24, minlength=24) / len(time) * 24
    figures |= {"busiest hour, of the mean": hours.max(), "quietest hour, of the mean": hours.min()}
    return figures | _monthly(source[~loop], target[~loop], time[~loop], size)


def side_by_side(ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Return rows (figure, ours, theirs) as text.

    >>> side_by_side({"edges": 1000, "x": 0.5}, {"edges": 20, "x": 0.25})
    [('edges', '1,000', '20'), ('x', '0.500', '0.250')]
    """

    def text(value: float | None) -> str:
        if value is None:
            return "–"
        return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3f}"

    return [(name, text(ours.get(name)), text(theirs.get(name))) for name in dict.fromkeys([*ours, *theirs])]


def _monthly(source: np.ndarray, target: np.ndarray, time: np.ndarray, size: int) -> dict[str, float]:
    """Return the means over some months of the figures of windows of thirty days, without self-loops."""
    month = (time - time[0]) // MONTH
    whole = int(month[-1])
    months = np.unique(np.linspace(whole // 4, max(whole - 1, 0), _MONTHS_LOOKED_AT).astype(int))
    found = []
    for number in months:
        inside = month == number
        pairs = np.unique(source[inside] * size + target[inside])
        vertices = len(np.unique(np.concatenate([pairs // size, pairs % size])))
        found.append(
            (inside.sum(), vertices, _reciprocity(pairs, size), _largest_component(pairs // size, pairs % size) / vertices)
        )
    edges, vertices, reciprocal, cyclic = np.mean(found, axis=0)
    return {
        "a month: edges": float(edges),
        "a month: edges a vertex": float(edges / vertices),
        "a month: reciprocal pairs": float(reciprocal),
        "a month: vertices in the largest cycle of cycles": float(cyclic),
    }


def _top(degrees: np.ndarray, part: float) -> float:
    ordered = np.sort(degrees)[::-1]
    return float(ordered[: max(1, int(part * len(ordered)))].sum() / ordered.sum())


def _reciprocity(pairs: np.ndarray, size: int) -> float:
    """Return the part of pairs whose reverse is present."""
    return float(np.isin(pairs % size * size + pairs // size, pairs).mean()) if len(pairs) else 0.0


def _largest_component(source: np.ndarray, target: np.ndarray) -> int:
    """Return the size of the strongly connected component of the busiest vertex, in such graphs the largest one."""
    counts = np.bincount(np.concatenate([source, target]))
    busiest = int(counts.argmax())
    return int((_reachable(source, target, busiest) & _reachable(target, source, busiest)).sum())


def _reachable(source: np.ndarray, target: np.ndarray, start: int) -> np.ndarray:
    reached = np.zeros(int(max(source.max(), target.max())) + 1, bool)
    reached[start] = True
    while True:
        more = target[reached[source]]
        if reached[more].all():
            return reached
        reached[more] = True
