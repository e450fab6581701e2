"""CONSTRUCT: the triples of a template, for each row of the input (§16.2); those that are no triples of RDF are left out.

Linear, with rows (source, label, target); that a triple is there once, DISTINCT sees to above it. It holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rpq.queries.pattern import Constant, Variable
from rpq.sparql.network.delta_bags import UNBOUND, DeltaBag, nothing, together
from rpq.sparql.network.nodes import Node
from rpq.sparql.network.term_ids import TermIds
from rpq.sparql.terms import is_literal


class ConstructNode(Node):
    """CONSTRUCT: the triples (source, label, target) of a template, those left out that are none."""

    def __init__(
        self, template: Sequence[tuple[Variable | Constant, str, Variable | Constant]], inner: Node, terms: TermIds
    ) -> None:
        super().__init__(("source", "label", "target"), ("source", "label", "target"), inner)
        self._terms = terms
        # Of each triple: the place of its column, or the id of its constant.
        self._made = [
            (self._end(source, inner), terms.intern(label), self._end(target, inner)) for source, label, target in template
        ]

    def _end(self, term: Variable | Constant, inner: Node) -> tuple[int, int]:
        if isinstance(term, Constant):
            return -1, self._terms.intern(term.name)
        place = inner.columns.index(term.name) if term.name in inner.columns else -1
        return place, UNBOUND

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        if not len(change):
            return nothing(self.width)
        made = []
        for source, label, target in self._made:
            columns = [
                change.rows[:, place] if place >= 0 else np.full(len(change), identity, np.int32)
                for place, identity in (source, (-1, label), target)
            ]
            triples = change.with_rows(np.stack(columns, axis=1))
            made.append(triples.where(self._are_triples(triples.rows)))
        return together(made)

    def _are_triples(self, rows: np.ndarray) -> np.ndarray:
        """Whether both ends are bound, and the first is no literal."""
        sources, place = np.unique(rows[:, 0], return_inverse=True)
        good = np.array([text is not None and not is_literal(text) for text in self._terms.texts(sources)], bool)
        are_good: np.ndarray = good[place.reshape(-1)] & (rows[:, 2] != UNBOUND)
        return are_good

    def ids(self) -> Iterable[int] | np.ndarray:
        return [identity for ends in self._made for identity in (ends[0][1], ends[1], ends[2][1])]
