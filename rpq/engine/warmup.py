"""Compilation of the kernels, or loading from the cache, before the first tuple."""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.engine.engine import Engine
from rpq.errors import QueryError, RpqError
from rpq.language.options import Paths
from rpq.language.query import PAIR_AND_LENGTH, Query
from rpq.language.readings import properties_of, readings_of
from rpq.operators.paths.closure.closure_index import ClosureIndex
from rpq.operators.paths.index.delta_index import cell_type
from rpq.operators.paths.path_query import PathQuery
from rpq.rows.blocks import place_rows
from rpq.rows.column_kernels import NameColumns, Region, joined_lines, lexical_forms, spread
from rpq.rows.weighted_rows import WeightedRows
from rpq.stream.arrays.flat_objects import ObjectKey, read_flat_objects
from rpq.stream.arrays.numpy_arrays import integer_array, text_array
from rpq.stream.arrays.text_buffers import view_of_texts
from rpq.stream.chunk import SingleTuple
from rpq.stream.edges.edge_ends import Ends
from rpq.stream.edges.edge_filter import EdgeFilter
from rpq.stream.edges.edge_table import EdgeTable
from rpq.stream.edges.outcomes import WindowMembership
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import text_of
from rpq.stream.names.vertices import FixedNames, VertexDictionary
from rpq.stream.window import CountWindow, UnboundedWindow, Window

_CONFLICT = "a/b*/c"
"""An expression that is hard to evaluate under simple paths."""


class Variant(NamedTuple):
    """Kernels of paths that are compiled together, for a maximum number of slides per window and for one kind of paths."""

    slides: int
    paths: Literal["walk", "simple"]


VARIANTS = tuple(
    Variant(slides, paths)
    for paths in ("walk", "simple")
    for slides in (10, 1_000, 100_000, 10_000_000_000)  # cells of one, two, four and eight bytes
)
"""All variants. Other features of a query (deletes, witnesses, …) do not change the kernels that it needs."""


def variants(slides: int | None = None) -> tuple[Variant, ...]:
    """Return the variants that windows of up to `slides` slides need, or all of them.

    >>> [variant.slides for variant in variants(30)]
    [10, 10]
    """
    return tuple(v for v in VARIANTS if slides is None or _width(v.slides) <= _width(slides))


def _width(slides: int) -> int:
    cell = cell_type(slides + 1)
    return np.dtype(np.int64).itemsize if cell is None else cell.itemsize


def warm_up(query: Query, *, vertices: str = "string", threads: int = 1, witness: bool = False) -> float:
    """Compile or load the kernels that a query needs for its first rows, and return the seconds that it took.

    A few edges with its labels run through the query; what its conditions, constants, sources and targets need more, as
    these edges do not have them, is compiled or loaded at need. This takes 10 to 20 s on a machine that has never run this
    version, and well under a second with a warm cache. Kernels that the query needs later, or perhaps never (for a change of
    its index to bits, for saved states, for single inserts), are compiled or loaded at need; `rpq warm-up` compiles all.
    `vertices` is "string" or "int64"; `threads` and `witness` are options of the future engine.

    >>> import rpq
    >>> rpq.warm_up(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1))) > 0
    True
    """
    started = time.perf_counter()
    with suppress(RpqError):  # a query that needs another stream compiles its kernels when that comes
        options: dict[str, Any] = {"threads": threads, "time_unit": "ns", "memory_limit": 1 << 60, "witness": witness}
        try:
            engine = Engine(query, **options)
        except QueryError:  # its rows contain edges, or paths are in the order of time
            engine = Engine(query, edges="parallel", **options)
        for stream, tuples in _tuples_of(query, _names(vertices)):
            engine.push(tuples, stream=stream).to_arrow(query.name)
    return time.perf_counter() - started


def _tuples_of(query: Query, name: Callable[[int], int | str]) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield a few tuples for each stream that a query reads, with its name: edges with each label."""
    for reading in readings_of(query):
        labels = [*sorted(map(text_of, reading.labels.plain.named)), "another"]
        numbers = range(10 * len(labels))
        ends = {"source": _column(name(n % 10) for n in numbers), "target": _column(name(n * 7 % 10) for n in numbers)}
        others = {"label": _column(labels[n // 10] for n in numbers), "timestamp": _column(n // 10 for n in numbers)}
        # Nothing says whether a property is a number or a text; the kernels are the same.
        yield reading.stream, pa.table({**ends, **others, **{one: pa.nulls(len(numbers)) for one in properties_of(query)}})


def _column(names: Iterable[Any]) -> pa.Array:
    """Return integers or texts as an array; Arrow would import pandas to convert a list."""
    values = [*names]
    return integer_array(values) if isinstance(values[0], int) else text_array(values)


def _save_and_restore(engine: Engine, *, threads: int = 1, witness: bool = False) -> None:
    """Save the state of an engine, and restore it."""
    with tempfile.TemporaryDirectory(prefix="rpq-") as folder:
        engine.save(Path(folder) / "state")
        Engine.restore(Path(folder) / "state", threads=threads, memory_limit=1 << 60, witness=witness)


def _follow_paths(query: Query, vertices: str, *, threads: int) -> None:
    """Run a path query over inserts and deletes: witnesses, answers, saved states, simple paths that are set aside."""
    name = _names(vertices)
    names = [name(number) for number in range(10)]
    tiny = Query(
        _CONFLICT,
        window=query.window,
        paths=query.paths,
        simple_budget=3,
        on_budget="set_aside",
        semantics="explicit",
        sources=names,
        targets=names,
    )
    engine = Engine(tiny, threads=threads, memory_limit=1 << 60, witness=True, _capacity=16)
    x, y, z = names[:3]
    engine.push_rows([(x, y, "a", 0), (x, y, "a", 0, "-"), (x, y, "a", 0)])
    engine.delete(x, y, "a", 0)
    engine.insert(x, y, "a", 0)
    # With simple paths, (x, z) is certain; (x, y) is in doubt, then another path exists, then no path exists.
    engine.push_rows([(y, z, "c", 0), (x, names[3], "a", 0, "-")])
    engine.witness(x, z)
    engine.push_rows([(y, names[4], "b", 0), (names[4], y, "c", 0), (x, names[3], "a", 0)])
    engine.push_rows([(names[3], names[4], "b", 0), (names[3], names[4], "b", 0, "-"), (names[3], names[4], "b", 0)])
    engine.answers()
    engine.find("a/b", source=x)
    engine.check("a/b", x, z)
    engine.statistics()
    engine._evaluation.collector.collect()
    _save_and_restore(engine, threads=threads, witness=True)
    latest, slide = engine._evaluation.running.latest, tiny.window.slide
    engine.advance(min(slide, latest))
    _set_aside(engine, names)
    engine.advance(min(3 * slide, latest))
    _share_trees(query.window, name)


_VERTICES = ("string", "int64")


def warm_up_variant(variant: Variant) -> None:
    """Compile, or load, every kernel that queries with paths of a variant may need, for text and for integers."""
    for vertices in _VERTICES:
        for step in (*_steps_of_joins(vertices), *_steps_of_paths(variant, vertices)):
            step()


def warm_up_steps(slides: int | None = None) -> list[Callable[[], object]]:
    """Return calls that compile, or load, every kernel that windows of up to `slides` slides need, or any window.

    Each call takes up to a minute. Several processes may take them in turn: the first one begins with walks, the second one
    with joins, which have few kernels in common, so that they seldom wait for each other. Those of integers come last,
    because text needs most of their kernels too.
    """
    steps: list[Callable[[], object]] = []
    for vertices in _VERTICES:
        first, *others = (step for variant in variants(slides) for step in _steps_of_paths(variant, vertices))
        steps += [first, *_steps_of_joins(vertices), *others]
    return steps


def run_warm_up_steps(slides: int | None) -> None:
    """Run the steps whose numbers are the lines of standard input, and print each number afterwards."""
    steps = warm_up_steps(slides)
    for line in sys.stdin:
        steps[int(line)]()
        print(line, end="", flush=True)


def run_warm_ups() -> None:
    """Run the warm-ups of queries that the lines of standard input contain, and print each line afterwards."""
    for line in sys.stdin:
        pickle.loads(b64decode(line)).run()
        print(line, end="", flush=True)


def _steps_of_joins(vertices: str) -> list[Callable[[], object]]:
    """Return the steps for kernels that no variant has: of tuples and rows, patterns, SPARQL and MATCH without paths."""
    name = _names(vertices)
    steps: list[Callable[[], object]] = [
        partial(_read_tuples, vertices),
        _judge_streams,
        partial(_join, name),
        partial(_share, name),
        partial(_hold_rows, name),
    ]
    if find_spec("rdflib") is not None:  # otherwise there are queries neither in SPARQL nor with MATCH
        steps.append(partial(_solve, name))
    return steps


def _steps_of_paths(variant: Variant, vertices: str) -> list[Callable[[], object]]:
    """Return the steps for the kernels of a variant."""
    name, slides, paths = _names(vertices), variant.slides, variant.paths
    window, counts = Window(size=slides, slide=1), CountWindow(size=slides)
    query = Query(_CONFLICT, window=window, paths=paths)
    steps: list[Callable[[], object]] = [
        *(partial(_follow_paths, query, vertices, threads=threads) for threads in (1, 2)),
        partial(_join_late, query, name),
        partial(_replace_edges, name, paths=paths),
    ]
    if paths == "walk":
        steps += [
            partial(_use_bits, window, name),
            partial(_measure_lengths, window, name, witness=False),
            partial(_order_edges, window, name, witness=vertices == "string"),
            partial(_measure_lengths, window, name, witness=True),
            *(partial(_measure_costs, window, name, kind) for kind in (int, float)),
        ]
    return [
        *steps,
        partial(_join_paths, query, name),
        partial(_count, counts, name, paths=paths, threads=2, witness=False),
        partial(_count, counts, name, paths=paths, threads=1, witness=True),
    ]


def _names(vertices: str) -> Callable[[int], int | str]:
    return str if vertices == "string" else int


def _use_bits(window: Window, name: Callable[[int], int | str]) -> None:
    """Change an index from cells to bits, which a query does where that is less work, and back, and the order of columns."""
    engine = Engine(Query(_CONFLICT, window=window, name="bits"), memory_limit=1 << 60, _capacity=16)
    x, y, z = map(name, range(3))
    engine.push_rows([(x, y, "a", 0)])
    running = engine._evaluation.running.find("bits")
    assert isinstance(running, PathQuery)
    (index,) = running.indexes
    assert isinstance(index, ClosureIndex)
    index.use_bits()
    index._enter(engine._evaluation.graph.chunk_of(np.zeros(0, np.int64)), np.zeros(0, np.int64), quiet=True)
    engine.push_rows([(y, z, "c", 0), (y, y, "b", 0)])
    engine.delete(y, y, "b", 0)  # which lacks in-edges
    engine.witness(x, z)
    engine.answers()
    engine.statistics()
    engine._evaluation.collector.collect()
    index.count_by_root(*np.zeros((2, engine._evaluation.vertices.count), np.int64))
    engine.advance(min(window.slide, engine._evaluation.running.latest))
    index.use_cells()
    engine.push_rows([(name(n), name(3 + n % 4), "a", window.slide) for n in range(10, 170)])
    index.order_columns(engine._evaluation.graph.edges)


def _set_aside(engine: Engine, names: list[int | str]) -> None:
    """Make a search for simple paths exceed a budget of three nodes, restore its root, and remove the conflict."""
    x, y, z = names[:3]
    middle = [(u, v, "b", 0) for u in names[4:9] for v in names[4:9] if u != v]
    engine.push_rows([(x, names[4], "a", 0), *middle, (names[8], z, "b", 0), (z, names[5], "c", 0)])
    engine.restore_root(x)
    engine.push_rows([(names[4], y, "c", 0, "-"), (z, names[5], "c", 0, "-"), (y, z, "c", 0, "-")])


def _join_late(query: Query, name: Callable[[int], int | str]) -> None:
    """Load an existing window, request a path, and insert more names and edges than fit the first capacity."""
    window = query.window
    for witness in (False, True):
        engine = Engine(query, memory_limit=1 << 60, witness=witness, _capacity=16)
        engine.push_rows([(name(1), name(2), "a", 0)])
        engine.register(Query("a", window=window, paths=query.paths, name="other"))
        engine.witness(name(1), name(2), query="other")
        engine.push_rows([(name(number), name(number + 1), "a", 0) for number in range(40)])
        engine.unregister("other")
        engine.advance(min(window.size + window.slide, engine._evaluation.running.latest))
        engine._evaluation.collector.collect()


def _join(name: Callable[[int], int | str]) -> None:
    """Run patterns: insert and delete edges, register in mid-stream, request answers, and exceed the first capacity."""
    window = Window(size=10, slide=1)
    chain = Query("?x a ?y . ?y b ?z", window=window, semantics="explicit", name="chain")
    star = Query("?x a ?y . ?x b ?z . ?z c ?w . ?w a 1", window=window, name="star")
    passing = Query("?x d 1", window=window, name="passing")
    engine = Engine(chain, star, passing, memory_limit=1 << 60, _capacity=16)
    x, y, z = (name(number) for number in range(3))
    engine.push_rows([(x, y, "a", 0), (y, z, "b", 0), (x, y, "a", 0, "-"), (z, x, "c", 0), (x, z, "d", 0)])
    engine.insert(x, y, "a", 0)
    engine.push_rows([(name(number), name(number * 7 % 40), "abc"[number % 3], 1) for number in range(120)])
    engine.register(Query("?y b ?z . ?z c ?w . ?w a _:u", window=window, distinct=True, name="late"))
    engine.register(Query("?y ^b ?z", window=Window(size=5, slide=1), name="shorter"))
    engine.register(Query("?y b ?z . ?u a '\"1\"'", window=window, name="product"))
    (host,) = engine._evaluation.running.hosts
    for part in host.tables.queries():
        host.tables.support(part, True)
    engine.push_rows([(name(number), name(number * 3 % 40), "abc"[number % 3], 2) for number in range(60)])
    for part in host.tables.queries():
        host.tables.support(part, False)
    engine.answers("chain")
    engine.answers("product")
    engine.witness(*next(iter(engine.answers("chain")), (x, y, z)), query="chain")
    engine.statistics()
    _save_and_restore(engine)
    engine.unregister("shorter")
    engine.advance(30)
    engine._evaluation.collector.collect()


def _solve(name: Callable[[int], int | str]) -> None:
    """Run operators of SPARQL over changes of both sides, until they exceed the first capacity."""
    bodies = {
        "group": "SELECT ?y (AVG(?x) AS ?n) (COUNT(*) AS ?m) { ?x <a> ?y } GROUP BY ?y",
        "ends": "SELECT ?y (MIN(?x) AS ?n) (MAX(?x) AS ?m) (COUNT(DISTINCT ?x) AS ?k) { ?x <a> ?y } GROUP BY ?y",
        "filtered": "SELECT ?x { ?x <a> ?y FILTER(?y > 3) }",
        "distinct": "SELECT DISTINCT ?x ?w { ?x <a> ?y . ?z <b> ?w }",
        "optional": "SELECT ?x ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }",
        "negated": "SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }",
        "by value": "SELECT ?x ?z { ?x <a> ?y . ?z <b> ?w FILTER(?y = ?w) }",
        "product": "SELECT ?x ?v ?w { ?x <a> ?y . <0> <a> ?v . <1> <b> ?w }",
        "ordered": "SELECT ?x { ?x <a> ?y } ORDER BY DESC(?y) LIMIT 2",
        "windows": "SELECT ?x FROM NAMED WINDOW <w> [COUNT 9] { ?x <a> ?y WINDOW <w> { ?y <b> ?z } }",
    }
    window = Window(size=10, slide=1)
    queries = [Query(text, window=window, name=each) for each, text in bodies.items()]
    engine = Engine(*queries, memory_limit=1 << 60, _capacity=16)
    x, y, z = (name(number) for number in range(3))
    engine.insert(x, y, "a", 0)
    engine.push_rows([(y, z, "b", 0), (x, y, "a", 0, "-")])
    engine.push_rows([(name(number), name(number * 7 % 40), "ab"[number % 2], 1) for number in range(120)]).rows()
    engine.push_rows([(name(number), name(number * 3 % 40), "ab"[number % 2], 4) for number in range(60)])
    engine.register(Query(bodies["windows"], window=window, name="late"), start="empty")
    engine.answers("optional")
    _save_and_restore(engine)
    # Numbers that are no small integers; where vertices are text, one of another type too, and texts that come and go.
    engine.push_rows([(name(2**31), y, "a", 12), (name(7), y, "a", 12)])
    if name is str:
        engine.push_rows([("1e0", y, "a", 13), *((f"x{number}", y, "a", 13) for number in range(9))])
    engine.advance(30)
    if name is str:
        engine._evaluation.collector.collect()
        engine.push_rows([(f"y{number}", y, "a", 31) for number in range(9)])
        _collect()
    engine.statistics()


def _share(name: Callable[[int], int | str]) -> None:
    """Run patterns that share some existing conditions, delete edges, and unregister the patterns."""
    window = Window(size=10, slide=1)
    texts = ("?x a 1 . ?x b ?y", "?x b 2 . ?x a ?y", "?v b ?w . ?w c ?x . ?x a 1", "?x a 1 . ?x b 2 . ?x c ?y")
    engine = Engine(keep=window, memory_limit=1 << 60, _capacity=16, _sharing="always")
    edges = [(name(number), name(number * 7 % 5), "abc"[number % 3], 0) for number in range(30)]
    engine.push_rows(edges)
    for number, text in enumerate(texts):
        engine.register(Query(text, window=window, name=f"{number}"))
    (host,) = engine._evaluation.running.hosts
    host.tables.graph.rebuild_table()
    host.tables.graph.make_room_for_seeds(1024)  # as with so many queries
    host.tables.graph.count_edges(host.tables.graph.branches(fewest=0)[0][0], limit=0)
    engine.push_rows([(*edge, "-") for edge in edges[:9]])
    engine.push_rows([(name(number), name(1), "a", 1) for number in range(40)])
    engine.unregister([query.name for query in engine.queries])


def _share_trees(window: Window, name: Callable[[int], int | str]) -> None:
    """Run path queries that share trees, register in mid-stream, and leave some trees without a reader."""
    queries = [Query("a/b*", window=window, sources=[name(number)], name=f"{number}") for number in range(20)]
    engine = Engine(*queries[:3], memory_limit=1 << 60, _capacity=16)
    engine.push_rows([(name(number), name(number * 7 % 5), "ab"[number % 2], 0) for number in range(30)])
    engine.insert(name(4), name(7), "b", 0)
    engine.register(queries[3:])
    engine.statistics()
    engine.unregister([query.name for query in queries[1:]])
    engine._evaluation.collector.collect()


def _read_tuples(vertices: str) -> None:
    """Read tuples and write rows in all of their forms."""
    _fill_columns()
    _read_and_write()
    _push_few(vertices)


def _fill_columns() -> None:
    """Create columns of short texts, long texts and numbers for the rows of events, and compute shares of vertices."""
    vertices = VertexDictionary(capacity=1)
    vertices.hashes(vertices.intern(text_array(["x"]), np.ones(1, np.uint8))[0])
    rows, ends = np.zeros((2, 1), np.int32), np.array([2])
    place_rows(rows, ends, np.zeros(1, np.int64), rows.copy())
    for names in (text_array(["x"]), text_array(["x" * 64]), integer_array([1])):
        NameColumns(names).column(rows, 0, 0, 2, Region(1024))
    lexical_forms(text_array(['"x"']))
    for kind in (np.uint8, np.int32, np.int64):
        spread(np.zeros(1, kind), ends, 0, 2, np.zeros(2, kind))


def _collect() -> None:
    """Maintain the list of a group, for which SPARQL has no aggregate."""
    from rpq.language.pattern import Variable
    from rpq.language.sparql.algebra import Aggregate
    from rpq.operators.relational.groups import GroupNode
    from rpq.operators.relational.nodes import LeafNode
    from rpq.operators.relational.values.term_ids import TermIds

    terms, vertices = TermIds(), VertexDictionary(capacity=1)
    terms.add_vertices(vertices, vertices.intern(text_array(["x"]), np.ones(1, np.uint8))[1])
    lists = [("list", Aggregate("COLLECT", Variable("item"), is_distinct=False))]
    node = GroupNode(LeafNode(("item",), "items"), (), lists, terms)
    node.begin()
    node.change(WeightedRows.from_changes([(0, (terms.intern('"\\u00001"'),), 1)], 1))


def _push_few(vertices: str) -> None:
    """Give ids to the names of two tuples as a push of few does."""
    dictionary = VertexDictionary(capacity=1)
    column, is_selected = text_array(["x", "y"]), np.ones(2, np.uint8)
    dictionary.intern(column if vertices == "string" else integer_array([1, 2]), is_selected)
    FixedNames(["x", "1"], vertices).ids(dictionary)
    dictionary.reserve(1)
    texts = view_of_texts([column] * 3)
    if vertices != "string" or texts is None:
        return
    labels = LabelDictionary()
    ids, _ = labels.intern(column)
    labels.intern_in_streams(column, ids)
    labels.read_labels(texts, 2, has_streams=True, is_read=np.ones(6, np.uint8))
    dictionary.intern_ends(texts, is_selected)
    edges = EdgeFilter()
    edges.accept(0, [Ends(None, "x")], passed_by=0)
    edges.leave_out(texts, ids, is_selected)


def _read_and_write() -> None:
    """Read and write JSON lines."""
    read_flat_objects(b'{"x": "a"}', [ObjectKey("x", "text")])
    joined_lines([text_array(["a"]), "\n"])


def _join_paths(query: Query, name: Callable[[int], int | str]) -> None:
    """Run patterns with path atoms, from all vertices and from selected ones, and change the selection."""
    window = query.window

    def pattern(text: str) -> Query:
        return Query(text, window=window, paths=query.paths, simple_budget=3)

    engine = Engine(pattern("?x r 1 . ?x a/b*/c ?y"), pattern("?x r 2 . ?x b+ ?y"), memory_limit=1 << 60, _capacity=16)
    x, y, z = (name(number) for number in range(3))
    engine.push_rows([(x, y, "a", 0), (y, z, "b", 0), (z, y, "c", 0), (z, x, "b", 0)])
    engine.insert(x, y, "r", 0)
    engine.push_rows([(y, z, "b", 0, "-"), (x, y, "r", 0, "-"), (y, z, "r", 0)])
    engine._evaluation.collector.collect()
    engine.register(pattern("?x a/b*/c ?y . ?y b ?z"))
    engine.statistics("?x r 2 . ?x b+ ?y")
    _save_and_restore(engine)
    engine.unregister("?x r 2 . ?x b+ ?y")
    engine.advance(min(window.size + window.slide, engine._evaluation.running.latest))


def _count(window: CountWindow, name: Callable[[int], int | str], *, paths: Paths, threads: int, witness: bool) -> None:
    """Run windows without time: insert and delete edges in addition to static edges, and register in mid-stream."""
    path = Query("a/b*", window=window, paths=paths, semantics="explicit", name="path")
    pattern = Query("?x a ?y . ?y b _:z", window=CountWindow(size=2), name="pattern")
    every = Query("a", window=UnboundedWindow(), paths=paths, name="every")
    timed = Query("a/b", window=window.numbers, paths=paths, name="timed")
    queries = (path, every, timed) if witness else (path, pattern, every, timed)
    engine = Engine(*queries, threads=threads, memory_limit=1 << 60, witness=witness, _capacity=16)
    engine.load_static([(name(5), name(6), "b"), (name(6), name(7), "a")])
    x, y, z = (name(number) for number in range(3))
    engine.insert(x, y, "a", 0)
    engine.push_rows([(y, z, "b", 0), (z, x, "a", 0), (y, z, "b", 0), (x, y, "a", 0), (y, z, "b", 0, "-")])
    engine.push_rows([(name(number), name(number * 7 % 40), "ab"[number % 2], 1) for number in range(120)])
    engine.register(Query("a/b", window=window, paths=paths, name="late"))
    engine.delete(name(5), name(6), "b", 1)
    _save_and_restore(engine, threads=threads, witness=witness)
    engine.unregister("late")
    engine.advance(2)
    engine.statistics()


def _order_edges(window: Window, name: Callable[[int], int | str], *, witness: bool) -> None:
    """Apply edges to queries about paths in time order: edges in order, late edges and deletes, with and without bounds."""
    strict, other = "order", "other"
    engine = Engine(
        Query("a/b*", window=window, order="increasing", semantics="explicit", name=strict),
        Query("a/b*", window=window, order="non_decreasing", name=other),
        Query("a/b*", window=window, order="increasing", max_gap=2, max_span=3, name="bounded"),
        Query("a/b*", window=window, order="increasing", select=PAIR_AND_LENGTH, name="lengths"),
        edges="parallel",
        memory_limit=1 << 60,
        witness=witness,
        _capacity=1,
    )
    x, y, z, w = (name(number) for number in range(4))
    engine.push_rows([(x, y, "a", 0), (y, z, "b", 1), (z, w, "b", 1), (w, x, "b", 2)])
    engine.push_rows([(y, w, "b", 1), (z, x, "b", 1)])
    engine.push_rows([(y, z, "b", 1, "-"), (x, y, "a", 0, "-"), (x, y, "a", 2), (y, z, "b", 3)])
    engine.insert(z, w, "b", 4)
    engine.witness(x, y, query=strict)
    engine.answers("lengths")
    engine.register(Query("a/b", window=window, order="increasing", name="late"))
    engine.answers(other)
    _save_and_restore(engine, witness=witness)
    for running in [*engine._evaluation.running]:  # as patterns do, where vertices become roots
        for index in running.indexes:
            index.grow(np.zeros(1, np.int64))
            index.drop(np.zeros(1, np.int64))
    engine.advance(min(2 * window.size, engine._evaluation.running.latest))
    engine.statistics()
    engine._evaluation.collector.collect()


def _measure_lengths(window: Window, name: Callable[[int], int | str], *, witness: bool) -> None:
    """Follow the lengths of shortest walks: edges that come, go, expire, and a chain that needs wider cells."""
    first = Query("a/b*", window=window, select=PAIR_AND_LENGTH, name="lengths")
    engine = Engine(first, memory_limit=1 << 60, witness=witness, _capacity=1)
    x, y, z = (name(number) for number in range(3))
    engine.insert(x, y, "a", 0)
    engine.push_rows([(name(number), name(number + 1), "b", 0) for number in range(1, 8)])
    engine.push_rows([(y, name(5), "b", 0), (y, name(5), "b", 0, "-"), (z, y, "a", 0)])
    engine.answers("lengths")
    engine.witness(x, y, 1, query="lengths")
    engine.register(Query("(a|b)+", window=window, select=PAIR_AND_LENGTH, name="late"))
    _save_and_restore(engine, witness=witness)
    engine.advance(min(2 * window.size, engine._evaluation.running.latest))
    engine.statistics()
    engine._evaluation.collector.collect()


def _measure_costs(window: Window, name: Callable[[int], int | str], kind: type[int] | type[float]) -> None:
    """Follow the costs of cheapest paths, of integers or floats: edges that come, go, expire, and replace each other."""
    engine = Engine(Query("a/b*", window=window, cost="n", name="costs"), memory_limit=1 << 60, witness=True, _capacity=1)
    x, y, z = (name(number) for number in range(3))
    for source, target, label, value in ((x, y, "a", 1), (y, z, "b", 2), (z, y, "b", 0), (z, z, "b", 1), (y, z, "b", 4)):
        engine.insert(source, target, label, 0, properties={"n": kind(value)})
    engine.delete(y, z, "b", 0)
    engine.witness(x, y, 1, query="costs")
    engine.register(Query("(a|b)+", window=window, cost="n", name="late"))
    _save_and_restore(engine, witness=True)
    engine.advance(min(2 * window.size, engine._evaluation.running.latest))
    engine.statistics()
    engine._evaluation.collector.collect()


def _replace_edges(name: Callable[[int], int | str], *, paths: Paths) -> None:
    """Replace edges that have properties, so that one tuple is an event of several."""
    query = Query("a[n > 1]/b", window=Window(size=10, slide=1), paths=paths, name="path")
    pattern = Query("?x a[n > 1] ?y . ?y a[n > 2] ?z", window=Window(size=10, slide=1), name="pattern")
    engine = Engine(query, pattern, memory_limit=1 << 60, _capacity=1)
    x, y, z = (name(number) for number in range(3))
    for values in ([3, 0, 3], [0, 2, 3]):
        ends = {"source": [x, y, x], "target": [y, z, y], "label": ["a", "b", "a"]}
        engine.push({**ends, "timestamp": [0, 0, 0], "n": values})
    engine.advance(20)
    engine._evaluation.collector.collect()
    for kind in (int, str):
        by_id = Engine(query, edges="id", memory_limit=1 << 60, _capacity=1)
        ends = {"source": [x, y, z, x, y], "target": [y, z, x, y, z], "label": ["a", "b", "a", "a", "b"]}
        for first in range(0, 40, 10):
            ids = [kind(first + number) for number in (1, 2, 1, 3, 4)]
            by_id.push({**ends, "timestamp": [0] * 5, "n": [3, 0, 3, 0, 0], "edge": ids})
        by_id.delete(x, y, "a", 0)
        by_id._evaluation.collector.collect()
    nothing = np.zeros(0, np.int64)
    EdgeTable("id", capacity=1).load((nothing,) * 5, nothing)  # as a saved state is
    of_values = Engine(query, edges="id", witness=True, memory_limit=1 << 60, _capacity=1)
    ends = {"source": [x, y], "target": [y, z], "label": ["a", "b"]}
    of_values.push({**ends, "timestamp": [0, 0], "n": [3, 0], "edge": [1, 2]})
    of_values.witness(x, z)


def _hold_rows(name: Callable[[int], int | str]) -> None:
    """Hold rows for a time: some are told, others leave before, and some wait while the state is saved."""
    engine = Engine(Query("a+", window=Window(size=10, slide=1), hold=2, name="held"), memory_limit=1 << 60, _capacity=1)
    x, y, z = (name(number) for number in range(3))
    engine.push_rows([(x, y, "a", 0), (y, z, "a", 0), (y, z, "a", 1, "-"), (z, x, "a", 3)])
    engine.insert(y, z, "a", 3)
    engine.answers()
    _save_and_restore(engine)
    engine.advance(20)


def _judge_streams() -> None:
    """Compile the kernels of queries over named streams or several windows."""
    single, graph = SingleTuple(), SnapshotGraph(capacity=1)
    tuples = single.view
    graph.resolve_with_streams(tuples, tuples, np.zeros(1, np.uint8), 0)
    graph.lose(np.full(1, -1, np.int32), single.chunk)
    WindowMembership([UnboundedWindow()]).apply(tuples, tuples, 0)
