"""Path queries of a given size at random, as the paper describes them.

Labels are grouped into concatenations and alternations of up to three; a group has `*` or `+` with probability one
half. The size is the number of labels and of `*` and `+` (Pacaci et al. 2020, section 5.1.2). The labels follow the
schema from type to type, so that paths which match can exist.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workloads.gmark.schema import Relation, Schema

LARGEST_GROUP = 3


def random_queries(
    schema: Schema, count: int, *, seed: int, sizes: Iterable[int] = range(2, 21)
) -> list[tuple[int, str]]:
    """`count` different queries (size, expression), the sizes in turn; the same seed gives the same.

    >>> from workloads.gmark.schema import SOCIAL
    >>> random_queries(SOCIAL, 2, seed=1, sizes=[2, 5]) == random_queries(SOCIAL, 2, seed=1, sizes=[2, 5])
    True
    """
    random = np.random.default_rng(seed)
    wanted = list(sizes)
    found: dict[str, int] = {}
    for number in range(count):
        size = wanted[number % len(wanted)]
        for _ in range(1000):
            expression = _query(schema, size, random)
            if expression not in found:
                found[expression] = size
                break
        else:
            raise ValueError(f"the schema has too few queries of size {size}")
    return [(size, expression) for expression, size in found.items()]


def _query(schema: Schema, size: int, random: np.random.Generator) -> str:
    """Groups until the size is reached exactly."""
    at = schema.relations[random.integers(len(schema.relations))].source
    groups: list[str] = []
    left = size
    while left:
        closes = left > 1 and random.random() < 0.5
        labels = int(random.integers(1, min(LARGEST_GROUP, left - closes) + 1))
        build = _alternation if labels > 1 and random.random() < 0.5 else _concatenation
        text, at = build(schema, at, labels, random)
        if closes:
            text = (f"({text})" if labels > 1 else text) + ("*" if random.random() < 0.5 else "+")
        elif build is _alternation:
            text = f"({text})"
        groups.append(text)
        left -= labels + closes
    return "/".join(groups)


def _concatenation(schema: Schema, at: str, labels: int, random: np.random.Generator) -> tuple[str, str]:
    steps = []
    for _ in range(labels):
        relation = _step(schema, at, random)
        steps.append(f"<{relation.label}>")
        at = relation.target
    return "/".join(steps), at


def _alternation(schema: Schema, at: str, labels: int, random: np.random.Generator) -> tuple[str, str]:
    """Different labels that leave the type, and others where those are too few."""
    chosen = {relation.label: relation for relation in (_step(schema, at, random) for _ in range(labels))}
    everything = list(schema.relations)
    while len(chosen) < min(labels, len({relation.label for relation in everything})):
        relation = everything[random.integers(len(everything))]
        chosen.setdefault(relation.label, relation)
    return "|".join(f"<{label}>" for label in chosen), next(iter(chosen.values())).target


def _step(schema: Schema, at: str, random: np.random.Generator) -> Relation:
    """A relation that leaves the type; from a type that nothing leaves, any."""
    choices = schema.leaving[at] or list(schema.relations)
    going_on = [relation for relation in choices if schema.leaving[relation.target]] or choices
    return going_on[random.integers(len(going_on))]
