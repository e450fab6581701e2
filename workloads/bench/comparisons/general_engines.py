"""Path queries and patterns beside general engines (`rpq.workloads.rivals`), in the same run on the same stream."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.streams import Stream
from rpq.workloads.rivals import driver
from rpq.workloads.rivals.questions import LABELS, QUESTIONS, Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENGINES = ("differential-dataflow", "DuckDB", "ladybug", "Neo4j", "pyoxigraph", "Jena", "RDF4J")
"""The rivals that evaluate path queries and patterns."""

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="text", heading="text"),
    Column(key="rival", heading="other engine"),
    Column(key="ratio", heading="× our CPU", format=",.1f"),
    Column(key="rival_ms", heading="other, ms a slide", format=",.2f"),
    Column(key="engine_ms", heading="ours, ms a slide", format=",.2f"),
    Column(key="slides", heading="slides", format=","),
    Column(key="all_slides", heading="of slides", format=","),
    Column(key="answers", heading="answers", format=","),
    Column(key="agree", heading="agree"),
    Column(key="problem", heading="ended"),
)

HOW = (
    "CPU seconds of one run, without reading and windowing, over the slides that the other engine reached within --seconds "
    "of CPU from the beginning of the stream, where windows are small, in its favour. Ours are those from a slide's tuples "
    "to rows of Arrow, with the window; the others' are those from a slide's net changes to the list of its answers: "
    "differential-dataflow updates the answer, the others evaluate it anew after each slide. The number of answers and a "
    "checksum of all of them are equal at the end of each slide reached. Lines are in the order of the ratio, those on "
    "which this engine is slower first."
)


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each question."""
    stream = number_vertices(stream_of("stackoverflow", settings, say))
    names = {name.upper() for name in settings.queries}
    engines = {name: driver.rivals()[name] for name in ENGINES}
    missing: dict[str, str] = {}
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="rpq-rivals-") as folder:
        changes = Path(folder) / "changes.tsv"
        driver.write_changes(measuring.slides(stream, stream.window), stream.window, LABELS, changes)
        for question in QUESTIONS:
            if names and question.name not in names:
                continue
            say(f"{question.name} …")
            ours = engine_readings(question, stream)
            for rival in engines.values():
                if rival.name in missing:
                    continue
                say(f"{question.name}, {rival.name} …")
                try:
                    records.append(_record(question, rival, ours, changes, seconds=settings.seconds))
                except driver.RivalError as error:
                    say(f"{rival.name} is left out: {error}")
                    missing[rival.name] = str(error)
            yield ExperimentResult(
                records=sorted(records, key=lambda record: record.get("ratio") or float("inf")),
                streams=[stream.describe()],
                checks={
                    "answers are equal at the end of each slide": all(record["agree"] is not False for record in records)
                },
                facts={rival.name: f"{rival.version}; {rival.settings}" for rival in engines.values()}
                | {f"left out: {name}": why for name, why in missing.items()},
            )


def engine_readings(question: Question, stream: Stream) -> list[driver.SlideState]:
    """Run this engine slide by slide, with rows as tables of Arrow; return its reading at the end of each slide."""
    query = rpq.Query(question.text, window=stream.window, semantics="explicit")
    measuring.warm_up(query, stream)
    engine = rpq.Engine(query)
    readings: list[driver.SlideState] = []
    seconds, answers, checksum = 0.0, 0, 0
    for slide, batch in measuring.slides(stream, stream.window):
        started = time.process_time()
        rows = engine.push(batch).to_arrow()
        seconds += time.process_time() - started
        columns = [rows[name].to_numpy() for name in query.columns]
        signs = np.where(rows["op"].to_numpy(zero_copy_only=False) == "+", 1, -1)
        answers += int(signs.sum())
        checksum += int((driver.checksums(columns) * signs.astype(np.uint64)).sum()) if len(signs) else 0
        readings.append(driver.SlideState(slide=slide, seconds=seconds, answers=answers, checksum=checksum % 2**64))
    return readings


def _record(
    question: Question, rival: driver.Rival, ours: list[driver.SlideState], changes: Path, *, seconds: float
) -> Record:
    """Run a rival and return the line of the table."""
    found = driver.run(rival.command(question), changes, seconds=seconds)
    record: Record = {
        "query": question.name,
        "text": question.text,
        "rival": rival.name,
        "is_incremental": rival.is_incremental,
        "slides": len(found.readings),
        "all_slides": len(ours),
        "problem": found.problem,
    }
    try:
        last = driver.compare(rival.name, found.readings, {reading.slide: reading for reading in ours})
    except driver.AnswersDifferError as error:
        return record | {"agree": False, "problem": str(error)}
    if last is None:
        return record | {"agree": None}
    theirs, own = last
    slides = sum(reading.slide <= own.slide for reading in ours)
    return record | {
        "agree": True,
        "answers": own.answers,
        "rival_seconds": theirs.seconds,
        "engine_seconds": own.seconds,
        "rival_ms": 1e3 * theirs.seconds / slides,
        "engine_ms": 1e3 * own.seconds / slides,
        "ratio": measuring.ratio(theirs.seconds, own.seconds),
    }


def number_vertices(stream: Stream) -> Stream:
    """Return a stream whose vertices are numbers from 0, as rivals read them."""
    ends = pa.chunked_array([*stream.table["source"].chunks, *stream.table["target"].chunks]).combine_chunks()
    places = ends.dictionary_encode().indices.to_numpy().astype(np.int64)
    table = stream.table
    for name, column in (("source", places[: len(table)]), ("target", places[len(table) :])):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
    return replace(stream, table=table)


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the ratios of each query, a bar for each engine with the part of the slides that it reached."""
    axes = figure.subplots()
    queries = [question.name for question in QUESTIONS if any(record["query"] == question.name for record in records)]
    rivals = [name for name in ENGINES if any(record["rival"] == name for record in records)]
    ratios = {(record["query"], record["rival"]): record.get("ratio") or 0.0 for record in records}
    parts = {(record["query"], record["rival"]): record["slides"] / record["all_slides"] for record in records}
    width = 0.8 / max(1, len(rivals))
    for number, rival in enumerate(rivals):
        places = [place + (number - (len(rivals) - 1) / 2) * width for place in range(len(queries))]
        axes.bar(places, [ratios.get((query, rival), 0.0) for query in queries], width, label=rival)
        bars = zip(places, [(query, rival) for query in queries], strict=True)
        plots.reached(axes, [(place, ratios[key], parts[key]) for place, key in bars if ratios.get(key)])
    plots.decades(axes)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(queries)), queries)
    axes.set_ylabel("CPU seconds, × ours")
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="general-engines",
    title="Path queries and patterns beside general engines, window 30 days, slide 1 day",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=1,
    seconds=3.0,
)
