"""Queries and streams beside those of the other tables, each with a bound: no figure may be far from its neighbours.

Lines are functions with the decorator `line`. To add one, write the function; `rpq bench cliffs --only NAME` runs it alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.workloads import named_queries
from rpq.workloads.bench import measure as measuring

# The lines of these modules are part of the table.
from rpq.workloads.bench.comparisons import (  # noqa: F401
    edge_properties,
    input_speed,
    match_texts,
    path_kinds,
    permissions,
    time_order,
)
from rpq.workloads.bench.comparisons.bounds import COLUMNS, LINES, Figure, line, tuples_per_second, window_of
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.comparisons.sparql_speed import edge_a_moment
from rpq.workloads.bench.experiment import (
    Column,
    Experiment,
    ExperimentResult,
    Record,
    Say,
    Settings,
    earlier_result,
    figures_of_others,
    select,
)
from rpq.workloads.bench.machine import commit_of_checkout
from rpq.workloads.bench.memory import command_memory, resident_memory
from rpq.workloads.bench.rdf_engines import rsp_benchmarks
from rpq.workloads.bench.rdf_engines.comparison import timed_pushes
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.facts import like_yago
from rpq.workloads.generate.rdf.terms import choose_terms, decimals, integers, numbered_iris, typed_literals

# --- aggregates ------------------------------------------------------------------------------------------------------

_PER_JOINED_ROW = 50e-9
"""Seconds that a joined row may take."""

Values = Literal["integers", "decimals", "floats", "doubles", "mixed", "iris", "moments"]


def _values(kind: Values, numbers: np.ndarray) -> pa.Array:
    """Return terms for numbers: literals for amounts of cents, where mixed ones have every type in turn; IRIs; moments."""
    if kind == "iris":
        return numbered_iris("http://example.org/value/", numbers)
    if kind == "moments":
        texts = pc.strftime(pa.array(1_700_000_000_000 + 100 * numbers).cast(pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%S")
        return typed_literals(texts, "dateTime")
    if kind == "integers":
        return integers(numbers)
    if kind == "decimals":
        return decimals(numbers)
    if kind != "mixed":
        return decimals(numbers, kind.removesuffix("s"))
    kinds: tuple[Values, ...] = ("integers", "decimals", "floats", "doubles")
    every = pa.concat_arrays([_values(one, numbers) for one in kinds])
    return every.take(pa.array(np.arange(len(numbers)) % len(kinds) * len(numbers) + np.arange(len(numbers))))


def rated_groups(kind: Values, groups: int, window: int, *, distinct: int = 10_000) -> Stream:
    """Return a stream in which groups are rated in turn, by values of a type, `distinct` of them."""
    number = np.arange(2 * window)
    group = (number * 7_919 + number // groups * 17) % groups
    value = _values(kind, (number * 7_907 + number // distinct) % distinct)
    rated = choose_terms(["urn:rated"], np.zeros(len(number), int))
    return edge_a_moment(f"{kind} of {groups} groups", window, numbered_iris("urn:group:", group), rated, value)


def _average(settings: Settings, *, kind: Values, groups: int) -> Figure:
    """Compare the average of values of a type with that of integers."""
    text = "SELECT ?group (AVG(?value) AS ?average) { ?group <urn:rated> ?value } GROUP BY ?group"
    window = window_of(settings, 200_000)
    groups = min(groups, window)
    base = tuples_per_second(text, rated_groups("integers", groups, window), settings)
    if kind == "integers":
        return Figure(figure=base)
    return Figure(figure=tuples_per_second(text, rated_groups(kind, groups, window), settings), bound=base / 2)


for _groups in (100, 100_000):
    line(f"AVG-INTEGERS-{_groups}", f"average of integers, {_groups:,} groups", bound=8e5)(
        partial(_average, kind="integers", groups=_groups)
    )
    line(f"AVG-MIXED-{_groups}", f"average of numbers of all types, {_groups:,} groups, against half of integers")(
        partial(_average, kind="mixed", groups=_groups)
    )


def join_stream(selectivity: float, window: int) -> Stream:
    """Return a stream of `a` and `b` in turn; each joins `selectivity` tuples of the other label in the window."""
    number = np.arange(2 * window)
    places = max(1, round(window / 2 / selectivity))
    label = number % 2
    key = numbered_iris("urn:x:", number // 2 * 7_919 % places)
    value = decimals((number * 7_907) % 100_000)
    group = numbered_iris("urn:y:", number // 2 % 1_000)
    target = pa.chunked_array([group, value]).combine_chunks().take(pa.array(number + label * len(number)))
    return edge_a_moment(f"join at {selectivity:g}", window, key, choose_terms(["urn:a", "urn:b"], label), target)


def _over_join(settings: Settings, *, selectivity: float, head: str) -> Figure:
    text = f"SELECT {head} {{ ?x <urn:a> ?y . ?x <urn:b> ?value }}"
    measured = tuples_per_second(text, join_stream(selectivity, window_of(settings, 20_000)), settings)
    return Figure(figure=measured, bound=min(3e5, 1 / (_PER_JOINED_ROW * selectivity)))


for _selectivity in (1, 100):
    line(f"MIN-JOIN-{_selectivity:g}", f"least value over a join at selectivity {_selectivity:g}")(
        partial(_over_join, selectivity=_selectivity, head="(MIN(?value) AS ?least)")
    )
line("DISTINCT-JOIN-100", "distinct values over a join at selectivity 100")(
    partial(_over_join, selectivity=100, head="DISTINCT ?value")
)


def _of_groups(settings: Settings, *, head: str, kind: Values, groups: int, distinct: int = 10_000) -> Figure:
    text = f"SELECT ?group ({head} AS ?result) {{ ?group <urn:rated> ?value }} GROUP BY ?group"
    stream = rated_groups(kind, groups, window_of(settings, 40_000), distinct=distinct)
    return Figure(figure=tuples_per_second(text, stream, settings))


line("COUNT-DISTINCT", "distinct values counted by 100 groups", bound=3e5)(
    partial(_of_groups, head="COUNT(DISTINCT ?value)", kind="decimals", groups=100)
)
line("MIN-40000", "least value of one group of 40,000 members", bound=3e5)(
    partial(_of_groups, head="MIN(?value)", kind="decimals", groups=1)
)
_TIED: dict[Values, str] = {"iris": "IRIs that begin alike", "moments": "moments, ten a second"}
for _tied, _what in _TIED.items():
    line(f"MIN-{_tied.upper()}", f"least value of one group of 40,000 {_what}, all different", bound=3e5)(
        partial(_of_groups, head="MIN(?value)", kind=_tied, groups=1, distinct=1_000_000)
    )


# --- the first rows of an order --------------------------------------------------------------------------------------


def _first_groups(settings: Settings) -> Figure:
    """Return tuples per second of the ten groups with the largest sum."""
    text = "SELECT ?group (SUM(?value) AS ?sum) { ?group <urn:rated> ?value } GROUP BY ?group ORDER BY DESC(?sum) LIMIT 10"
    window = window_of(settings, 100_000)
    return Figure(figure=tuples_per_second(text, rated_groups("decimals", min(10_000, window), window), settings))


line("TOP-DECIMALS-10000", "the ten of 10,000 groups with the largest sum of decimals", bound=3e5)(_first_groups)


@line("OLDEST-ROWS", "the ten oldest of 100,000 rows, which are the next to leave", bound=3e5)
def _oldest_rows(settings: Settings) -> Figure:
    window = window_of(settings, 100_000)
    number = np.arange(2 * window)
    label = choose_terms(["urn:at"], np.zeros(len(number), int))
    stream = edge_a_moment("rows in order", window, numbered_iris("urn:row:", number), label, integers(number))
    text = "SELECT ?row { ?row <urn:at> ?time } ORDER BY ?time LIMIT 10"
    return Figure(figure=tuples_per_second(text, stream, settings))


# --- joins by value --------------------------------------------------------------------------------------------------

_PER_CHANGED_ROW = 1e-6
"""Seconds that a changed row may take beside the time of a tuple."""


def _fares(window: int, labels: int) -> Stream:
    """Return a stream of values of a hundredth, under one label or two in turn."""
    number = np.arange(2 * window)
    value = decimals((number * 7_907) % 99_991)
    label = choose_terms(["urn:fare", "urn:toll"][:labels], number % labels)
    return edge_a_moment("fares", window, numbered_iris("urn:ride:", number), label, value)


def _sensors(window: int) -> Stream:
    """Return a stream of readings of 200 sensors: a reading has a sensor and a time."""
    number = np.arange(2 * window)
    reading = numbered_iris("urn:reading:", number // 2)
    sensor = numbered_iris("urn:sensor:", number // 2 * 7_919 % 200)
    both = pa.chunked_array([sensor, integers(number // 2)]).combine_chunks()
    target = both.take(pa.array(number + number % 2 * len(number)))
    return edge_a_moment("sensors", window, reading, choose_terms(["urn:sensor", "urn:time"], number % 2), target)


def _by_value(settings: Settings, *, text: str, labels: int = 2) -> Figure:
    """Return microseconds per tuple, less one for each changed row."""
    window = window_of(settings, 20_000)
    stream = _sensors(window) if "urn:sensor" in text else _fares(window, labels)
    query = rpq.Query(text, window=stream.window, semantics="explicit", name="line")
    (runs,) = measuring.run_in_turn(query, [(stream, 1)], repeat=settings.repeat)
    best = min(runs, key=lambda run: run.cpu_seconds)
    of_rows = _PER_CHANGED_ROW * (best.rows_added + best.rows_removed)
    return Figure(figure=(best.cpu_seconds - of_rows) / len(stream) * 1e6)


_MEAN = "{ SELECT (AVG(?g) AS ?mean) { ?q <urn:fare> ?g } } ?ride <urn:fare> ?f FILTER(?f > ?mean * 1.8)"
_EQUAL = "SELECT ?a ?b { ?a <urn:fare> ?f . ?b <urn:toll> ?g FILTER(?g = ?f && ?a != ?b) }"
_LATEST = "{ SELECT ?s (MAX(?u) AS ?last) { ?q <urn:sensor> ?s ; <urn:time> ?u } GROUP BY ?s }"
for _name, _what, _text in (
    ("ABOVE-MEAN", "fares above 1.8 times the mean", f"SELECT ?ride {{ {_MEAN} }}"),
    (
        "LATEST",
        "the latest reading of each sensor",
        f"SELECT ?r ?s {{ {_LATEST} ?r <urn:sensor> ?s ; <urn:time> ?t FILTER(?t = ?last) }}",
    ),
    (
        "EQUAL-VALUES",
        "rides with equal values",
        _EQUAL,
    ),
    (
        "OPTIONAL-VALUE",
        "rides, optionally with one whose value is greater by one",
        "SELECT ?a ?b { ?a <urn:fare> ?f OPTIONAL { ?b <urn:toll> ?g FILTER(?g = ?f + 1) } }",
    ),
    (
        "NONE-GREATER",
        "rides for which no other has a greater value",
        "SELECT ?a { ?a <urn:fare> ?f FILTER NOT EXISTS { ?b <urn:toll> ?g FILTER(?g > ?f) } }",
    ),
):
    line(_name, _what, unit="µs/tuple, rows apart", sense="at most", bound=20)(
        partial(_by_value, text=_text, labels=1 if _name == "ABOVE-MEAN" else 2)
    )


@line("ABOVE-MEAN-REPORTED", "fares above 1.8 times the mean, reported once a slide", bound=2e5)
def _above_mean_reported(settings: Settings) -> Figure:
    stream = _fares(window_of(settings, 20_000), 1)
    query = rpq.Query(f"SELECT ?ride {{ {_MEAN} }}", window=stream.window, report="slide", name="line")
    (runs,) = measuring.run_in_turn(query, [(stream, 1)], repeat=settings.repeat)
    return Figure(figure=len(stream) / min(run.cpu_seconds for run in runs))


# --- variables as predicates -----------------------------------------------------------------------------------------


def _many_labels(window: int, labels: int) -> Stream:
    """Return a stream of edges with `labels` labels in turn, between a quarter as many vertices as the window has edges."""
    number = np.arange(2 * window)
    source, target = (numbered_iris("urn:x:", number * factor % (window // 4)) for factor in (7_919, 7_907))
    label = choose_terms([f"urn:l:{one}" for one in range(labels)], number * 7_901 % labels)
    return edge_a_moment(f"{labels} labels", window, source, label, target)


def _of_all_labels(settings: Settings, *, labels: int) -> Figure:
    """Return the nanoseconds that a triple with a variable as predicate adds to a tuple that a path reads; no rows."""
    stream = _many_labels(window_of(settings, 100_000), labels)
    beside = rpq.Query("!(<urn:none>)", window=stream.window, name="beside")
    everything = rpq.Query("ASK { ?s ?p ?o }", window=stream.window, name="line")
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + settings.repeat):
        for is_read, runs in seconds.items():
            engine = rpq.Engine(beside, *([everything] if is_read else []))
            started = time.process_time()
            for batch in stream.batches():
                engine.push(batch, collect=False)
            runs.append(time.process_time() - started)
    alone, both = (min(runs[1:]) for runs in seconds.values())  # the first ones compile
    return Figure(figure=max(both - alone, 1e-9) / len(stream) * 1e9)


for _labels in (3, 3_000):
    line(
        f"ALL-LABELS-{_labels}",
        f"`?s ?p ?o` beside a path of any label, without rows, {_labels:,} labels",
        unit="ns/tuple",
        sense="at most",
        bound=150,
    )(partial(_of_all_labels, labels=_labels))


# --- least state -----------------------------------------------------------------------------------------------------

_CONSTANTS = {"pattern": "?x a h7 . ?x b h8", "SPARQL": "SELECT ?x { ?x <a> <h7> . ?x <b> <h8> }"}
"""Queries whose constants accept one edge of a thousand, by their language."""


def _passed_by(settings: Settings, *, constants: str) -> Figure:
    """Return the megabytes held after edges to 1,000 vertices in turn, one of which is asked for."""
    engine = rpq.Engine(rpq.Query(_CONSTANTS[constants], name="line", window=rpq.UnboundedWindow()))
    edges = window_of(settings, 1_000_000)
    for numbers in np.array_split(np.arange(edges), max(1, edges // 100_000)):
        label = choose_terms(["a"], np.zeros(len(numbers), int))
        source, target = numbered_iris("s", numbers), numbered_iris("h", numbers % 1_000)
        engine.push({"source": source, "target": target, "label": label, "timestamp": numbers}, collect=False)
    graph, vertices = engine._evaluation.graph, engine._evaluation.vertices
    return Figure(figure=(graph.nbytes + vertices.nbytes + engine.statistics().index_bytes) / 1e6)


for _name in _CONSTANTS:
    what = f"memory held where the constants of a {_name} query accept one edge of a thousand"
    line(f"MEMORY-HELD-{_name.upper()}", what, unit="MB", sense="at most", bound=5)(partial(_passed_by, constants=_name))


@line("STATE-1000", "state of 1,000 queries with equal windows, against 3 times that of one", unit="MB", sense="at most")
def _state_of_many_queries(settings: Settings) -> Figure:
    stream = _many_labels(window_of(settings, 86_000), 1_000)
    sizes = []
    with TemporaryDirectory() as folder:
        for count in (1_000, 1):
            queries = (rpq.Query(f"<urn:l:{one}>+", window=stream.window, name=f"q{one}") for one in range(count))
            engine = rpq.Engine(*queries, keep=stream.window)
            for batch in stream.batches():
                engine.push(batch, collect=False)
            engine.save(path := Path(folder, "state"))
            sizes.append(path.stat().st_size / 1e6)
    return Figure(figure=sizes[0], bound=3 * sizes[1])


# --- big windows -----------------------------------------------------------------------------------------------------

_SLIDES_OF_BIG_WINDOW = 10
_SLIDES_AFTER_BIG_WINDOW = 2
"""Slides that are pushed when the window is full."""


@dataclass(frozen=True, kw_only=True)
class _BigWindow:
    """Tuples per CPU second over the whole stream, and bytes at its end beyond the cells of the index.

    These are the names, the graph and all of the index but `Table.values`, with the room that they have to spare, per edge
    that the query reads.
    """

    speed: float
    bytes_an_edge: float


@cache
def _big_window(query: str, window: int, seed: int) -> _BigWindow:
    """Push generated facts of YAGO, which are not all in memory at once, through a query of the paper."""
    slide = max(1, window // _SLIDES_OF_BIG_WINDOW)
    edges = window + _SLIDES_AFTER_BIG_WINDOW * slide
    question = rpq.Query(named_queries.named_query(query, "yago"), window=rpq.Window(size=window, slide=slide))
    rpq.warm_up(question)
    engine = rpq.Engine(question)
    seconds = 0.0
    for batch in like_yago(edges=edges, seed=seed):
        started = time.process_time()
        engine.push(batch, collect=False)
        seconds += time.process_time() - started
    evaluation = engine._evaluation
    running: Any = next(iter(evaluation.running))  # the path query
    indexes = running.indexes
    nbytes = evaluation.vertices.nbytes + evaluation.graph.nbytes
    nbytes += sum(index.nbytes - index.buffer_bytes - index.index.table.values.nbytes for index in indexes)
    return _BigWindow(speed=edges / seconds, bytes_an_edge=nbytes / engine.statistics().edges_live)


def _of_big_window(settings: Settings, *, query: str, figure: str) -> Figure:
    measured = _big_window(query, window_of(settings, 20_000_000), settings.seed)
    return Figure(figure=getattr(measured, figure))


for _query in ("Q1", "Q2", "Q11"):
    line(f"WINDOW-{_query}", f"{_query} over facts of YAGO, 20 million in the window", bound=5e5)(
        partial(_of_big_window, query=_query, figure="speed")
    )
    line(
        f"WINDOW-{_query}-BYTES",
        "the same: memory an edge that it reads, beyond the index's cells",
        unit="bytes",
        sense="at most",
        bound=200,
    )(partial(_of_big_window, query=_query, figure="bytes_an_edge"))


# --- order of arrival ------------------------------------------------------------------------------------------------

_PERMISSIONS = "member*/(viewer|editor|owner)/^parent*"


def _tenants(number: np.ndarray) -> Stream:
    """Return a stream of these edges of tenants, a hundred each: of 40 users in 8 groups, which see folders in folders."""
    tenant, step = np.divmod(number, 100)
    kinds = [step < 40, step < 48, step < 64]  # in a group, a group in another, or of a group that sees a folder
    source = np.select(kinds, [step, step, 40 + step % 8], step - 15)
    target = np.select(kinds, [40 + step % 8, 40 + (step - 40) // 2, step], 48 + (step - 64) // 2)
    label = choose_terms(["member", "viewer", "editor", "owner", "parent"], np.select(kinds, [0, 0, 1 + step % 3], 4))
    ends = [numbered_iris("urn:v:", 100 * tenant + end) for end in (source, target)]
    return edge_a_moment("tenants", len(number), ends[0], label, ends[1])


@cache
def _of_tenants(settings: Settings, *, is_shuffled: bool) -> tuple[float, int]:
    """Return the CPU seconds and the bytes of the index of a query over tenants, without a window."""
    number = np.arange(window_of(settings, 100_000))
    stream = _tenants(np.random.default_rng(settings.seed).permutation(number) if is_shuffled else number)
    query = rpq.Query(_PERMISSIONS, window=rpq.UnboundedWindow(), name="line")
    seconds = []
    for _ in range(1 + settings.repeat):
        engine = rpq.Engine(query)
        started = time.process_time()
        for batch in stream.batches():
            engine.push(batch, collect=False)
        seconds.append(time.process_time() - started)
    return min(seconds[1:]), engine.statistics().index_bytes  # the first one compiles


def _shuffled(settings: Settings, *, place: int) -> Figure:
    shuffled, in_order = (_of_tenants(settings, is_shuffled=is_shuffled)[place] for is_shuffled in (True, False))
    return Figure(figure=shuffled / in_order)


for _place, _name in enumerate(("TIME", "MEMORY")):
    line(
        f"SHUFFLED-{_name}",
        f"{_name.lower()} of permissions of many tenants in random order, against one tenant after the other",
        unit="times",
        sense="at most",
        bound=2.5,
    )(partial(_shuffled, place=_place))


# --- one query alone -------------------------------------------------------------------------------------------------


def _pairs(settings: Settings) -> Stream:
    """Return a stream of pairs of vertices, under two labels in turn."""
    number = np.arange(2 * window_of(settings, 10_000))
    source, target = numbered_iris("x", number * 7_919 % len(number)), numbered_iris("y", number * 7_907 % len(number))
    return edge_a_moment("pairs", len(number) // 2, source, choose_terms(["a2q", "c2a"], number % 2), target)


@line("MEMORY-PROCESS", "peak memory of a process that runs one path query", unit="MB", sense="at most", bound=180)
def _memory_of_a_process(settings: Settings) -> Figure:
    """Return the peak resident megabytes of a process that warms up, pushes Arrow batches and reads no rows."""
    stream = _pairs(settings)
    query = rpq.Query("a2q/c2a*", window=stream.window, name="line")
    measuring.warm_up(query, stream)
    resident_memory(query, stream)  # compiles what the warm-up leaves out, which would take a compiler and its memory
    return Figure(figure=resident_memory(query, stream).run / 1e6)


@line("MEMORY-RUN", "peak memory of `rpq run` with a path query over a text file", unit="MB", sense="at most", bound=200)
def _memory_of_a_run(settings: Settings) -> Figure:
    stream = _pairs(settings)
    query = rpq.Query("a2q/c2a*", window=stream.window, name="line")
    measuring.warm_up(query, stream)
    command_memory(query, stream)  # compiles what the warm-up leaves out
    return Figure(figure=command_memory(query, stream) / 1e6)


# --- one tuple at a time ---------------------------------------------------------------------------------------------

_MAX_CALLS = 4_000
_CALLS_BEFORE = 200
"""Calls before the measured ones, in which kernels are loaded."""


@dataclass(frozen=True, kw_only=True)
class _Calls:
    """Quantiles of the CPU microseconds of a call of `insert` and of reading its rows, when the window is full."""

    median: float
    p99: float


@cache
def _single_inserts(name: str, settings: Settings) -> _Calls:
    """Push a stream up to its middle, and the tuples that follow one by one; the best quantiles of several runs."""
    text, stream = _single_case(name, settings)
    query = rpq.Query(text, window=stream.window, semantics="explicit" if "SELECT" in text else "implicit", name="line")
    middle = len(stream) // 2
    first = stream.first(middle)
    after = stream.table.slice(middle, _CALLS_BEFORE + _MAX_CALLS)
    tuples = [*zip(*(after[column].to_pylist() for column in ("source", "target", "label", "timestamp")), strict=True)]
    runs = []
    for _ in range(settings.repeat):
        engine = rpq.Engine(query)
        for batch in first.batches():
            engine.push(batch, collect=False)
        microseconds = []
        for one in tuples:
            started = time.process_time_ns()
            engine.insert(*one).rows()
            microseconds.append((time.process_time_ns() - started) / 1e3)
        runs.append(microseconds[min(_CALLS_BEFORE, len(tuples) // 2) :])
    quantiles = {part: min(measuring.quantile(run, part) or 0.0 for run in runs) for part in (0.5, 0.99)}
    return _Calls(median=quantiles[0.5], p99=quantiles[0.99])


def _single_case(name: str, settings: Settings) -> tuple[str, Stream]:
    """Return the text of the query of a line and its stream."""
    window = window_of(settings, 5_000)
    if name in _SINGLE_IN_SPARQL:
        text, stream = _SINGLE_IN_SPARQL[name]
        return text, stream(window)
    patterns = {published["name"]: published["pattern"] for published in figures_of_others("patterns")["queries"]}
    return patterns.get(name, "a2q/c2a*"), stream_of("stackoverflow", settings, lambda text: None)


_SINGLE_IN_SPARQL: dict[str, tuple[str, Callable[[int], Stream]]] = {
    "MIN-JOIN": ("SELECT (MIN(?value) AS ?least) { ?x <urn:a> ?y . ?x <urn:b> ?value }", partial(join_stream, 1)),
    "COUNT-DISTINCT": (
        "SELECT ?group (COUNT(DISTINCT ?value) AS ?result) { ?group <urn:rated> ?value } GROUP BY ?group",
        partial(rated_groups, "decimals", 100),
    ),
    "EQUAL-VALUES": (_EQUAL, partial(_fares, labels=2)),
}


def _of_single_inserts(settings: Settings, *, name: str, figure: str) -> Figure:
    return Figure(figure=getattr(_single_inserts(name, settings), figure))


for _name, _what, _bounds in (
    ("P2", "the pattern P2", (14, 80)),
    ("P5", "the pattern P5", (14, 80)),
    ("PATH", "the path a2q/c2a*", (10, 110)),
    ("MIN-JOIN", "the least value over a join", (165, 400)),
    ("COUNT-DISTINCT", "distinct values counted by group", (165, 400)),
    ("EQUAL-VALUES", "rides with equal values", (165, 400)),
):
    for _figure, _bound in zip(("median", "p99"), _bounds, strict=True):
        line(
            f"INSERT-{_name}-{_figure.upper()}",
            f"one insert and its rows, {_figure}: {_what}",
            unit="µs",
            sense="at most",
            bound=_bound,
        )(partial(_of_single_inserts, name=_name, figure=_figure))


@line(
    "SLIDE-OF-TRIPLES",
    "a push of the 130 triples of a slide, and its rows: LSB-Q3",
    unit="µs/push, rows apart",
    sense="at most",
    bound=50,
)
def _slide_of_triples(settings: Settings) -> Figure:
    edges = round(100_000 * settings.scale)
    (one,) = rsp_benchmarks.lines(replace(settings, edges=edges, scale=1.0, queries=("LSB-Q3",)))
    found = []
    for _ in range(settings.repeat):
        pushes = timed_pushes(one.query, one.stream)
        times = [own - _PER_CHANGED_ROW * len(rows) for slide, own, rows in pushes if slide >= one.stream.first_slide]
        found.append(sum(times) / len(times) * 1e6)
    return Figure(figure=min(found))


# --- the table -------------------------------------------------------------------------------------------------------

def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Measure the selected lines, and yield all that are known behind each; the facts say how many meet their bounds.

    The lines of an earlier run with the same settings stay in the file until they are measured again, which a run that
    resumes leaves out for those of this commit. Raises `UnknownQueryError`.
    """
    selected = {*select(settings.queries, LINES, "line")}
    earlier = earlier_result(settings, "cliffs")
    records = {record["name"]: record for record in earlier["records"]} if earlier else {}
    commit = commit_of_checkout()
    if settings.resumes:
        selected -= {name for name, record in records.items() if record.get("commit") == commit}
    lines = [one for name, one in LINES.items() if name in selected]
    if settings.kafka is None and (left_out := [one for one in lines if one.needs_brokers]):
        say(f"no --kafka HOST:PORT: {', '.join(one.name for one in left_out)} left out")
        lines = [one for one in lines if one not in left_out]
    if not lines:
        yield _outcome(records)
    for number, one in enumerate(lines, start=1):
        say(f"{number} of {len(lines)}: {one.name} …")
        started = time.monotonic()
        record = one.record(settings)
        seconds = round(time.monotonic() - started, 1)
        records[one.name] = record | {"load": round(os.getloadavg()[0], 1), "seconds": seconds, "commit": commit}
        yield _outcome(records)


def _outcome(records: Mapping[str, Record]) -> ExperimentResult:
    """Return the records in the order of the table, how many meet their bounds, and how long they all took."""
    selected = [records[name] for name in LINES if name in records]
    facts = {
        "bounds met": f"{sum(record['is_met'] for record in selected)} of {len(selected)}",
        "lines measured": f"{len(selected)} of {len(LINES)}",
        "minutes": round(sum(record.get("seconds", 0) for record in selected) / 60, 1),
    }
    return ExperimentResult(records=selected, streams=[], checks={}, facts=facts)


EXPERIMENT = Experiment(
    name="cliffs",
    title="Beside the headline: what a user writes next",
    how=(
        "Each line measures one query on one generated stream, twice as long as its window, which moves by a hundredth; one "
        "thread, CPU seconds of the fastest of several runs in fresh engines with warm kernels, without reading. Those of "
        "big windows are measured once, with a slide of a tenth and two slides after the window is full. --edges and "
        "--scale change the windows of all lines in proportion. A bound is a goal: a line that misses it does not fail. "
        "With --only the other lines of an earlier run stay, so that a run can be made in parts; each line is written when "
        "it is measured, and --resume continues. The load is that of the machine when the line was measured, over a minute: "
        "above the number of its cores, times are too long. The seconds are those that measuring the line took."
    ),
    columns=(
        *COLUMNS,
        Column(key="load", heading="load", format=".1f"),
        Column(key="seconds", heading="seconds", format=".0f"),
        Column(key="commit", heading="commit"),
    ),
    measure=measure,
    repeat=3,
)
