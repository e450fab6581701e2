"""Path expressions that are asked once: a search in the present graph for each question.

The automaton of an expression over the labels of the graph is kept for the next question with it, for some expressions.
Whether the graph has all edges of the window is decided as for a query that is registered in mid-stream
(`rpq.engine.running.retention`), again where queries came or went, and each time where nothing stores the edges in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rpq.compiled.views import view
from rpq.engine.running.evaluation import Evaluation
from rpq.engine.running.node_edges import NodeTests
from rpq.engine.running.outcome_counts import lower_bound
from rpq.engine.running.retention import count_key
from rpq.errors import FindLimitError
from rpq.language.options import Vertex
from rpq.language.query import PAIR, Query
from rpq.language.readings import has_values, node_tests_of, readings_of
from rpq.operators.paths.find.letters import guards_of, letters_of
from rpq.operators.paths.find.product_search import OverBudget, ProductSearch, WindowBound
from rpq.operators.paths.path import Path
from rpq.rows.answers import Found
from rpq.rows.blocks import columns_of_names
from rpq.rows.delta import IdRows
from rpq.stream.edges.edge_store import LONG_AGO, TIMELESS
from rpq.stream.nodes.node_table import APPLIED
from rpq.stream.window import INT64_MAX, CountWindow, UnboundedWindow, Window

_EXPRESSIONS = 256
"""The number of expressions whose automata are kept."""

_ANY_END = np.zeros(0, np.int32)


@dataclass(kw_only=True)
class KnownExpression:
    """An expression that was asked, over a window in the integers of the stream."""

    question: Query
    tests: NodeTests | None
    """The tests of vertices; None if there are none."""
    is_stored: bool
    """True if the graph has all edges of the window in any case, as long as the same queries run."""
    state: Hashable = None
    """What the tables depend on, besides the expression."""
    letters: Any = None
    """The view of the tables."""
    texts: Sequence[str] = ()
    """The labels by id, as paths show them."""


class Finder:
    """The searches in the graph of one engine."""

    def __init__(self, evaluation: Evaluation, *, room: int) -> None:
        self.evaluation = evaluation
        self.search = ProductSearch(
            evaluation.graph, room=room, request=lambda more: evaluation.guard.request("find", more)
        )
        self.to_timestamp: Callable[[int], Any] = int
        """The function that turns integers into times of the stream."""
        self._known: OrderedDict[Hashable, KnownExpression] = OrderedDict()
        self._registrations = -1
        evaluation.guard.add([self])

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self.search.nbytes

    # --- expressions -----------------------------------------------------------------------------------------

    def expression(
        self, key: Hashable, question_of: Callable[[], Query], check: Callable[[Query], None]
    ) -> KnownExpression:
        """Return an expression that is ready for a search. O(1) if it is known and the labels and facts are as before.

        `question_of` returns it as a query over its window in integers of the stream, and `check` raises if edges of the
        window were not stored.
        """
        evaluation = self.evaluation
        if self._registrations != evaluation.running.registrations:
            self._registrations = evaluation.running.registrations
            self._known.clear()
        known = self._known.get(key)
        if known is None:
            question = question_of()
            check(question)
            texts = sorted(node_tests_of(question))
            tests = NodeTests(texts, evaluation.nodes, evaluation.vertices) if texts else None
            known = self._known[key] = KnownExpression(
                question=question, tests=tests, is_stored=self._is_stored(question)
            )
            if len(self._known) > _EXPRESSIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
            if not known.is_stored:
                check(known.question)
                known.is_stored = self._is_stored(known.question)
        tests, vertices, nodes = known.tests, evaluation.vertices, evaluation.nodes
        of_tests = None if tests is None else (nodes.counts.item(APPLIED), vertices.room)
        state = evaluation.labels.changes, of_tests
        if state != known.state or (tests is not None and tests.reads_id):
            self._set_letters(known)
            known.state = state
        return known

    def _is_stored(self, question: Query) -> bool:
        """Return whether the graph has the edges of the window of a question as long as the same queries run."""
        running, window, kept = self.evaluation.running, question.window, self.evaluation.keep_window
        if not has_values(question) and (
            isinstance(kept, UnboundedWindow)
            or kept == window
            or (isinstance(kept, Window) and isinstance(window, Window) and kept.size >= window.size + window.slide)
        ):
            return True
        return running.are_read([question], self.evaluation.labels)

    def _set_letters(self, known: KnownExpression) -> None:
        """Set the tables of an expression. O(labels), and O(vertices · tests) with tests."""
        evaluation, question, tests = self.evaluation, known.question, known.tests
        labels, guards = question.label_set, guards_of(question.label_set)
        set_of, holds = np.zeros(0, np.int32), np.zeros((1, 0), bool)
        if tests is not None:
            nodes, vertices = evaluation.nodes, evaluation.vertices
            if tests.reads_id:
                set_of = tests.sets_of(np.arange(vertices.count, dtype=np.int32))
            else:  # those without a record satisfy the same tests, as does an id that nobody has
                set_of = np.repeat(tests.sets_of(np.array([vertices.room])), vertices.room)
                set_of[nodes.vertices] = tests.sets_of(nodes.vertices)
            places = [[tests.number[test] for test in guard] for guard in guards]
            holds = np.stack([tests.holds[:, place].all(axis=1) for place in places], axis=1)
        known.letters = view(letters_of(question.dfa, labels, evaluation.labels.names, set_of, holds))
        known.texts = evaluation.labels.texts

    def _bound(self, question: Query) -> WindowBound:
        """Return which edges of the graph are in the window of a question now."""
        graph, window = self.evaluation.graph, question.window
        if isinstance(window, CountWindow):
            keys = graph.counted.keys
            key = count_key(readings_of(question)[0], None)
            return WindowBound(INT64_MAX, keys.index(key)) if key in keys else WindowBound(INT64_MAX)
        return WindowBound(LONG_AGO if graph.time is None else max(LONG_AGO, lower_bound(window, graph.time)))

    # --- questions -------------------------------------------------------------------------------------------

    def path(self, known: KnownExpression, source: Vertex, target: Vertex, budget: int | None) -> Path | None:
        """Return a path between two vertices, None if there is none. Raises `FindLimitError`."""
        id_of = self.evaluation.vertices.id_of
        root, end = id_of(source), id_of(target)
        if root < 0 or end < 0:
            return None
        window = self._bound(known.question)
        try:
            steps = self.search.path(known.letters, root, end, window, INT64_MAX if budget is None else budget)
        except OverBudget:
            raise _over(known, budget) from None
        return None if steps is None else self._path(known, root, steps, window)

    def pairs(
        self,
        known: KnownExpression,
        sources: Sequence[Vertex] | None,
        targets: Sequence[Vertex] | None,
        *,
        limit: int | None,
        budget: int | None,
        witness: bool,
    ) -> Found:
        """Return the pairs with these ends, up to `limit`, with paths if wanted. Raises `FindLimitError`."""
        of_sources, of_targets = self._ids(sources), self._ids(targets)
        is_target = of_sources is None or (of_targets is not None and len(of_targets) < len(of_sources))
        roots, among = (of_targets, of_sources) if is_target else (of_sources, of_targets)
        assert roots is not None
        if among is not None and not len(among):
            roots = roots[:0]
        window, left = self._bound(known.question), INT64_MAX if budget is None else budget
        most = INT64_MAX if limit is None else limit + 1
        found: list[np.ndarray] = []
        paths: list[Path] = []
        for root in roots.tolist():
            try:
                nodes = self.search.ends(
                    known.letters, root, window, left, is_target=is_target, among=_ANY_END if among is None else among,
                    limit=most,
                )  # fmt: skip
            except OverBudget:
                raise _over(known, budget) from None
            ends = self.search.vertices(nodes)
            found.append(np.column_stack([np.full(len(ends), root, np.int32), ends]))
            for node, end in zip(nodes.tolist(), ends.tolist(), strict=True) if witness else ():
                steps = self.search.steps(node, is_target=is_target)
                paths.append(self._path(known, end if is_target else root, steps, window))
            left -= self.search.looked
            most -= len(ends)
            if not most:
                break
        rows = np.concatenate([np.zeros((0, 2), np.int32), *found])[:limit]
        order = (1, 0) if is_target else (0, 1)
        columns = columns_of_names([IdRows(rows, order)], self.evaluation.vertices, columns=PAIR, texts=None)
        return Found(
            PAIR, columns, count=len(rows), is_cut=not most, paths=tuple(paths[:limit]) if witness else None
        )

    def _ids(self, names: Sequence[Vertex] | None) -> np.ndarray | None:
        """Return the ids of names, ascending and each once, without those that are no vertices."""
        if names is None:
            return None
        ids = {self.evaluation.vertices.id_of(name) for name in names} - {-1}
        return np.array(sorted(ids), np.int32)

    def _path(self, known: KnownExpression, source: int, steps: list[int], window: WindowBound) -> Path:
        """Return a path from its first vertex and its steps; it has a few, so no array is made of them."""
        evaluation, edges = self.evaluation, self.evaluation.graph.edges
        vertices, labels, times = [source], [], []
        for step in steps:
            edge, is_against = step >> 1, step & 1
            vertices.append((edges.source if is_against else edges.target).item(edge))
            labels.append("^" * is_against + known.texts[edges.label.item(edge)])
            time = edges.timestamp.item(edge)
            if window.column >= 0:
                is_inside = evaluation.graph.counted.holds(window.column, edge)
            else:
                is_inside = time > max(window.after, TIMELESS)
            times.append(self.to_timestamp(time) if is_inside else None)
        properties: tuple[Any, ...] = ()
        if evaluation.keeps_values and (values := evaluation.output.present_graph().values) is not None:
            properties = tuple(
                values(edges.source.item(step >> 1), edges.label.item(step >> 1), edges.target.item(step >> 1))
                for step in steps
            )
        names = map(evaluation.vertices.name_of, vertices)
        return Path(tuple(names), tuple(labels), tuple(times), properties)


def _over(known: KnownExpression, budget: int | None) -> FindLimitError:
    return FindLimitError(
        f"{known.question.expression!r}: the search would look at more than {budget:,} edges, its limit max_edges: give "
        "both ends, or a higher limit",
        limit=budget,
    )
