"""Path queries while they run: a query's part of the trees that it reads, its explanation, and its budget errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.errors import ConflictBudgetError, QueryError
from rpq.language.kinds import QueryKind, content_of, read_content
from rpq.language.options import Vertex
from rpq.language.protocol import Division, Figures, Overrun, PresentGraph, Resources, RunningQuery
from rpq.language.query import PatternQuery, Query, cost_text
from rpq.operators.paths.costs import Costs, cheapest_path, without_links
from rpq.operators.paths.direction import way_of
from rpq.operators.paths.index.delta_index import NO_LIMIT, DeltaIndex
from rpq.operators.paths.index.path_delta import PathDelta, id_of_length, rows_of_pairs, rows_with_lengths
from rpq.operators.paths.path import Path, path_of, paths_of
from rpq.operators.paths.path_trees import PathTrees, shared_key
from rpq.rows.changes import SetAside
from rpq.rows.delta import Delta, IdRows, Position, ids_of_columns, rows_after
from rpq.rows.typed_columns import ValueColumns
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_store import LONG_AGO, STATIC
from rpq.stream.edges.edge_times import EdgeTimes
from rpq.stream.edges.outcomes import OUTCOMES
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary, as_vertex
from rpq.stream.window import CountWindow, Window


def set_aside_error(query: Query, report: SetAside) -> ConflictBudgetError | None:
    """Return the error for a root that exceeded its budget, or None if the query only sets it aside."""
    if query.on_budget != "error":
        return None
    place = "" if report.row is None else f"at tuple {report.row} of the batch, "
    advice = "" if isinstance(query, PatternQuery) else ', or accept this with on_budget="set_aside"'
    return ConflictBudgetError(
        f"query {report.query!r}: {place}at time {report.timestamp}, the simple paths from {report.root!r} took "
        f"{report.size:,} nodes; the budget is {query.simple_budget:,}. That root is set aside until its "
        f"conflicts have left the window. Raise simple_budget{advice}",
        query=report.query,
        root=report.root,
        row=report.row,
        size=report.size,
        budget=query.simple_budget,
    )


def read_aside_roots(saved: JsonValue, id_of: Callable[[Vertex], int]) -> dict[int, int]:
    """Return the roots that were set aside, each with the size at which it was. Raises `Damage`."""
    pairs = [pair.tuple_of(2) for pair in saved]
    aside = {root.vertex(): size.integer(0) for root, size in pairs}
    if len(aside) < len(pairs):
        raise Damage("a root is set aside twice")
    found = {id_of(root): size for root, size in aside.items()}
    if min(found, default=0) < 0:
        raise Damage("a root is set aside that is no vertex")
    return found


def latency_json(latency: np.ndarray) -> list[list[int]]:
    """Return a histogram of ticks as JSON values: the buckets that are not empty, and their counts."""
    buckets = np.flatnonzero(latency)
    return [buckets.tolist(), latency[buckets].tolist()]


def read_latency(saved: JsonValue) -> np.ndarray:
    """Return the histogram of ticks that `latency_json` returned. Raises `Damage`."""
    latency = np.zeros(LATENCY_BUCKETS, np.int64)
    in_buckets, of_buckets = saved.tuple_of(2)
    buckets, counts = in_buckets.integers(0, LATENCY_BUCKETS - 1), of_buckets.integers(0, _LARGEST_COUNT // LATENCY_BUCKETS)
    if len(buckets) != len(counts):
        raise Damage("a histogram of ticks has more buckets than counts, or fewer")
    latency[buckets] = counts
    return latency


@dataclass(frozen=True, kw_only=True)
class PathExplanation:
    """The plan of a running path query. Its text is for people; `to_dict` has the same for programs.

    `states` counts the states of the automaton by which paths are followed from their sources, or their targets; `roots` how
    many of these it names, None for all vertices. Trees and cells are counted once for all queries that share them: it and
    `shared_with` others, with expressions that spell the same words over the same window.

    >>> import rpq
    >>> window = rpq.Window(size=10, slide=1)
    >>> engine = rpq.Engine(*(rpq.Query("a+", window=window, sources=[name], name=name) for name in "xyz"))
    >>> print(engine.explain("x"))
    expression   a+
    language     a path expression
    automaton    2 states
    followed     from sources, of which it names 1
    shared: its trees with 2 other queries
    trees        0, of 0 cells
    """

    query: Query
    states: int
    followed_from: str
    roots: int | None
    shared_with: int
    trees: int
    cells: int
    identity: str = ""
    """When two inserts are the same edge; empty where edges have no properties and are triples."""

    def to_dict(self) -> dict[str, Any]:
        """Return the same as JSON values."""
        options: dict[str, Any] = {} if self.query.time_order is None else {"order": self.query.time_order.text}
        options |= {"select": list(self.query.columns)} if self.query.has_length else {}
        options |= {} if self.query.cost is None else {"cost": self.query.cost}
        figures = {name: one for name, one in asdict(self).items() if name != "query"}
        return {"expression": self.query.expression, **options, **figures}

    def __str__(self) -> str:
        whose = "all of them roots" if self.roots is None else f"of which it names {self.roots:,}"
        queries_text = f"{self.shared_with:,} other {'query' if self.shared_with == 1 else 'queries'}"
        return "\n".join(
            [
                f"expression   {self.query.expression}",
                "language     a path expression",
                *([f"edges        {self.identity}"] if self.identity else []),
                *([f"order        {self.query.time_order.text}"] if self.query.time_order is not None else []),
                *(["length       the smallest number of edges of a path"] if self.query.has_length else []),
                *([f"cost         {cost_text(self.query.cost)}"] if self.query.cost is not None else []),
                f"automaton    {self.states:,} {'state' if self.states == 1 else 'states'}",
                f"followed     from {self.followed_from}, {whose}",
                *([f"shared: its trees with {queries_text}"] if self.shared_with else []),
                f"trees        {self.trees:,}, of {self.cells:,} cells",
            ]
        )


_ROWS = ("ADDED", "REMOVED")
_LARGEST_COUNT = 2**56
"""The bound of counts in saved states, low enough that sums of counts fit into 64 bits."""


class LengthTexts:
    """The texts of ids in rows with lengths: the names of vertices, and lengths."""

    vertices: VertexDictionary

    def terms(self, ids: np.ndarray) -> pa.Array:
        """Return the texts as an array. O(ids)."""
        return pa.array(self.texts(ids), pa.string())

    def texts(self, ids: np.ndarray) -> list[str | None]:
        """Return the texts. O(ids)."""
        is_vertex = ids >= 0
        texts = (-1 - ids.astype(np.int64)).astype(str).astype(object)
        texts[is_vertex] = [str(name) for name in self.vertices.names_of(ids[is_vertex]).to_pylist()]
        return list(texts)


class PathQuery(RunningQuery):
    """A registered path query: the trees of its roots, divided by the hash of the root's name over several indexes.

    The engine is responsible for its share of the roots; within it the roots are divided over the threads. Roots are the
    sources of answers, or their targets (`rpq.operators.paths.direction`). Queries that read trees of the same kind share
    them (`rpq.operators.paths.path_trees`).
    """

    question: Query

    def __init__(self, query: Query, resources: Resources) -> None:
        self.question = query
        self._way = way_of(query)
        if resources.events is not None and query.window.kind == "count" and query.semantics == "implicit":
            raise QueryError(
                f"query {query.name!r}: where events have several tuples, rows that leave a count window have to be "
                'reported: give semantics="explicit"'
            )
        key = shared_key(query, self._way, resources)
        trees: PathTrees | None = None if key is None else resources.shared.get(key)
        if trees is None:
            trees = PathTrees(query, self._way, resources)
        if key is not None:
            resources.shared[key] = trees
        self._key, self._shared = key, resources.shared
        self._trees = trees
        self._reader = trees.add_reader(query.name, self._way.roots, resources.guard)
        self.indexes: Sequence[DeltaIndex] = trees.indexes
        is_whole = Division(resources.threads, resources.share).is_whole
        self.is_divided = not is_whole or query.sources is not None or query.targets is not None
        if query.has_length:
            # One for all queries of an engine: rows with the same texts are put together in the order of time.
            self.term_texts = resources.shared.setdefault("texts of lengths", LengthTexts())
        self._columns = query.columns
        self._has_number = query.has_length or query.cost is not None
        if trees.costs is not None:
            self.term_texts = trees.costs
            self.holds_vertices = self.nets_events = True
            columns, costs = query.columns, trees.costs
            assert isinstance(columns, ValueColumns)
            columns.type_of = lambda name: costs.type
            self._columns = columns

    @property
    def part(self) -> PathTrees:
        return self._trees

    @property
    def columns(self) -> tuple[str, ...]:
        return self._columns

    def retain(self, waiting: np.ndarray) -> None:
        if self._trees.costs is not None:  # the rows before have their texts
            self._trees.costs.retain(waiting)

    def texts_of_terms(self, ids: np.ndarray) -> list[str | None]:
        texts = super().texts_of_terms(ids)
        return [f"{'vertex' if identity >= 0 else 'number'} {text}" for identity, text in zip(ids, texts, strict=True)]

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        return np.array([self._id_of_term(*(text or "").partition(" ")[::2]) for text in texts], np.int32)

    def _id_of_term(self, kind: str, text: str) -> int:
        assert isinstance(self.term_texts, LengthTexts | Costs)
        if kind == "vertex":
            vertices = self.term_texts.vertices
            identity = vertices.id_of(as_vertex(text, vertices.kind))
            if identity >= 0:
                return identity
        elif isinstance(self.term_texts, Costs):
            place = self.term_texts.place_of(text)
            if place is not None:
                return id_of_length(place)
        elif len(text) < 10 and text.isdecimal():
            return id_of_length(int(text))
        raise Damage(f"a row that waits until it has held has the {kind or 'term'} {text!r}, which cannot be")

    def retained_vertices(self) -> np.ndarray:
        if self._trees.costs is None:
            return super().retained_vertices()
        self._trees.costs.release()
        return self._trees.costs.targets()

    def leave(self) -> None:
        self._trees.remove_reader(self._reader)
        if self._key is not None and not self._trees.readers:
            del self._shared[self._key]

    # --- input -----------------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        if len(self._trees.readers) == 1:  # otherwise the trees have the labels
            self._trees.set_labels(labels, names)

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return self._trees.reads(labels)[:, None]

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        if isinstance(self.term_texts, LengthTexts):
            self.term_texts.vertices = vertices
        self._trees.make_reader_room(self._reader, vertices, new_ids, graph)

    def count_from(self, numbers: Sequence[int]) -> None:
        self._trees.count_from(numbers[0])

    def load_static(self, chunk: Chunk) -> None:
        self._trees.load_static(chunk)

    @property
    def has_content(self) -> bool:
        return self._trees.is_loaded

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        return self._trees.load(self._reader, time, chunk, slides[0], quiet=quiet)

    # --- output ----------------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        return [self.indexes[0].slides(edges)]

    def answers(self) -> list[IdRows]:
        is_reversed = self._way.is_reversed
        if self._has_number:
            found = [(index.answers(), index) for index in self.indexes]
            return [rows_with_lengths(pairs, index.lengths_of(pairs), is_reversed=is_reversed) for pairs, index in found]
        return [rows_of_pairs(pairs, is_reversed=is_reversed) for pairs in self._trees.answers(self._reader)]

    def page(
        self, after: Position | None, limit: int, *, source: int | None = None, target: int | None = None
    ) -> tuple[IdRows, Position | None]:
        """Return a page of answers as `RunningQuery.page` does, in the order of (end, root). O(vertices + limit + roots)."""
        root, end = (target, source) if self._way.is_reversed else (source, target)
        found = [np.zeros(0, np.int64)]
        if -1 not in (root, end):
            first, stop = (0, NO_LIMIT) if end is None else (end, end + 1)
            if after is not None and after[0] >= first:  # some answers with its end may follow
                first = after[0] + 1
                found += self._trees.answers(self._reader, root=root, first=after[0], end=min(first, stop))
            found += self._trees.answers(self._reader, root=root, first=first, end=stop, limit=min(limit, NO_LIMIT - 1) + 1)
        rows = rows_of_pairs(np.concatenate(found)).reorder((1, 0)).values
        rows, position = rows_after(rows, after, limit)
        columns = (0, 1) if self._way.is_reversed else (1, 0)
        if not self._has_number:
            return IdRows(rows, columns), position
        pairs = rows[:, 1].astype(np.int64) << 32 | rows[:, 0]
        lengths = np.max([index.lengths_of(pairs) for index in self.indexes], axis=0)
        return IdRows(np.column_stack([rows, -1 - lengths]).astype(np.int32), (*columns, 2)), position

    def page_of(
        self,
        parts: Sequence[IdRows],
        after: Position | None,
        limit: int,
        *,
        source: int | None = None,
        target: int | None = None,
    ) -> tuple[IdRows, Position | None]:
        """Return a page of answers with different pairs, in the order of these: a pair keeps its ids, and a cost may not."""
        rows = np.concatenate([rows.reorder((*range(len(self.columns)),)).values for rows in parts])
        for column, end in ((0, source), (1, target)):
            rows = rows if end is None else rows[rows[:, column] == end]
        pairs, position = rows_after(rows[:, :2], after, limit)
        keys, chosen = (some[:, 0].astype(np.int64) << 32 | some[:, 1] for some in (rows, pairs))
        return ids_of_columns(rows[np.isin(keys, chosen)]), position

    def rows(self) -> np.ndarray:
        return self._trees.rows(self._reader)

    def figures(self) -> Figures:
        cells, answers, edges = self._trees.size(self._reader)
        added, removed = self.rows().tolist()
        return Figures(
            counts=tuple(self._counts()),
            added=added,
            removed=removed,
            answers=answers,
            edges=edges,
            cells=cells,
            nbytes=self._trees.nbytes(self._reader),
            latency=self._latency(),
            further={name: self._figure(name) for name in _OF_DOUBT},
        )

    def explain(self) -> PathExplanation:
        roots = self._way.roots
        return PathExplanation(
            query=self.question,
            states=len(self._way.dfa.accepting),
            followed_from="targets" if self._way.is_reversed else "sources",
            roots=None if roots is None else len(roots),
            shared_with=len(self._trees.readers) - 1,
            trees=self._trees.tree_count,
            cells=sum(index.live()[0] for index in self.indexes),
        )

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Path | None:
        edges, vertices, labels, values = graph
        source, target = answer[:2]
        root, end = (target, source) if self._way.is_reversed else (source, target)
        if not self._trees.joins(self._reader, root, end):
            return None
        for index in self.indexes:
            if self._has_number and index.lengths_of(np.array([root << 32 | end])) != id_of_length(answer[2]):
                continue
            found = index.witness(root, end, edges)
            if found is None:
                continue
            if self._trees.costs is not None:
                return cheapest_path(source, found.steps, graph)
            steps = found.steps[::-1] ^ 1 if self._way.is_reversed else found.steps
            in_window = index.slides(steps >> 1) > index.current
            path = path_of(source, steps, edges, vertices, labels, values, in_window=in_window)
            return path if found.times is None else replace(path, timestamps=tuple(found.times.tolist()))
        return None

    def witnesses(self, delta: Delta, graph: PresentGraph, edge_times: EdgeTimes | None = None) -> pa.Array:
        edges, vertices, labels, _ = graph
        assert isinstance(delta, PathDelta)
        if self._trees.costs is not None:
            of_vertices = vertices.edges.all_columns
            times = of_vertices.timestamp
            return paths_of(without_links(delta, edges), of_vertices, vertices, labels, lambda edge, *of_event: times[edge])

        def times_of(edge: np.ndarray, order: np.ndarray, time: np.ndarray) -> np.ndarray:
            found = edges.timestamp[edge] if edge_times is None else edge_times.at(edge, order)
            return np.where(self._in_window(edges, edge, found, time), found, LONG_AGO)

        return paths_of(delta, edges, vertices, labels, times_of)

    def _in_window(self, edges: Edges, edge: np.ndarray, timestamp: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return which edges of paths, with these timestamps at stream times, the window holds; it may lack static edges."""
        window = self.question.window
        if isinstance(window, Window):
            size, slide = np.int64(window.size), np.int64(window.slide)
            boundary = np.maximum(time - time % slide, LONG_AGO + size)
            return timestamp > boundary - size
        is_inside = np.full(len(edge), True)
        if isinstance(window, CountWindow) and (is_static := edges.holders[edge] & STATIC != 0).any():
            index = self.indexes[0]  # each knows all edges
            is_inside[is_static] = index.slides(edge[is_static]) > index.current
        return is_inside

    def ids_of_answer(self, values: Sequence[Any], vertices: VertexDictionary) -> tuple[int, ...] | None:
        if not self._has_number:
            return super().ids_of_answer(values, vertices)
        *ends, length = values
        ids = super().ids_of_answer(ends, vertices)
        if self._trees.costs is not None:
            place = self._trees.costs.place_of(length)
            return None if ids is None or place is None else (*ids, id_of_length(place))
        text = str(length)  # a request of a server has texts
        is_length = len(text) < 10 and text.isascii() and text.isdigit()
        return (*ids, id_of_length(int(length))) if ids is not None and is_length else None

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        return any(index.may_overrun for index in self.indexes)

    def pop_overruns(self) -> list[Overrun]:
        return [overrun for index in self.indexes for overrun in index.pop_overruns()]

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        return set_aside_error(self.question, report)

    def set_aside(self) -> list[int]:
        return [root for index in self.indexes for root in index.aside_roots]

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        return [(self.question.name, index.delta()) for index in self.indexes if index.restore_root(root)]

    # --- saved states ----------------------------------------------------------------------------------------

    def to_state(self, name_of: Callable[[int], Vertex]) -> dict[str, Any]:
        return {
            "counters": dict(zip((*_ROWS, *OUTCOMES), (*self.rows().tolist(), *self._counts()), strict=True)),
            "latency": latency_json(self._latency()),
            "figures": {name: self._figure(name) for name in _FIGURES},
            "set_aside": [(name_of(root), size) for index in self.indexes for root, size in index.aside_roots.items()],
        }

    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[Vertex], int]) -> None:
        counters = {name: saved["counters"][name].integer(0, _LARGEST_COUNT) for name in (*_ROWS, *OUTCOMES)}
        latency = read_latency(saved["latency"])
        figures = {name: saved["figures"][name].integer(0, _LARGEST_COUNT) for name in _FIGURES}
        aside = read_aside_roots(saved["set_aside"], id_of)
        for index in self.indexes:
            index.set_aside(aside)
        load()
        if len(self.set_aside()) < len(aside):
            raise Damage("a root is set aside that meets no conflict")
        outcomes = np.array([counters[name] for name in OUTCOMES], np.int64)
        self._reader.counts_before = self._trees.outcome_counts() - outcomes
        self._reader.latency_before = self._trees.latency() - latency
        self._trees.set_rows(self._reader, [counters[name] for name in _ROWS])
        for i, index in enumerate(self.indexes):
            index.set_figures(**{name: count if i == 0 else 0 for name, count in figures.items()})

    # --- inside ----------------------------------------------------------------------------------------------

    def _counts(self) -> list[int]:
        """Return the counts of the outcomes of tuples since the query was registered, in the order of `OUTCOMES`."""
        counts: list[int] = (self._trees.outcome_counts() - self._reader.counts_before).tolist()
        return counts

    def _latency(self) -> np.ndarray:
        """Return tuples since then by the ticks that they took, in all queries together that share its trees."""
        latency: np.ndarray = self._trees.latency() - self._reader.latency_before
        return latency

    def _figure(self, name: str) -> int:
        """Return one of `DoubtFigures`."""
        return sum(getattr(index.figures(), name) for index in self.indexes)


_FIGURES = ("conflicts", "searches")
_OF_DOUBT = ("conflicts", "conflicted_roots", "pairs_in_doubt", "searches", "roots_set_aside")


KIND = QueryKind(name="path", question=Query, start=PathQuery, to_json=content_of, read=partial(read_content, kind=Query))
