"""The engine: tuples in, answer changes out."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa

from rpq.automata import parse, reversal
from rpq.compiled.stopwatch import Stopwatch
from rpq.engine.dry_run import DryRun
from rpq.engine.finder import Finder, KnownExpression
from rpq.engine.handlers import Handler, Handlers, one_thread_at_a_time, refuse_unless_callable
from rpq.engine.machine_memory import default_limit
from rpq.engine.running.edge_restrictions import (
    begins_empty,
    readings_in,
    refuse_forgotten_edges,
    refuse_late_conditions,
    refuse_order,
    refuse_unkept_facts,
    refuse_unread_conditions,
)
from rpq.engine.running.evaluation import ChunkRows, Evaluation
from rpq.engine.running.retention import keep_option, refuse_if_lost
from rpq.engine.statistics import Statistics, statistics_of
from rpq.errors import InputError, LimitError, QueryError, RegistrationError, RowLimitError, RpqError, StateFormatError
from rpq.language import kinds
from rpq.language.conditions import TUPLE_COLUMNS, node_test_of
from rpq.language.hypercube import Share
from rpq.language.options import Vertex
from rpq.language.protocol import MAX_ROWS
from rpq.language.query import Query
from rpq.language.readings import (
    Identity,
    describe_identity,
    for_identity,
    for_nodes,
    has_values,
    node_tests_of,
    node_values_of,
    over_dataset,
    readings_of,
)
from rpq.operators.paths import path_query
from rpq.rows.answers import Answers, Found, cursor_of, html_table, position_of
from rpq.rows.blocks import RowBlock, columns_of_names
from rpq.rows.changes import Changes
from rpq.rows.typed_columns import kinds_of
from rpq.stream.arrays.event_grouping import whole_events
from rpq.stream.arrays.properties import PropertyTypes
from rpq.stream.columns import Columns, columns_of, is_plain, only_tuple, static_columns, table_of_rows, time_of, with_event
from rpq.stream.event_clock import EventClock, query_over_event
from rpq.stream.nodes.node_columns import NodeColumns, node_columns
from rpq.stream.nodes.node_rows import are_records, node_table, tuples_of, uniform_parts
from rpq.stream.nodes.node_table import OWN_COLUMNS
from rpq.stream.stream_time import AheadLimit, MaxAhead, StreamTime, lengths_of, windows_of
from rpq.stream.window import INT64_MAX, AnyWindow, UnboundedWindow, Window

if TYPE_CHECKING:  # modules of saved states are imported where one is written or read
    from rpq.engine.state.engine_state import SavedState
    from rpq.operators.paths.path import Path
    from rpq.operators.paths.path_query import PathExplanation
    from rpq.operators.patterns.explanation import Explanation
    from rpq.operators.patterns.witness import Witness
    from rpq.operators.relational.explanation import SparqlExplanation

kinds.register(path_query.KIND)
kinds.register_module("pattern", "rpq.operators.patterns.pattern_query", question="rpq.language.query.PatternQuery")
kinds.register_module("edge values", "rpq.operators.relational.edge_values", question="rpq.language.query.EdgeValuesQuery")
kinds.register_module("match", "rpq.operators.relational.match_query", question="rpq.language.match.query.MatchQuery")
kinds.register_module("sparql", "rpq.operators.relational.running_query", question="rpq.language.sparql.query.SparqlQuery")

_COLUMNS = TUPLE_COLUMNS | {"timestamp"}
_NO_COPY = "an engine cannot be copied or pickled: save it to a file, and restore another engine from that"


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """The facts about a stream at some time besides the edges of its windows; see `Engine._begin_after`.

    `time` is the largest timestamp, None before the first tuple; `inserts` counts those so far, by which parallel edges are
    numbered; `properties` are the types of properties, and the unit of timestamps in conditions.
    """

    times: StreamTime
    time: int | None
    inserts: int = 0
    properties: tuple[PropertyTypes, str | None, bool] | None = None


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """The facts of a node: its labels, ascending, and its properties."""

    name: Vertex
    labels: tuple[str, ...]
    properties: dict[str, Any]


class Engine:
    """An engine that evaluates persistent queries over one stream.

    - Tuples: `push`, `push_rows`, `insert`, `delete`, `advance`, `flush`, `run`; `load_static` adds edges without time
    - Nodes: `push_nodes`, `set_node`, `remove_node`, `node`
    - Queries: `queries`, `register`, `unregister`; `on_change` adds a function that is called with their rows
    - Present state: `time`, `answers`, `witness`, `find`, `check`, `statistics`
    - Saved states: `save`, `restore`

    `threads` divide the roots of each path query; one of them evaluates all patterns, SPARQL queries and MATCH texts.
    `memory_limit` (in bytes, by default 70 % of the machine's memory) ends a push with a `MemoryLimitError` before the
    engine exceeds it. `max_rows` ends a push with a `RowLimitError` if one event (a tuple, a boundary) brings more rows to
    one query; None means no limit. `push_limit` (in seconds, by default none) ends a push, an advance of time or the
    registration of a query with a `PushLimitError` when it takes longer, also in the middle of a tuple. With `witness`,
    every row that adds a pair contains a path; the properties of edges that queries read are kept then, so that witnesses
    show them. With `share` (number, of how many), the engine is responsible for a part of the roots, so that several
    engines over the same tuples divide the work. Roots are the sources of pairs, or their targets if a query restricts the
    targets to few. Of a pattern, it is responsible for the rows of a cell of a grid over its variables; (number, of how
    many, sizes) shapes the grid for these numbers of edges by label, which must be the same in all shares.

    Timestamps and windows are plain numbers; or timestamps are dates or times, and windows are durations
    (`Window(size="30d", slide="1d")`). Rows, `time` and all other times have the type of the timestamps: numbers, dates, or
    times with their zone. `time_unit` (s, ms, us or ns) is the unit of plain numbers, which can then be combined with
    durations, and the resolution of dates and times, which are rounded down to it. Without `time_unit`, dates and times have
    a resolution of nanoseconds, which limits them to the years 1677 to 2262, and durations cannot be combined with numbers.

    `max_ahead` is the largest distance of a tuple ahead of the stream time: a length in the stream's unit, a duration, or
    "1000x", a thousand times the longest window of the registered queries (and of `keep`). A tuple that is further ahead
    raises an `InputError` and does not move the stream time. None, the default, means no limit.

    `keep` is a window of time, or an unbounded one, whose edges are all stored, so that any query over it or a smaller
    window can be registered at any time, and any path expression asked (`find`, `check`). Without `keep`, an edge is stored
    while some query reads its label over a window that contains it.

    `static` are edges without time, as `load_static` takes them, or a mapping from the names of graphs to their edges.

    `edges` says when two inserts are the same edge: with equal source, label and target ("triple"), or with equal ids,
    whatever their ends ("id"), where the later one replaces the edge, or never ("parallel").

    `edge_properties` are properties of edges whose values are stored for conditions that no query has, which `find` and
    `check` evaluate over the window.

    Records of nodes (`push_nodes`) state facts about vertices, which queries read beside the edges. All their properties are
    kept, or those that `node_properties` names.

    With `report_empty`, queries that report whole answers (REGISTER RSTREAM in SPARQL) report an empty one as a row without
    values and with the op "0"; otherwise it has no row.

    Only one thread at a time may call an engine; a call while another thread is inside one raises an `RpqError`.

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1)))
    >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2)]).rows()
    [Change(query='a/b*', source='x', target='y', timestamp=1, op='+'), \
Change(query='a/b*', source='x', target='z', timestamp=2, op='+')]
    >>> engine.witness("x", "z")
    Path(vertices=('x', 'y', 'z'), labels=('a', 'b'))
    """

    def __init__(
        self,
        *queries: Query,
        threads: int = 1,
        memory_limit: int | None = None,
        max_rows: int | None = MAX_ROWS,
        push_limit: float | None = None,
        witness: bool = False,
        time_unit: Literal["s", "ms", "us", "ns"] | None = None,
        share: tuple[int, int] | tuple[int, int, Mapping[str, int]] | Share = (0, 1),
        events: Literal["window", "alone"] | None = None,
        keep: Window | UnboundedWindow | None = None,
        max_ahead: int | str | timedelta | np.timedelta64 | None = None,
        edges: Literal["triple", "parallel", "id"] = "triple",
        static: Any = None,
        report_empty: bool = False,
        node_properties: Collection[str] | None = None,
        edge_properties: Collection[str] = (),
        _capacity: int = 256,
        _sharing: Literal["auto", "always", "never"] = "auto",
        _keeps_values: bool = False,
        _deadline: np.ndarray | None = None,
    ) -> None:
        if isinstance(threads, bool) or not hasattr(threads, "__index__") or threads < 1:
            raise QueryError(f"an engine has a whole number of threads, at least one, not {threads!r}")
        if not 0 <= share[0] < share[1]:
            raise QueryError(f"a share is (number, of how many) with 0 ≤ number < how many, not {tuple(share)}")
        if report_empty and share[1] > 1:
            raise QueryError("a share cannot report that the whole answer is empty: leave out report_empty, or share")
        if max_rows is not None and (isinstance(max_rows, bool) or not hasattr(max_rows, "__index__") or max_rows < 0):
            raise QueryError(f"max_rows is a whole number of rows, or None for no limit, not {max_rows!r}")
        if events not in (None, "window", "alone"):
            raise QueryError(f"events are 'window' or 'alone', or None where each tuple is one, not {events!r}")
        if edge_properties and edges == "parallel":
            raise QueryError(
                'edge_properties are stored for one edge with a source, label and target, edges="triple", or with an id, '
                'edges="id"; where each insert is an edge, register a query that has the conditions'
            )
        if isinstance(edge_properties, str):
            raise QueryError(f"edge_properties is a collection of names, as in [{edge_properties!r}]")
        if events is not None and witness:
            raise QueryError("rows of events with several tuples have no witnesses: leave out witness, or events")
        self._turn = threading.Lock()
        self._handlers = Handlers()
        self._evaluation = Evaluation(
            threads=int(threads),
            memory_limit=default_limit() if memory_limit is None else memory_limit,
            max_rows=max_rows,
            witness=witness,
            share=Share.of(*share),
            capacity=_capacity,
            events=events,
            sharing=_sharing,
            edges=_identity(edges),
            keeps_values=_keeps_values,
            report_empty=report_empty,
            deadline=_deadline,
            node_properties=node_properties,
            edge_properties=edge_properties,
        )
        self._dry_run = DryRun(least=min(64, _capacity))
        self._capacity = _capacity
        self._finder: Finder | None = None
        self.push_limit = push_limit
        self._times = StreamTime(unit=time_unit)
        self._max_ahead: MaxAhead | None = None
        self._most_ahead: int | None = None
        self._stopwatch = Stopwatch()
        self._rows_of_removed_queries = np.zeros(2, np.int64)  # rows added and removed of queries that were unregistered
        self.extra: dict[str, str] = {}
        for query in queries:
            self._evaluation.running.check_registration(query)
        _refuse_same_names(queries)
        if keep is not None and events == "alone":
            raise QueryError('with events="alone" no edges are stored: leave out keep, or use events="window"')
        self._keep = None if keep is None else keep_option(keep)
        self._events = events
        self._clock = EventClock() if events == "alone" else None
        # The queries as they were given: those that run have windows in integers.
        self._original_queries: dict[str, Query] = {query.name: query for query in queries}
        self._queries_by_window = self._query_of_each_window()
        self._users_of_windows = Counter(map(lengths_of, queries))
        self._times = self._times.with_queries(self._queries_by_window.values())
        if self._keep is not None:
            self._evaluation.retain_window(self._times.resolve(self._keep).window)
        self._evaluation.add(*(self._resolve(query, self._times) for query in queries))
        self.max_ahead = max_ahead
        self._threads = int(threads)
        if static is not None:
            self._load_graphs(static)

    def _load_graphs(self, static: Any) -> None:
        """Load static edges, or those of graphs by their names, before those with the name None."""
        is_of_graphs = isinstance(static, Mapping) and not {"source", "target", "label"}.issubset(static)
        graphs = static if is_of_graphs else {None: static}
        for graph in sorted(graphs, key=lambda graph: graph is None):
            self.load_static(graphs[graph], graph=graph)

    @property
    def threads(self) -> int:
        """Return the number of threads that divide path queries.

        >>> import rpq
        >>> rpq.Engine(rpq.Query("a", window=rpq.Window(size=10, slide=1)), threads=2).threads
        2
        """
        return self._threads

    @property
    def edges(self) -> Identity:
        """The condition under which two inserts are the same edge: "triple", "parallel" or "id".

        >>> import rpq
        >>> rpq.Engine(edges="id").edges
        'id'
        """
        return self._evaluation.identity

    def __repr__(self) -> str:
        registered = list(self._original_queries)
        names = ", ".join(map(repr, registered[:3])) + (", …" if len(registered) > 3 else "")
        queries = f"{len(registered)} {'query' if len(registered) == 1 else 'queries'}" + (f" ({names})" if names else "")
        edges, vertices = self._evaluation.graph.edge_count, self._evaluation.vertices.live
        return f"<Engine: {queries}, time {self.time}, {edges:,} edges of {vertices:,} vertices held>"

    def _repr_html_(self) -> str:
        shown = ["name", "expression", "window", "paths", "semantics"]
        return html_table(repr(self)[1:-1], shown, [[getattr(query, name, "") for name in shown] for query in self.queries])

    # --- tuples ----------------------------------------------------------------------------------------------

    @one_thread_at_a_time
    def push(
        self, data: Any = None, *, collect: bool = True, stream: Any = None, event: Any = None, **columns: Any
    ) -> Changes:
        """Apply tuples in the order given, and return the answer changes.

        `data` is an Arrow table or record batch, a pandas frame or a mapping of columns; columns may also be given by
        keyword: source, target, label, timestamp and optionally op ("+" or "-") or delete (bool), and stream, text or null;
        in an engine with `edges="id"` also edge, the id, which an insert needs and a delete may have in place of the others.
        A single text as `stream` is the stream of all of these tuples. Paths and patterns read the merged stream, in which
        the names of streams play no part: an edge exists once, and a delete removes it, whichever stream inserted it. A
        query that reads a window ON a stream sees only the tuples of that name, with their own deletes. With `collect=False`
        changes are counted but not returned. Raises `InputError` at the first invalid tuple, `MemoryLimitError`,
        `RowLimitError` and `PushLimitError`; `changes` of the error contains the changes of the tuples before it.

        An engine with `events` also reads a column event: consecutive tuples with equal values are one event, and each tuple
        without a value is one. With `event=True` all of these tuples are one event. An event ends with its push.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push(source=["x", "x"], target=["y", "z"], label=["a", "a"], timestamp=[1, 2])
        <Changes: 2 added, 0 removed: ('a+', 'x', 'y', 1, '+'), ('a+', 'x', 'z', 2, '+')>
        """
        if data is None:
            if stream is not None and not isinstance(stream, str):
                columns["stream"], stream = stream, None
            data = columns
        elif columns:
            raise InputError("tuples come as one table or as columns by keyword, not as both")
        if event is not None:
            if self._events is None:
                raise InputError(
                    'events of several tuples need an engine with events: rpq.Engine(…, events="window"), or "alone"',
                    column="event",
                )
            data = with_event(data, event)
        tuple_ = only_tuple(data) if stream is None else None
        if tuple_ is not None:
            return self._push_one(data, *tuple_, collect=collect)
        return self._push(data, collect=collect, stream=stream)

    def _push(self, data: Any, *, collect: bool, stream: Any = None) -> Changes:
        started = self._stopwatch.start()
        self._usable(is_limited=True)
        has_rows = collect or bool(self._handlers)
        try:
            tuples = self._columns(data, stream=stream)
        except InputError as error:
            error.changes = self._changes([], np.zeros(2, np.int64))
            raise
        if self._clock is not None and len(tuples):
            tuples = self._clock.number_events(tuples)
            self._clock.note_applied(tuples)
            self._evaluation.output.reported_time = int(tuples.reported_time[0])  # type: ignore[index]
        if has_rows:
            ends = self._dry_run.ends(
                self._evaluation,
                tuples,
                lambda room: self._copy(memory_limit=room, witness=False, _keeps_values=False)._evaluation,
            )
        else:  # rows are counted, without witnesses
            self._dry_run.copy = None
            ends = np.zeros(0, np.int64)
        applied = self._evaluation.push(tuples, collect=has_rows, ends=ends)
        failure = applied.failure
        if failure is None and self._clock is not None and len(tuples):
            self._evaluation.output.reported_time = self._clock.time
            self._evaluation.empty_windows(self._clock.number + 1)
        changes = self._changes(applied.rows, applied.counts, applied.late_rows)
        changes = changes if has_rows == collect else changes._without_rows()
        self._stopwatch.stop(started)
        if failure is not None:
            failure.changes = changes
            raise failure
        if tuples.error is not None:
            tuples.error.changes = changes
            raise tuples.error
        self._raise_overrun(changes)
        return changes

    def _columns(self, data: Any, *, stream: Any = None) -> Columns:
        """Return data as well-formed tuples, whose types are those of the stream from now on. Raises `InputError`."""
        multigraph = self._evaluation.multigraph
        tuples = columns_of(
            data,
            times=self._times,
            latest=self._evaluation.running.latest,
            kind=self._evaluation.vertices.kind,
            stream=stream,
            events=self._events is not None,
            ahead=self._ahead_limit(),
            properties=None if multigraph is None else multigraph.read_properties,
            ids=None if multigraph is None else multigraph.edge_ids,
        )
        if len(tuples):
            self._times = tuples.times
        return tuples

    @one_thread_at_a_time
    def push_rows(self, rows: Iterable[tuple[Any, ...]], *, collect: bool = True) -> Changes:
        """Apply tuples (source, target, label, timestamp) or, with an op, (source, target, label, timestamp, op).

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("x", "y", "a", 2, "-")])
        <Changes: 1 added, 1 removed: ('a+', 'x', 'y', 1, '+'), ('a+', 'x', 'y', 2, '-')>
        """
        table, error = table_of_rows(rows)
        if error is None and (tuple_ := only_tuple(table)) is not None:
            return self._push_one(table, *tuple_, collect=collect)
        changes = self._push(table, collect=collect)
        if error is not None:
            error.changes = changes
            raise error
        return changes

    @one_thread_at_a_time
    def insert(
        self,
        source: Vertex,
        target: Vertex,
        label: str,
        timestamp: Any,
        *,
        edge: int | str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> Changes:
        """Apply one insert. The edge may carry `properties`: values by name, where None means no value.

        `edge` is the id of the edge, where edges have one (`edges="id"`).

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "a", 1)
        <Changes: 1 added, 0 removed: ('a+', 'x', 'y', 1, '+')>
        """
        if edge is not None:
            self._refuse_id(edge)
        if properties or edge is not None:
            if properties and not _COLUMNS.isdisjoint(properties):
                name = min(_COLUMNS.intersection(properties))
                raise InputError(f"{name!r} is a column of tuples; a property of an edge needs another name", column=name)
            if {*map(type, properties or ())} <= {str}:
                return self._push_one(
                    None, source, target, label, timestamp, "+", collect=True, properties=properties, edge=edge
                )
            values = {"source": source, "target": target, "label": label, "timestamp": timestamp, "op": "+", "edge": edge}
            return self._push({name: [value] for name, value in {**values, **(properties or {})}.items()}, collect=True)
        return self._push_one(None, source, target, label, timestamp, "+", collect=True)

    @one_thread_at_a_time
    def delete(
        self,
        source: Vertex | None,
        target: Vertex | None,
        label: str | None,
        timestamp: Any,
        *,
        edge: int | str | None = None,
    ) -> Changes:
        """Apply one delete, of all edges with this source, target and label, or of the one with the id `edge`.

        With an id, which needs `edges="id"`, the other arguments have no meaning and may be None.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "a", 1).added
        1
        >>> engine.delete("x", "y", "a", 2)
        <Changes: 0 added, 1 removed: ('a+', 'x', 'y', 2, '-')>
        """
        if edge is not None:
            self._refuse_id(edge)
        return self._push_one(None, source, target, label, timestamp, "-", collect=True, edge=edge)

    def _refuse_id(self, edge: int | str) -> None:
        if self._evaluation.identity != "id":
            raise InputError(
                f'edge={edge!r}: edges have ids in an rpq.Engine(…, edges="id"); in this one, edges are '
                f"{self._evaluation.identity!r}",
                column="edge",
            )

    def _push_one(
        self,
        data: Any,
        source: Any,
        target: Any,
        label: Any,
        timestamp: Any,
        op: Any,
        *,
        collect: bool,
        properties: Mapping[str, Any] | None = None,
        edge: int | str | None = None,
    ) -> Changes:
        """Apply one tuple, which came as `data` if that is not None."""
        started = self._stopwatch.start()
        self._usable(is_limited=True)
        evaluation = self._evaluation
        latest = evaluation.running.latest
        if self._most_ahead is not None and (now := evaluation.graph.time) is not None:
            latest = min(latest, now + self._most_ahead)  # `push` refuses later ones
        multigraph = evaluation.multigraph
        is_held = evaluation.witness and evaluation.has_held_witnesses
        is_usual = not (evaluation.awaits_first or is_held) and self._clock is None
        is_usual = is_usual and (multigraph is None or multigraph.takes_one(self._times))
        kind = evaluation.vertices.kind
        ends, own_label = (source, target), label
        if edge is not None and op == "-":  # ends and label have no meaning
            ends, own_label = (0, 0) if kind == "int64" else ("-", "-"), "-" if label is None else label
        plain = self._times.is_of_numbers and is_usual
        plain = plain and is_plain(*ends, own_label, timestamp, op, kind=kind, latest=latest)
        values: Mapping[str, Any] | None = None
        if plain and multigraph is not None:
            plain = multigraph.takes_id(edge, is_delete=op == "-")
            if plain and properties:
                values = multigraph.values_of_one(properties)
                plain = values is not None
        if not plain:
            if data is None:
                data = {"source": [source], "target": [target], "label": [label], "timestamp": [timestamp], "op": [op]}
                data |= {name: [value] for name, value in (properties or {}).items()}
                if edge is not None:
                    data["edge"] = [edge]
            return self._push(data, collect=collect)
        has_rows = collect or bool(self._handlers)
        self._dry_run.copy = None
        applied = evaluation.apply_one(
            source, target, label or "", timestamp, op == "-", collect=has_rows, values=values, edge=edge
        )
        changes = self._changes([applied.rows] if applied.rows else [], applied.counts, applied.late_rows)
        changes = changes if has_rows == collect else changes._without_rows()
        self._stopwatch.stop(started)
        if applied.failure is not None:
            applied.failure.changes = changes
            raise applied.failure
        if changes.set_aside:
            self._raise_overrun(changes)
        return changes

    def run(self, reader: Iterable[Any], *, collect: bool = True) -> Iterator[Changes]:
        """Push every batch of a reader (or any iterable of tables), and yield the changes of each.

        If the engine has `events`, an event that continues in the next Arrow table is pushed as a whole with that table.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> first = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}
        >>> second = {"source": ["y"], "target": ["z"], "label": ["a"], "timestamp": [2]}
        >>> [changes.added for changes in engine.run([first, second])]
        [1, 2]
        """
        tables = (getattr(batch, "columns", batch) if hasattr(batch, "bytes_read") else batch for batch in reader)
        for table in tables if self._events is None else whole_events(tables):
            for part in uniform_parts(table) if isinstance(table, pa.RecordBatch) else [table]:
                yield self._push_part(part, collect=collect)

    def _push_part(self, part: Any, *, collect: bool = True) -> Changes:
        """Push tuples, or a part of a reader's batch with records of nodes alone (`rpq.stream.nodes.node_rows`)."""
        if not isinstance(part, pa.RecordBatch):
            return self.push(part, collect=collect)
        if are_records(part):
            return self.push_nodes(node_table(part), collect=collect)
        return self.push(tuples_of(part), collect=collect)

    @one_thread_at_a_time
    def load_static(self, edges: Any, *, graph: str | None = None) -> None:
        """Add edges without time, which do not move the stream time and never leave.

        With `graph`, an IRI, they are edges of that graph alone, which `GRAPH <graph>` and `FROM <graph>` in SPARQL read,
        and no other query.

        `edges` are rows (source, target, label), or a table or mapping with these columns, as `push` accepts them. Every
        query reads them in addition to its window: an edge in both exists once, and a delete removes it only from the
        window. Answers from static edges alone are an event before the first tuple, with its time. The method may be called
        several times before the first tuple, but not afterwards. The engine keeps those properties of static edges that
        queries read. With edges="id" they may have ids, in a column edge. An edge of the window hides the static edge with
        its id or, with edges="triple", with its source, label and target; with edges="parallel" both are there. Raises
        `InputError`, and `QueryError` for queries that do not allow static edges; then no edge is added. O(edges).

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("?x role moderator . ?x a ?y", window=rpq.Window(size=10, slide=1)))
        >>> engine.load_static([("k", "moderator", "role")])
        >>> engine.push_rows([("k", "y", "a", 1), ("j", "y", "a", 2)])
        <Changes: 1 added, 0 removed: ('?x role moderator . ?x a ?y', 'k', 'y', 1, '+')>
        """
        self._usable()
        self._dry_run.copy = None
        if self._evaluation.graph.time is not None:
            raise InputError(
                f"static edges are loaded before the first tuple, and the stream time is {self.time} already: push them "
                "with a timestamp, or begin with a new engine"
            )
        if graph is not None and (not isinstance(graph, str) or not graph):
            raise InputError(f"the name of a graph is an IRI, not {graph!r}")
        multigraph = self._evaluation.multigraph
        read = None if multigraph is None else multigraph.read_static_properties
        ids = None if multigraph is None else multigraph.edge_ids
        columns, property_names = static_columns(edges, kind=self._evaluation.vertices.kind, properties=read, ids=ids)
        if graph is not None:
            self._evaluation.load_graph(columns, graph)
        else:
            self._evaluation.load_static(columns, property_names)

    # --- nodes -----------------------------------------------------------------------------------------------

    @one_thread_at_a_time
    def push_nodes(self, data: Any, *, collect: bool = True) -> Changes:
        """Apply records of nodes in the order given, and return the answer changes.

        `data` is an Arrow table or record batch, a pandas frame or a mapping of columns: node, and optionally labels (lists
        of texts, or texts with semicolons), op ("+" adds facts, "=" replaces all, "-" takes all away) and timestamp; others
        are properties. In a table each record states all properties that are columns, and a null takes the property away. A
        list of dictionaries has records that state what they name. A record changes no fact that was set at a later time;
        without a timestamp it has the stream time. Facts never expire. Raises errors as `push` does.

        >>> import rpq
        >>> engine = rpq.Engine()
        >>> engine.push_nodes({"node": ["x", "y"], "labels": [["Account"], None], "risk": [4, 1]}).added
        0
        >>> engine.push_nodes([{"node": "x", "country": "NL"}, {"node": "y", "op": "-"}]).added
        0
        >>> engine.node("x"), engine.node("y")
        (NodeFacts(name='x', labels=('Account',), properties={'risk': 4, 'country': 'NL'}), None)
        """
        started = self._stopwatch.start()
        self._usable(is_limited=True)
        self._dry_run.copy = None
        has_rows = collect or bool(self._handlers)
        if self._clock is not None:
            raise InputError('with events="alone" the graph has one event at a time, and no nodes with facts')
        try:
            columns, types = self._node_columns(data)
            if len(columns):
                self._begin_nodes()
            self._set_node_types(types)
        except InputError as error:
            error.changes = self._changes([], np.zeros(2, np.int64))
            raise
        self._times = columns.times
        evaluation = self._evaluation
        try:
            applied = evaluation.apply_records(columns, collect=has_rows)
        except LimitError as error:
            error.changes = self._changes([], np.zeros(2, np.int64))
            raise
        changes = self._changes(applied.rows, applied.counts)
        changes = changes if has_rows == collect else changes._without_rows()
        self._stopwatch.stop(started)
        failure = applied.failure or columns.error
        if failure is not None:
            failure.changes = changes
            raise failure
        self._raise_overrun(changes)
        return changes

    def _begin_nodes(self) -> None:
        """Make queries read facts of nodes beside edges from now on. O(window · index) where that changes a query."""
        before = self._evaluation
        if before.has_nodes:
            return
        before.has_nodes = True
        questions = [one.question for one in before.running]
        if all(for_nodes(one, True) is one for one in questions):
            return
        try:
            if before.graph.time is None:
                self._add_again(questions)
            else:
                self._evaluation = self._copy(max_rows=before.row_guard.limit)._evaluation
        except (QueryError, StateFormatError) as error:
            before.has_nodes = False
            if before.graph.time is None:
                before.add(*questions)
            raise InputError(
                "a query reads labels of nodes over a window of which edges alone are known: push a record before the first "
                f"tuple, or write node_label=None ({error})"
            ) from error
        self._usable(is_limited=True)

    def _add_again(self, questions: Sequence[Any]) -> None:
        """Add the queries again, before the first tuple; without any if one is refused. Raises `QueryError`."""
        self._evaluation.remove(*(one.name for one in questions))
        self._evaluation.add(*questions)

    def _node_columns(self, data: Any) -> tuple[NodeColumns, PropertyTypes]:
        """Return data as well-formed records, and the types of properties after them. Raises `InputError`."""
        types = self._evaluation.nodes.types.copy()
        columns = node_columns(
            data,
            times=self._times,
            latest=self._evaluation.running.latest,
            kind=self._evaluation.vertices.kind,
            ahead=self._ahead_limit(),
            types=types,
            kept=self._evaluation.nodes.kept,
        )
        return columns, types

    def _set_node_types(self, types: PropertyTypes) -> None:
        """Set the types of properties of nodes. Raises `InputError` where a test or a filter does not fit them."""
        nodes, multigraph = self._evaluation.nodes, self._evaluation.multigraph
        if types.names != nodes.types.names and multigraph is not None:
            multigraph.check_node_types(types)
        nodes.types = types
        if multigraph is not None:
            multigraph.note_types()

    def set_node(
        self,
        name: Vertex,
        *,
        labels: Iterable[str] = (),
        properties: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        replace: bool = False,
    ) -> Changes:
        """Apply one record of a node: add labels and set properties, where None takes one away.

        With `replace`, all other facts of the node are taken away.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("(transfer/@[risk > 3])+", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "transfer", 1).added
        0
        >>> engine.set_node("y", labels=["Account"], properties={"risk": 4})
        <Changes: 1 added, 0 removed: ('(transfer/@[risk > 3])+', 'x', 'y', 1, '+')>
        """
        if isinstance(labels, str):
            raise InputError(f"labels are a collection of texts, as in ({labels!r},), not one text", column="labels")
        own = {*OWN_COLUMNS}.intersection(properties or ())
        if own:
            column = min(own)
            raise InputError(f"{column!r} is a column of records; name the property otherwise", column=column)
        row = {"node": name, "timestamp": timestamp, "op": "=" if replace else "+", **(properties or {})}
        labels = [*labels]
        return self.push_nodes([row | ({"labels": labels} if labels else {})])

    def remove_node(self, name: Vertex, *, timestamp: Any = None) -> Changes:
        """Take all facts of a node away.

        >>> import rpq
        >>> engine = rpq.Engine()
        >>> engine.set_node("x", properties={"risk": 4}).added, engine.remove_node("x").added, engine.node("x")
        (0, 0, None)
        """
        return self.push_nodes([{"node": name, "timestamp": timestamp, "op": "-"}])

    def node(self, name: Vertex) -> NodeFacts | None:
        """Return the facts of a node; None if it has no record.

        >>> import rpq
        >>> engine = rpq.Engine()
        >>> engine.set_node("x", labels=["Person", "Client"], properties={"age": 30}).added
        0
        >>> engine.node("x")
        NodeFacts(name='x', labels=('Client', 'Person'), properties={'age': 30})
        """
        nodes, vertex = self._evaluation.nodes, self._evaluation.vertices.id_of(name)
        ids = np.array([vertex], np.int32)
        if vertex < 0 or not nodes.are_known(ids)[0]:
            return None
        values = {one: nodes.column(one, ids)[0].as_py() for one in nodes.properties}
        held = {one: value for one, value in values.items() if value is not None}
        return NodeFacts(name=name, labels=nodes.labels_of(vertex), properties=held)

    @one_thread_at_a_time
    def advance(self, time: Any) -> Changes:
        """Move the stream time to `time` (an integer, a date or a time) if that is later, so that edges expire.

        `max_ahead` does not apply, because the caller chooses the time.

        >>> import rpq
        >>> window = rpq.Window(size=10, slide=1)
        >>> engine = rpq.Engine(rpq.Query("a", window=window, semantics="explicit"))
        >>> engine.insert("x", "y", "a", 1).added
        1
        >>> engine.advance(20)
        <Changes: 0 added, 1 removed: ('a', 'x', 'y', 11, '-')>
        """
        started = self._stopwatch.start()
        self._usable(is_limited=True)
        self._dry_run.copy = None
        time, times = time_of(time, times=self._times, latest=self._evaluation.running.latest)
        if self._max_ahead is not None:
            self._max_ahead.check_timestamps(times)
        self._times = times
        if self._clock is not None:
            self._clock.advance(time)
            self._evaluation.output.reported_time = self._clock.time
            time = self._clock.number + 1
        counts = np.zeros(2, np.int64)
        rows: list[ChunkRows] = []
        try:
            applied = [self._evaluation.begin(time, row=None)] if self._evaluation.awaits_first else []
            for one in (*applied, *self._evaluation.advance_to_full(time), self._evaluation.advance(time)):
                rows.append(one.rows)
                counts += one.counts
        except LimitError as error:
            error.changes = self._changes([], np.zeros(2, np.int64))
            raise
        self._stopwatch.stop(started)
        changes = self._changes(rows, counts)
        self._raise_overrun(changes)
        return changes

    @one_thread_at_a_time
    def flush(self) -> Changes:
        """Return the next report of each query that reports at slides or times, as if the stream ended here.

        A report is made when the stream time moves on, by a tuple or by `advance`; this method returns the one that waits
        for that: the report at the first boundary that is not before the stream time, with the expiry of that boundary. The
        engine does not change: its time does not move, and later reports, this one included, are as without `flush`.
        Handlers (`on_change`) get these rows, too. Raises `LimitError`, after which the engine remains usable.
        O(window · index), as restoring a saved state.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=5), report="slide"))
        >>> engine.push_rows([("p", "q", "a", 1), ("r", "s", "a", 7)])
        <Changes: 1 added, 0 removed: ('?x a ?y', 'p', 'q', 5, '+')>
        >>> engine.flush()
        <Changes: 1 added, 0 removed: ('?x a ?y', 'r', 's', 10, '+')>
        """
        self._usable(is_limited=True)
        running, now = self._evaluation.running, self._now
        due: dict[int, list[int]] = {}
        for number, reports in running.reports.items():
            boundary = running.latest if now is None else reports.boundary(now)
            if boundary < running.latest:  # otherwise no stream time exceeds it
                due.setdefault(boundary, []).append(number)
        rows: list[list[RowBlock]] = []
        try:
            copy = self._copy() if due else self
            for boundary in sorted(due):
                applied = copy._evaluation.advance(boundary + 1)
                blocks = applied.rows if isinstance(applied.rows, list) else applied.rows.blocks(running.schemas.columns)
                rows += [[block.select_query(one) for block in blocks for one in due[boundary] if one in block.query]]
        except RowLimitError as error:  # of a copy
            raise self._evaluation.row_guard.report_error(error.query, error.number) from None
        counts = sum((np.array(block.counts()) for blocks in rows for block in blocks), np.zeros(2, np.int64))
        return self._changes([*rows], counts)

    def _copy(self, **changed: Any) -> Engine:
        """Return an independent engine with the same state, limits and number of threads, except for `changed` options."""
        from rpq.engine.state.engine_state import copy_state

        evaluation = self._evaluation
        options = {
            "threads": self._threads,
            "memory_limit": evaluation.guard.limit,
            "max_rows": evaluation.row_guard.effective_limit,
            "push_limit": evaluation.guard.push_limit,
            "_deadline": evaluation.guard.deadline,
            "witness": evaluation.witness,
            "report_empty": evaluation.report_empty,
            "_keeps_values": evaluation.keeps_values,
            "_has_nodes": evaluation.has_nodes,
        }
        return self._of_state(copy_state(evaluation, self._about({})), **{**options, **changed})

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def queries(self) -> tuple[Query, ...]:
        """The registered queries.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.queries
        (Query('a+', window=Window(size=10, slide=1)),)
        """
        return tuple(self._original_queries.values())

    @one_thread_at_a_time
    def register(
        self,
        query: Query | Iterable[Query],
        *,
        start: Literal["window", "empty"] = "window",
        handler: Handler | None = None,
    ) -> Changes:
        """Add a query, or several in one step. Return their answers over the present windows, with the stream time.

        Either all of the queries are added or none. Raises `RegistrationError` if an edge in a window was not stored,
        because no query needed it when it came; the error names the time from which the query can be registered.
        `Engine(keep=…)` stores all edges of a window for queries that are registered later. With `start="empty"` the queries
        begin with empty windows. A `handler` is called with their rows, including the first ones, as by `on_change`.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> engine.register(rpq.Query("a/a", window=rpq.Window(size=5, slide=1)))
        <Changes: 1 added, 0 removed: ('a/a', 'x', 'z', 2, '+')>
        >>> window = rpq.Window(size=5, slide=1)
        >>> engine.register([rpq.Query("a", window=window), rpq.Query("?x a z", window=window)]).added
        3
        """
        self._usable(is_limited=True)
        self._dry_run.copy = None
        if start not in ("window", "empty"):
            raise QueryError(f"a query starts from the 'window' or 'empty', not {start!r}")
        new_queries = _as_list(query)
        refuse_unless_callable(handler)
        evaluation = self._evaluation
        for one in new_queries:
            evaluation.running.check_registration(one)
        _refuse_same_names(new_queries)
        # One query of each window is enough.
        by_window = [*self._queries_by_window.values(), *_queries_by_window(new_queries).values()]
        times = self._times.with_queries(by_window)
        most_ahead = self._most_ahead_of(self._max_ahead, times, by_window)
        queries = [self._resolve(one, times) for one in new_queries]
        time = evaluation.graph.time
        reach = max((window.reach for one in queries for window in windows_of(one)), default=0)
        if time is not None and time > INT64_MAX - reach:
            raise InputError(f"the stream time {self.time} and the size of the window, {reach}, exceed 64 bits")
        self._refuse_unstored(queries, empty=start == "empty")
        evaluation.midway = True
        try:
            added = evaluation.add(*queries, is_late=time is not None and start == "empty")
        except QueryError:
            evaluation.midway = False  # it was refused before anything was done
            raise
        rows: ChunkRows = []
        if time is not None:
            try:
                rows = evaluation.load(added, time=time, empty=start == "empty")
            except LimitError:
                evaluation.remove(*(one.name for one in queries))
                evaluation.midway = False
                raise
        evaluation.midway = False
        self._times, self._most_ahead = times, most_ahead
        self._original_queries |= {one.name: one for one in new_queries}
        self._users_of_windows.update(map(lengths_of, new_queries))
        self._queries_by_window = _queries_by_window(new_queries) | self._queries_by_window
        if handler is not None:
            self._handlers.add(handler, [one.name for one in new_queries])
        evaluation.output.note_overruns(None)
        counts = sum(map(evaluation.running.rows_of, added), np.zeros(2, np.int64))
        changes = self._changes([rows], counts)
        self._raise_overrun(changes)
        return changes

    def _refuse_unstored(self, queries: Sequence[Any], *, empty: bool = False) -> None:
        """Raise `RegistrationError` if windows of queries lack edges, which those that start `empty` do not need."""
        evaluation, to_timestamp = self._evaluation, self._times.to_timestamp
        if not evaluation.running.are_read(queries, evaluation.labels):
            evaluation.collector.collect()  # afterwards the lost edges are known
        multigraph = evaluation.multigraph
        for one in queries if multigraph is None else [multigraph.retained_form(one) for one in queries]:
            if not empty:
                offers_empty = begins_empty(one, evaluation)
                refuse_if_lost(
                    one, evaluation.labels, evaluation.graph, to_timestamp=to_timestamp, begins_empty=offers_empty
                )
                refuse_forgotten_edges(one, evaluation, to_timestamp=to_timestamp)
            refuse_unread_conditions(one, evaluation, empty=empty, to_timestamp=to_timestamp)

    @one_thread_at_a_time
    def unregister(self, name: str | Iterable[str]) -> None:
        """Remove a query, or several as one step, with everything that only they needed.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.unregister("a+")
        >>> engine.queries
        ()
        """
        self._dry_run.copy = None
        running = self._evaluation.running
        names = [name] if isinstance(name, str) or not isinstance(name, Iterable) else list(dict.fromkeys(name))
        queries = [running.find(one) for one in names]
        self._rows_of_removed_queries += sum(map(running.rows_of, queries), np.zeros(2, np.int64))
        self._evaluation.remove(*names)
        self._handlers.drop(names)
        windows = Counter(lengths_of(self._original_queries.pop(one)) for one in names)
        self._users_of_windows -= windows
        if any(window not in self._users_of_windows for window in windows):
            self._queries_by_window = self._query_of_each_window()
            self._times = self._times.with_queries(self._queries_by_window.values())
            self._most_ahead = self._most_ahead_of(self._max_ahead, self._times, self._queries_by_window.values())

    def on_change(self, handler: Handler, *, query: str | Iterable[str] | None = None) -> None:
        """Call a function with the rows of a query, of several queries, or of all present and future queries.

        After each call of the engine that brings rows, and before that call returns, `handler` is called with a list of them
        (`Change`) in time order, once for each query that has rows, even with `collect=False`. A handler may call the
        engine, and register and unregister queries; it is called with the rows of these calls afterwards. An exception in a
        handler is raised by the call of the engine after all handlers were called; the tuples are applied by then. Several
        handlers are called one after the other. The handlers of a query are removed with it, and saved states contain no
        handlers. O(rows) a call. Raises `QueryError`.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.on_change(print, query="a+")
        >>> changes = engine.insert("x", "y", "a", 1)
        [Change(query='a+', source='x', target='y', timestamp=1, op='+')]
        """
        refuse_unless_callable(handler)
        names = None if query is None else [query] if isinstance(query, str) else list(query)
        for name in names or ():
            self._evaluation.running.find(name)
        self._handlers.add(handler, names)

    def _query_of_each_window(self) -> dict[Hashable, Any]:
        """Return a query of each window; `keep` counts as the query of its window."""
        keep = [] if self._keep is None else [self._keep]
        return _queries_by_window([*keep, *self._original_queries.values()])

    @one_thread_at_a_time
    def restore_root(self, root: Vertex, query: str | None = None) -> Changes:
        """Restore a root that was set aside because its simple paths took more than the budget.

        Its answers are rows with the present stream time, also for patterns that read the same paths. If they exceed the
        budget again, the root stays set aside, as the error or `set_aside` of the changes says. Nothing changes if the root
        is not set aside.

        >>> import rpq
        >>> window = rpq.Window(size=10, slide=1)
        >>> engine = rpq.Engine(rpq.Query("a/b", window=window, paths="simple"))
        >>> engine.restore_root("x")
        <Changes: 0 added, 0 removed>
        """
        self._usable()
        self._dry_run.copy = None
        running = self._evaluation.running.find(query)
        vertex = self._evaluation.vertices.id_of(root)
        before = self._evaluation.running.rows()
        self._evaluation.midway = True
        rows = self._evaluation.restore_root(running, vertex) if vertex >= 0 else []
        self._evaluation.midway = False
        self._evaluation.output.note_overruns(None)
        changes = self._changes([rows], self._evaluation.running.rows() - before)
        self._raise_overrun(changes)
        return changes

    @one_thread_at_a_time
    def set_aside(self, query: str | None = None) -> list[Vertex]:
        """Return the roots that are set aside now, because their simple paths took more than the budget.

        >>> import rpq
        >>> window = rpq.Window(size=10, slide=1)
        >>> engine = rpq.Engine(rpq.Query("a/b", window=window, paths="simple", on_budget="set_aside"))
        >>> engine.set_aside()
        []
        """
        evaluation = self._evaluation
        return [evaluation.vertices.name_of(root) for root in evaluation.running.find(query).set_aside()]

    # --- present state ---------------------------------------------------------------------------------------

    @property
    def time(self) -> Any:
        """The stream time: the largest timestamp so far, an integer, a date or a time; None before the first tuple.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "b", 7), ("x", "y", "a", 5)]).added
        1
        >>> engine.time
        7
        """
        return self._times.to_timestamp(self._now)

    @property
    def max_ahead(self) -> Any:
        """The largest distance of a tuple ahead of the stream time, as it was passed; None means no limit. It can be set.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)), max_ahead="1000x")
        >>> engine.push_rows([("x", "y", "a", 5), ("y", "z", "a", 10_005)]).added
        2
        >>> engine.insert("x", "y", "a", 20_006)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        rpq.errors.InputError: row 0: column 'timestamp': 20006 is further ahead of the stream time, 10005, than ...
        >>> engine.max_ahead = None
        >>> engine.insert("x", "y", "a", 20_006).added
        1
        """
        return None if self._max_ahead is None else self._max_ahead.value

    @max_ahead.setter
    def max_ahead(self, limit: Any) -> None:
        max_ahead = MaxAhead.of(limit)
        self._most_ahead = self._most_ahead_of(max_ahead, self._times, self._queries_by_window.values())
        self._max_ahead = max_ahead

    @property
    def push_limit(self) -> float | None:
        """The largest number of seconds that a push may take; None means no limit. It can be set.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)), push_limit=2.5)
        >>> engine.push_limit = None
        """
        return self._evaluation.guard.push_limit

    @push_limit.setter
    def push_limit(self, seconds: float | None) -> None:
        if seconds is not None and not seconds > 0:
            raise QueryError(f"push_limit is a number of seconds above 0, or None for no limit, not {seconds!r}")
        self._evaluation.guard.push_limit = seconds

    @one_thread_at_a_time
    def answers(
        self,
        query: str | None = None,
        *,
        source: Vertex | None = None,
        target: Vertex | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Answers:
        """Return the answers at this moment, of the query with that name (or of the only one).

        Those of a query with `hold` are the answers that were reported and did not leave.

        `source` and `target` select answers of a path query. `limit` is the largest number of answers; `after`, the `cursor`
        of earlier answers, continues behind them. Each part is exact at its moment. If the stream moves between two parts,
        an answer that holds from the first part to the last is in exactly one of them, unless a query in SPARQL computes
        some of its values; an answer that comes or goes meanwhile may be in none, and in two if it goes and comes back. The
        order has no meaning. A cursor is valid until the query is unregistered or the engine is restored; any other raises
        an `InputError`.

        O(size of the index) without options; O(limit + roots + vertices) for a path query with a `limit`. The answers of
        other queries, and those of a query with `hold`, are all enumerated as ids, of which `limit` rows get names.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> sorted(engine.answers())
        [('x', 'y'), ('x', 'z'), ('y', 'z')]
        >>> sorted(engine.answers(source="x"))
        [('x', 'y'), ('x', 'z')]
        >>> first = engine.answers(limit=2)
        >>> len(first), len(engine.answers(limit=2, after=first.cursor))
        (2, 1)
        """
        self._usable()
        if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 1):
            raise QueryError(f"limit is a whole number of answers, at least one, or None for all, not {limit!r}")
        running, vertices = self._evaluation.running.find(query), self._evaluation.vertices
        if source is None and target is None and limit is None and after is None:
            rows, cursor = self._evaluation.running.answers_of(running), None
        else:
            ends = {"source": source, "target": target}
            page, position = self._evaluation.running.page_of(
                running,
                None if after is None else position_of(after, running.cursor_key),
                INT64_MAX if limit is None else int(limit),
                **{name: vertices.id_of(end) for name, end in ends.items() if end is not None},
            )
            rows, cursor = [page], None if position is None else cursor_of(position, running.cursor_key)
        columns = running.columns
        values = columns_of_names(rows, vertices, columns=columns, texts=running.term_texts, times=self._times.column)
        return Answers(columns, values, count=sum(len(some.values) for some in rows), cursor=cursor)

    @one_thread_at_a_time
    def find(
        self,
        expression: str,
        *,
        source: Vertex | Iterable[Vertex] | None = None,
        target: Vertex | Iterable[Vertex] | None = None,
        limit: int | None = None,
        witness: bool = False,
        window: AnyWindow | None = None,
        order: Literal["increasing", "non_decreasing"] | None = None,
        max_gap: int | str | timedelta | np.timedelta64 | None = None,
        max_span: int | str | timedelta | np.timedelta64 | None = None,
        max_edges: int | None = None,
    ) -> Found:
        """Return the pairs that a path expression has now, from some sources, to some targets, or both.

        The answer is that of a registered query with the expression, by a search for this call alone: from the side with
        fewer names. `limit` is the largest number of pairs, which are in no order; `is_cut` of the result says whether there
        are more. With `witness`, its `paths` are one path for each pair, with the fewest edges from that side.

        The `window` is by default that of `keep`, otherwise the one over which all registered queries read. Raises
        `RegistrationError` if edges in it were not stored, and `FindLimitError` if the search would look at more than
        `max_edges` edges. O(edges reached); an expression that is new is compiled first.

        >>> import rpq
        >>> engine = rpq.Engine(keep=rpq.Window(size=10, slide=1))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2), ("z", "y", "b", 3)]).added
        0
        >>> sorted(engine.find("a+/^b?", source="x"))
        [('x', 'y'), ('x', 'z')]
        >>> engine.find("a+", target=["z", "w"], limit=1, witness=True).paths
        (Path(vertices=('y', 'z'), labels=('a',)),)
        """
        sources, targets = _names(source), _names(target)
        if sources is None and targets is None:
            raise QueryError("find follows paths from given vertices, or to given ones: pass source=, target=, or both")
        _check_number("limit", limit)
        _check_number("max_edges", max_edges)
        return self._find(expression, sources, targets, (window, order, max_gap, max_span), limit, witness, max_edges)

    def _find(
        self,
        expression: str,
        sources: list[Vertex] | None,
        targets: list[Vertex] | None,
        options: tuple[Any, Any, Any, Any],
        limit: int | None,
        witness: bool,
        max_edges: int | None,
    ) -> Found:
        is_ordered = options[1] is not None
        to_targets = sources is None or (targets is not None and len(targets) < len(sources))
        finder, known = self._known_expression(expression, options, is_reversed=is_ordered and to_targets)
        if is_ordered:
            roots, others = (targets, sources) if to_targets else (sources, targets)
            found = finder.ordered_pairs(
                known, roots or (), others, is_reversed=to_targets, limit=limit, budget=max_edges, witness=witness
            )
        else:
            found = finder.pairs(known, sources, targets, limit=limit, budget=max_edges, witness=witness)
        if found.paths is not None and known.tests is not None:
            found.paths = tuple(self._with_facts(known.question, path) for path in found.paths)
        return found

    @one_thread_at_a_time
    def check(
        self,
        expression: str,
        source: Vertex,
        target: Vertex,
        *,
        window: AnyWindow | None = None,
        order: Literal["increasing", "non_decreasing"] | None = None,
        max_gap: int | str | timedelta | np.timedelta64 | None = None,
        max_span: int | str | timedelta | np.timedelta64 | None = None,
        max_edges: int | None = None,
    ) -> Path | None:
        """Return a path that spells a word of an expression now, from one vertex to another; None if there is none.

        The search goes on from both ends, so a vertex with many edges costs nothing where the other end has few. The
        options and errors are those of `find`.

        >>> import rpq
        >>> engine = rpq.Engine(keep=rpq.UnboundedWindow())
        >>> tuples = [("ann", "staff", "member", 1), ("staff", "doc", "viewer", 2)]
        >>> engine.push_rows(tuples).added
        0
        >>> engine.check("member*/(viewer|editor)", "ann", "doc")
        Path(vertices=('ann', 'staff', 'doc'), labels=('member', 'viewer'))
        >>> engine.check("member*/editor", "ann", "doc") is None
        True
        """
        _check_number("max_edges", max_edges)
        options = window, order, max_gap, max_span
        if order is not None:
            paths = self._find(expression, [source], [target], options, None, True, max_edges).paths
            return paths[0] if paths else None
        finder, known = self._known_expression(expression, options)
        path = finder.path(known, source, target, max_edges)
        return path if path is None or known.tests is None else self._with_facts(known.question, path)

    def _known_expression(
        self, expression: str, options: tuple[Any, Any, Any, Any], *, is_reversed: bool = False
    ) -> tuple[Finder, KnownExpression]:
        """Return an expression that is ready for a search. Raises `QueryError`."""
        self._usable()
        if self._finder is None or self._finder.evaluation is not self._evaluation:
            self._finder = Finder(self._evaluation, room=self._capacity)
        self._finder.to_timestamp = self._times.to_timestamp
        key = expression, options, is_reversed
        return self._finder, self._finder.expression(key, lambda: self._question(*key), self._refuse_find)

    def _question(self, expression: str, options: tuple[Any, Any, Any, Any], is_reversed: bool) -> Query:
        """Return an expression, or its reversal, as a query over a window in the integers of the stream.

        Raises `QueryError`.
        """
        window, order, max_gap, max_span = options
        question = Query(
            expression,
            window=self._find_window() if window is None else window,
            language="path",
            order=order,
            max_gap=max_gap,
            max_span=max_span,
        )
        if question.is_ordered and question.window.kind == "count":
            raise QueryError(
                f"{expression!r} is asked over {question.window!r}: paths in time order are found in windows of time, and "
                "in unbounded ones"
            )
        if is_reversed:
            question = replace(question, expression=str(reversal(parse(expression))))
        return self._resolve(question, self._times.with_queries([*self._queries_by_window.values(), question]))

    def _find_window(self) -> Any:
        """Return the window of questions that name none. Raises `QueryError`."""
        if self._keep is not None:
            return self._keep.window
        windows = {
            one.window for query in self._original_queries.values() for one in readings_of(query) if not one.is_of_facts
        }
        if len(windows) == 1:
            return windows.pop()
        why = "queries have different windows: pass window=, one of these" if windows else "no edges are stored"
        raise QueryError(f"{why}; or store all edges of a window, with rpq.Engine(keep=rpq.Window(size=…, slide=…))")

    def _refuse_find(self, question: Query) -> None:
        """Raise `RegistrationError` if the window of a question has edges that were not stored."""
        evaluation = self._evaluation
        if self._clock is not None:
            raise QueryError('with events="alone" the graph has one event at a time, and no edges in which paths are found')
        refuse_order(question, evaluation.identity)
        refuse_unkept_facts(question, evaluation.nodes.kept)
        try:
            if evaluation.multigraph is not None:
                readings_in(question, evaluation)
            elif has_values(question):
                refuse_late_conditions([question], evaluation)
            self._refuse_unstored([question])
        except RegistrationError as error:
            raise RegistrationError(
                f"{question.name!r} is asked over {question.window!r}, which has edges that were not stored "
                f"({error}). What registered queries read over that window is stored, and everything in the window of "
                "rpq.Engine(keep=…), for conditions with edge_properties=[…]",
                available_from=error.available_from,
            ) from error

    def _with_facts(self, question: Any, found: Any) -> Any:
        """Return a witness with the facts of its vertices that a question reads."""
        return replace(found, facts=tuple(self._facts_read(question, found.vertices)))

    @one_thread_at_a_time
    def witness(
        self, *answer: Vertex | None, query: str | None = None, source: Vertex | None = None, target: Vertex | None = None
    ) -> Path | Witness | None:
        """Return one witness of an answer, which is identified by the values of its columns; None if it is no answer.

        The witness of a path query is a `Path` from source to target that stays valid longest. The first call may rebuild
        the index so that it stores supports; O(length × degree) in most cases, or O(edges that the source reaches) where the
        index keeps bits. The witness of a pattern or of MATCH is a
        `Witness`: a binding, with the edges that match each atom; O(atoms), or O(edges) if some variables are no columns.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> engine.witness("x", "z")
        Path(vertices=('x', 'y', 'z'), labels=('a', 'a'))
        >>> changes = engine.register(rpq.Query("?u a ?v . ?v a ?w", window=rpq.Window(size=10, slide=1), name="pattern"))
        >>> print(engine.witness("x", "y", "z", query="pattern"))
        ?u = x, ?v = y, ?w = z
        ?u a ?v: x -a-> y @1
        ?v a ?w: y -a-> z @2
        """
        self._usable()
        evaluation = self._evaluation
        answer += tuple(end for end in (source, target) if end is not None)
        running, answer = evaluation.running.named_by_answer(answer, query)
        if not running.has_witnesses:
            raise QueryError(
                f"query {running.question.name!r}: its answers have no witness. Those of SPARQL have none, nor those of "
                "MATCH with aggregates (leave the aggregates out) or with nodes and edges of any kind, as in MATCH (a), and "
                "in (a)-->(b) with node_label=None; a chain of paths that the plan joins into one path has witnesses only "
                "in an Engine(witness=True)"
            )
        kinds = kinds_of(running.columns)
        values = [self._times.to_integer(one) if kind == "time" else one for kind, one in zip(kinds, answer, strict=True)]
        ids = running.ids_of_answer(values, evaluation.vertices)
        if ids is None:
            return None
        evaluation.midway = True
        found: Path | Witness | None
        found = running.witness(ids, evaluation.output.present_graph())
        evaluation.midway = False
        if found is None:
            return None
        shown: Path | Witness = self._with_facts(running.question, found).with_times(self._times.to_timestamp)
        return shown

    def _facts_read(self, question: Any, vertices: Iterable[Vertex]) -> Iterator[tuple[Vertex, dict[str, Any]]]:
        """Yield the vertices that have facts which a query reads, with these."""
        tests = (node_test_of(text).where.names for text in node_tests_of(question) if text)
        read = node_values_of(question).union(*tests)
        for name in vertices if read else ():
            if (node := self.node(name)) is not None:
                found = {one: value for one, value in node.properties.items() if one in read}
                labels = [label for label in node.labels if f":{label}" in read or "labels" in read]
                if found or labels:
                    yield name, found | ({"labels": labels} if labels else {})

    @one_thread_at_a_time
    def explain(self, query: str | None = None) -> Explanation | SparqlExplanation | PathExplanation:
        """Return the explanation of a query: how it is evaluated, and which parts it shares with other queries.

        The explanation of a pattern includes the cost of each step so far, that of a SPARQL query its algebra and the
        operators that maintain its answer.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "a", 1).added
        1
        >>> engine.explain().meanings[0].parts[0].seeds[0].rows
        1
        """
        self._usable()
        running = self._evaluation.running.find(query)
        explanation: Explanation | SparqlExplanation | PathExplanation | None = running.explain()
        if explanation is None:
            raise QueryError(f"query {running.question.name!r} is of a kind without an explanation")
        if self._evaluation.multigraph is None:
            return explanation
        from rpq.operators.relational.explanation import SparqlExplanation

        if isinstance(explanation, SparqlExplanation):
            return explanation
        return replace(explanation, identity=describe_identity(self.edges))

    @one_thread_at_a_time
    def statistics(self, query: str | None = None) -> Statistics:
        """Return counts and measures of the engine as a whole, or of one query. O(size of the index).

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("x", "y", "b", 2)]).added
        1
        >>> figures = engine.statistics()
        >>> figures.tuples, figures.inserted, figures.irrelevant, figures.answers_live
        (2, 1, 1, 1)
        """
        seconds = self._stopwatch.seconds
        return statistics_of(self._evaluation, query, rows_before=self._rows_of_removed_queries, seconds=seconds)

    # --- saved states ----------------------------------------------------------------------------------------

    @one_thread_at_a_time
    def save(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> None:
        """Write the state to a file, completely or not at all. Only the owner can read a new file (mode 0600).

        The texts in `extra` are returned as `engine.extra` of the restored engine. Raises `InputError` if they are no texts,
        and `OSError`.

        >>> import os, rpq, tempfile
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "a", 1).added
        1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     engine.save(os.path.join(folder, "engine.state"), extra={"offset": "1"})
        ...     os.listdir(folder)
        ['engine.state']
        """
        self._usable()
        texts = dict(extra or {})
        for key, text in texts.items():
            if not isinstance(key, str) or not isinstance(text, str):
                raise InputError(f"extra: {key!r}: {text!r}: names and values are text; a value of another type can be JSON")
        from rpq.engine.state.engine_state import write_state

        write_state(os.fspath(path), self._evaluation, self._about(texts))

    def _about(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the part of a saved state that belongs to the engine itself; `texts` are its `extra`."""
        from rpq.engine.state.state_content import EventsState, KeepWindow

        return {
            "time_unit": self._times.inner_unit,
            "times": self._times.to_json(self._original_queries.values()),
            "events": None if self._events is None else EventsState(self._events, self._clock.time if self._clock else None),
            "seconds": self._stopwatch.seconds,
            "left": self._rows_of_removed_queries.tolist(),
            "keep": None if self._keep is None else KeepWindow(
                window=self._times.resolve(self._keep).window, original=self._keep.window
            ),
            "extra": texts,
        }

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        *,
        threads: int = 1,
        memory_limit: int | None = None,
        max_rows: int | None = MAX_ROWS,
        push_limit: float | None = None,
        witness: bool = False,
        max_ahead: int | str | timedelta | np.timedelta64 | None = None,
        report_empty: bool = False,
        _keeps_values: bool = False,
        _deadline: np.ndarray | None = None,
        _without: Collection[str] = (),
    ) -> Engine:
        """Return an engine that continues like the one that was saved to `path`.

        The index is rebuilt from the window, so threads and limits may differ from those of the saved engine. Raises
        `StateFormatError`, whose `reason` says whether the file is no state, truncated, damaged, or of another version, and
        `OSError` if the file cannot be read.

        >>> import os, rpq, tempfile
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.insert("x", "y", "a", 1).added
        1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     engine.save(os.path.join(folder, "engine.state"), extra={"offset": "1"})
        ...     engine = rpq.Engine.restore(os.path.join(folder, "engine.state"), threads=2)
        >>> engine.extra["offset"], engine.insert("y", "z", "a", 2).added
        ('1', 2)
        """
        from rpq.engine.state.engine_state import read_state

        saved = read_state(os.fspath(path))
        engine = cls._of_state(
            saved,
            threads=threads,
            memory_limit=memory_limit,
            max_rows=max_rows,
            witness=witness,
            report_empty=report_empty,
            _keeps_values=_keeps_values,
            _deadline=_deadline,
            _without=_without,
        )
        engine.max_ahead = max_ahead
        engine.push_limit = push_limit
        return engine

    @classmethod
    def _of_state(
        cls, saved: SavedState, *, _without: Collection[str] = (), _has_nodes: bool = False, **options: Any
    ) -> Engine:
        """Return an engine with a saved state except for the queries `_without`, and with these options."""
        events = saved.content.events
        multigraph = saved.content.multigraph
        engine = cls(
            share=saved.content.share,
            events=None if events is None else events.mode,
            edges="triple" if multigraph is None else multigraph.identity,
            edge_properties=() if multigraph is None else multigraph.kept,
            **options,
        )
        engine._evaluation.has_nodes = _has_nodes
        saved.fill(engine._evaluation, without=_without)
        engine._times, engine._original_queries = saved.times()
        if engine._clock is not None and events is not None and events.time is not None:
            engine._clock.number, engine._clock.time = (saved.content.time or 1) - 1, events.time
            engine._evaluation.output.reported_time = events.time
        engine._keep = None if saved.content.keep is None else keep_option(saved.content.keep.original)
        engine._queries_by_window = engine._query_of_each_window()
        engine._users_of_windows = Counter(map(lengths_of, engine._original_queries.values()))
        engine.extra = saved.content.extra
        engine._stopwatch.seconds = saved.content.seconds
        engine._rows_of_removed_queries[:] = saved.content.left
        engine.unregister([name for name in _without if name in engine._original_queries])
        return engine

    def __copy__(self) -> Engine:
        raise RpqError(_NO_COPY)

    def __deepcopy__(self, memo: object) -> Engine:
        raise RpqError(_NO_COPY)

    def __reduce__(self) -> str:
        raise RpqError(_NO_COPY)

    # --- division of a stream by time (`rpq.run.time_division`) ----------------------------------------------

    def _pass(self, data: Any) -> Columns:
        """Move behind tuples without applying them: what is known of a stream's types and times is known then.

        Return the well-formed tuples. An engine does either this or `push`.
        """
        self._usable()
        tuples, evaluation = self._columns(data), self._evaluation
        if not len(tuples):
            return tuples
        evaluation.vertices.kind = "int64" if pa.types.is_integer(tuples.source.type) else "string"
        latest = int(tuples.timestamp.max())
        evaluation.graph.advance(latest if self._now is None else max(latest, self._now))
        if evaluation.multigraph is not None:
            evaluation.multigraph.inserts += int(np.count_nonzero(tuples.delete == 0))
        return tuples

    def _facts(self) -> StreamFacts:
        """Return what is known of the tuples so far, without the edges of their windows."""
        multigraph = self._evaluation.multigraph
        if multigraph is None:
            return StreamFacts(times=self._times, time=self._now)
        sets = multigraph.sets
        properties = (sets.types, sets.time_unit, sets.is_timed)
        return StreamFacts(times=self._times, time=self._now, inserts=multigraph.inserts, properties=properties)

    def _begin_after(self, facts: StreamFacts) -> None:
        """Continue a stream behind the tuples with these facts, in a new engine, as if all windows were empty there."""
        self._times = facts.times
        multigraph = self._evaluation.multigraph
        if multigraph is not None and facts.properties is not None:
            types, unit, is_timed = facts.properties
            multigraph.sets.restore_types(types, unit, is_timed=is_timed)
            multigraph.inserts = facts.inserts
        self._advance_to(facts.time)

    def _advance_to(self, time: int | None) -> Changes:
        """Move the stream time to an integer of the stream; None leaves it as it is."""
        if time is None:
            return self._changes([], np.zeros(2, np.int64))
        return self.advance(time if self._times.is_of_numbers else self._times.to_timestamp(time))

    # --- inside ----------------------------------------------------------------------------------------------

    def _usable(self, *, is_limited: bool = False) -> None:
        """Raise an error if the engine cannot be used. Begin the time of the call, which `push_limit` limits if it
        `is_limited`."""
        if self._evaluation.midway:
            raise RpqError(
                "this engine failed in the middle of a tuple (it exceeded its limit on memory, rows or time, was "
                "interrupted, or raised an error) and accepts no further tuples; continue from a saved state with "
                "Engine.restore"
            )
        self._evaluation.guard.start_clock(is_limited=is_limited)

    @property
    def _now(self) -> int | None:
        """The stream time in the integers of the stream."""
        return self._evaluation.graph.time if self._clock is None else self._clock.time

    def _most_ahead_of(self, max_ahead: MaxAhead | None, times: StreamTime, queries: Iterable[Any]) -> int | None:
        """Return a limit in the integers of the stream, over the windows of these queries; None for no limit."""
        if max_ahead is None:
            return None
        return max_ahead.limit(times, (window for query in queries for window in windows_of(times.resolve(query))))

    def _ahead_limit(self) -> AheadLimit | None:
        """Return the limit `max_ahead` for tuples that come now."""
        if self._max_ahead is None or self._most_ahead is None:
            return None
        return AheadLimit(self._max_ahead, self._most_ahead, self._now)

    def _resolve(self, query: Query, times: StreamTime) -> Query:
        """Return a query as it runs: over windows in the integers of the stream, or over one event."""
        own = over_dataset(query, self._evaluation.static_graphs)
        resolved: Query = for_identity(times.resolve(own), self._evaluation.identity)
        resolved = for_nodes(resolved, self._evaluation.has_nodes)
        return resolved if self._clock is None else query_over_event(resolved)

    def _changes(
        self, rows: list[ChunkRows], counts: np.ndarray | tuple[int, int], late_rows: np.ndarray | None = None
    ) -> Changes:
        evaluation = self._evaluation
        changes = Changes(
            evaluation.running.schemas,
            rows if all(rows) else [chunk for chunk in rows if chunk],
            added=int(counts[0]),
            removed=int(counts[1]),
            late_rows=np.zeros(0, np.int64) if late_rows is None else late_rows,
            kind=evaluation.vertices.kind,
            times=self._times,
        )
        if evaluation.output.overruns:
            times, overruns = self._times, evaluation.output.pop_overruns()
            changes.set_aside = [report._replace(timestamp=times.to_timestamp(report.timestamp)) for report in overruns]
        if self._handlers:
            self._handlers.take(changes)
        return changes

    def _raise_overrun(self, changes: Changes) -> None:
        for report in changes.set_aside:
            error = self._evaluation.running.find(report.query).overrun_error(report)
            if error is not None:
                error.changes = changes
                raise error

    def _check(self) -> None:
        """Assert the invariants of every part."""
        self._evaluation.check()
        if self._finder is not None:
            self._finder.search.links._check()


def _identity(edges: Any) -> Identity:
    """Return when two inserts are the same edge. Raises `QueryError`."""
    for name in get_args(Identity):
        if edges == name:
            identity: Identity = name
            return identity
    raise QueryError(f"edges are 'triple', 'parallel' or 'id', not {edges!r}")


def _queries_by_window(queries: Iterable[Any]) -> dict[Hashable, Any]:
    """Return the first query with each window, or windows, and other lengths of time."""
    found: dict[Hashable, Any] = {}
    for query in queries:
        found.setdefault(lengths_of(query), query)
    return found


def _check_number(name: str, number: int | None) -> None:
    """Raise `QueryError` for a limit that is neither None nor a whole number, at least one."""
    if number is not None and (isinstance(number, bool) or not hasattr(number, "__index__") or number < 1):
        raise QueryError(f"{name} is a whole number, at least one, or None for no limit, not {number!r}")


def _names(ends: Vertex | Iterable[Vertex] | None) -> list[Vertex] | None:
    """Return one name, or many, as a list; None for none. Raises `QueryError`."""
    if ends is None:
        return None
    names = [ends] if isinstance(ends, (str, int)) else [*ends]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise QueryError(f"source and target are names of vertices, texts or integers, and not {name!r}")
    return names


def _as_list(query: Any) -> list[Query]:
    """Return one query, or many, as a list."""
    return list(query) if isinstance(query, Iterable) and not isinstance(query, (str, bytes)) else [query]


def _refuse_same_names(queries: Iterable[Query]) -> None:
    """Raise an error if two queries of one registration have the same name."""
    names: set[str] = set()
    for query in queries:
        if query.name in names:
            raise QueryError(f"there is a query named {query.name!r} already; give this one another name")
        names.add(query.name)
