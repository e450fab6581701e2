"""Figures of facts by label: degrees, chains and components, by which generated facts are compared with real ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LONGEST = 12
"""Chains are not followed further."""


def fact_figures(table: pa.Table) -> Mapping[str, Mapping[str, float]]:
    """Return for each label of a table of facts named figures of its degrees, chains and components.

    A fact that is repeated counts once. A chain is a walk along facts of the label, of at most twelve; the components are
    those of its facts without directions.
    """
    facts = table.select(["source", "label", "target"]).group_by(["source", "label", "target"]).aggregate([])
    names = pc.unique(pa.chunked_array([*facts["source"].chunks, *facts["target"].chunks]))
    source, target = (pc.index_in(facts[end], names).to_numpy().astype(np.int64) for end in ("source", "target"))
    label = facts["label"].cast(pa.string()).to_numpy(zero_copy_only=False)
    is_subject = np.zeros(len(names), bool)
    is_subject[source] = True
    return {
        str(name): _figures_of_facts(source[label == name], target[label == name], is_subject) for name in np.unique(label)
    }


def _figures_of_facts(source: np.ndarray, target: np.ndarray, is_subject: np.ndarray) -> dict[str, float]:
    size = len(is_subject)
    out, into = np.bincount(source, minlength=size), np.bincount(target, minlength=size)
    figures: dict[str, float] = {"facts": len(source)}
    for name, degrees in (("subjects", out), ("objects", into)):
        found = np.sort(degrees[degrees > 0])
        figures[f"{name} a fact"] = len(found) / len(source)
        for percent in (50, 90, 99):
            figures[f"facts of {name}, {percent} %"] = float(found[int(percent / 100 * (len(found) - 1))])
        figures[f"facts of {name}, most"] = float(found[-1])
    is_object = into > 0
    components = _weak_components(source, target, size)
    return figures | {
        "objects that are subjects of it": float((out[is_object] > 0).mean()),
        "objects that are subjects": float(is_subject[is_object].mean()),
        "pairs in both directions": float(np.isin(target * size + source, source * size + target).mean()),
        "longest chain": _longest_chain(source, target, size),
        "largest component": int(components.max()),
        "largest component, of the vertices": components.max() / components.sum(),
    }


def _longest_chain(source: np.ndarray, target: np.ndarray, size: int) -> int:
    """Return the number of edges of the longest walk, at most `_LONGEST`."""
    length, ends = 0, np.ones(size, bool)
    while length < _LONGEST and ends[source].any():
        following = np.zeros(size, bool)
        following[target[ends[source]]] = True
        length, ends = length + 1, following
    return length


def _weak_components(source: np.ndarray, target: np.ndarray, size: int) -> np.ndarray:
    """Return the sizes of the components of two vertices and more, directions ignored."""
    component = np.arange(size)
    while True:
        least = np.minimum(component[source], component[target])
        before = component.copy()
        np.minimum.at(component, source, least)
        np.minimum.at(component, target, least)
        component = component[component]
        if np.array_equal(component, before):
            return np.unique(component[np.unique(np.concatenate([source, target]))], return_counts=True)[1]
