"""Path expressions that are asked once: a search in the present graph for each question.

The automaton of an expression over the labels of the graph is kept for the next question with it, for some expressions.
Whether the graph has all edges of the window is decided as for a query that is registered in mid-stream
(`rpq.engine.running.retention`), again where queries came or went, and each time where nothing stores the edges in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rpq.automata.symbols import write_name
from rpq.compiled.views import view
from rpq.engine.running.condition_sets import misfit
from rpq.engine.running.evaluation import Evaluation
from rpq.engine.running.node_edges import NodeTests
from rpq.engine.running.outcome_counts import lower_bound
from rpq.engine.running.retention import count_key
from rpq.errors import FindLimitError, QueryError, RegistrationError, WhereError
from rpq.language.options import Vertex
from rpq.language.query import PAIR, Query
from rpq.language.readings import accepted_edges_by, has_values, node_tests_of, properties_of, readings_of
from rpq.operators.paths.find.kernels import Letters
from rpq.operators.paths.find.letters import guards_of, letters_of
from rpq.operators.paths.find.product_search import OverBudget, ProductSearch, WindowBound
from rpq.operators.paths.index.layout import LOW_HALF
from rpq.operators.paths.index.path_delta import rows_of_pairs
from rpq.operators.paths.path import Path
from rpq.operators.paths.program import CompiledExpression
from rpq.rows.answers import Found
from rpq.rows.blocks import columns_of_names
from rpq.rows.delta import IdRows
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_ends import ALL
from rpq.stream.edges.edge_store import LONG_AGO, TIMELESS
from rpq.stream.edges.outcomes import NEVER
from rpq.stream.edges.parallel_edges import ParallelColumns, edge_numbers
from rpq.stream.nodes.node_table import APPLIED
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, UnboundedWindow, Window

_EXPRESSIONS = 256
"""The number of expressions whose automata are kept."""

_ANY_END = np.zeros(0, np.int32)


@dataclass(kw_only=True)
class KnownExpression:
    """An expression that was asked, over a window in the integers of the stream."""

    question: Query
    tests: NodeTests | None
    """The tests of vertices; None if there are none."""
    stored: Query
    """The query whose edges have to be stored: this, or one without conditions if these are asked of stored values."""
    is_stored: bool
    """True if the graph has all edges of the window in any case, as long as the same queries run."""
    window: AnyWindow
    """Its window in the graph: an unbounded one where the window is decided before the graph."""
    tables: Letters = field(init=False)
    letters: Any = None
    """The view of the tables."""
    texts: Sequence[str] = ()
    """The labels by id, as paths show them."""
    label_changes: int = -1
    """The changes of labels up to the tables."""
    facts: Hashable = None
    """What says that facts have changed since then."""

    def set_tables(self, tables: Letters) -> None:
        """Set the tables of the automaton over the labels of the graph."""
        self.tables, self.letters = tables, view(tables)


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
            question = stored = question_of()
            try:
                check(question)
            except RegistrationError:
                stored = self._without_conditions(question)
                if stored is question:
                    raise
                check(stored)
            texts = sorted(node_tests_of(question))
            tests = NodeTests(texts, evaluation.nodes, evaluation.vertices) if texts else None
            multigraph = evaluation.multigraph
            window = question.window if multigraph is None else multigraph.running_form(question).window
            known = self._known[key] = KnownExpression(
                question=question, tests=tests, stored=stored, is_stored=self._is_stored(stored), window=window
            )
            if len(self._known) > _EXPRESSIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
            if not known.is_stored:
                try:
                    check(known.stored)
                except RegistrationError:  # edges came of which only values are stored, if those are
                    del self._known[key]
                    return self.expression(key, question_of, check)
                known.is_stored = self._is_stored(known.stored)
        if known.label_changes != evaluation.labels.changes:
            self._set_letters(known)
        if known.tests is not None:
            self._set_facts(known, known.tests)
        if known.stored is not known.question:
            self._ask_conditions(known)
        return known

    def _without_conditions(self, question: Query) -> Query:
        """Return a query that reads the labels without conditions, if these can be asked of stored values; or the same."""
        multigraph = self.evaluation.multigraph
        if multigraph is None or not has_values(question) or question.is_ordered or self.evaluation.graph.statics:
            return question
        if not (multigraph.kept_properties and properties_of(question) <= multigraph.kept_properties):
            return question
        plain = question.label_set.plain
        text = "!()" if plain.has_others else "|".join(map(write_name, sorted(plain.named)))
        return Query(text, window=question.window, name=question.name, language="path")

    def _ask_conditions(self, known: KnownExpression) -> None:
        """Set which edges of the graph satisfy the conditions of an expression now. O(edges)."""
        multigraph = self.evaluation.multigraph
        assert multigraph is not None
        try:
            satisfied = multigraph.satisfied(
                _conditions_of(known.question), self.evaluation.graph, self._bound(known).after
            )
        except WhereError as error:
            raise QueryError(misfit(error, multigraph.sets.types)) from error
        known.set_tables(known.tables._replace(satisfied=satisfied.ravel()))

    def _is_stored(self, question: Query) -> bool:
        """Return whether the graph has the edges of the window of a question as long as the same queries run."""
        running, window, kept = self.evaluation.running, question.window, self.evaluation.keep_window
        if question.is_ordered and self.evaluation.identity == "parallel":
            return False  # parallel edges are stored apart
        if not has_values(question) and (
            isinstance(kept, UnboundedWindow)
            or kept == window
            or (isinstance(kept, Window) and isinstance(window, Window) and kept.size >= window.size + window.slide)
        ):
            return True
        labels, multigraph = question.label_set, self.evaluation.multigraph
        if labels.has_others:
            return False
        over = window if multigraph is None else multigraph.running_form(question).window
        questions = [
            one.question
            for one in running
            if any(reading.window == over and reading.stream is None for reading in readings_of(one.question))
        ]
        # A query may accept only edges with some ends, so that others are passed by.
        return all(any(ALL in accepted_edges_by(one, label) for one in questions) for label in labels.without_tests)

    def _set_letters(self, known: KnownExpression) -> None:
        """Set the tables of an expression. O(labels)."""
        labels, question = self.evaluation.labels, known.question
        conditions = () if known.stored is question else _conditions_of(question)
        known.set_tables(letters_of(question.dfa, question.label_set, labels.names, conditions))
        known.texts, known.label_changes, known.facts = labels.texts, labels.changes, None

    def _set_facts(self, known: KnownExpression, tests: NodeTests) -> None:
        """Set which tests vertices satisfy. O(vertices · tests) where facts have changed."""
        nodes, vertices = self.evaluation.nodes, self.evaluation.vertices
        facts = nodes.counts.item(APPLIED), vertices.room
        if facts == known.facts and not tests.reads_id:
            return
        if tests.reads_id:
            set_of = tests.sets_of(np.arange(vertices.count, dtype=np.int32))
        else:  # those without a record satisfy the same tests, as does an id that nobody has
            set_of = np.repeat(tests.sets_of(np.array([vertices.room])), vertices.room)
            set_of[nodes.vertices] = tests.sets_of(nodes.vertices)
        places = [[tests.number[test] for test in guard] for guard in guards_of(known.question.label_set)]
        holds = np.stack([tests.holds[:, place].all(axis=1) for place in places], axis=1)
        known.set_tables(known.tables._replace(set_of=set_of, holds=holds.astype(np.uint8).ravel()))
        known.facts = facts

    def _bound(self, known: KnownExpression) -> WindowBound:
        """Return which edges of the graph are in the window of an expression now."""
        graph, window = self.evaluation.graph, known.window
        if isinstance(window, CountWindow):
            keys = graph.counted.keys
            key = count_key(readings_of(known.question)[0], None)
            return WindowBound(INT64_MAX, keys.index(key)) if key in keys else WindowBound(INT64_MAX)
        return WindowBound(LONG_AGO if graph.time is None else max(LONG_AGO, lower_bound(window, graph.time)))

    # --- questions -------------------------------------------------------------------------------------------

    def path(self, known: KnownExpression, source: Vertex, target: Vertex, budget: int | None) -> Path | None:
        """Return a path between two vertices, None if there is none. Raises `FindLimitError`."""
        id_of = self.evaluation.vertices.id_of
        root, end = id_of(source), id_of(target)
        if root < 0 or end < 0:
            return None
        window = self._bound(known)
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
        window, left = self._bound(known), INT64_MAX if budget is None else budget
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
        graph = self.evaluation.graph
        edges = graph.edges
        columns = edges.source, edges.label, edges.target
        times: list[int | None] = []
        for edge in [step >> 1 for step in steps]:
            time = edges.timestamp.item(edge)
            if window.column >= 0:
                is_inside = graph.counted.holds(window.column, edge)
            else:
                is_inside = time > max(window.after, TIMELESS)
            times.append(time if is_inside else None)
        return self._named_path(known, source, steps, columns, times)

    def _named_path(
        self,
        known: KnownExpression,
        source: int,
        steps: Sequence[int],
        columns: tuple[np.ndarray, np.ndarray, np.ndarray],
        times: Sequence[int | None],
    ) -> Path:
        """Return a path whose edges are among `columns` (source, label, target), with `times`, None for static edges."""
        evaluation, vertices, labels = self.evaluation, [source], []
        for step in steps:
            vertices.append(columns[0 if step & 1 else 2].item(step >> 1))
            labels.append("^" * (step & 1) + known.texts[columns[1].item(step >> 1)])
        properties: tuple[Any, ...] = ()
        if evaluation.keeps_values and (values := evaluation.output.present_graph().values) is not None:
            properties = tuple(values(*(column.item(step >> 1) for column in columns)) for step in steps)
        return Path(
            tuple([evaluation.vertices.name_of(vertex) for vertex in vertices]),
            tuple(labels),
            tuple([None if time is None else self.to_timestamp(time) for time in times]),
            properties,
        )

    # --- paths in time order -----------------------------------------------------------------------------------

    def ordered_pairs(
        self,
        known: KnownExpression,
        roots: Sequence[Vertex],
        others: Sequence[Vertex] | None,
        *,
        is_reversed: bool,
        limit: int | None,
        budget: int | None,
        witness: bool,
    ) -> Found:
        """Return pairs like `pairs`, whose paths are in time order, from an index of these roots alone.

        If it `is_reversed`, the expression is, and roots are targets: paths then go back in time. O(edges · log edges).
        """
        evaluation, tables = self.evaluation, known.tables
        edges, letter = self._letters_in_time(known)
        if budget is not None and len(letter) > budget:
            raise _over(known, budget)
        from rpq.operators.paths.ordered.ordered_index import OrderedIndex  # its kernels take memory

        sign, order = -1 if is_reversed else 1, known.question.time_order
        assert order is not None
        index = OrderedIndex(
            CompiledExpression(known.question.dfa).program,
            UnboundedWindow(),
            order=order,
            is_reversed=is_reversed,
            capacity=max(1, len(letter)),
            guard=evaluation.guard.of(lambda: "find", lambda: (index,)),
            deadline=evaluation.guard.deadline,
        )
        index.set_labels(tables.forward, tables.inverse, np.zeros(len(tables.forward), np.uint8))
        is_root, is_end = np.zeros((2, max(1, evaluation.vertices.count)), np.uint8)
        is_root[self._ids(roots)] = 1
        is_end[slice(None) if others is None else self._ids(others)] = 1
        index.make_room(len(is_end), max(1, len(letter)), is_root, is_end)
        pairs = np.zeros(0, np.int64)
        if len(letter):
            time = sign * edges.timestamp
            chunk = Chunk(
                source=edges.source,
                target=edges.target,
                label=letter.astype(np.int32),
                timestamp=time,
                delete=np.zeros(len(letter), np.uint8),
                edge=np.arange(len(letter), dtype=np.int32),
            )
            index.advance(int(time.max()))
            index.load(chunk, np.full(len(letter), NEVER), quiet=True)
            pairs = index.answers()
        found = pairs if limit is None else pairs[:limit]
        columns = columns_of_names(
            [rows_of_pairs(found, is_reversed=is_reversed)], evaluation.vertices, columns=PAIR, texts=None
        )
        paths: list[Path] = []
        for pair in found.tolist() if witness else ():
            path = index.witness(pair >> 32, pair & LOW_HALF)
            assert path is not None and path.times is not None
            steps, times = path.steps, sign * path.times
            if is_reversed:
                steps, times = steps[::-1] ^ 1, times[::-1]
            source = (pair & LOW_HALF) if is_reversed else pair >> 32
            paths.append(
                self._named_path(known, source, steps.tolist(), (edges.source, edges.label, edges.target), times.tolist())
            )
        return Found(
            PAIR, columns, count=len(found), is_cut=len(found) < len(pairs), paths=tuple(paths) if witness else None
        )

    def _letters_in_time(self, known: KnownExpression) -> tuple[ParallelColumns, np.ndarray]:
        """Return the edges of the window that an expression reads, one by one, and their letters; some are there again."""
        graph, multigraph, tables = self.evaluation.graph, self.evaluation.multigraph, known.tables
        assert multigraph is not None
        edges = multigraph.parallel_columns(graph, all_labels=True)
        live = graph.live_edges()
        ends = (graph.edges.source[live], graph.edges.label[live], graph.edges.target[live])
        is_there = edge_numbers(ends, (edges.source, edges.label, edges.target)) >= 0
        rows = np.flatnonzero(is_there & (edges.timestamp > self._bound(known).after))
        first, found = tables.letter_first, [np.zeros((2, 0), np.int64)]
        for label in np.unique(edges.label[rows]).tolist():
            mine = rows[edges.label[rows] == label]
            for letter in range(first[label], first[label + 1]):
                is_letter = np.full(len(mine), True)
                for guard, ids in ((tables.source[letter], edges.source), (tables.target[letter], edges.target)):
                    if guard >= 0:
                        is_letter &= tables.holds.reshape(-1, tables.sizes.guards)[tables.set_of[ids[mine]], guard] != 0
                found.append(np.stack([mine[is_letter], np.full(int(is_letter.sum()), letter)]))
        places, letters = np.concatenate(found, axis=1)
        source, label, target, timestamp = (column[places] for column in edges[:4])
        return ParallelColumns(source, label, target, timestamp, {}), letters


def _conditions_of(question: Query) -> list[str]:
    """Return the conditions on edges."""
    return sorted({step.edge for step in question.label_set.step_tests} - {""})


def _over(known: KnownExpression, budget: int | None) -> FindLimitError:
    return FindLimitError(
        f"{known.question.name!r}: the search would look at more than {budget:,} edges, its limit max_edges: give "
        "both ends, or a higher limit",
        limit=budget,
    )
