"""A stream like the interactions on a question-and-answer site (SNAP's sx-stackoverflow family), from a seed.

Users ask, others answer (`a2q`: from the author of the answer to the author of the question) and comment (`c2q` on a
question, `c2a` on an answer). Every edge belongs to a thread, mostly a recent one: its asker and its answerers are the same
for all its edges, so answers and comments connect the same people repeatedly, which creates chains and cycles as in the real
data. Few users are the most active, new users mostly ask, people comment on their own posts, and nights are quiet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.sampling import BLOCK, DAY, blocks, daily_times, power_law, uniform, vertex_names

LABELS = ("a2q", "c2a", "c2q")
SHARES = (0.212, 0.386, 0.402)
"""The share of each label, as in sx-mathoverflow."""

LOOPS = (0.032, 0.285, 0.280)
"""The share of self-loops for each label, as in sx-mathoverflow."""

START = 1_704_067_200
"""2024-01-01 00:00 UTC, in seconds."""

EDGES_A_DAY, EDGES_A_USER = 216, 20.4
"""The density of sx-mathoverflow."""

_THREADS_AN_EDGE = 0.12
_ANSWERERS = 2
_LABEL, _LAG, _ASKER, _NEWCOMER, _ANSWER, _WHO, _ROLE, _LOOP = range(8)


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The size of a stream: `edges` tuples between at most `users` users over `days`; with `loops` also self-loops.

    The rate grows like (time)^`growth`.
    """

    edges: int = 20_000
    users: int = 1_500
    days: float = 120
    growth: float = 0.3
    loops: bool = False
    seed: int = 1


def like_stackoverflow(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate a stream with self-loops and, for every length, the density of sx-mathoverflow."""
    users, days = max(10, round(edges / EDGES_A_USER)), max(1.0, edges / EDGES_A_DAY)
    return interaction_batches(Interactions(edges=edges, users=users, days=days, loops=True, seed=seed))


def generate_interactions(settings: Interactions) -> pa.Table:
    """Return the stream as columns source, target, label (text) and timestamp (seconds, ascending).

    >>> generate_interactions(Interactions(edges=1000)).num_rows
    1000
    """
    empty = pa.schema([(name, pa.string()) for name in ("source", "target", "label")] + [("timestamp", pa.int64())])
    return pa.Table.from_batches(interaction_batches(settings), empty).combine_chunks()


def interaction_batches(settings: Interactions) -> Iterator[pa.RecordBatch]:
    """Yield the stream in batches; equal settings give equal streams. About 0.6 µs per edge, and the memory of a batch."""
    if settings.users < 2 or settings.edges < 0 or settings.days <= 0:
        raise ValueError("a stream needs at least two users and some time")
    for number in blocks(settings.edges, BLOCK):
        source, target, label = _edges(number, settings)
        position = number / settings.edges
        yield pa.RecordBatch.from_pydict(
            {
                "source": vertex_names("u", source),
                "target": vertex_names("u", target),
                "label": pa.array(LABELS).take(pa.array(label)),
                "timestamp": daily_times(position, days=settings.days, growth=settings.growth, start=START),
            }
        )


def _edges(number: np.ndarray, settings: Interactions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return source, target and label (its place in LABELS) of the edges with these numbers."""
    seed = settings.seed
    label = np.searchsorted(np.cumsum(SHARES)[:-1], uniform(seed, _LABEL, number), side="right")
    lag = power_law(uniform(seed, _LAG, number), 5_000, head=4, exponent=1.8)
    thread = np.maximum((number * _THREADS_AN_EDGE).astype(np.int64) - lag, 0)
    role, chance = uniform(seed, _ROLE, number), uniform(seed, _WHO, number)
    asker = _asker(thread, settings)
    place = (uniform(seed, _ANSWER + 100, number) ** 2 * _ANSWERERS).astype(np.int64)
    answerer = _answerer(thread * _ANSWERERS + place, thread, settings)
    passer_by = _active(chance, _user_count(number / max(settings.edges, 1), settings), head=50)
    target = np.where(label == 1, answerer, asker)
    source = np.where(
        label == 0,
        answerer,
        np.where(role < np.where(label == 1, 0.5, 0.38), np.where(label == 1, asker, answerer), passer_by),
    )
    if settings.loops:
        source = np.where(uniform(seed, _LOOP, number) < np.array(LOOPS)[label], target, source)
    else:
        source = np.where(source == target, passer_by, source)
        source = np.where(source == target, (source + 1) % settings.users, source)
    return source, target, label


def _asker(thread: np.ndarray, settings: Interactions) -> np.ndarray:
    """Return the askers of threads, often users who have just joined."""
    joined = _user_count(thread / _THREADS_AN_EDGE / max(settings.edges, 1), settings)
    chance = uniform(settings.seed, _ASKER, thread)
    newest = np.maximum(joined - 1 - (chance * 20).astype(np.int64), 0)
    is_new = uniform(settings.seed, _NEWCOMER, thread) < 0.5
    return np.where(is_new, newest, _active(chance, joined, head=80))


def _answerer(answer: np.ndarray, thread: np.ndarray, settings: Interactions) -> np.ndarray:
    joined = _user_count(thread / _THREADS_AN_EDGE / max(settings.edges, 1), settings)
    return _active(uniform(settings.seed, _ANSWER, answer), joined, head=50)


def _active(chance: np.ndarray, joined: np.ndarray, *, head: float) -> np.ndarray:
    """Draw users by activity: users who joined early are the most active."""
    return power_law(chance, joined.astype(np.float64), head=head, exponent=1.55)


def _user_count(progress: np.ndarray, settings: Interactions) -> np.ndarray:
    """Return the number of users at a position: some exist from the beginning, the others join one after the other."""
    return np.maximum((settings.users * (0.03 + 0.97 * np.minimum(progress, 1.0))).astype(np.int64), 2)


__all__ = ["DAY", "LABELS", "START", "Interactions", "generate_interactions", "interaction_batches", "like_stackoverflow"]
