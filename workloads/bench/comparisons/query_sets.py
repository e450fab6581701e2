"""Thousands of queries over one stream, as in TriC's experiments: the cost of an update by the number of queries.

A record is a point of a figure of the paper (`figure`), or of one of three other figures: `curve`, up to 100,000 patterns;
`concerned`, where the patterns beyond 5,000 are about another graph; and `paths`, path queries that differ in their sources.
`PANELS` describes what each figure draws.

`GROWTH` has the figures over graphs of one and of ten million edges, 12(f), 13(a), 14(a) and 14(c). The paper uses graphs of
the SNB generator, taxi rides and proteins; here the graphs are from generators, since no available real stream is as long.
`GROWTH` is a separate experiment because its sizes differ.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.workloads.baselines.inverted_index import InvertedIndex
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings
from rpq.workloads.bench.measure import RowsDifferError
from rpq.workloads.bench.plots import legend_above, lines
from rpq.workloads.bench.streams import DATA_SETS, generate
from rpq.workloads.generate.generators import KINDS
from rpq.workloads.generate.pattern_sets import PatternQuery, query_set
from rpq.workloads.rivals import driver
from rpq.workloads.rivals.pattern_sets import PatternSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """A figure: its axes, and the keys of the records that are drawn."""

    figure: str
    title: str
    x: str
    x_label: str
    y: str = "update_us"
    y_label: str = "µs an update"
    is_log_x: bool = False


PANELS = (
    Panel("12a", "12(a): LDBC, as the graph grows", "updates", "edges"),
    Panel("12b", "12(b): LDBC, queries satisfied", "selectivity", "σ"),
    Panel("12c", "12(c): LDBC, size of the set", "queries", "queries"),
    Panel("12d", "12(d): LDBC, size of a query", "length", "ℓ"),
    Panel("12e", "12(e): LDBC, overlap", "overlap", "o"),
    Panel("12f", "12(f): LDBC, up to 1 M edges", "updates", "edges"),
    Panel("13a", "13(a): LDBC, up to 10 M edges", "updates", "edges"),
    Panel("13b", "13(b): LDBC, registering 1,000 more", "queries", "queries", "register_us", "µs a query"),
    Panel("13c", "13(c): memory", "data", "", "memory_mb", "MB"),
    Panel("14a", "14(a): taxi", "updates", "edges"),
    Panel("14b", "14(b): one label", "updates", "edges"),
    Panel("14c", "14(c): one label, up to 1 M edges", "updates", "edges"),
    Panel("curve", "cost of an update by queries registered", "queries", "queries", is_log_x=True),
    Panel("concerned", "the same, all but 5,000 about another graph", "queries", "queries", is_log_x=True),
)
_COLUMNS = 5
GROWING = ("12a", "12f", "13a", "14a", "14b", "14c")
"""The figures that follow one set through its stream, with a point for each piece of the stream."""
_WITH_MEMORY = ("12a", "14a", "14b")


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw a panel for each figure of which there are records."""
    panels = [(panel, chosen) for panel in PANELS if (chosen := records_of(panel, records))]
    if not panels:
        return
    rows = -(-len(panels) // _COLUMNS)
    figure.set_size_inches(3.6 * min(len(panels), _COLUMNS), 3.4 * rows)
    all_axes = figure.subplots(rows, min(len(panels), _COLUMNS), squeeze=False).ravel()
    for axes, (panel, chosen) in zip(all_axes, panels, strict=False):
        _draw(axes, panel, chosen)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    legend_above(figure)


def records_of(panel: Panel, records: list[Record]) -> list[dict[str, Any]]:
    """Return the records that a panel shows.

    >>> records = [{"figure": "12a", "data": "ldbc", "memory_mb": 3}, {"figure": "12a", "data": "ldbc", "memory_mb": None}]
    >>> len(records_of(PANELS[0], records)), len(records_of(PANELS[8], records))
    (0, 1)
    """
    if panel.figure == "13c":  # memory at the end of each stream
        chosen = [one for one in records if one["figure"] in _WITH_MEMORY]
    else:
        chosen = [one for one in records if one["figure"] == panel.figure]
    return [one for one in chosen if one.get(panel.y) is not None]


def _draw(axes: Axes, panel: Panel, records: list[dict[str, Any]]) -> None:
    if panel.figure == "13c":
        algorithms = list(dict.fromkeys(one["algorithm"] for one in records))
        for place, algorithm in enumerate(algorithms):
            own = [one for one in records if one["algorithm"] == algorithm]
            at = [number + place * 0.8 / len(algorithms) for number in range(len(own))]
            axes.bar(at, [one[panel.y] for one in own], 0.8 / len(algorithms), label=algorithm)
        streams = list(dict.fromkeys(one["data"] for one in records))
        axes.set_xticks(range(len(streams)), streams)
    else:
        lines(axes, records, panel.x, panel.y, by="algorithm")
        axes.set_yscale("log")
    if panel.is_log_x:
        axes.set_xscale("log")
    axes.set_title(panel.title, fontsize="small")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.tick_params(labelsize="small")


COUNTS = (100, 1000, 3000, 5000, 10_000, 30_000, 100_000)
BASE = 5000
"""The number of patterns of a set in figures that vary another parameter, as in the paper."""
EDGES = 100_000
PIECES = 10
LENGTH, OVERLAP, SELECTIVITY = 5, 0.35, 0.25
VARIED: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "12b": ("selectivity", (0.10, 0.15, 0.20, 0.25, 0.30)),
    "12d": ("length", (3, 5, 7, 9)),
    "12e": ("overlap", (0.25, 0.35, 0.45, 0.55, 0.65)),
}
"""The parameter that a figure varies, and its values."""
SHARING: Mapping[Literal["auto", "never"], str] = {"auto": "shared", "never": "nothing shared"}
BASELINES = {"INV": (False, False), "INV+": (False, True), "INC": (True, False), "INC+": (True, True)}
BASELINE_PART = 1 / 12
"""The part of the seconds of a baseline that are available for one point of a figure."""
BASELINE_BATCH = 20
"""The number of updates that a baseline receives between two looks at the clock."""
NEO4J = "Neo4j"
NEO4J_EDGES = 100_000
"""The first updates that Neo4j is given, many more than it processes in its time."""
NEO4J_START_SECONDS, NEO4J_CLOCK_SECONDS = 300.0, 30.0
"""The seconds on the clock in which Neo4j must have created the vertices and warmed up, and those that it then has."""
PATHS, PATH_QUERY = 1000, "a2q/c2a*"
MICROSECOND = 1e-6

HOW = (
    "Microseconds per update, CPU time of one thread, rows delivered with their names; the stream is pushed in "
    f"{PIECES} pieces. Sets as TriC's: chains, stars and cycles, {LENGTH} atoms on average, {OVERLAP:.0%} begin with half "
    f"of another pattern, {SELECTIVITY:.0%} have a solution in the first {EDGES:,} insertions, {BASE:,} patterns, unless "
    "the figure varies a parameter. Registering: CPU time for each query, before the stream. Memory: the memory that the "
    "engine reports, and that of a baseline's arrays. Nothing shared and the baselines INV, INV+, INC, INC+ (the paper's, "
    "compiled as the kernels are) receive only the first updates, as many as they process in a given time; each must find "
    "as many solutions in them as the engine. Neo4j too, and its solutions must be the same: embedded, its store in memory, "
    "with an index from atoms to patterns as in the paper; a pattern that an update affects is a query in Cypher with "
    "parameters that starts at both ends of the edge, and is executed only if all of its atoms have edges. Vertices are "
    "created before, plans are made outside of its seconds, after a warm-up over the same updates. "
    f"Concerned: {BASE:,} patterns of this stream, and all patterns beyond these drawn from a generated stream with the "
    "same labels and other vertices. "
    f"Paths: {PATHS:,} queries {PATH_QUERY}, each from one source, over MathOverflow."
)

COLUMNS = (
    Column(key="figure", heading="figure"),
    Column(key="data", heading="stream"),
    Column(key="algorithm", heading="evaluated by"),
    Column(key="queries", heading="queries", format=","),
    Column(key="length", heading="ℓ", format=","),
    Column(key="overlap", heading="o", format=".0%"),
    Column(key="selectivity", heading="σ", format=".0%"),
    Column(key="updates", heading="updates", format=","),
    Column(key="update_us", heading="µs an update", format=",.1f"),
    Column(key="affected_us", heading="µs an update and affected query", format=",.2f"),
    Column(key="register_us", heading="registering, µs a query", format=",.0f"),
    Column(key="rows", heading="rows", format=","),
    Column(key="satisfied", heading="satisfied", format=","),
    Column(key="memory_mb", heading="memory, MB", format=",.0f"),
    Column(key="ended", heading="ended"),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A point of a figure: a set of patterns over a stream."""

    figure: str
    data: str
    queries: int
    length: int = LENGTH
    overlap: float = OVERLAP
    selectivity: float = SELECTIVITY

    def draw(self, table: pa.Table, seed: int) -> list[PatternQuery]:
        """Draw the patterns of the set."""
        edges = list(zip(*(table[name].to_pylist() for name in ("source", "label", "target")), strict=True))
        options: dict[str, Any] = {"length": self.length, "overlap": self.overlap, "selectivity": self.selectivity}
        return list(query_set(edges, self.queries, seed=seed, **options))

    def record(self, algorithm: str, **measured: Any) -> Record:
        """Return a record of a measurement at this point."""
        varied = ("figure", "data", "queries", "length", "overlap", "selectivity")
        return {**{name: getattr(self, name) for name in varied}, "algorithm": algorithm, **measured}


def measure(settings: Settings, say: Say) -> Outcome:
    """Measure all figures; `settings.queries` are sizes of sets that replace those of the paper and of the curve."""
    counts = sorted({int(count) for count in settings.queries} or {*COUNTS})
    base = max((count for count in counts if count <= BASE), default=counts[0])
    runs = Runs(settings, say)
    described = []
    for name, table, origin in _streams(settings, say):
        described.append({"name": name, "origin": origin, "tuples": table.num_rows})
        if name == "mathoverflow":
            runs.paths(table, min(PATHS, base))
            continue
        grows = Setting(figure="12a" if name == "ldbc" else "14a" if name == "taxi" else "14b", data=name, queries=base)
        runs.compare(grows, grows.draw(table, settings.seed), table)
        if name != "ldbc":
            continue
        for figure, (what, values) in VARIED.items():
            for value in values:
                varied: dict[str, Any] = {what: value}
                setting = replace(Setting(figure=figure, data=name, queries=base), **varied)
                runs.compare(setting, setting.draw(table, settings.seed), table)
        largest = Setting(figure="12c", data=name, queries=counts[-1])
        say(f"{name}: drawing {counts[-1]:,} patterns …")
        drawn = largest.draw(table, settings.seed)
        for count in counts:
            if count <= base:
                runs.compare(replace(largest, queries=count), drawn[:count], table)
            runs.engine(replace(largest, figure="curve", queries=count), drawn[:count], table)
        elsewhere = _other_graph_patterns(counts[-1] - base, settings, say)
        for count in (count for count in counts if count >= base):
            some = [*drawn[:base], *elsewhere[: count - base]]
            runs.engine(replace(largest, figure="concerned", queries=count), some, table)
        runs.register(replace(largest, figure="13b", queries=base), drawn[:base])
    checks = {
        "rows are the same when nothing is shared": runs.sharing_agrees,
        "baselines find the same solutions": runs.baselines_agree,
    }
    return Outcome(records=runs.records, streams=described, checks=checks, facts=runs.facts)


def _streams(settings: Settings, say: Say) -> Iterator[tuple[str, pa.Table, str]]:
    """Yield the insertions of LDBC's updates, streams like taxi rides and interactions of proteins, and MathOverflow."""
    edges = max(1000, round(EDGES * settings.scale))
    for name, dataset in (("ldbc", "ldbc"), ("mathoverflow", "stackoverflow")):
        stream = stream_of(dataset, replace(settings, scale=1.0, edges=edges), say)
        yield name, stream.first(edges).table, stream.origin
    for name in ("taxi", "biogrid"):
        table = pa.Table.from_batches(KINDS[name](edges=edges, seed=settings.seed)).combine_chunks()
        yield name, table, _origin(name, edges, settings.seed)


def _origin(kind: str, edges: int, seed: int) -> str:
    return f"rpq generate {kind} --edges {edges} --seed {seed}"


def _other_graph_patterns(count: int, settings: Settings, say: Say) -> list[PatternQuery]:
    """Return patterns over a stream with the labels of LDBC's updates and other vertices."""
    say(f"another graph: drawing {count:,} patterns …")
    edges = max(1000, round(EDGES * settings.scale))
    table = pa.Table.from_batches(KINDS["ldbc"](edges=edges, seed=settings.seed)).combine_chunks()
    named = [pc.binary_join_element_wise("elsewhere", table[end].cast(pa.string()), ":") for end in ("source", "target")]
    table = pa.table({"source": named[0], "label": table["label"].cast(pa.string()), "target": named[1]})
    return Setting(figure="concerned", data="ldbc", queries=count).draw(table, settings.seed)


class Runs:
    """Measurements of points of figures, one after the other."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self.records: list[Record] = []
        self.sharing_agrees = self.baselines_agree = True
        neo4j = driver.rivals()[NEO4J]
        self.facts: dict[str, str] = {NEO4J: f"{neo4j.version}; {neo4j.settings}"}
        self._say = say
        self._repeat = min(settings.repeat, 3)
        self._seconds = settings.seconds * BASELINE_PART

    def compare(
        self, setting: Setting, drawn: Sequence[PatternQuery], table: pa.Table, *, seconds: float = float("inf")
    ) -> None:
        """Run the engine for at most `seconds`, then the engine without sharing, baselines and Neo4j for their time."""
        self.engine(setting, drawn, table, seconds=seconds)
        self._without_sharing(setting, drawn, table)
        found = []
        for algorithm, ways in BASELINES.items():
            self._say(f"{setting.data}, figure {setting.figure}: {len(drawn):,} patterns, {algorithm} …")
            found.append(setting.record(algorithm, **_run_baseline(drawn, table, *ways, seconds=self._seconds)))
        self.records += found
        wanted = _rows_of_engine(drawn, table, [record["updates"] for record in found])
        self.baselines_agree &= all(record["rows"] == wanted[record["updates"]] for record in found)
        self.neo4j(setting, drawn, table)

    def neo4j(self, setting: Setting, drawn: Sequence[PatternQuery], table: pa.Table) -> None:
        """Run Neo4j over the first updates as far as its time allows, unless it cannot be built or run here."""
        missing = f"left out: {NEO4J}"
        if missing in self.facts:
            return
        self._say(f"{setting.data}, figure {setting.figure}: {len(drawn):,} patterns, {NEO4J} …")
        first = table.slice(0, NEO4J_EDGES)
        known = PatternSet(drawn, first)
        with tempfile.TemporaryDirectory(prefix="rpq-rivals-") as folder:
            edges, patterns = known.write(Path(folder))
            try:
                command = driver.neo4j_patterns(patterns)
                run = driver.run(
                    command,
                    edges,
                    seconds=self._seconds,
                    start_seconds=NEO4J_START_SECONDS,
                    clock_seconds=max(NEO4J_CLOCK_SECONDS, driver.WALL_FACTOR * self._seconds),
                )
            except driver.RivalError as error:
                self._say(f"{NEO4J} is left out: {error}")
                self.facts[missing] = str(error)
                return
        if not run.readings:
            self.records.append(setting.record(NEO4J, updates=0, ended=run.problem))
            return
        last = run.readings[-1]
        ours = known.reading(rpq.Engine(*_queries(drawn)).push(first.slice(0, last.slide)), updates=last.slide)
        try:
            driver.compare(NEO4J, [last], {ours.slide: ours})
        except driver.AnswersDifferError as error:
            self._say(str(error))
            self.baselines_agree = False
        us = last.seconds / last.slide / MICROSECOND
        self.records.append(setting.record(NEO4J, updates=last.slide, update_us=us, rows=last.answers, ended=run.problem))

    def engine(
        self,
        setting: Setting,
        drawn: Sequence[PatternQuery],
        table: pa.Table,
        *,
        pieces: int = PIECES,
        seconds: float = float("inf"),
    ) -> None:
        """Run the engine over the stream for at most `seconds`, with a record for each piece."""
        self._say(f"{setting.data}, figure {setting.figure}: {len(drawn):,} patterns …")
        runs = (_run_engine(drawn, table, pieces=pieces, seconds=seconds) for _ in range(self._repeat))
        best = min(runs, key=lambda run: run[-1]["seconds"] / run[-1]["updates"])
        seconds = before = 0.0
        for piece in best if setting.figure in GROWING else best[-1:]:
            updates = piece["updates"] - before
            us = (piece["seconds"] - seconds) / updates / MICROSECOND
            seconds, before = piece["seconds"], piece["updates"]
            self.records.append(setting.record(SHARING["auto"], **{**piece, "seconds": None, "update_us": us}))

    def _without_sharing(self, setting: Setting, drawn: Sequence[PatternQuery], table: pa.Table) -> None:
        self._say(f"{setting.data}, figure {setting.figure}: {len(drawn):,} patterns, {SHARING['never']} …")
        (*_, last) = _run_engine(drawn, table, sharing="never", pieces=50 * PIECES, seconds=self._seconds)
        us = last["seconds"] / last["updates"] / MICROSECOND
        self.records.append(setting.record(SHARING["never"], **{**last, "seconds": None, "update_us": us}))
        same = _rows_of_engine(drawn, table, [last["updates"]])[last["updates"]]
        self.sharing_agrees &= last["rows"] == same
        if last["rows"] != same:
            raise RowsDifferError(f"{setting}: {last['rows']:,} rows without sharing, {same:,} with sharing")

    def register(self, setting: Setting, drawn: Sequence[PatternQuery]) -> None:
        """Measure figure 13b: the CPU time to register the next 1,000 patterns, per pattern."""
        engine = rpq.Engine()
        queries = _queries(drawn)
        step = max(1, len(queries) // 5)
        for first in range(0, len(queries), step):
            some = queries[first : first + step]
            begun = time.process_time()
            engine.register(some)
            us = (time.process_time() - begun) / len(some) / MICROSECOND
            registered = replace(setting, queries=first + len(some))
            self.records.append(registered.record(SHARING["auto"], register_us=us))

    def paths(self, table: pa.Table, count: int) -> None:
        """Measure path queries from one source each, with one shared index and with an index each."""
        label = PATH_QUERY.split("/", maxsplit=1)[0]
        sources = sorted(set(table.filter(pc.equal(table["label"], label))["source"].to_pylist()))
        chosen = random.Random(1).sample(sources, min(count, len(sources)))
        window = rpq.Window(size=30 * 86_400, slide=86_400)
        queries = [rpq.Query(PATH_QUERY, window=window, sources=[one], name=f"from {one}") for one in chosen]
        rpq.warm_up(queries[0], vertices="string" if pa.types.is_string(table["source"].type) else "int64")
        setting = Setting(figure="paths", data="mathoverflow", queries=len(queries))
        apart = table.slice(0, max(100, table.num_rows // 50))
        ways: list[tuple[Literal["auto", "never"], pa.Table]] = [("auto", table), ("auto", apart), ("never", apart)]
        for sharing, some in ways:
            self._say(f"paths: {len(queries):,} queries, {SHARING[sharing]}, {some.num_rows:,} updates …")
            begun = time.process_time()
            engine = rpq.Engine(*queries, _sharing=sharing)
            registered = time.process_time()
            rows = engine.push(some).to_arrow()
            seconds = time.process_time() - registered
            affected = rows.group_by(["query", "timestamp"]).aggregate([]).num_rows
            record = setting.record(
                SHARING[sharing],
                updates=some.num_rows,
                update_us=seconds / some.num_rows / MICROSECOND,
                affected_us=seconds / max(1, affected) / MICROSECOND,
                register_us=(registered - begun) / len(queries) / MICROSECOND,
                rows=rows.num_rows,
                satisfied=pc.count_distinct(rows["query"]).as_py(),
                memory_mb=engine.statistics().index_bytes / 1e6,
            )
            self.records.append({**record, "length": None, "overlap": None, "selectivity": None})
        self.sharing_agrees &= self.records[-1]["rows"] == self.records[-2]["rows"]


def _queries(drawn: Sequence[PatternQuery]) -> list[rpq.Query]:
    window = rpq.UnboundedWindow()
    return [rpq.Query(one.text, name=f"{one.kind} {number}", window=window) for number, one in enumerate(drawn)]


def _run_engine(
    drawn: Sequence[PatternQuery],
    table: pa.Table,
    *,
    sharing: Literal["auto", "never"] = "auto",
    pieces: int = PIECES,
    seconds: float = float("inf"),
) -> list[dict[str, Any]]:
    """Run the engine; return the figures at the end of each piece of the stream. No piece begins after `seconds`."""
    queries = _queries(drawn)
    rpq.warm_up(queries[0], vertices="string")
    gc.collect()
    gc.freeze()  # as the command does: the garbage collector would go through all that drawing the patterns has left
    begun = time.process_time()
    engine = rpq.Engine(*queries, _sharing=sharing)
    registered = time.process_time()
    size = -(-table.num_rows // pieces)
    satisfied: set[str] = set()
    found: list[dict[str, Any]] = []
    spent, rows = 0.0, 0
    for first in range(0, table.num_rows, size):
        piece = table.slice(first, size)
        at = time.process_time()
        changes = engine.push(piece)
        tables = changes.tables()
        spent += time.process_time() - at
        rows += changes.added
        satisfied |= set().union(*(pc.unique(one["query"]).to_pylist() for one in tables))
        found.append({"updates": first + piece.num_rows, "seconds": spent, "rows": rows, "satisfied": len(satisfied)})
        if spent > seconds:
            break
    evaluation = engine._evaluation
    nbytes = evaluation.running.hosts[0].nbytes + evaluation.graph.nbytes + evaluation.vertices.nbytes
    found[-1] |= {"memory_mb": nbytes / 1e6, "register_us": (registered - begun) / len(queries) / MICROSECOND}
    return found


def _rows_of_engine(drawn: Sequence[PatternQuery], table: pa.Table, updates: Iterable[int]) -> dict[int, int]:
    """Return the numbers of solutions that the engine finds in so many first updates."""
    engine, done, rows = rpq.Engine(*_queries(drawn)), 0, {0: 0}
    for end in sorted(set(updates)):
        rows[end] = rows[done] + engine.push(table.slice(done, end - done), collect=False).added
        done = end
    return rows


def _run_baseline(
    drawn: Sequence[PatternQuery], table: pa.Table, incremental: bool, caching: bool, *, seconds: float
) -> dict[str, Any]:
    """Run a baseline until it has taken `seconds`, with compiled kernels; return its figures."""
    warm = InvertedIndex(incremental=incremental, caching=caching)
    warm.register("warm", [("?x", "a", "?y")])
    warm.push([("u", "a", "v")])
    index = InvertedIndex(incremental=incremental, caching=caching)
    begun = time.process_time()
    for number, one in enumerate(drawn):
        names = enumerate(zip(one.vertices, one.is_constant, strict=True))
        terms = [vertex if fixed else f"?x{place}" for place, (vertex, fixed) in names]
        index.register(f"{one.kind} {number}", [(terms[x], label, terms[y]) for x, label, y in one.atoms])
    registered = time.process_time()
    index.push([])  # lays the patterns out
    edges = list(zip(*(table[column].to_pylist() for column in ("source", "label", "target")), strict=True))
    found: dict[str, int] = {}
    updates, started = 0, time.process_time()
    while updates < len(edges) and time.process_time() - started < seconds:
        for solutions in index.push(edges[updates : updates + BASELINE_BATCH]):
            for query, rows in solutions.items():
                found[query] = found.get(query, 0) + len(rows)
        updates = min(updates + BASELINE_BATCH, len(edges))
    spent = time.process_time() - started
    return {
        "updates": updates,
        "update_us": spent / updates / MICROSECOND,
        "register_us": (registered - begun) / len(drawn) / MICROSECOND,
        "rows": sum(found.values()),
        "satisfied": len(found),
        "memory_mb": index.nbytes / 1e6,
        "ended": None if updates == len(edges) else f"stopped after {seconds:g} s of CPU",
    }


EXPERIMENT = Experiment(
    name="queries",
    title="Thousands of queries at once (TriC, figures 12 to 14)",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    paper="TriC+ answers 5,000 patterns over 100,000 edges of SNB in 0.1 to 1 ms an update, in Java (figure 12).",
    plot=plot,
    repeat=1,
    seconds=24.0,
)


SMALLER, LARGER = 1_000_000, 10_000_000
"""The numbers of edges at scale 1."""
GROWTHS = (("12f", "ldbc", SMALLER), ("13a", "ldbc", LARGER), ("14a", "taxi", SMALLER), ("14c", "biogrid", SMALLER))
"""The figures, their streams and the numbers of edges at scale 1."""
LARGER_PIECES = 40
ENGINE_PART = 10
"""The seconds of the engine for a stream, as a multiple of --seconds: at most four minutes."""

GROWTH_HOW = (
    f"Microseconds per update, CPU time of one thread, rows delivered with their names, in each of {PIECES} pieces of the "
    f"streams of a million edges and {LARGER_PIECES} of that of ten; {BASE:,} patterns, drawn as for `rpq bench queries` "
    "from the whole of each stream. The paper ends a run after 24 hours; here the engine ends with the piece in "
    f"which it has taken {ENGINE_PART} times --seconds. Nothing shared and the baselines receive the first updates of the "
    "streams of a million edges, as many as they process in a given time, and each must find as many solutions in them as "
    f"the engine; Neo4j is as there, and has at most the first {NEO4J_EDGES:,} updates, also of ten million."
)


def measure_growth(settings: Settings, say: Say) -> Outcome:
    """Measure the four figures."""
    count = max((int(count) for count in settings.queries), default=BASE)
    runs = Runs(settings, say)
    origins = []
    for figure, kind, size in GROWTHS:
        say(f"figure {figure}: generating the stream, drawing {count:,} patterns …")
        edges = max(1000, round(size * settings.scale))
        if kind == "ldbc":
            stream = generate(DATA_SETS[kind], edges=edges, seed=settings.seed)
            table, origin = stream.table, stream.origin
        else:
            table = pa.Table.from_batches(KINDS[kind](edges=edges, seed=settings.seed)).combine_chunks()
            origin = _origin(kind, edges, settings.seed)
        origins.append({"name": f"{kind}, generated", "origin": origin, "tuples": table.num_rows})
        setting = Setting(figure=figure, data=f"{kind}, generated", queries=count)
        drawn = setting.draw(table, settings.seed)
        seconds = settings.seconds * ENGINE_PART
        if size == SMALLER:
            runs.compare(setting, drawn, table, seconds=seconds)
        else:
            runs.engine(setting, drawn, table, pieces=LARGER_PIECES, seconds=seconds)
            runs.neo4j(setting, drawn, table)
    checks = {
        "rows are the same when nothing is shared": runs.sharing_agrees,
        "baselines find the same solutions": runs.baselines_agree,
    }
    return Outcome(records=runs.records, streams=origins, checks=checks, facts=runs.facts)


GROWTH = Experiment(
    name="growth",
    title="Thousands of queries over growing graphs (TriC, figures 12(f), 13(a), 14(a) and 14(c))",
    how=GROWTH_HOW,
    columns=COLUMNS,
    measure=measure_growth,
    paper="Only TriC+ reaches the end of 10 million edges within 24 hours: at most 8.6 ms an update (figure 13a).",
    plot=plot,
    repeat=1,
    seconds=24.0,
)
