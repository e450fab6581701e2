"""Three of LDBC FinBench's complex reads as standing queries over a window of three days, beside DuckDB in the same run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.baselines.reevaluation import DuckDBWindow
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, select
from rpq.workloads.bench.streams import Stream, StreamError
from rpq.workloads.generate.finbench import finbench_nodes, like_finbench

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR = 3_600
WINDOW = rpq.Window(size=72 * HOUR, slide=HOUR)
SIZES = ((0.1, 10), (1.0, 10), (1.0, 40))
"""The parts of --edges that streams have, and their edges for each account."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """A complex read of FinBench for all accounts or loans at once: its number there, its text, and the same in SQL."""

    name: str
    number: str
    text: str
    sql: str


_HOP = (
    "SELECT before.origin, after.target, min(after.timestamp) AS time FROM {before} before JOIN transfers after "
    "ON after.source = before.target AND after.timestamp > before.time GROUP BY ALL"
)

READS = (
    Read(
        name="CHAIN",
        number="1",
        text="?a[:Account and isBlocked = true] (transfer{1,3} in order) ?b",
        # The earliest arrival of each pair is all that a next transfer needs.
        sql="SELECT * FROM (WITH transfers AS (SELECT * FROM tuples WHERE label = 'transfer'), "
        "blocked AS (SELECT node AS source FROM nodes WHERE labels = 'Account' AND isBlocked), "
        "one AS (SELECT source AS origin, target, min(timestamp) AS time FROM transfers SEMI JOIN blocked USING (source) "
        f"GROUP BY ALL), two AS ({_HOP.format(before='one')}), three AS ({_HOP.format(before='two')}) "
        "SELECT origin, target FROM one UNION SELECT origin, target FROM two UNION SELECT origin, target FROM three)",
    ),
    Read(
        name="RING",
        number="4",
        text="MATCH (a)-[e:transfer]->(b)-[f:transfer]->(c)-[g:transfer]->(a) "
        "WHERE e.timestamp < f.timestamp AND f.timestamp < g.timestamp "
        "RETURN a, b, c, count(*) AS transfers, sum(g.amount) AS returned",
        sql="SELECT e.source, e.target, f.target, count(*), CAST(sum(g.amount) AS BIGINT) "
        "FROM tuples e JOIN tuples f ON f.source = e.target AND f.timestamp > e.timestamp "
        "JOIN tuples g ON g.source = f.target AND g.target = e.source AND g.timestamp > f.timestamp "
        "WHERE e.label = 'transfer' AND f.label = 'transfer' AND g.label = 'transfer' GROUP BY ALL",
    ),
    Read(
        name="LOAN",
        number="8",
        text="MATCH (l:Loan)-[d:deposit]->(a)-[t:transfer|withdraw]->(b) "
        "WHERE t.timestamp > d.timestamp AND t.amount * 10 >= l.loanAmount "
        "RETURN l, b, l.loanAmount, sum(t.amount) AS inflow",
        sql="SELECT l.node, t.target, l.loanAmount, CAST(sum(t.amount) AS BIGINT) FROM nodes l "
        "JOIN tuples d ON d.source = l.node AND d.label = 'deposit' JOIN tuples t ON t.source = d.target "
        "AND t.label IN ('transfer', 'withdraw') AND t.timestamp > d.timestamp "
        "WHERE l.labels = 'Loan' AND t.amount * 10 >= l.loanAmount GROUP BY ALL",
    ),
)

HOW = (
    "CHAIN: accounts that one to three transfers in the order of time reach from a blocked account (FinBench's complex read "
    "1, which begins at one account and asks for blocked media at the end). RING: three transfers in the order of time that "
    "return to their account (read 4, here for all accounts). LOAN: where the money of a loan goes after a deposit, in "
    "transfers and withdrawals of at least a tenth of the loan (read 8, with one step after the deposit). The stream takes "
    "twelve days, and records block accounts in mid-stream; the window moves by the hour; edges are parallel. Tuples per "
    "CPU second of the fastest of several runs in fresh engines with warm kernels, from the tuples and records of a slide "
    "to rows of Arrow; ms a slide are those from the middle of the stream on. There DuckDB evaluates SQL anew at the end of "
    "each slide, with one thread, for --seconds; the window is a condition on the time of a tuple. After each evaluation "
    "all answers are compared. Answers: the largest number. State: arrays of the query and the facts of nodes at the end."
)

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="read", heading="FinBench's read"),
    Column(key="edges", heading="edges", format=","),
    Column(key="degree", heading="edges an account", format=","),
    Column(key="window_edges", heading="in window", format=","),
    Column(key="answers", heading="answers", format=","),
    Column(key="rows", heading="rows", format=","),
    Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
    Column(key="slide_ms", heading="ms a slide", format=",.2f"),
    Column(key="duckdb_ms", heading="DuckDB, ms", format=",.1f"),
    Column(key="ratio", heading="× ours", format=",.1f"),
    Column(key="evaluations", heading="evaluations", format=","),
    Column(key="agree", heading="agree"),
    Column(key="state_mb", heading="state, MB", format=",.1f"),
)


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each query on each stream."""
    records: list[Record] = []
    streams: list[dict[str, Any]] = []
    names = select(settings.queries, [read.name for read in READS], "query")
    for part, degree in SIZES:
        edges = max(100, round(settings.edges * settings.scale * part))
        table = pa.Table.from_batches(like_finbench(edges=edges, seed=settings.seed, degree=degree)).combine_chunks()
        nodes = finbench_nodes(edges=edges, seed=settings.seed, degree=degree)
        origin = f"made for this table, {degree} edges an account, seed {settings.seed}"
        stream = Stream(name="finbench", queries="", table=table, window=WINDOW, origin=origin)
        streams.append(stream.describe())
        for read in READS:
            if read.name in names:
                say(f"{read.name}, {edges:,} edges, {degree} an account …")
                records.append({"degree": degree} | _measure_read(read, stream, nodes, settings))
                yield ExperimentResult(
                    records=records,
                    streams=streams,
                    checks={"the answers are those of DuckDB": all(record["agree"] for record in records)},
                )


@dataclass(frozen=True, kw_only=True)
class _Slide:
    """An engine at the end of a slide: its CPU seconds and rows of the slide."""

    engine: rpq.Engine
    end: int
    """The last moment of the slide."""
    seconds: float
    rows: int


def _slides(query: rpq.Query, stream: Stream, nodes: pa.Table) -> Iterator[_Slide]:
    """Push the tuples of each slide into a fresh engine, and then the records of nodes until its end."""
    engine, times = rpq.Engine(query, edges="parallel"), nodes["timestamp"].to_numpy()
    done = int(np.searchsorted(times, times[0], side="right"))
    engine.push_nodes(nodes.slice(0, done))
    for number, batch in measuring.slides(stream, stream.window):
        end = (number + 1) * stream.window.slide - 1
        until = int(np.searchsorted(times, end, side="right"))
        started = time.process_time()
        rows = engine.push(batch).to_arrow().num_rows
        if until > done:
            rows += engine.push_nodes(nodes.slice(done, until - done)).to_arrow().num_rows
        yield _Slide(engine=engine, end=end, seconds=time.process_time() - started, rows=rows)
        done = until


def _measure_read(read: Read, stream: Stream, nodes: pa.Table, settings: Settings) -> Record:
    """Compare a query with DuckDB in a first run, and measure others."""
    query = rpq.Query(read.text, window=stream.window, semantics="explicit", node_label=None, name=read.name)
    times = stream.table["timestamp"].to_numpy()
    try:
        duckdb = DuckDBWindow(read.sql, stream.table, stream.window, nodes=nodes)
    except ImportError as error:
        raise StreamError("finbench compares answers with DuckDB, which is missing: pip install duckdb") from error
    duckdb_seconds: list[float] = []
    answers, agree = 0, True
    for slide in _slides(query, stream, nodes):
        if slide.end >= times[len(times) // 2] and sum(duckdb_seconds) < settings.seconds:
            seconds, found = duckdb.evaluate(slide.end)
            duckdb_seconds.append(seconds)
            ours = slide.engine.answers(query.name).to_arrow()
            answers = max(answers, len(ours))
            agree &= _sorted_rows(ours.columns) == _sorted_rows([pa.array(column) for column in found.values()])
    runs = [[*_slides(query, stream, nodes)] for _ in range(settings.repeat)]
    best = min(runs, key=lambda run: sum(slide.seconds for slide in run))
    figures = best[-1].engine.statistics()
    slide_ms = 1e3 * float(np.mean([slide.seconds for slide in best if slide.end >= times[len(times) // 2]]))
    duckdb_ms = 1e3 * float(np.mean(duckdb_seconds))
    return {
        "query": read.name,
        "read": read.number,
        "edges": len(stream),
        "window_edges": int((times > stream.window.lower_bound(int(times[-1]))).sum()),
        "answers": answers,
        "rows": sum(slide.rows for slide in best),
        "tuples_per_second": len(stream) / sum(slide.seconds for slide in best),
        "slide_ms": slide_ms,
        "duckdb_ms": duckdb_ms,
        "ratio": duckdb_ms / slide_ms,
        "evaluations": len(duckdb_seconds),
        "agree": agree,
        "state_mb": (figures.index_bytes + figures.node_bytes) / 1e6,
    }


def _sorted_rows(columns: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the milliseconds per slide of both systems, on a logarithmic axis."""
    axes = figure.subplots()
    for number, (name, key) in enumerate({"this engine": "slide_ms", "DuckDB, anew": "duckdb_ms"}.items()):
        places = [place + 0.4 * (number - 0.5) for place in range(len(records))]
        axes.bar(places, [record[key] for record in records], 0.4, label=name)
    labels = [f"{record['query']}\n{record['edges']:,}\n{record['degree']} an account" for record in records]
    axes.set_xticks(range(len(records)), labels, fontsize=7)
    axes.set_ylabel("ms a slide")
    plots.decades(axes)
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="finbench",
    title="Complex reads of LDBC FinBench as standing queries, window 3 days, slide 1 hour",
    how=HOW,
    paper="The LDBC Financial Benchmark (Qi et al.): each read is evaluated once, for one account, person or loan.",
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=3,
    seconds=5.0,
)
