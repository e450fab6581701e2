"""Replays that time divides: the rows of all chunks are those of one engine.

semantics.md S6, S8
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.operators.paths.closure import closure_index
from rpq.run import divided_run
from rpq.run.divided_run import DividedEngine
from rpq.run.loop import RunOutput
from rpq.run.time_division import TimeDivision
from tests.twins import examples

QUERIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [  # text, options of the query, options of the engine
    ("a/b*", {}, {}),
    ("(a|b)+", {}, {}),
    ("(a|b)+", {"select": ["source", "target", "length"], "semantics": "explicit"}, {}),
    ("a*/b", {"paths": "simple"}, {}),
    ("(a|b)+", {"order": "increasing"}, {"edges": "parallel"}),
    ("(a|b)+", {"order": "non_decreasing", "max_gap": 4}, {"edges": "parallel"}),
    ("a[w > 3]+", {}, {}),
    ("a[w > 3]/b", {}, {"edges": "parallel"}),
    ("a[w > 3]/b", {}, {"edges": "id"}),
    ("?x a ?y . ?y b+ ?z", {}, {}),
    ("?x ?e:a ?y", {"select": ["?x", "?e", "?e.w"]}, {"edges": "parallel"}),
    ("?x ?e:a ?y . ?y ?f:b ?z", {"filter": "?f.timestamp > ?e.timestamp"}, {"edges": "parallel"}),
    ("SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x", {"semantics": "explicit"}, {}),
    ("SELECT (COUNT(?y) AS ?n) { ?x <a> ?y }", {"semantics": "explicit"}, {}),
    (
        "SELECT ?x ?y FROM NAMED WINDOW <w> [RANGE 10 STEP 5] FROM NAMED WINDOW <v> [RANGE 20 STEP 10] "
        "{ WINDOW <w> { ?x <a> ?y } WINDOW <v> { ?y <b>+ ?x } }",
        {"semantics": "explicit"},
        {},
    ),
    ("SELECT DISTINCT ?x { ?x <a> ?y . FILTER NOT EXISTS { ?y <b> ?x } }", {"semantics": "explicit"}, {}),
]


@st.composite
def drawn_queries(draw: st.DrawFn) -> tuple[list[rpq.Query], dict[str, Any]]:
    """One or two queries for one engine, and its options."""
    first = draw(st.sampled_from(QUERIES))
    others = [one for one in QUERIES if one[2] == first[2]]
    chosen = [first, *draw(st.lists(st.sampled_from(others), max_size=1))]
    made = []
    for number, (text, options, _) in enumerate(chosen):
        window = rpq.Window(size=draw(st.sampled_from([5, 10, 17, 30])), slide=draw(st.sampled_from([1, 1, 3, 7, 10])))
        further = {"semantics": draw(st.sampled_from(["implicit", "explicit"])), **options}
        if "?x" in text and not first[2] and draw(st.booleans()):
            further = {**options, "semantics": "explicit", "report": draw(st.sampled_from(["slide", "slide", "time"]))}
        if draw(st.booleans()):
            further |= {"semantics": "explicit", "hold": draw(st.sampled_from([1, 3, 8, 20]))}
        made.append(rpq.Query(text, window=window, name=f"q{number}", **further))
    return made, first[2]


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tuples with late ones, deletes, bursts at one time, silences, and edges that replace others."""
    steps = st.sampled_from([0, 0, 0, 1, 1, 2, 5, 40])
    names = st.sampled_from("uvwxy")
    time, tuples = 0, []
    for _ in range(draw(st.integers(5, 60))):
        time += draw(steps)
        is_delete = bool(tuples) and draw(st.integers(0, 6)) == 0
        edge = draw(st.sampled_from(tuples)) if is_delete else {
            "source": draw(names), "target": draw(names), "label": draw(st.sampled_from("aaaabbbbc")),
            "edge": f"e{draw(st.integers(0, 20))}",
        }  # fmt: skip
        moment = max(0, time - draw(st.sampled_from([0, 0, 0, 3, 50])))
        tuples.append({**edge, "timestamp": moment, "delete": is_delete, "w": draw(st.sampled_from([None, 1, 4, 7]))})
    return tuples


class Rows(RunOutput):
    """The rows of a chunk, in a file of its folder."""

    def __init__(self, folder: str) -> None:
        self.path, self.rows = Path(folder) / "rows", []

    def write(self, tuples: pa.RecordBatch, changes: rpq.Changes) -> None:
        self.rows += map(tuple, changes.rows())

    def close(self, *, keeps_empty: bool = True) -> list[OSError]:
        self.path.write_bytes(pickle.dumps(self.rows))
        return []


class Work:
    """The work of chunks for an engine with some queries."""

    def __init__(self, queries: list[rpq.Query], options: dict[str, Any]) -> None:
        self.queries, self.options = queries, options

    def make_engine(self) -> rpq.Engine:
        return rpq.Engine(*self.queries, **self.options)

    def open_output(self, folder: str) -> Rows:
        return Rows(folder)

    def slice_of(self, tuples: pa.RecordBatch) -> Any:
        return mock.Mock(columns=tuples, bad=(), size=tuples.num_rows)


class HereAtOnce:
    """A pool that evaluates each chunk in this process."""

    def __init__(self, *arguments: object, **options: object) -> None:
        return

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    def shutdown(self, **options: object) -> None:
        return


def batch_of(tuples: list[dict[str, Any]], engine: rpq.Engine) -> pa.RecordBatch:
    table = pa.Table.from_pylist(tuples).combine_chunks()
    return (table if engine.edges == "id" else table.drop_columns("edge")).to_batches()[0]


@examples(1000)
@given(drawn=drawn_queries(), tuples=streams(), size=st.integers(1, 8), chunk=st.integers(1, 20))
def test_chunks_have_the_rows_of_one_engine(drawn, tuples, size, chunk):
    work, rows = Work(*drawn), []
    whole = work.make_engine()
    expected = [tuple(row) for one in tuples for row in whole.push(batch_of([one], whole)).rows()]
    with (
        mock.patch.object(divided_run, "ProcessPoolExecutor", HereAtOnce),
        mock.patch.object(divided_run, "_CHUNK_TUPLES", chunk),
        mock.patch.object(divided_run, "_MAX_TAKEN_IN", 10.0),
        mock.patch.object(closure_index, "_FEW_EDGES", 1),
    ):
        engine = DividedEngine(
            work.make_engine(),
            work,
            jobs=2,
            append=lambda folder: rows.extend(pickle.loads((Path(folder) / "rows").read_bytes())),
            progress=lambda: (0, None),
        )
        for begin in range(0, len(tuples), size):
            engine.push(batch_of(tuples[begin : begin + size], whole))
        engine.finish(flush=False)
        engine.close()
    assert Counter(map(str, rows)) == Counter(map(str, expected))
    counts, of_whole = engine.statistics(), whole.statistics()
    assert (counts.inserted, counts.deleted, counts.late) == (of_whole.inserted, of_whole.deleted, of_whole.late)
    assert (counts.rows_added, counts.rows_removed) == (of_whole.rows_added, of_whole.rows_removed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": rpq.UnboundedWindow()}, "unbounded"),
        ({"window": rpq.CountWindow(size=5, step=1)}, "by count"),
        ({"window": rpq.Window(size=5, slide=1), "paths": "simple", "on_budget": "set_aside"}, "set aside"),
    ],
)
def test_what_time_does_not_divide_is_refused(options, message):
    with pytest.raises(rpq.QueryError, match=message):
        TimeDivision([rpq.Query("a/b", **options)])


def test_cuts_are_at_the_reports_of_the_own_window_where_others_are_declared():
    text = "SELECT ?x FROM NAMED WINDOW <w> [RANGE 10 STEP 5] { WINDOW <w> { ?x <a> ?y } }"
    division = TimeDivision([rpq.Query(text, window=rpq.Window(size=10, slide=7), semantics="explicit", report="slide")])
    assert division.cuts(np.array([6, 8, 11]), before=1).tolist() == [1]


class WorkOfEndedProcess(Work):
    """The work of processes that the system ends."""

    def make_engine(self) -> rpq.Engine:
        os._exit(1)


def test_the_end_of_a_process_is_an_error_of_the_run():
    query = rpq.Query("a+", window=rpq.Window(size=5, slide=1))
    reading = rpq.Engine(query)
    engine = DividedEngine(
        reading, WorkOfEndedProcess([query], {}), jobs=1, append=lambda folder: None, progress=lambda: (0, None)
    )
    with pytest.raises(rpq.RpqError, match="ended by the system"):
        engine.finish(flush=False)
    engine.close()
