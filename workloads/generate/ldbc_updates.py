"""An update stream like LDBC's social network: persons, friendships, forums, posts, comments, likes; with deletions.

An event has the edges of the LDBC update streams: a comment has hasCreator, replyOf, isLocatedIn and hasTag. Replies and
likes refer to recent messages, so replyOf forms deep trees. Some edges are deleted later. The names of vertices begin with p
(persons), m (messages), f (forums), t (tags), l (places) or o (organisations).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.sampling import blocks, daily_times, power_law, uniform, vertex_names

EVENTS = {
    "person": 0.0004,
    "friendship": 0.0229,
    "forum": 0.0054,
    "membership": 0.1970,
    "post": 0.0659,
    "comment": 0.4217,
    "like": 0.2867,
}
"""Shares of the events, as in the SF0.1 update stream."""

EDGES_AN_EVENT, EVENTS_A_DAY, EDGES_A_PERSON = 2.45, 5_150, 270
DELETED = 0.021
LONGEST_WAIT = 60_000
"""The largest number of edges between an edge and its delete."""

START = 1_325_376_000
"""2012-01-01 00:00 UTC, in seconds; timestamps are milliseconds."""

_EVENT_BLOCK = 1 << 15
_TAGS, _PLACES, _ORGANISATIONS = 500, 150, 300
_KINDS = ("p", "m", "f", "t", "l", "o")
_PERSON, _MESSAGE, _FORUM, _TAG, _PLACE, _ORGANISATION = range(6)
LABELS = (
    "hasCreator", "replyOf", "isLocatedIn", "hasTag", "containerOf", "likes", "hasMember", "hasModerator", "knows",
    "hasInterest", "studyAt", "workAt",
)  # fmt: skip


class _Edges(NamedTuple):
    """Columns of edges: kinds of vertices and labels as indices, numbers of vertices, and the event or position."""

    source_kind: np.ndarray
    source: np.ndarray
    label: np.ndarray
    target_kind: np.ndarray
    target: np.ndarray
    at: np.ndarray
    timestamp: np.ndarray
    delete: np.ndarray

    def take(self, rows: np.ndarray) -> _Edges:
        return _Edges(*(column[rows] for column in self))


def like_ldbc(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate `edges` tuples, including deletes, in order of time (milliseconds)."""
    maker = _Maker(seed, persons=max(20, edges // EDGES_A_PERSON), days=edges / EDGES_AN_EVENT / EVENTS_A_DAY)
    waiting: _Edges | None = None
    begun = done = 0
    # An event has at least one edge, so there are always enough events.
    for event in blocks(edges, _EVENT_BLOCK):
        inserts = maker.edges_of(event)
        inserts = inserts._replace(at=begun + np.arange(len(inserts.at)))
        begun += len(inserts.at)
        waiting, due = _with_deletes(inserts, waiting, seed, before=begun)
        yield _batch(due.take(np.arange(min(len(due.at), edges - done))))
        done += len(due.at)
        if done >= edges:
            return


def _with_deletes(inserts: _Edges, waiting: _Edges | None, seed: int, *, before: int) -> tuple[_Edges, _Edges]:
    """Return (deletes at position `before` or later, inserts merged with the earlier deletes)."""
    chosen = np.flatnonzero(uniform(seed, 90, inserts.at) < DELETED)
    wait = 1 + power_law(uniform(seed, 91, inserts.at[chosen]), LONGEST_WAIT, head=3_000, exponent=1.5)
    deletes = inserts.take(chosen)
    deletes = deletes._replace(at=deletes.at + wait, delete=np.ones(len(chosen), bool))
    if waiting is not None:
        deletes = _concatenate([waiting, deletes])
    is_due = deletes.at < before
    both = _concatenate([inserts, deletes.take(np.flatnonzero(is_due))])
    due = both.take(np.lexsort((both.delete, both.at)))
    return deletes.take(np.flatnonzero(~is_due)), due._replace(timestamp=np.maximum.accumulate(due.timestamp))


def _concatenate(parts: list[_Edges]) -> _Edges:
    return _Edges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _batch(edges: _Edges) -> pa.RecordBatch:
    kinds, labels = pa.array(_KINDS), pa.array(LABELS)
    return pa.RecordBatch.from_pydict(
        {
            "source": vertex_names(kinds.take(pa.array(edges.source_kind)), edges.source),
            "target": vertex_names(kinds.take(pa.array(edges.target_kind)), edges.target),
            "label": labels.take(pa.array(edges.label)),
            "timestamp": edges.timestamp,
            "delete": edges.delete,
        }
    )


class _Maker:
    """A generator of the edges of events, whose state is only the numbers of persons, messages and forums so far."""

    def __init__(self, seed: int, *, persons: int, days: float) -> None:
        self._seed = seed
        self._days = days
        self._events = days * EVENTS_A_DAY
        self._first = {"person": persons, "forum": persons // 2 + 1, "message": 1}

    def edges_of(self, event: np.ndarray) -> _Edges:
        """Return the edges of consecutive events, in their order."""
        kind = np.searchsorted(np.cumsum([*EVENTS.values()])[:-1], self._draw(0, event), side="right")
        rows = {name: np.flatnonzero(kind == place) for place, name in enumerate(EVENTS)}
        is_message = np.isin(kind, [[*EVENTS].index("post"), [*EVENTS].index("comment")])
        self._message = self._first["message"] + np.cumsum(is_message)
        self._event = event
        parts = [
            *self._people(rows),
            *self._forums(rows),
            *self._messages(np.flatnonzero(is_message), rows["post"], rows["comment"]),
            self._likes(rows["like"]),
        ]
        self._first["person"] += len(rows["person"])
        self._first["forum"] += len(rows["forum"])
        self._first["message"] += int(is_message.sum())
        return self._in_order(parts)

    def _in_order(self, parts: list[tuple[np.ndarray, int, np.ndarray, str, int, np.ndarray]]) -> _Edges:
        rows = np.concatenate([part[0] for part in parts])
        order = np.argsort(rows, kind="stable")
        columns = [
            np.concatenate([np.broadcast_to(np.asarray(of(part), np.int64), part[0].shape) for part in parts])[order]
            for of in (lambda p: p[1], lambda p: p[2], lambda p: LABELS.index(p[3]), lambda p: p[4], lambda p: p[5])
        ]
        event = self._event[rows[order]]
        passed = daily_times(event / self._events, days=self._days, growth=0.0, start=START)
        return _Edges(*columns, event, passed * 1000 + event % 1000, np.zeros(len(event), bool))  # type: ignore[call-arg]

    def _people(self, rows: dict[str, np.ndarray]) -> Iterator[tuple[Any, ...]]:
        new, friends = rows["person"], rows["friendship"]
        number = self._first["person"] + np.arange(len(new))
        yield new, _PERSON, number, "isLocatedIn", _PLACE, self._some(1, new, _PLACES)
        yield new, _PERSON, number, "hasInterest", _TAG, self._some(2, new, _TAGS)
        yield new, _PERSON, number, "studyAt", _ORGANISATION, self._some(3, new, _ORGANISATIONS)
        yield new, _PERSON, number, "workAt", _ORGANISATION, self._some(4, new, _ORGANISATIONS)
        yield friends, _PERSON, self._person(5, friends), "knows", _PERSON, self._person(6, friends)

    def _forums(self, rows: dict[str, np.ndarray]) -> Iterator[tuple[Any, ...]]:
        new, members = rows["forum"], rows["membership"]
        number = self._first["forum"] + np.arange(len(new))
        yield new, _FORUM, number, "hasModerator", _PERSON, self._person(7, new)
        yield new, _FORUM, number, "hasTag", _TAG, self._some(8, new, _TAGS)
        yield members, _FORUM, self._some(9, members, self._first["forum"]), "hasMember", _PERSON, self._person(10, members)

    def _messages(self, new: np.ndarray, posts: np.ndarray, comments: np.ndarray) -> Iterator[tuple[Any, ...]]:
        number = self._message[new] - 1
        yield new, _MESSAGE, number, "hasCreator", _PERSON, self._person(11, new)
        replied = self._recent(12, comments)
        yield comments, _MESSAGE, self._message[comments] - 1, "replyOf", _MESSAGE, replied
        forum = self._some(13, posts, self._first["forum"])
        yield posts, _FORUM, forum, "containerOf", _MESSAGE, self._message[posts] - 1
        yield new, _MESSAGE, number, "isLocatedIn", _PLACE, self._some(14, new, _PLACES)
        for purpose, share in ((15, 0.6), (16, 0.25), (17, 0.1)):
            tagged = new[self._draw(purpose, self._event[new]) < share]
            yield tagged, _MESSAGE, self._message[tagged] - 1, "hasTag", _TAG, self._some(purpose + 10, tagged, _TAGS)

    def _likes(self, rows: np.ndarray) -> tuple[Any, ...]:
        return rows, _PERSON, self._person(18, rows), "likes", _MESSAGE, self._recent(19, rows)

    def _recent(self, purpose: int, rows: np.ndarray) -> np.ndarray:
        """Draw an earlier message, mostly a recent one."""
        lag = power_law(self._draw(purpose, self._event[rows]), 50_000, head=200, exponent=1.6)
        return np.maximum(self._message[rows] - 2 - lag, 0)

    def _person(self, purpose: int, rows: np.ndarray) -> np.ndarray:
        return self._some(purpose, rows, self._first["person"])

    def _some(self, purpose: int, rows: np.ndarray, size: int) -> np.ndarray:
        """Draw numbers below `size`; small numbers are the most frequent."""
        return power_law(self._draw(purpose, self._event[rows]), float(size), head=max(2.0, size / 10), exponent=1.8)

    def _draw(self, purpose: int, event: np.ndarray) -> np.ndarray:
        return uniform(self._seed, purpose, event)
