"""A stream like the interactions on a question-and-answer site (SNAP's sx-stackoverflow family), from a seed.

Users ask, others answer (`a2q`: from who answers to who asked) and comment (`c2q` on a question, `c2a` on an
answer).  Few users do most of the work, those who joined lately are more active, nights are quiet, and some comments
go back to who just wrote to their author: that makes chains and cycles, as in the real data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

LABELS = ("a2q", "c2a", "c2q")
SHARES = (0.22, 0.38, 0.40)
"""Of the labels, as in sx-mathoverflow."""

DAY = 86_400
START = 1_704_067_200
"""2024-01-01 00:00 UTC, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """How much of a stream: `edges` tuples between `users` over `days`; `replies` is the share of edges sent back."""

    edges: int = 20_000
    users: int = 1_500
    days: int = 120
    replies: float = 0.15
    seed: int = 1


def generate_interactions(settings: Interactions) -> pa.Table:
    """Return the stream as columns source, target, label (text) and timestamp (seconds, ascending).

    The same settings give the same stream.  No edge goes from a user to itself.  Takes about 0.3 µs an edge.

    >>> generate_interactions(Interactions(edges=1000)).num_rows
    1000
    """
    if settings.users < 2 or settings.edges < 0 or settings.days < 1:
        raise ValueError("a stream needs at least two users and one day")
    random = np.random.default_rng(settings.seed)
    timestamps = _timestamps(random, settings)
    progress = (timestamps - START) / (settings.days * DAY)
    source = _users(random, progress, settings.users)
    target = _users(random, progress, settings.users)
    # A reply turns an edge of shortly before around.
    earlier = np.maximum(np.arange(settings.edges) - random.integers(1, 50, settings.edges), 0)
    reply = random.random(settings.edges) < settings.replies
    source, target = np.where(reply, target[earlier], source), np.where(reply, source[earlier], target)
    target = np.where(source == target, (target + 1) % settings.users, target)
    labels = random.choice(len(LABELS), size=settings.edges, p=SHARES)
    names = pa.array([f"u{user}" for user in range(settings.users)])
    return pa.table(
        {
            "source": names.take(pa.array(source)),
            "target": names.take(pa.array(target)),
            "label": pa.array(LABELS).take(pa.array(labels)),
            "timestamp": timestamps,
        }
    )


def _timestamps(random: np.random.Generator, settings: Interactions) -> np.ndarray:
    day = random.integers(0, settings.days, settings.edges)
    hour = (random.normal(15.0, 5.0, settings.edges) % 24) * 3600
    return np.sort(START + day * DAY + hour.astype(np.int64))


def _users(random: np.random.Generator, progress: np.ndarray, users: int) -> np.ndarray:
    """Users by activity: a power law over those who have joined by then, a quarter of them from the beginning."""
    joined = np.maximum((users * (0.25 + 0.75 * progress)).astype(np.int64), 2)
    rank = (joined * random.random(len(progress)) ** 3).astype(np.int64)
    return np.where(random.random(len(progress)) < 0.7, rank, joined - 1 - rank)
