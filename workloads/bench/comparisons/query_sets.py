"""Thousands of queries over one stream, as in TriC's experiments: the cost of an update by the number of queries.

A record is a point of a figure of the paper (`figure`), or of one of three other figures: `curve`, up to 100,000 patterns;
`concerned`, where the patterns beyond 5,000 are about another graph; and `paths`, path queries that differ in their sources.
`PANELS` describes what each figure draws. A set of patterns that several figures show is measured once.

`GROWTH` has the figures over graphs of one and of ten million edges, 12(f), 13(a), 14(a) and 14(c). The paper uses graphs of
the SNB generator, taxi rides and proteins; here the graphs are from generators, since no available real stream is as long.
`GROWTH` is a separate experiment because its sizes differ.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.workloads.baselines.inverted_index import InvertedIndex
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import (
    Column,
    Experiment,
    ExperimentResult,
    Record,
    Say,
    Settings,
    earlier_result,
    select,
)
from rpq.workloads.bench.machine import commit_of_checkout
from rpq.workloads.bench.plots import legend_above, lines
from rpq.workloads.bench.streams import DATA_SETS, generate
from rpq.workloads.generate.generators import KINDS
from rpq.workloads.generate.pattern_sets import SetPattern, query_set
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
    Panel("13b", "13(b): LDBC, registering 1,000 more", "registered", "queries", "register_us", "µs a query"),
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
ENGINE_ONLY, WITHOUT_BASELINES = ("curve", "concerned"), ("13a",)
"""The figures of this engine alone, and those of which only Neo4j is a part."""
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
    "the figure varies a parameter; a set that several figures show is measured once. "
    "Registering: CPU time for each query, before the stream. Memory: the memory that the "
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
    Column(key="registered", heading="registered", format=","),
    Column(key="register_us", heading="registering, µs a query", format=",.0f"),
    Column(key="rows", heading="rows", format=","),
    Column(key="satisfied", heading="satisfied", format=","),
    Column(key="memory_mb", heading="memory, MB", format=",.0f"),
    Column(key="ended", heading="ended"),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Queries over a stream: a set of patterns with the parameters of TriC, or path queries, which have none of these."""

    data: str
    queries: int
    length: int | None = LENGTH
    overlap: float | None = OVERLAP
    selectivity: float | None = SELECTIVITY

    def draw(self, table: pa.Table, seed: int) -> Iterator[SetPattern]:
        """Draw the patterns of the set, which are the first of a larger set with the same parameters."""
        edges = list(zip(*(table[name].to_pylist() for name in ("source", "label", "target")), strict=True))
        options: dict[str, Any] = {"length": self.length, "overlap": self.overlap, "selectivity": self.selectivity}
        return query_set(edges, self.queries, seed=seed, **options)

    def record(self, figure: str) -> Record:
        """Return what the records of a figure at this point have in common."""
        return {"figure": figure, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Point:
    """Queries that are measured once, and the figures that show the measurement."""

    setting: Setting
    figures: tuple[str, ...]

    def places(self) -> list[tuple[Any, ...]]:
        """Return for each figure what its records at this point have in common."""
        return [_key(self.setting.record(figure)) for figure in self.figures]


def _key(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("figure", *(one.name for one in fields(Setting))))


def points(data: str, sizes: Sequence[int], base: int) -> Iterator[Point]:
    """Yield the points over a stream; those with the same parameters follow each other.

    >>> [len(list(points(data, COUNTS, BASE))) for data in ("ldbc", "taxi", "mathoverflow")]
    [22, 1, 1]
    >>> next(point.figures for point in points("ldbc", COUNTS, BASE) if point.setting.queries == BASE)
    ('12a', '12b', '12d', '12e', '12c', 'curve', 'concerned')
    """
    if data == "mathoverflow":
        apart = Setting(data=data, queries=min(PATHS, base), length=None, overlap=None, selectivity=None)
        yield Point(setting=apart, figures=("paths",))
        return
    usual = Setting(data=data, queries=base)
    if data != "ldbc":
        yield Point(setting=usual, figures=("14a" if data == "taxi" else "14b",))
        return
    shared = [figure for figure, (what, values) in VARIED.items() if getattr(usual, what) in values]
    for size in sizes:
        setting = replace(usual, queries=size)
        if size > base:
            yield Point(setting=setting, figures=("curve",))
            yield Point(setting=setting, figures=("concerned",))
        elif size < base:
            yield Point(setting=setting, figures=("12c", "curve"))
        else:
            yield Point(setting=setting, figures=("12a", *shared, "12c", "curve", "concerned"))
    yield Point(setting=usual, figures=("13b",))
    for figure, (what, values) in VARIED.items():
        for value in values:
            varied: dict[str, Any] = {what: value}
            if (setting := replace(usual, **varied)) != usual:
                yield Point(setting=setting, figures=(figure,))


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Measure the selected figures, and yield all that is known behind each point.

    Numbers among `settings.queries` are sizes of sets that replace those of the paper and of the curve, others are figures.
    """
    sizes, figures = _selection(settings, [*VARIED, "12a", "12c", "13b", "14a", "14b", "curve", "concerned", "paths"])
    counts = sorted(sizes or COUNTS)
    base = max((count for count in counts if count <= BASE), default=counts[0])
    tables = {name: (table, origin) for name, table, origin in _streams(settings, say)}
    every = [point for name in tables for point in points(name, counts, base)]
    runs = Runs("queries", every, settings, say)
    for name, (table, origin) in tables.items():
        runs.add_stream(name, origin, table)
    other: Patterns | None = None
    for point in runs.missing(figures):
        setting, (table, _) = point.setting, tables[point.setting.data]
        if point.figures == ("paths",):
            runs.paths(setting, table)
        elif point.figures == ("13b",):
            runs.register(setting, runs.draw(setting, table))
        elif point.figures == ("concerned",):
            other = other or Patterns(setting, _other_graph(settings), settings.seed)
            say(f"another graph: drawing {setting.queries - base:,} patterns …")
            some = [*runs.draw(replace(setting, queries=base), table), *other.first(setting.queries - base)]
            runs.compare(point, some, table)
        else:
            runs.compare(point, runs.draw(setting, table), table)
        yield runs.outcome()
    yield runs.outcome()


def _selection(settings: Settings, figures: Sequence[str]) -> tuple[list[int], set[str]]:
    """Return the sizes of sets and the figures that the settings select. Raises `UnknownQueryError`."""
    sizes = [int(one) for one in settings.queries if one.isdigit()]
    return sizes, {*select([one for one in settings.queries if not one.isdigit()], figures, "figure")}


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


def _other_graph(settings: Settings) -> pa.Table:
    """Return a stream with the labels of LDBC's updates and other vertices."""
    edges = max(1000, round(EDGES * settings.scale))
    table = pa.Table.from_batches(KINDS["ldbc"](edges=edges, seed=settings.seed)).combine_chunks()
    named = [pc.binary_join_element_wise("elsewhere", table[end].cast(pa.string()), ":") for end in ("source", "target")]
    return pa.table({"source": named[0], "label": table["label"].cast(pa.string()), "target": named[1]})


class Patterns:
    """The patterns with the parameters of a setting, of any number, drawn when they are first used."""

    def __init__(self, setting: Setting, table: pa.Table, seed: int) -> None:
        self._further = replace(setting, queries=sys.maxsize).draw(table, seed)
        self._drawn: list[SetPattern] = []

    def first(self, count: int) -> list[SetPattern]:
        """Return the first patterns."""
        self._drawn += islice(self._further, max(0, count - len(self._drawn)))
        return self._drawn[:count]


class Runs:
    """Measurements of points, one after the other, beside those that an earlier run of this commit has made."""

    def __init__(self, name: str, every: Sequence[Point], settings: Settings, say: Say) -> None:
        neo4j = driver.rivals()[NEO4J]
        self.facts: dict[str, Any] = {NEO4J: f"{neo4j.version}; {neo4j.settings}"}
        self._streams: dict[str, dict[str, Any]] = {}
        self._every = every
        self._records: dict[tuple[Any, ...], list[Record]] = {}
        self._patterns: tuple[Setting, pa.Table, Patterns] | None = None
        self._say = say
        self._resumes = settings.resumes
        self._repeat = min(settings.repeat, 3)
        self._seed = settings.seed
        self._seconds = settings.seconds * BASELINE_PART
        self._commit = commit_of_checkout()
        earlier = earlier_result(settings, name)
        if earlier and not (self._commit or "").endswith("+"):
            for record in earlier["records"]:
                if "commit" in record and record["commit"] == self._commit:
                    self._records.setdefault(_key(record), []).append(record)
            if self._records:
                self._streams = {one["name"]: one for one in earlier["streams"]}
                self.facts |= earlier["facts"]

    def missing(self, figures: Container[str]) -> Iterator[Point]:
        """Yield the points of some figures; in a run that resumes, those without records."""
        for point in self._every:
            places = [key for key in point.places() if key[0] in figures]
            if places and not (self._resumes and all(key in self._records for key in places)):
                begun = time.monotonic()
                yield point
                self._say(f"{', '.join(point.figures)}: {time.monotonic() - begun:.0f} s in all")

    def outcome(self) -> ExperimentResult:
        """Return all records, figure by figure."""
        order = [*(panel.figure for panel in PANELS), "paths"]
        measured = {key for point in self._every for key in point.places() if key in self._records}
        keys = [key for figure in order for key in sorted(one for one in measured if one[0] == figure)]
        records = [record for key in keys for record in self._records[key]]
        apart = SHARING["never"]
        checks = {
            "rows are the same when nothing is shared": all(
                one["agrees"] is not False for one in records if one["algorithm"] == apart
            ),
            "baselines find the same solutions": all(
                one["agrees"] is not False for one in records if one["algorithm"] != apart
            ),
        }
        return ExperimentResult(records=records, streams=[*self._streams.values()], checks=checks, facts=self.facts)

    def add_stream(self, name: str, origin: str, table: pa.Table) -> None:
        """Describe a stream in the result."""
        self._streams[name] = {"name": name, "origin": origin, "tuples": table.num_rows}

    def draw(self, setting: Setting, table: pa.Table) -> list[SetPattern]:
        """Return the patterns of a setting; those drawn for the setting before are not drawn again."""
        same = replace(setting, queries=0)
        self._say(f"{setting.data}: drawing {setting.queries:,} patterns …")
        if self._patterns is None or self._patterns[0] != same or self._patterns[1] is not table:
            self._patterns = same, table, Patterns(setting, table, self._seed)
        return self._patterns[2].first(setting.queries)

    def compare(
        self,
        point: Point,
        drawn: Sequence[SetPattern],
        table: pa.Table,
        *,
        seconds: float = float("inf"),
        pieces: int = PIECES,
    ) -> None:
        """Run the engine for at most `seconds`, then the engine without sharing, baselines and Neo4j for their time."""
        shared = self._shared(point, drawn, table, pieces=pieces, seconds=seconds)
        compared = {*point.figures} - {*ENGINE_ONLY}
        other_records: list[Record] = []
        if compared - {*WITHOUT_BASELINES}:
            other_records += self._baselines(point, drawn, table)
        if compared:
            other_records += self._neo4j(point, drawn, table)
        for figure in point.figures:
            shown = shared if figure in GROWING else [_whole(shared)]
            self._add(point.setting, figure, [*shown, *(other_records if figure in compared else ())])

    def _add(self, setting: Setting, figure: str, measured: Iterable[Record]) -> None:
        records = [{**setting.record(figure), "agrees": None, **one, "commit": self._commit} for one in measured]
        self._records[_key(records[0])] = records

    def _shared(
        self, point: Point, drawn: Sequence[SetPattern], table: pa.Table, *, pieces: int, seconds: float
    ) -> list[Record]:
        """Run the engine over the stream for at most `seconds`; return a record for each piece."""
        self._announce(point, SHARING["auto"])
        runs = (_run_engine(drawn, table, pieces=pieces, seconds=seconds) for _ in range(self._repeat))
        best = min(runs, key=lambda run: run[-1]["seconds"] / run[-1]["updates"])
        records, before = list[Record](), {"seconds": 0.0, "updates": 0}
        for piece in best:
            us = (piece["seconds"] - before["seconds"]) / (piece["updates"] - before["updates"]) / MICROSECOND
            records.append({"algorithm": SHARING["auto"], **piece, "update_us": us})
            before = piece
        return records

    def _baselines(self, point: Point, drawn: Sequence[SetPattern], table: pa.Table) -> list[Record]:
        """Run the engine without sharing and the baselines for their time, and check that they find the same solutions."""
        self._announce(point, SHARING["never"])
        never = _run_engine(drawn, table, sharing="never", pieces=50 * PIECES, seconds=self._seconds)
        found = [_whole([{"algorithm": SHARING["never"], **never[-1]}])]
        for algorithm, ways in BASELINES.items():
            self._announce(point, algorithm)
            found.append({"algorithm": algorithm, **_run_baseline(drawn, table, *ways, seconds=self._seconds)})
        expected_rows = _rows_of_engine(drawn, table, [record["updates"] for record in found])
        return [{**record, "agrees": record["rows"] == expected_rows[record["updates"]]} for record in found]

    def _neo4j(self, point: Point, drawn: Sequence[SetPattern], table: pa.Table) -> list[Record]:
        """Run Neo4j over the first updates as far as its time allows, unless it cannot be built or run here."""
        missing = f"left out: {NEO4J}"
        if missing in self.facts:
            return []
        self._announce(point, NEO4J)
        first = table.slice(0, NEO4J_EDGES)
        pattern_set = PatternSet(drawn, first)
        with tempfile.TemporaryDirectory(prefix="rpq-rivals-") as folder:
            edges, patterns = pattern_set.write(Path(folder))
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
                return []
        if not run.readings:
            return [{"algorithm": NEO4J, "updates": 0, "ended": run.problem}]
        last = run.readings[-1]
        ours = pattern_set.reading(rpq.Engine(*_queries(drawn)).push(first.slice(0, last.slide)), updates=last.slide)
        try:
            driver.compare(NEO4J, [last], {ours.slide: ours})
            agrees = True
        except driver.AnswersDifferError as error:
            self._say(str(error))
            agrees = False
        us = last.seconds / last.slide / MICROSECOND
        measured = {"updates": last.slide, "update_us": us, "rows": last.answers, "ended": run.problem}
        return [{"algorithm": NEO4J, **measured, "agrees": agrees}]

    def _announce(self, point: Point, algorithm: str) -> None:
        setting = point.setting
        self._say(f"{setting.data}, figure {', '.join(point.figures)}: {setting.queries:,} patterns, {algorithm} …")

    def register(self, setting: Setting, drawn: Sequence[SetPattern]) -> None:
        """Measure figure 13b: the CPU time to register the next 1,000 patterns, per pattern."""
        engine = rpq.Engine()
        queries = _queries(drawn)
        step = max(1, len(queries) // 5)
        records = []
        _freeze_heap()
        for first in range(0, len(queries), step):
            some = queries[first : first + step]
            begun = time.process_time()
            engine.register(some)
            us = (time.process_time() - begun) / len(some) / MICROSECOND
            records.append({"algorithm": SHARING["auto"], "registered": first + len(some), "register_us": us})
        self._add(setting, "13b", records)

    def paths(self, setting: Setting, table: pa.Table) -> None:
        """Measure path queries from one source each, with one shared index and with an index each."""
        label = PATH_QUERY.split("/", maxsplit=1)[0]
        sources = sorted(set(table.filter(pc.equal(table["label"], label))["source"].to_pylist()))
        chosen = random.Random(1).sample(sources, min(setting.queries, len(sources)))
        window = rpq.Window(size=30 * 86_400, slide=86_400)
        queries = [rpq.Query(PATH_QUERY, window=window, sources=[one], name=f"from {one}") for one in chosen]
        rpq.warm_up(queries[0], vertices="string" if pa.types.is_string(table["source"].type) else "int64")
        apart = table.slice(0, max(100, table.num_rows // 50))
        ways: list[tuple[Literal["auto", "never"], pa.Table]] = [("auto", table), ("auto", apart), ("never", apart)]
        records: list[Record] = []
        for sharing, some in ways:
            self._say(f"paths: {len(queries):,} queries, {SHARING[sharing]}, {some.num_rows:,} updates …")
            begun = time.process_time()
            engine = rpq.Engine(*queries, _sharing=sharing)
            registered = time.process_time()
            rows = engine.push(some).to_arrow()
            seconds = time.process_time() - registered
            affected = rows.group_by(["query", "timestamp"]).aggregate([]).num_rows
            record = {
                "algorithm": SHARING[sharing],
                "registered": len(queries),
                "updates": some.num_rows,
                "update_us": seconds / some.num_rows / MICROSECOND,
                "affected_us": seconds / max(1, affected) / MICROSECOND,
                "register_us": (registered - begun) / len(queries) / MICROSECOND,
                "rows": rows.num_rows,
                "satisfied": pc.count_distinct(rows["query"]).as_py(),
                "memory_mb": engine.statistics().index_bytes / 1e6,
            }
            records.append(record)
        records[-1]["agrees"] = records[-1]["rows"] == records[-2]["rows"]
        self._add(setting, "paths", records)


def _whole(pieces: Sequence[Record]) -> Record:
    """Return the record of a whole run with the last of its pieces."""
    return {**pieces[-1], "update_us": pieces[-1]["seconds"] / pieces[-1]["updates"] / MICROSECOND}


def _queries(drawn: Sequence[SetPattern]) -> list[rpq.Query]:
    window = rpq.UnboundedWindow()
    return [rpq.Query(one.text, name=f"{one.kind} {number}", window=window) for number, one in enumerate(drawn)]


def _run_engine(
    drawn: Sequence[SetPattern],
    table: pa.Table,
    *,
    sharing: Literal["auto", "never"] = "auto",
    pieces: int = PIECES,
    seconds: float = float("inf"),
) -> list[dict[str, Any]]:
    """Run the engine; return the figures at the end of each piece of the stream. No piece begins after `seconds`."""
    queries = _queries(drawn)
    rpq.warm_up(queries[0], vertices="string")
    _freeze_heap()
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
            found[-1] |= {} if found[-1]["updates"] == table.num_rows else {"ended": f"stopped after {seconds:g} s of CPU"}
            break
    evaluation = engine._evaluation
    nbytes = evaluation.running.hosts[0].nbytes + evaluation.graph.nbytes + evaluation.vertices.nbytes
    found[-1] |= {"memory_mb": nbytes / 1e6, "register_us": (registered - begun) / len(queries) / MICROSECOND}
    return found


def _freeze_heap() -> None:
    """Exempt all present objects from garbage collection, as the command does."""
    gc.collect()
    gc.freeze()


def _rows_of_engine(drawn: Sequence[SetPattern], table: pa.Table, updates: Iterable[int]) -> dict[int, int]:
    """Return the numbers of solutions that the engine finds in so many first updates."""
    engine, done, rows = rpq.Engine(*_queries(drawn)), 0, {0: 0}
    for end in sorted(set(updates)):
        rows[end] = rows[done] + engine.push(table.slice(done, end - done), collect=False).added
        done = end
    return rows


def _run_baseline(
    drawn: Sequence[SetPattern], table: pa.Table, incremental: bool, caching: bool, *, seconds: float
) -> dict[str, Any]:
    """Run a baseline until it has taken `seconds`, with compiled kernels; return its figures."""
    warm = InvertedIndex(incremental=incremental, caching=caching)
    warm.register("warm", [("?x", "a", "?y")])
    warm.push([("u", "a", "v")])
    index = InvertedIndex(incremental=incremental, caching=caching)
    _freeze_heap()
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


def measure_growth(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Measure the selected figures, and yield all that is known behind each."""
    sizes, figures = _selection(settings, [figure for figure, _, _ in GROWTHS])
    count = max(sizes, default=BASE)
    named = {figure: f"{kind}, generated" for figure, kind, _ in GROWTHS}
    every = [Point(setting=Setting(data=data, queries=count), figures=(figure,)) for figure, data in named.items()]
    runs = Runs("growth", every, settings, say)
    for point in runs.missing(figures):
        ((figure, kind, size),) = [one for one in GROWTHS if one[0] in point.figures]
        say(f"figure {figure}: generating the stream …")
        edges = max(1000, round(size * settings.scale))
        if kind == "ldbc":
            stream = generate(DATA_SETS[kind], edges=edges, seed=settings.seed)
            table, origin = stream.table, stream.origin
        else:
            table = pa.Table.from_batches(KINDS[kind](edges=edges, seed=settings.seed)).combine_chunks()
            origin = _origin(kind, edges, settings.seed)
        runs.add_stream(f"{kind}, figure {figure}", origin, table)
        runs.compare(
            point,
            runs.draw(point.setting, table),
            table,
            seconds=settings.seconds * ENGINE_PART,
            pieces=PIECES if size == SMALLER else LARGER_PIECES,
        )
        yield runs.outcome()
    yield runs.outcome()


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
