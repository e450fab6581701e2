"""Columns of RDF terms, IRIs as their text and literals in N-Triples form, and batches of events of a few triples each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def numbered_iris(prefix: str, number: np.ndarray) -> pa.Array:
    """Return IRIs: a prefix and a number.

    >>> numbered_iris("urn:x", np.array([3])).to_pylist()
    ['urn:x3']
    """
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(number).cast(pa.string()), "")


def choose_terms(terms: list[str], place: np.ndarray) -> pa.Array:
    """Return the terms at these places, modulo the number of terms."""
    return pa.array(terms).take(pa.array(place % len(terms)))


def typed_literals(lexical: pa.Array, datatype: str) -> pa.Array:
    """Return literals of a type of XML Schema.

    >>> typed_literals(pa.array(["1"]), "integer").to_pylist()
    ['"1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    """
    return pc.binary_join_element_wise(pa.scalar('"'), lexical, pa.scalar(f'"^^<{XSD}{datatype}>'), "")


def plain_literals(lexical: pa.Array) -> pa.Array:
    """Return string literals; their text must not contain quotes or backslashes."""
    return pc.binary_join_element_wise(pa.scalar('"'), lexical, pa.scalar('"'), "")


def integers(values: np.ndarray) -> pa.Array:
    """Return literals of the type xsd:integer."""
    return typed_literals(pa.array(values).cast(pa.string()), "integer")


def decimals(cents: np.ndarray, datatype: str = "decimal") -> pa.Array:
    """Return literals with two decimals from integers, which are a hundred times their value.

    >>> decimals(np.array([1205, -5]))[1].as_py()
    '"-0.05"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    whole, rest = np.divmod(np.abs(cents), 100)
    sign = pa.array(["", "-"]).take(pa.array((cents < 0).astype(np.int64)))
    digits = pc.utf8_lpad(pa.array(rest).cast(pa.string()), 2, "0")
    return typed_literals(pc.binary_join_element_wise(sign, pa.array(whole).cast(pa.string()), ".", digits, ""), datatype)


def moments(seconds: np.ndarray) -> pa.Array:
    """Return literals of the type xsd:dateTime, without a zone.

    >>> moments(np.array([0]))[0].as_py()
    '"1970-01-01T00:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    """
    return typed_literals(pc.strftime(pa.array(seconds).cast(pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%S"), "dateTime")


Term: TypeAlias = "pa.Array | str"
"""A term for each event, or one term for all events."""

Triple: TypeAlias = tuple[Term, str, Term]
"""Subject, predicate, object."""


@dataclass
class EventTriples:
    """The events of a block, which are added kind by kind, and returned in order of their keys with all their triples.

    With `has_streams`, tuples have the name of a stream.
    """

    has_streams: bool = False
    _columns: dict[str, list[pa.Array]] = field(default_factory=dict)
    _keys: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        key: np.ndarray,
        time: np.ndarray,
        event: pa.Array,
        *triples: Triple,
        stream: str | None = None,
    ) -> None:
        """Add an event for each key, with its time, its IRI and its triples; keys are unique within a block."""
        count = len(key)
        for place, (source, label, target) in enumerate(triples):
            self._put("source", _column(source, count))
            self._put("target", _column(target, count))
            self._put("label", _column(label, count))
            self._put("timestamp", pa.array(time, pa.int64()))
            if self.has_streams:
                self._put("stream", _column(str(stream), count))
            self._put("event", event)
            self._keys.append(np.stack([key, np.full(count, place)]))

    def batch(self) -> pa.RecordBatch:
        """Return the added triples in order. O(n log n)."""
        keys = np.concatenate(self._keys, axis=1)
        order = pa.array(np.lexsort((keys[1], keys[0])))
        return pa.RecordBatch.from_pydict(
            {name: pa.concat_arrays(parts).take(order) for name, parts in self._columns.items()}
        )

    def _put(self, name: str, values: pa.Array) -> None:
        self._columns.setdefault(name, []).append(values)


def _column(term: Term, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(term), count) if isinstance(term, str) else pc.cast(term, pa.string())


def cut(batch: pa.RecordBatch, done: int, edges: int) -> pa.RecordBatch:
    """Cut a batch at the length of its stream, `edges`, of which `done` tuples were generated before."""
    return batch.slice(0, edges - done) if done + batch.num_rows > edges else batch
