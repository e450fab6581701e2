"""The division of work over shares: keys of partitions, edges of a share, and the memory of its engine.

**Keys.**  The keys of the root partitions are chosen so that Spark's shuffle puts each partition into a task of its own.
Spark sends a key to the task hash(key) mod tasks.  With the keys 0, 1, 2, … some tasks would get two partitions and others
none, so the key of the n-th partition is a number whose hash leads to the n-th task, if there are as many tasks
(`spark.sql.shuffle.partitions`) as partitions.  With another number of tasks the result is the same, but less balanced.
The keys depend on the number of partitions alone, so a restart finds its state again.

**Edges.**  A share has to see all edges of paths.  If a column is the centre of a pattern or of a query in SPARQL
(`Query.centre`), a row consists of edges at the vertex in this column, and the share that owns the vertex answers for it;
the other shares need not see these edges.  Every share evaluates all other queries as a whole, and only their rows are
divided.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import rpq
from rpq.engine.engine import Engine
from rpq.engine.running.limits import default_limit
from rpq.language.protocol import Division
from rpq.language.query import PatternQuery
from rpq.language.readings import LabelSet, has_conditions, readings_of
from rpq.language.sparql.query import SparqlQuery
from rpq.spark.envelopes import LabelReader
from rpq.stream.names.stream_labels import text_of
from rpq.stream.names.vertices import VertexDictionary

_SEED = 42
_WORD = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Return Spark's hash of an int: Murmur3 with 32 bits and the seed 42, signed.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    key = _rotate_left((value & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotate_left(_SEED ^ key, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4  # bytes
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def partition_keys(count: int) -> list[int]:
    """Return a key for each of `count` partitions, the n-th of which goes to the n-th of as many tasks.

    >>> [spark_hash(key) % 3 for key in partition_keys(3)]
    [0, 1, 2]
    """
    keys: dict[int, int] = {}
    value = 0
    while len(keys) < count:
        keys.setdefault(spark_hash(value) % count, value)
        value += 1
    return [keys[task] for task in range(count)]


def _rotate_left(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


_ENDS = ("source", "target")


class _PlainLabels(NamedTuple):
    """The labels that a query reads, whatever the conditions on them."""

    labels: LabelSet

    def reads(self, label: str) -> bool:
        """Return whether edges with a label can matter to the query."""
        return self.labels.has(label)


def label_readers(queries: Sequence[rpq.Query]) -> list[LabelReader]:
    """Return what tells for each query whether it reads a label that tuples have, with a condition or without.

    >>> query = rpq.Query("a[n > 1]", window=rpq.Window(size=10, slide=1))
    >>> query.reads("a"), label_readers([query])[0].reads("a")
    (False, True)
    """
    found: list[LabelReader] = []
    for query in queries:
        if has_conditions(query):
            found += [_PlainLabels(reading.labels.plain) for reading in readings_of(query)]
        else:
            found.append(query)
    return found


class OwnEdges:
    """A filter of the edges that a share has to see for some queries.

    >>> query = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1))
    >>> edges = pa.table({"source": ["u", "w"], "target": ["v", "v"], "label": ["a", "a"]})
    >>> [len(OwnEdges([query], share=(number, 2)).select(edges)) for number in (0, 1)]
    [1, 1]
    """

    def __init__(self, queries: Sequence[rpq.Query], *, share: tuple[int, int], whole: bool = False) -> None:
        """With `whole` the share sees all edges: where they have ids, an insert elsewhere may take one of its edges away."""
        self._division = Division(1, share)
        undivided: list[rpq.Query] = []
        self._at: dict[str, set[str]] = {"source": set(), "target": set()}
        for query in queries:
            if query.centre is None:
                undivided.append(query)
            else:
                self._at["source"] |= set(map(text_of, query.centre.sources))
                self._at["target"] |= set(map(text_of, query.centre.targets))
        self._whole = label_readers(undivided)
        self.sees_all_edges = whole or share[1] == 1 or len(undivided) == len(queries)

    def select(self, tuples: pa.Table) -> pa.Table:
        """Return the tuples that matter to the share. O(tuples)."""
        if self.sees_all_edges or not len(tuples):
            return tuples
        labels = tuples["label"].combine_chunks().dictionary_encode()
        names, codes = labels.dictionary.to_pylist(), labels.indices.to_numpy()
        needed = np.array([any(query.reads(name) for query in self._whole) for name in names], bool)[codes]
        for end in _ENDS:
            at_end = np.array([name in self._at[end] for name in names], bool)[codes]
            if at_end.any():
                needed |= at_end & self._own(tuples[end].combine_chunks())
        return tuples if needed.all() else tuples.filter(pa.array(needed))

    def select_in_order(self, tuples: pa.Table, time: int | None) -> tuple[pa.Table, int | None]:
        """Return the tuples that matter, of those that arrive at stream time `time`, and the time after all of them.

        The time is None if no tuple is left out.  If tuples are out of order, all of them are returned, because even a tuple
        that no query of the share reads advances the time for the next tuple.
        """
        if self.sees_all_edges or not len(tuples):
            return tuples, None
        stamps = tuples["timestamp"].to_numpy()
        if (time is not None and stamps[0] < time) or (np.diff(stamps) < 0).any():
            return tuples, None
        own = self.select(tuples)
        return own, None if len(own) == len(tuples) else int(stamps[-1])

    def _own(self, names: pa.Array) -> np.ndarray:
        """Return a mask of the names that are vertices of the share."""
        encoded = names.dictionary_encode()
        vertices = VertexDictionary()
        distinct = encoded.dictionary
        distinct = distinct.cast(pa.int64() if pa.types.is_integer(distinct.type) else pa.string())
        ids, _ = vertices.intern(distinct, np.ones(len(distinct), np.uint8))
        (own,) = self._division.owned(vertices.hashes(ids))
        found: np.ndarray = own[encoded.indices.to_numpy()]
        return found


def describe_division(query: rpq.Query) -> str:
    """Return a description of how the work of a query is divided over shares, or of why it is not.

    Path queries are divided by the roots of their trees; patterns and queries in SPARQL by the first column that all edges
    they read are incident to (`Query.centre`).  For all other queries only the rows are divided, by their first column.

    >>> import rpq
    >>> window = rpq.Window(size=10, slide=1)
    >>> print(describe_division(rpq.Query("?x a ?y . ?y b ?z", window=window)))
    divided by ?y: a share sees only the edges at its own vertices
    """
    if (warning := division_warning(query)) is not None:
        return warning.removeprefix(f"query {query.name!r} is ")
    if query.centre is None:
        return "divided by the roots of the trees of its paths: a share sees all edges that the query reads"
    return f"divided by ?{query.centre.variable}: a share sees only the edges at its own vertices"


def division_warning(query: rpq.Query) -> str | None:
    """Return a warning about a query whose work every share does as a whole, or None if the work is divided.

    >>> import rpq
    >>> division_warning(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1))) is None
    True
    """
    if not isinstance(query, (PatternQuery, SparqlQuery)) or query.centre is not None:
        return None
    by = f"its rows are divided by ?{query.columns[0]}" if query.columns else "the first share outputs its rows"
    return (
        f"query {query.name!r} is not divided, as {_undivided_reason(query)}: every share evaluates all of it, and {by}; "
        "more shares do not make it faster"
    )


def _undivided_reason(query: PatternQuery | SparqlQuery) -> str:
    if isinstance(query, SparqlQuery):
        return "no column of SELECT occurs in every triple pattern that it reads"
    if query.pattern.path_expressions:
        return f"it has a path ({query.pattern.path_expressions[0]})"
    if query.pattern.centres:
        return f"?{query.pattern.centres[0]}, which occurs in all atoms, is not a column: select it to divide the work"
    return "no variable occurs in all atoms"


def share_limit(memory_limit: int | None, *, threads: int, shares: int = 1) -> int:
    """Return the memory limit of a share in bytes: `memory_limit`, or if it is None, the share's part of the memory.

    Workers do not know of one another.  A share therefore gets the part of its threads in all cores, applied to the 70 % of
    the machine's memory that engines may use; with more `shares` on this machine than cores, the part is smaller.
    """
    if memory_limit is not None:
        return memory_limit
    return default_limit() * min(threads, _cores()) // max(_cores(), shares * threads)


def engine_bytes(engine: Engine) -> int:
    """Return the number of bytes that an engine occupies. O(queries)."""
    return engine._evaluation.guard.nbytes


def set_memory_limit(engine: Engine, limit: int) -> None:
    """Set the number of bytes up to which an engine may grow."""
    engine._evaluation.guard.limit = limit


def _cores() -> int:
    return os.cpu_count() or 1
