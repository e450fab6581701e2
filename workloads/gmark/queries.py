"""Random path queries over a gMark schema.

Random queries are those of the paper: labels are grouped into concatenations and alternations of up to three; a group has
`*` or `+` with probability one half. The size is the number of labels and of `*` and `+` (Pacaci et al. 2020, section
5.1.2). The labels follow the schema from type to type, so that matching paths can exist, and no label leads to a dead end
too early.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq.workloads.gmark.schema import LabelRelation, Schema

LARGEST_GROUP = 3


def random_queries(schema: Schema, count: int, *, seed: int, sizes: Iterable[int] = range(2, 21)) -> list[tuple[int, str]]:
    """Return `count` different queries (size, expression), with the sizes in turn; equal seeds give equal queries.

    >>> from rpq.workloads.gmark.schema import SOCIAL
    >>> random_queries(SOCIAL, 2, seed=1, sizes=[2, 5]) == random_queries(SOCIAL, 2, seed=1, sizes=[2, 5])
    True
    """
    random = np.random.default_rng(seed)
    cycle = list(sizes)
    found: dict[str, int] = {}
    for number in range(count):
        size = cycle[number % len(cycle)]
        for _ in range(1000):
            expression = _query(schema, size, random)
            if expression not in found:
                found[expression] = size
                break
        else:
            raise ValueError(f"the schema has too few queries of size {size}")
    return [(size, expression) for expression, size in found.items()]


def _query(schema: Schema, size: int, random: np.random.Generator) -> str:
    """Draw groups until the size is reached exactly."""
    starts = [r.source for r in schema.relations if schema.longest_walk[r.source] >= size]
    starts = starts or [relation.source for relation in schema.relations]
    at = starts[random.integers(len(starts))]
    groups: list[str] = []
    left = size
    while left:
        closes = left > 1 and random.random() < 0.5
        labels = int(random.integers(1, min(LARGEST_GROUP, left - closes) + 1))
        build = _alternation if labels > 1 and random.random() < 0.5 else _concatenation
        text, at = build(schema, at, labels, left, random)
        if closes:
            text = (f"({text})" if labels > 1 else text) + ("*" if random.random() < 0.5 else "+")
        elif build is _alternation:
            text = f"({text})"
        groups.append(text)
        left -= labels + closes
    return "/".join(groups)


def _concatenation(schema: Schema, at: str, labels: int, remaining: int, random: np.random.Generator) -> tuple[str, str]:
    steps = []
    for step in range(labels):
        relation = _step(schema, at, remaining - step, random)
        steps.append(f"<{relation.label}>")
        at = relation.target
    return "/".join(steps), at


def _alternation(schema: Schema, at: str, labels: int, remaining: int, random: np.random.Generator) -> tuple[str, str]:
    """Draw different labels that leave the type, and others if there are too few; the path continues after the first."""
    first = _step(schema, at, remaining, random)
    chosen = [first.label]
    others = list(dict.fromkeys(r.label for r in schema.leaving[at] if r.label != first.label))
    chosen += [others[place] for place in random.permutation(len(others))[: labels - 1]]
    everything = [label for label in dict.fromkeys(r.label for r in schema.relations) if label not in chosen]
    chosen += [everything[place] for place in random.permutation(len(everything))[: labels - len(chosen)]]
    return "|".join(f"<{label}>" for label in chosen), first.target


def _step(schema: Schema, at: str, remaining: int, random: np.random.Generator) -> LabelRelation:
    """Draw a relation from the type that the remaining labels can follow, or if there is none, as many as possible."""
    choices = schema.leaving[at] or list(schema.relations)
    needed = min(remaining - 1, max(schema.longest_walk[relation.target] for relation in choices))
    fitting = [relation for relation in choices if schema.longest_walk[relation.target] >= needed]
    return fitting[random.integers(len(fitting))]
