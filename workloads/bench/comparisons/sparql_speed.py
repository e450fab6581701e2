"""The table of SPARQL: tuples per second compared with reevaluation at every slide, and bytes per stored binding.

The questions are an average by group, joins, joins with negation and optional parts, and taxi trips.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.baselines.reevaluation import Reevaluation, by_duckdb, by_pyoxigraph
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.rdf.rdf_streams import rdf_stream
from rpq.workloads.generate.rdf.taxi_trips import VOCABULARY
from rpq.workloads.generate.rdf.terms import RDF_TYPE, choose_terms, integers, numbered_iris
from rpq.workloads.sparql_queries import named_sparql

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLIDES = 100
"""The number of slides of a window."""

EDGES_A_GROUP = 10
_AWAY = 1_000
"""The distance of the partners of a join in the stream, in groups of three tuples."""


@dataclass(frozen=True, kw_only=True)
class SpeedQuestion:
    """A question of the table: its text, its stream as a function of the number of edges in a window, its SQL, its goal.

    `goal` is in tuples per second. `base` is the question whose seconds are the base of comparison, with a ratio of at most
    `max_ratio`.
    """

    name: str
    about: str
    text: str
    stream: Callable[[int, int], Stream]
    sql: str
    goal: float | None = None
    base: str | None = None
    max_ratio: float | None = None


def _averages(window: int, seed: int) -> Stream:
    number = np.arange(2 * window)
    groups = max(2, window // EDGES_A_GROUP)
    # Each group occurs once in every round of as many tuples as groups, in a different order in each round.
    group = (number * 7_919 + number // groups * (seed * 31 + 17)) % groups if groups % 7_919 else number % groups
    value = integers(number // groups % 1_000)
    return edge_a_moment("averages", window, numbered_iris("urn:group:", group), choose_terms(["urn:rated"], number), value)


def _threes(window: int, seed: int) -> Stream:
    number = np.arange(2 * window)
    label = number % 3
    key = numbered_iris("urn:x:", number // 3 + _partner_distance(window) * (2 - label) + seed * 10**9)
    labels = choose_terms(["urn:a", "urn:b", "urn:c"], label)
    return edge_a_moment("threes", window, key, labels, numbered_iris("urn:y:", number))


def _pairs(window: int, seed: int) -> Stream:
    """Generate a stream in which every key has an `a`, and every second key also a `b`."""
    number = np.arange(2 * window)
    turn = number % 3
    key = number // 3 * 2 + np.where(turn == 1, 1, 0) + np.where(turn == 2, 0, 2 * _partner_distance(window))
    label = choose_terms(["urn:a", "urn:a", "urn:b"], turn)
    source = numbered_iris("urn:x:", key + seed * 10**9)
    return edge_a_moment("pairs", window, source, label, numbered_iris("urn:y:", number))


def _partner_distance(window: int) -> int:
    return min(_AWAY, window // 12)


def edge_a_moment(name: str, window: int, source: pa.Array, label: pa.Array, target: pa.Array) -> Stream:
    """Return a stream of one edge a moment, under a window of `window` edges that moves by a hundredth of it."""
    table = pa.table({"source": source, "target": target, "label": label, "timestamp": np.arange(len(source))})
    size = rpq.Window(size=window, slide=max(1, window // SLIDES))
    return Stream(name=name, queries="", table=table, window=size, origin="made for this table")


def _taxi(window: int, seed: int) -> Stream:
    table = pa.Table.from_batches(rdf_stream(edges=2 * window, seed=seed, kind="taxi")).combine_chunks()
    span = max(SLIDES, (table["timestamp"][-1].as_py() - table["timestamp"][0].as_py()) // 2)
    origin = f"rpq generate rdf --kind taxi --edges {2 * window} --seed {seed}"
    size = rpq.Window(size=span, slide=max(1, span // SLIDES))
    return Stream(name="taxi", queries="", table=table, window=size, origin=origin)


def _join_sql(columns: str, atoms: list[tuple[str, str, str]]) -> str:
    """Return SQL for a pattern whose atoms share their subject; an atom is (alias, label, name of the object)."""
    first, *others = [f"(SELECT source, target FROM tuples WHERE label = '{label}') {alias}" for alias, label, _ in atoms]
    return f"SELECT {columns} FROM {first} " + " ".join(f"JOIN {other} USING (source)" for other in others)


_A, _B = (f"(SELECT source, target FROM tuples WHERE label = 'urn:{one}') {one}" for one in "ab")
_TRIP = [
    ("t", RDF_TYPE, "tripType"),
    *((name[0] + str(place), VOCABULARY + name, name) for place, name in enumerate(
        ("trip_distance", "pickup_datetime", "dropoff_datetime", "mta_tax", "trip_time_in_secs")
    )),
]  # fmt: skip

QUESTIONS = (
    SpeedQuestion(
        name="AVG",
        about="an average by group",
        text="SELECT ?group (AVG(?value) AS ?average) { ?group <urn:rated> ?value } GROUP BY ?group",
        stream=_averages,
        sql="SELECT source, avg(CAST(split_part(target, '\"', 2) AS BIGINT)) FROM tuples GROUP BY source",
        goal=1e6,
    ),
    SpeedQuestion(
        name="JOIN-3",
        about="a three-way join, a partner in each of the others",
        text="SELECT ?x ?a ?b ?c { ?x <urn:a> ?a . ?x <urn:b> ?b . ?x <urn:c> ?c }",
        stream=_threes,
        sql=_join_sql("source, a.target, b.target, c.target", [(one, f"urn:{one}", one) for one in "abc"]),
        goal=5e5,
    ),
    SpeedQuestion(
        name="JOIN",
        about="a join, for the two below",
        text="SELECT ?x ?a ?b { ?x <urn:a> ?a . ?x <urn:b> ?b }",
        stream=_pairs,
        sql=_join_sql("source, a.target, b.target", [(one, f"urn:{one}", one) for one in "ab"]),
    ),
    SpeedQuestion(
        name="NOT-EXISTS",
        about="what has no partner",
        text="SELECT ?x ?a { ?x <urn:a> ?a FILTER NOT EXISTS { ?x <urn:b> ?b } }",
        stream=_pairs,
        sql=f"SELECT source, target FROM {_A} ANTI JOIN {_B} USING (source)",
        base="JOIN",
        max_ratio=3.0,
    ),
    SpeedQuestion(
        name="OPTIONAL",
        about="with its partner if it has one",
        text="SELECT ?x ?a ?b { ?x <urn:a> ?a OPTIONAL { ?x <urn:b> ?b } }",
        stream=_pairs,
        sql=f"SELECT source, a.target, b.target FROM {_A} LEFT JOIN {_B} USING (source)",
        base="JOIN",
        max_ratio=3.0,
    ),
    SpeedQuestion(
        name="NY-Q1",
        about="taxi trips, events of 24 triples",
        text=named_sparql("NY-Q1").text,
        stream=_taxi,
        sql=_join_sql("source, t.target, t0.target", _TRIP),
        goal=24e5,
    ),
)


HOW = (
    "A window of --edges edges (times --scale) that moves by a hundredth, over a stream twice as long; explicit "
    "windows, one thread, CPU seconds of the fastest of several runs in fresh engines with warm kernels, without reading. "
    "AVG: a tenth as many groups as edges. In the same run, pyoxigraph and DuckDB, with one thread, reevaluate the answer "
    "at slides from the middle of the stream on, as many as their seconds allow. The time of pyoxigraph includes the "
    "changes of the window since the previous slide; in DuckDB's SQL the window is a condition on the time of a tuple. "
    "Ratios: their CPU seconds a slide / ours. The numbers of answers are compared. Memory: peak resident memory of a "
    "process that reads the stream batch by batch, minus that of a process that has only loaded its kernels, divided by the "
    "answers at the end; for operators that store bindings beside the relations, the bytes of their arrays divided by the "
    "bindings, at the end."
)

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="about", heading="what"),
    Column(key="edges", heading="edges in window", format=","),
    Column(key="answers", heading="answers", format=","),
    Column(key="rows", heading="rows", format=","),
    Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
    Column(key="goal", heading="goal", format=",.0f"),
    Column(key="events_per_second", heading="events/s, alone", format=",.0f"),
    Column(key="event_ratio", heading="× pyoxigraph an event", format=",.1f"),
    Column(key="beside_ratio", heading="× its join", format=".2f"),
    Column(key="slide_ms", heading="ms a slide", format=",.1f"),
    Column(key="pyoxigraph_ms", heading="pyoxigraph, ms", format=",.1f"),
    Column(key="pyoxigraph_ratio", heading="× pyoxigraph", format=",.0f"),
    Column(key="duckdb_ms", heading="DuckDB, ms", format=",.1f"),
    Column(key="duckdb_ratio", heading="× DuckDB", format=",.0f"),
    Column(key="agree", heading="agree"),
    Column(key="bytes_per_answer", heading="bytes an answer", format=",.0f"),
    Column(key="bindings_kept", heading="bindings kept", format=",.0f"),
    Column(key="bytes_per_binding", heading="bytes a binding", format=",.0f"),
)


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure every question on its stream; the facts describe which goals are met."""
    selected = {name.upper() for name in settings.queries} or {one.name for one in QUESTIONS}
    window = max(1_200, round(settings.edges * settings.scale))
    records: list[Record] = []
    streams: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    for question in QUESTIONS:
        if question.name not in selected:
            continue
        say(f"{question.name} …")
        stream = question.stream(window, settings.seed)
        streams[stream.name] = stream.describe()
        record, seconds[question.name] = _measure_question(question, stream, settings, say)
        if question.base in seconds:
            record["beside_ratio"] = seconds[question.name] / seconds[str(question.base)]
        records.append(record)
    checks = {"the answers are those of pyoxigraph and DuckDB": all(record["agree"] for record in records)}
    return ExperimentResult(records=records, streams=list(streams.values()), checks=checks, facts=_goals(records))


def _goals(records: list[Record]) -> dict[str, str]:
    """Describe which goals are met; these are not checks, as they depend on the machine."""
    question_of_name = {one.name: one for one in QUESTIONS}
    found = {}
    for record in records:
        question = question_of_name[record["query"]]
        if question.goal is not None:
            part = record["tuples_per_second"] / question.goal
            found[question.name] = f"{part:.2f} of its goal of {question.goal:,.0f} tuples a second"
        elif question.max_ratio is not None and "beside_ratio" in record:
            found[question.name] = f"{record['beside_ratio']:.2f} times its join, of {question.max_ratio:g} at most"
    return found


def _measure_question(question: SpeedQuestion, stream: Stream, settings: Settings, say: Say) -> tuple[Record, float]:
    query = rpq.Query(question.text, window=stream.window, semantics="explicit", name=question.name)
    (runs,) = measuring.run_in_turn(query, [(stream, 1)], repeat=settings.repeat)
    cpu = min(run.cpu_seconds for run in runs)
    times = stream.table["timestamp"].to_numpy()
    slides = max(1, (int(times[-1]) - int(times[0])) // stream.window.slide)
    record: Record = {
        "query": question.name,
        "about": question.about,
        "edges": len(stream) // 2,
        "rows": runs[0].rows_added + runs[0].rows_removed,
        "tuples_per_second": len(stream) / cpu,
        "goal": question.goal,
        "slide_ms": cpu / slides * 1e3,
    }
    middle = (int(times[len(times) // 2]) // stream.window.slide + 1) * stream.window.slide
    evaluations: dict[str, Callable[[], Reevaluation]] = {
        "pyoxigraph": lambda: by_pyoxigraph(
            question.text, stream.table, stream.window, first=middle, seconds=settings.seconds / 6
        ),
        "duckdb": lambda: by_duckdb(question.sql, stream.table, stream.window, first=middle, seconds=settings.seconds / 6),
    }
    agreements = []
    for name, evaluate in evaluations.items():
        try:
            found = evaluate()
        except ImportError:
            say(f"{name} is left out: it is not installed")
            continue
        mean = sum(found.seconds) / len(found.seconds)
        record |= {f"{name}_ms": mean * 1e3, f"{name}_ratio": mean / (cpu / slides), f"{name}_slides": len(found.seconds)}
        agreements.append(found.rows == _answers_at(query, stream, found.moment))
    record["agree"] = all(agreements)
    engine = _engine_at(query, stream, int(times[-1]))
    record["answers"] = len(engine.answers(query.name))
    record |= _operator_memory(engine, query)
    if record["answers"]:
        record["bytes_per_answer"] = resident_memory(query, stream).beyond_kernels / record["answers"]
    if "event" in stream.table.column_names:
        record |= _events_alone(question, stream, settings)
    return record, cpu


def _answers_at(query: rpq.Query, stream: Stream, moment: int) -> int:
    """Return the number of answers after all tuples up to a time."""
    return len(_engine_at(query, stream, moment).answers(query.name))


def _engine_at(query: rpq.Query, stream: Stream, moment: int) -> rpq.Engine:
    count = int((stream.table["timestamp"].to_numpy() <= moment).sum())
    engine = rpq.Engine(query)
    for batch in stream.first(count).batches():
        engine.push(batch, collect=False)
    engine.advance(moment)
    return engine


def _operator_memory(engine: rpq.Engine, query: rpq.Query) -> Record:
    """Return the bindings that each operator of a query stores, and their bytes; nothing if kernels store all bindings."""
    sizes = engine._evaluation.running.find(query.name).operator_sizes()  # type: ignore[attr-defined]  # it is in SPARQL
    if not sizes:
        return {}
    bindings, size = (sum(one[place] for one in sizes) for place in (1, 2))
    operators = [{"operator": name, "bindings": entries, "bytes": nbytes} for name, entries, nbytes in sizes]
    return {"bindings_kept": bindings, "bytes_per_binding": size / bindings, "operators": operators}


def _events_alone(question: SpeedQuestion, stream: Stream, settings: Settings) -> Record:
    """Measure each event as a separate graph, and for a sample of events pyoxigraph on a separate store."""
    events = len(set(stream.table["event"].to_pylist()))
    elapsed = []
    for _ in range(settings.repeat):
        engine = rpq.Engine(rpq.Query(question.text, name=question.name, window=rpq.UnboundedWindow()), events="alone")
        started = time.process_time()
        for batch in stream.batches():
            engine.push(batch, collect=False)
        elapsed.append(time.process_time() - started)
    best = min(elapsed)
    found: Record = {"events_per_second": events / best}
    try:
        import pyoxigraph  # noqa: F401
    except ImportError:
        return found
    alone = rpq.Window(size=1, slide=1)
    size = stream.table.num_rows // events
    some = [stream.table.slice(place * size, size) for place in range(min(events, settings.sample))]
    seconds = []
    for event in some:
        moment = event["timestamp"][0].as_py()
        seconds.append(sum(by_pyoxigraph(question.text, event, alone, first=moment, seconds=0).seconds))
    return found | {"event_ratio": sum(seconds) / len(seconds) / (best / events)}


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the milliseconds per slide of all systems, on a logarithmic axis."""
    axes = figure.subplots()
    systems = {"this engine": "slide_ms", "pyoxigraph, anew": "pyoxigraph_ms", "DuckDB, anew": "duckdb_ms"}
    for number, (name, key) in enumerate(systems.items()):
        places = [place + 0.27 * (number - 1) for place in range(len(records))]
        axes.bar(places, [record.get(key) or 0.0 for record in records], 0.27, label=name)
    axes.set_xticks(range(len(records)), [record["query"] for record in records])
    axes.set_ylabel("ms a slide")
    plots.decades(axes)
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="sparql",
    title=f"SPARQL over a window that moves {SLIDES} times in its length",
    how=HOW,
    paper="CQELS (Le-Phuoc 2016, figure 13): a three-way join, AVERAGE by group, MIN and DISTINCT over joins, each orders "
    "of magnitude faster than reevaluation.",
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=3,
)
