"""Ids for all terms that a query sees: vertices keep their ids, and other terms get ids of the query's own.

A vertex has the id that the stream assigned. A term that is written in the query or computed gets an id from `FIRST` on,
unless a vertex with that text exists: then the term has the id of the vertex, which is pinned for as long as the query may
use it. A vertex that appears later with the text of such a term is an alias of the term (`replace_aliases`). So equal terms
have one id, and ids can be compared.

If vertices are integers, the text of a vertex is its decimal notation.

The lists that groups compute change with every tuple, so kernels intern them, in a dictionary of their own. Their ids are
the odd ones from `FIRST` on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rpq.operators.relational.values.number_ids import NumberIds, Numbers, quotients
from rpq.rows.weighted_rows import UNBOUND
from rpq.stream.arrays.numpy_arrays import arrow_array
from rpq.stream.names.terms import LIST_TYPE
from rpq.stream.names.vertices import VertexDictionary, as_vertex

FIRST = 1 << 30
"""The first id of terms that are not vertices; the ids of vertices are below."""
_FIRST_LIST = FIRST + 1
"""The first id of lists, whose ids are odd; those of other terms are even."""

FIRST_NUMBER = FIRST + (1 << 29)
"""The first id of numbers that groups compute, whose texts are written when they are read."""

_LIST_END = f'"^^<{LIST_TYPE}>'
_FEW = 16
"""The number of ids up to which reading their terms one by one is faster than an array."""
_MAX_CACHED = 1 << 17
_MAX_BYTES = (1 << 31) - 1
"""The size of texts from which they need wider offsets."""


class TermIds:
    """The terms of one query, or of several that share operators.

    - Terms to ids: `intern`, `intern_lists`; ids to terms: `text`, `texts`
    - Vertices: `add_vertices` for new ones, `replace_aliases` in rows of input, `pinned_vertices`
    - `retain` removes terms and numbers that are no longer in use
    """

    def __init__(self) -> None:
        self._texts: list[str | None] = []
        self._lists = VertexDictionary(capacity=16)
        """The lists that groups compute: their texts as UTF-8."""
        self._numbers = NumberIds()
        self._ids: dict[str, int] = {}
        self._free: list[int] = []
        self._pinned_ids: set[int] = set()
        self._aliases: dict[int, int] = {}  # of vertices: the terms of which they are aliases
        self._alias = np.zeros(0, np.int32)  # the same for every vertex, where there are some
        self._vertices: VertexDictionary | None = None
        self._cache: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ids) + self._lists.live + len(self._numbers)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        of_others = self._lists.nbytes + self._numbers.nbytes
        return 200 * len(self._ids) + of_others + self._alias.nbytes + 100 * len(self._cache)

    # --- vertices --------------------------------------------------------------------------------------------

    @property
    def vertices(self) -> VertexDictionary | None:
        """The dictionary of vertices, or None before the first vertex."""
        return self._vertices

    def add_vertices(self, vertices: VertexDictionary, new_ids: np.ndarray) -> None:
        """Set the dictionary of vertices. `new_ids` are those of new names. O(new ids), or O(terms) if these are fewer."""
        self._vertices = vertices
        if not len(new_ids):
            return
        if self._cache:
            reused: Iterable[int]
            if len(new_ids) <= len(self._cache):
                reused = self._cache.keys() & new_ids.tolist()
            else:
                cached = np.fromiter(self._cache, np.int64, len(self._cache))
                reused = cached[np.isin(cached, new_ids)].tolist()
            for vertex in reused:
                del self._cache[vertex]
        if self._aliases and (reused_ids := self._aliases.keys() & set(new_ids.tolist())):
            for vertex in reused_ids:
                del self._aliases[vertex]
                self._alias[vertex] = vertex
        if self._lists.live and vertices.kind == "string":
            lists = self._lists.ids_of(vertices.names_of(new_ids))
            for place in np.flatnonzero(lists >= 0).tolist():
                self._set_text(new_ids.item(place), _FIRST_LIST + 2 * lists.item(place))
        if 0 < len(self._ids) < len(new_ids):
            for text, identity in self._ids.items():
                vertex = vertices.id_of(as_vertex(text, vertices.kind))
                if vertex >= 0:
                    self._set_text(vertex, identity)
        elif self._ids:
            names = vertices.names_of(new_ids)
            texts = names.to_pylist() if vertices.kind == "string" else names.cast(pa.string()).to_pylist()
            vertex_of = dict(zip(texts, new_ids.tolist(), strict=True))
            for text in self._ids.keys() & vertex_of.keys():
                self._set_text(vertex_of[text], self._ids[text])

    def _set_text(self, vertex: int, identity: int) -> None:
        self._aliases[vertex] = identity
        if vertex >= len(self._alias):
            more = np.arange(len(self._alias), max(vertex + 1, 2 * len(self._alias)), dtype=np.int32)
            self._alias = np.concatenate([self._alias, more])
        self._alias[vertex] = identity

    def replace_aliases(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in which vertices that are aliases of terms have the ids of these terms."""
        if not self._aliases or not rows.size:
            return rows
        is_in_table = rows < len(self._alias)
        return np.where(is_in_table, self._alias[np.where(is_in_table, rows, 0)], rows)

    def pinned_vertices(self) -> np.ndarray:
        """Return the vertices whose ids must not be reused: those of terms, and aliases, which edges must not become."""
        pinned = {*self._pinned_ids, *self._aliases}
        return np.fromiter(pinned, np.int32, len(pinned))

    # --- terms -----------------------------------------------------------------------------------------------

    def intern(self, text: str | None) -> int:
        """Return the id of a term, or `UNBOUND` for None."""
        if text is None:
            return UNBOUND
        identity = self._ids.get(text)
        if identity is not None:
            return identity
        if text.endswith(_LIST_END):
            return self.intern_lists(pa.array([text], pa.string())).item(0)
        if self._vertices is not None and self._vertices.kind is not None:
            vertex = self._vertices.id_of(as_vertex(text, self._vertices.kind))
            if vertex >= 0:
                self._pinned_ids.add(vertex)
                return vertex
        identity = self._ids[text] = self._new(text)
        return identity

    def reserve_lists(self, count: int) -> None:
        """Make room for `count` more lists of the present average length."""
        self._lists.make_room(count)

    def intern_lists(self, texts: pa.Array) -> np.ndarray:
        """Return the ids (int32) of lists, an array of string without nulls. O(total length)."""
        vertices = np.full(len(texts), -1, np.int32)
        if self._vertices is not None and self._vertices.kind == "string":
            vertices = self._vertices.ids_of(texts)
        ids = _FIRST_LIST + 2 * self._lists.intern(texts, (vertices < 0).view(np.uint8))[0]
        for place in np.flatnonzero(vertices >= 0).tolist():
            vertex = vertices.item(place)
            ids[place] = self._aliases.get(vertex, vertex)
            if vertex not in self._aliases:
                self._pinned_ids.add(vertex)
        return ids

    def _new(self, text: str) -> int:
        """Assign a free id to a term and return it."""
        if self._free:
            identity = self._free.pop()
            self._texts[(identity - FIRST) >> 1] = text
            return identity
        self._texts.append(text)
        return FIRST + 2 * (len(self._texts) - 1)

    def quotients(self, dividends: np.ndarray, divisors: np.ndarray, *, as_terms: bool) -> np.ndarray:
        """Return ids (int32) of quotients, or of integers where the divisor is 0, as `numbers`."""
        if as_terms:
            return self.numbers(*quotients(dividends, divisors), as_terms=True)
        return FIRST_NUMBER + self._numbers.ids_of_quotients(dividends, divisors)

    def numbers(self, kinds: np.ndarray, high: np.ndarray, low: np.ndarray, *, as_terms: bool) -> np.ndarray:
        """Return ids (int32) of numbers of these kinds (`number_ids.INTEGER`, …). Equal numbers have equal ids.

        Unless they are the ids of terms, use them for output and compare them only with one another.
        """
        if not as_terms:
            return FIRST_NUMBER + self._numbers.ids(kinds, high, low)
        different = NumberIds()
        places = different.ids(kinds, high, low)
        ids = [self.intern(different.text(place)) for place in range(len(different))]
        return np.array(ids, np.int32)[places]

    @property
    def computed_numbers(self) -> Numbers:
        """The numbers with ids from `FIRST_NUMBER` on, by place. Larger arrays replace them when there are more numbers."""
        return self._numbers.numbers

    def text(self, identity: int) -> str | None:
        """Return the term of an id, or None if the id is `UNBOUND`."""
        if identity >= FIRST_NUMBER:
            return self._numbers.text(identity - FIRST_NUMBER)
        if identity >= FIRST:
            place = (identity - FIRST) >> 1
            return str(self._lists.name_of(place)) if identity & 1 else self._texts[place]
        if identity == UNBOUND:
            return None
        found = self._cache.get(identity)
        if found is None:
            assert self._vertices is not None
            if len(self._cache) > _MAX_CACHED:
                self._cache.clear()
            found = self._cache[identity] = str(self._vertices.name_of(identity))
        return found

    def texts(self, ids: np.ndarray) -> list[str | None]:
        """Return the terms of ids. O(ids)."""
        text = self.text
        if len(ids) < _FEW or self._vertices is None:
            return [text(identity) for identity in ids.tolist()]
        texts: list[str | None] = self.terms(ids).to_pylist()
        return texts

    def terms(self, ids: np.ndarray) -> pa.Array:
        """Return the terms of ids as an array of texts, null for unbound ones. O(ids)."""
        is_vertex, is_number = (ids >= 0) & (ids < FIRST), ids >= FIRST_NUMBER
        is_list = (ids >= FIRST) & ~is_number & (ids & 1 == 1)
        parts, rows = [], []
        for is_of_kind, terms_of in (
            (~(is_vertex | is_number | is_list), self._terms_of_others),
            (is_list, self._terms_of_lists),
            (is_vertex, self._terms_of_vertices),
            (is_number, self._terms_of_numbers),
        ):
            places = np.flatnonzero(is_of_kind)
            if len(places) == len(ids):
                return terms_of(ids)
            if len(places):
                parts.append(terms_of(ids[places]))
                rows.append(places)
        if sum(part.nbytes for part in parts) >= _MAX_BYTES:
            parts = [part.cast(pa.large_string()) for part in parts]
        order = np.empty(len(ids), np.int32)
        order[np.concatenate(rows)] = np.arange(len(ids), dtype=np.int32)
        return pa.concat_arrays(parts).take(arrow_array(order))

    def _terms_of_vertices(self, ids: np.ndarray) -> pa.Array:
        assert self._vertices is not None
        names = self._vertices.names_of(ids)
        return names if self._vertices.kind == "string" else names.cast(pa.string())

    def _terms_of_lists(self, ids: np.ndarray) -> pa.Array:
        return self._lists.names_of((ids - FIRST) >> 1)

    def _terms_of_numbers(self, ids: np.ndarray) -> pa.Array:
        return self._numbers.terms(ids - FIRST_NUMBER)

    def _terms_of_others(self, ids: np.ndarray) -> pa.Array:
        return pa.array([self.text(identity) for identity in ids.tolist()], pa.string())

    def names(self, vertices: np.ndarray) -> pa.Array:
        """Return the names of vertices in the stream."""
        assert self._vertices is not None
        return self._vertices.names_of(vertices)

    def retain(self, used: np.ndarray) -> np.ndarray:
        """Remove terms and unpin vertices whose ids are not in `used`. Return the ids that became free. O(terms)."""
        numbers = used[used >= FIRST_NUMBER] - FIRST_NUMBER
        free_ids = self._numbers.retain(numbers) + FIRST_NUMBER
        if self._lists.live:
            is_unused = self._lists.names.length[: self._lists.count] >= 0
            is_unused[(used[(used >= FIRST) & (used < FIRST_NUMBER) & (used & 1 == 1)] - FIRST) >> 1] = False
            unused = np.flatnonzero(is_unused)
            self._lists.release(unused)
            free_ids = np.concatenate([free_ids, _FIRST_LIST + 2 * unused])
        if not (self._ids or self._pinned_ids or self._aliases):
            return free_ids
        used_ids = set(np.unique(used[(used >= FIRST) & (used < FIRST_NUMBER)]).tolist())
        pinned = np.fromiter(self._pinned_ids, np.int64)
        self._pinned_ids = set(pinned[np.isin(pinned, used[(used >= 0) & (used < FIRST)])].tolist())
        before = len(self._free)
        for text, identity in [*self._ids.items()]:
            if identity not in used_ids:
                del self._ids[text]
                self._texts[(identity - FIRST) >> 1] = None
                self._free.append(identity)
        if any(identity not in used_ids for identity in self._aliases.values()):
            # Such a vertex is in no row, or its term would be.
            for vertex, identity in [*self._aliases.items()]:
                if identity not in used_ids:
                    del self._aliases[vertex]
                    self._alias[vertex] = vertex
        return np.concatenate([np.array(self._free[before:], np.int64), free_ids])


@dataclass(frozen=True, eq=False)
class QueryTerms:
    """The terms of ids in the rows of one query, which are not combined with the rows of other queries that share the
    ids."""

    ids: TermIds

    def texts(self, ids: np.ndarray) -> list[str | None]:
        """Return the terms of ids, None for unbound ones. O(ids)."""
        return self.ids.texts(ids)

    def terms(self, ids: np.ndarray) -> pa.Array:
        """Return the terms of ids as an array of texts, null for unbound ones. O(ids)."""
        return self.ids.terms(ids)
