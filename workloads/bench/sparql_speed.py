"""The table of SPARQL: tuples a second, beside evaluating anew at every slide, and bytes a binding that is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rpq
from rpq.workloads.baselines.slide_by_slide import Evaluated, by_duckdb, by_pyoxigraph
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.sparql_streams import QUESTIONS, SLIDES, Asked
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOW = (
    "A window of --edges edges (times --scale) that moves by a hundredth, over a stream twice as long; explicit "
    "windows, one thread, CPU seconds of the fastest of several runs in fresh engines, kernels warm, reading apart. "
    "AVG: a tenth as many groups as edges. Beside it, in the same run: pyoxigraph and DuckDB, one thread, evaluate "
    "the answer anew at slides from the middle of the stream on, as many as their seconds allow; what the window lost "
    "and got since the slide before is brought into the store in the time of pyoxigraph, and is a condition on the "
    "time of a tuple in DuckDB's SQL. Ratios: their CPU seconds a slide / ours. The numbers of answers are compared. "
    "Memory: peak resident of a process that reads the stream batch by batch, minus that of one that has only loaded "
    "its kernels, by the answers that are held at the end; and of the operators that keep bindings beside the "
    "relations, their arrays by the bindings in them, at the end."
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


def measure(settings: Settings, say: Say) -> Outcome:
    """Every question on its stream; the checks say which goals are met."""
    wanted = {name.upper() for name in settings.queries} or {one.name for one in QUESTIONS}
    window = max(1_200, round(settings.edges * settings.scale))
    records: list[Record] = []
    streams: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    for asked in QUESTIONS:
        if asked.name not in wanted:
            continue
        say(f"{asked.name} …")
        stream = asked.stream(window, settings.seed)
        streams[stream.name] = stream.describe()
        record, seconds[asked.name] = _measured(asked, stream, settings, say)
        if asked.beside in seconds:
            record["beside_ratio"] = seconds[asked.name] / seconds[str(asked.beside)]
        records.append(record)
    checks = {"the answers are those of pyoxigraph and DuckDB": all(record["agree"] for record in records)}
    return Outcome(records=records, streams=list(streams.values()), checks=checks, facts=_goals(records))


def _goals(records: list[Record]) -> dict[str, str]:
    """Which goals are met; no checks, as they depend on the machine."""
    known = {one.name: one for one in QUESTIONS}
    found = {}
    for record in records:
        asked = known[record["query"]]
        if asked.goal is not None:
            part = record["tuples_per_second"] / asked.goal
            found[asked.name] = f"{part:.2f} of its goal of {asked.goal:,.0f} tuples a second"
        elif asked.most is not None and "beside_ratio" in record:
            found[asked.name] = f"{record['beside_ratio']:.2f} times its join, of {asked.most:g} at most"
    return found


def _measured(asked: Asked, stream: Stream, settings: Settings, say: Say) -> tuple[Record, float]:
    query = rpq.Query(asked.text, window=stream.window, semantics="explicit", name=asked.name)
    (runs,) = measuring.run_in_turn(query, [(stream, 1)], repeat=settings.repeat)
    cpu = min(run.cpu_seconds for run in runs)
    times = stream.table["timestamp"].to_numpy()
    slides = max(1, (int(times[-1]) - int(times[0])) // stream.window.slide)
    record: Record = {
        "query": asked.name,
        "about": asked.about,
        "edges": len(stream) // 2,
        "rows": runs[0].rows_added + runs[0].rows_removed,
        "tuples_per_second": len(stream) / cpu,
        "goal": asked.goal,
        "slide_ms": cpu / slides * 1e3,
    }
    middle = (int(times[len(times) // 2]) // stream.window.slide + 1) * stream.window.slide
    evaluations: dict[str, Callable[[], Evaluated]] = {
        "pyoxigraph": lambda: by_pyoxigraph(
            asked.text, stream.table, stream.window, first=middle, seconds=settings.seconds / 6
        ),
        "duckdb": lambda: by_duckdb(asked.sql, stream.table, stream.window, first=middle, seconds=settings.seconds / 6),
    }
    agreements = []
    for name, evaluate in evaluations.items():
        try:
            found = evaluate()
        except ImportError:
            say(f"no {name}: it is not installed")
            continue
        mean = sum(found.seconds) / len(found.seconds)
        record |= {f"{name}_ms": mean * 1e3, f"{name}_ratio": mean / (cpu / slides), f"{name}_slides": len(found.seconds)}
        agreements.append(found.rows == _answers_at(query, stream, found.moment))
    record["agree"] = all(agreements)
    engine = _engine_at(query, stream, int(times[-1]))
    record["answers"] = len(engine.answers(query.name))
    record |= _kept(engine, query)
    if record["answers"]:
        record["bytes_per_answer"] = resident_memory(query, stream).beyond_kernels / record["answers"]
    if "event" in stream.table.column_names:
        record |= _events_alone(asked, stream, settings)
    return record, cpu


def _answers_at(query: rpq.Query, stream: Stream, moment: int) -> int:
    """How many answers there are once all tuples up to a time have come."""
    return len(_engine_at(query, stream, moment).answers(query.name))


def _engine_at(query: rpq.Query, stream: Stream, moment: int) -> rpq.Engine:
    count = int((stream.table["timestamp"].to_numpy() <= moment).sum())
    engine = rpq.Engine(query)
    for batch in stream.first(count).batches():
        engine.push(batch, collect=False)
    engine.advance(moment)
    return engine


def _kept(engine: rpq.Engine, query: rpq.Query) -> Record:
    """What the operators of a query keep: bindings of each, and in how many bytes; nothing where the kernels keep all."""
    held = engine._evaluation.running.named(query.name).operator_sizes()  # type: ignore[attr-defined]  # it is in SPARQL
    if not held:
        return {}
    bindings, size = (sum(one[place] for one in held) for place in (1, 2))
    operators = [{"operator": told, "bindings": entries, "bytes": nbytes} for told, entries, nbytes in held]
    return {"bindings_kept": bindings, "bytes_per_binding": size / bindings, "operators": operators}


def _events_alone(asked: Asked, stream: Stream, settings: Settings) -> Record:
    """Each event a graph by itself, nothing kept between them; beside pyoxigraph on a store for each of some of them."""
    events = len(set(stream.table["event"].to_pylist()))
    taken = []
    for _ in range(settings.repeat):
        engine = rpq.Engine(rpq.Query(asked.text, name=asked.name, window=rpq.UnboundedWindow()), events="alone")
        started = time.process_time()
        for batch in stream.batches():
            engine.push(batch, collect=False)
        taken.append(time.process_time() - started)
    best = min(taken)
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
        seconds.append(sum(by_pyoxigraph(asked.text, event, alone, first=moment, seconds=0).seconds))
    return found | {"event_ratio": sum(seconds) / len(seconds) / (best / events)}


def plot(figure: Figure, records: list[Record]) -> None:
    """Milliseconds a slide, ours and theirs, on a logarithmic axis."""
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
    "of magnitude faster than evaluating anew.",
    columns=COLUMNS,
    measure=measure,
    plot=plot,
)
