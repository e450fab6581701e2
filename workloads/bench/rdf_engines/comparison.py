"""A query over a stream of RDF beside stores of RDF (`rpq.workloads.rivals`): readings, lines of a table, and a plot."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import rpq
from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.streams import BATCH_ROWS
from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS, rdf_stream
from rpq.workloads.rivals import driver
from rpq.workloads.rivals.rdf_changes import RdfStream, Terms, write_rdf_changes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STORES = ("Jena", "RDF4J", "pyoxigraph")
"""The rivals that evaluate SPARQL."""

RIVALS = (*STORES, "Esper")
"""The rivals with Esper, which evaluates statements over windows, for lines with a statement."""

EVENT_ROWS = 8_192
"""The number of tuples, in whole events, that are pushed at once where each event is a graph of its own."""

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="about", heading="what"),
    Column(key="rival", heading="other engine"),
    Column(key="rival_tuples_per_second", heading="other, triples/s", format=",.0f"),
    Column(key="batch_tuples_per_second", heading="ours, in batches", format=",.0f"),
    Column(key="batch_ratio", heading="× in batches", format=",.1f"),
    Column(key="tuples_per_second", heading="ours, by the slide", format=",.0f"),
    Column(key="ratio", heading="× by the slide", format=",.1f"),
    Column(key="push_ms", heading="ms a push", format=",.2f"),
    Column(key="slide_tuples", heading="triples a slide", format=",.0f"),
    Column(key="published", heading="published", format=",.0f"),
    Column(key="bytes", heading="our bytes", format=",.0f"),
    Column(key="rival_bytes", heading="other, bytes", format=",.0f"),
    Column(key="published_mb", heading="published, MB", format=",.0f"),
    Column(key="window_tuples", heading="triples before", format=",.0f"),
    Column(key="change_part", heading="other, time of changes", format=".0%"),
    Column(key="slides", heading="slides", format=","),
    Column(key="all_slides", heading="of slides", format=","),
    Column(key="answers", heading="answers", format=","),
    Column(key="agree", heading="agree"),
    Column(key="problem", heading="ended"),
)

HOW = (
    "CPU seconds of one run, without reading and windowing, over the slides that a store reached within --seconds of CPU. "
    "Ours are those from a slide's tuples, as text, to rows of Arrow, with windows and names; a store's are those from a "
    "slide's net changes, whose terms were made while reading, to the list of its answers, which it evaluates anew. What is "
    "in the windows when measuring begins was loaded before (triples before). A store is given only triples that the query "
    "reads, in its default graph unless windows of the query read the same predicate. The number of answers, a checksum of "
    "their terms and the sum of their numbers are equal at the end of each slide reached. In batches: this engine over "
    "the whole measured stream in batches of 65,536 tuples, also to rows of Arrow; rows have the times of the changes, so "
    "the answers at the end of each slide are among them, but later. Lines are in the order of the smaller ratio, those "
    "on which this engine is slower first."
)

MEMORY = (
    " Bytes: ours are the peak of a process that fills the windows, minus that of one that only loads its kernels, with all "
    "terms; a store's are what loading the full windows added, live on the heap after collection (pyoxigraph: resident), "
    "without terms."
)


@dataclass(frozen=True, kw_only=True)
class QueryLine:
    """A query in the unit of its stream, for comparison with all stores: a description, a stream, and published figures.

    `epl` is the query for Esper, or empty. `memory` measures the bytes of this engine when the first slide begins.
    """

    query: SparqlQuery
    about: str
    stream: RdfStream
    origin: str
    published_speed: float | None = None
    published_mb: float | None = None
    memory: Callable[[], int] | None = None
    epl: str = ""


def kind_stream(kind: str, edges: int, seed: int) -> tuple[pa.Table, pa.RecordBatch | None, str]:
    """Return a stream of `rpq generate rdf`, its static triples if there are any, and the command."""
    stream_kind = RDF_KINDS[kind]
    table = pa.Table.from_batches(rdf_stream(edges=edges, seed=seed, kind=kind)).combine_chunks()
    static = stream_kind.static(seed=seed) if stream_kind.static is not None else None
    return table, static, f"rpq generate rdf --kind {kind} --edges {edges} --seed {seed}"


def compare_lines(lines: Iterable[QueryLine], settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each line."""
    stores = {name: driver.rivals()[name] for name in RIVALS}
    missing: dict[str, str] = {}
    records: list[Record] = []
    streams: dict[str, Mapping[str, object]] = {}
    for line in lines:
        say(f"{line.query.name}, {line.about} …")
        streams[line.origin] = {"name": line.query.name, "origin": line.origin, "tuples": len(line.stream.table)}
        with tempfile.TemporaryDirectory(prefix="rpq-rivals-") as folder:
            question, terms = write_rdf_changes(line.query, line.stream, Path(folder), epl=line.epl)
            ours = engine_readings(line.query, line.stream, terms)
            own = {"batch_tuples_per_second": batch_tuples_per_second(line), "bytes": line.memory and line.memory()}
            for store in stores.values():
                if store.name in missing or (store.name == "Esper" and not line.epl):
                    continue
                say(f"{line.query.name}, {store.name} …")
                try:
                    found = driver.run(store.command(question), Path(folder) / "changes.tsv", seconds=settings.seconds)
                except driver.RivalError as error:
                    say(f"{store.name} is left out: {error}")
                    missing[store.name] = str(error)
                    continue
                records.append(_record(line, store, found, ours, own))
        yield ExperimentResult(
            records=sorted(records, key=_smaller_ratio),
            streams=list(streams.values()),
            checks={"answers are equal at the end of each slide": all(one["agree"] is not False for one in records)},
            facts={store.name: f"{store.version}; {store.settings}" for store in stores.values()}
            | {f"left out: {name}": why for name, why in missing.items()},
        )


def engine_readings(query: rpq.Query, stream: RdfStream, terms: Terms) -> list[driver.SlideState]:
    """Run this engine slide by slide, with rows as tables of Arrow; return its reading at the end of each slide.

    Where events are alone, a reading is behind some events, and its answers are those of all events so far.
    """
    readings: list[driver.SlideState] = []
    seconds, answers, checksum, total = 0.0, 0, 0, 0.0
    for slide, own_seconds, rows in timed_pushes(query, stream):
        if slide >= stream.first_slide:
            seconds += own_seconds
        if rows.num_rows:
            is_added = rows["op"].to_numpy(zero_copy_only=False) == "+"
            found, weighted = terms.sums([rows[name] for name in query.columns])
            answers += int(is_added.sum()) - int((~is_added).sum())
            checksum += int(np.where(is_added, found, -found).sum())
            total += float(np.where(is_added, weighted, -weighted).sum())
        if slide >= stream.first_slide:
            readings.append(
                driver.SlideState(slide=slide, seconds=seconds, answers=answers, checksum=checksum % 2**64, total=total)
            )
    return readings


def timed_pushes(query: rpq.Query, stream: RdfStream) -> Iterator[tuple[int, float, pa.Table]]:
    """Push slides; yield the slide at the end of each push, its CPU seconds with those for the rows, and the rows."""
    rpq.warm_up(query, vertices="string")
    engine = _engine(query, stream)
    for slide, batch in _pushes(stream):
        started = time.process_time()
        rows = engine.push(batch).to_arrow()
        yield slide, time.process_time() - started, rows


def batch_tuples_per_second(line: QueryLine) -> float:
    """Return the speed of this engine over the measured slides in large batches, with rows as tables of Arrow."""
    engine = _engine(line.query, line.stream)
    measured = 0
    seconds = 0.0
    for is_measured, table in _measured_slides(line.stream):
        started = time.process_time()
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            engine.push(batch).to_arrow()
        if is_measured:
            seconds += time.process_time() - started
            measured += len(table)
    return measured / seconds


def _measured_slides(stream: RdfStream) -> Iterator[tuple[bool, pa.Table]]:
    before = int(np.searchsorted(stream.slides, stream.first_slide))
    yield False, stream.table.slice(0, before)
    yield True, stream.table.slice(before).combine_chunks()


def _engine(query: rpq.Query, stream: RdfStream) -> rpq.Engine:
    engine = rpq.Engine(query, events="alone" if stream.are_graphs else None, max_rows=None)
    if stream.static is not None:
        engine.load_static(pa.Table.from_batches([stream.static]))
    return engine


def _pushes(stream: RdfStream) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches that are pushed at once, each with the slide at its end."""
    if stream.are_graphs:
        cuts = [0, *(np.flatnonzero(np.diff(stream.slides)) + 1).tolist(), len(stream.slides)]
        start = 0
        for end, following in zip(cuts[1:], [*cuts[2:], len(stream.slides) + EVENT_ROWS], strict=True):
            if following - start > EVENT_ROWS or end == len(stream.slides):
                (batch,) = stream.table.slice(start, end - start).combine_chunks().to_batches()
                yield int(stream.slides[end - 1]), batch
                start = end
        return
    for slide, part in stream.parts():
        rows = BATCH_ROWS if slide < stream.first_slide else len(part)
        for batch in part.combine_chunks().to_batches(max_chunksize=rows):
            yield slide, batch


def _record(
    line: QueryLine, store: driver.Rival, run: driver.RivalRun, ours: Sequence[driver.SlideState], own: Record
) -> Record:
    """Return the line of the table for a store."""
    slides = line.stream.slides[line.stream.slides >= line.stream.first_slide]
    reached = run.readings[-1].slide if run.readings else line.stream.first_slide - 1
    record: Record = {
        "query": line.query.name,
        "about": line.about,
        "line": f"{line.query.name}, {line.about}",
        "rival": store.name,
        "published": line.published_speed,
        "published_mb": line.published_mb,
        **own,
        "rival_bytes": run.loaded_bytes if own["bytes"] else None,
        "window_tuples": (len(line.stream.slides) - len(slides)) or None,
        "slide_tuples": len(slides) / len(np.unique(slides)),
        "slides": len(np.unique(slides[slides <= reached])),
        "all_slides": len(np.unique(slides)),
        "problem": run.problem,
    }
    readings = list(answers_so_far(run.readings)) if line.stream.are_graphs else run.readings
    try:
        last = driver.compare(store.name, readings, {reading.slide: reading for reading in ours})
    except driver.AnswersDifferError as error:
        return record | {"agree": False, "problem": str(error)}
    if last is None:
        return record | {"agree": None}
    theirs, last_own = last
    tuples = int((slides <= last_own.slide).sum())
    return record | {
        "agree": True,
        "answers": last_own.answers,
        "rival_seconds": theirs.seconds,
        "engine_seconds": last_own.seconds,
        "tuples_per_second": measuring.ratio(tuples, last_own.seconds),
        "rival_tuples_per_second": measuring.ratio(tuples, theirs.seconds),
        "change_part": measuring.ratio(theirs.change_seconds, theirs.seconds),
        "push_ms": 1e3 * last_own.seconds / sum(reading.slide <= last_own.slide for reading in ours),
        "ratio": measuring.ratio(theirs.seconds, last_own.seconds),
        "batch_ratio": own["batch_tuples_per_second"] * theirs.seconds / tuples,
    }


def _smaller_ratio(record: Record) -> float:
    return min(record.get("ratio") or float("inf"), record.get("batch_ratio") or float("inf"))


def answers_so_far(readings: Iterable[driver.SlideState]) -> Iterator[driver.SlideState]:
    """Yield readings whose answers are those of all slides so far."""
    answers, checksum, total = 0, 0, 0.0
    for reading in readings:
        answers, checksum, total = answers + reading.answers, checksum + reading.checksum, total + reading.total
        yield replace(reading, answers=answers, checksum=checksum % 2**64, total=total)


def select_names(settings: Settings, names: Sequence[str]) -> Iterator[str]:
    """Yield the names that the settings select, in the given order."""
    chosen = {name.upper() for name in settings.queries}
    return (name for name in names if not chosen or name in chosen)


def plot_by(key: str) -> Callable[[Figure, list[Record]], None]:
    """Return a plot of the ratios, a group of bars for each value of a key of the records, a bar for each store."""

    def plot(figure: Figure, records: list[Record]) -> None:
        axes = figure.subplots()
        groups = sorted({str(record[key]) for record in records}, key=_natural)
        rivals = [name for name in RIVALS if any(record["rival"] == name for record in records)]
        width = 0.8 / max(1, len(rivals))
        for number, store in enumerate(rivals):
            ratios = {str(record[key]): record.get("ratio") or 0.0 for record in records if record["rival"] == store}
            places = [place + (number - (len(rivals) - 1) / 2) * width for place in range(len(groups))]
            axes.bar(places, [ratios.get(group, 0.0) for group in groups], width, label=store)
        plots.decades(axes)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(groups)), groups, rotation=30, ha="right")
        axes.set_ylabel("CPU seconds, × ours")
        axes.legend(fontsize="small")

    return plot


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that places Q10 after Q9."""
    import re

    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]+|[^0-9]+", text)]
