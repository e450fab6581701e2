"""A query evaluated anew at every slide: by pyoxigraph over a store that follows the window, by DuckDB in SQL.

The tuples are inserts in order of time, no edge twice within a window. Both raise `ImportError` where they are missing.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import rpq

_LITERAL = re.compile(r'"(?P<text>[^"\\]*)"(?:\^\^<(?P<type>[^>]*)>)?')


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """CPU seconds of each evaluation, with what the window lost and got before it, and the rows that the last one had."""

    seconds: list[float]
    rows: int
    moment: int
    """The time up to which the last one had read."""


def by_pyoxigraph(text: str, table: pa.Table, window: rpq.Window, *, first: int, seconds: float) -> Evaluated:
    """From the slide at the time `first` on, until the seconds are used up; at least once."""
    import pyoxigraph

    names = [table[name].to_pylist() for name in ("source", "label", "target")]
    times = table["timestamp"].to_numpy()

    def node(term: str):  # type: ignore[no-untyped-def]
        literal = _LITERAL.fullmatch(term)
        if literal is None:
            return pyoxigraph.NamedNode(term)
        datatype = None if literal["type"] is None else pyoxigraph.NamedNode(literal["type"])
        return pyoxigraph.Literal(literal["text"], datatype=datatype)

    def quads(start: int, end: int):  # type: ignore[no-untyped-def]
        rows = zip(*(column[start:end] for column in names), strict=True)
        return [pyoxigraph.Quad(node(s), pyoxigraph.NamedNode(p), node(o)) for s, p, o in rows]

    store = pyoxigraph.Store()
    low, high = _bounds(times, window, first)
    store.bulk_extend(quads(low, high))
    taken: list[float] = []
    moment = first
    while True:
        before, after = _bounds(times, window, moment)
        gone, come = quads(low, before), quads(high, after)
        started = time.process_time()
        for quad in gone:
            store.remove(quad)
        store.extend(come)
        rows = len(list(store.query(text)))  # type: ignore[arg-type]
        taken.append(time.process_time() - started)
        low, high = before, after
        if sum(taken) > seconds or moment + window.slide > times[-1]:
            return Evaluated(seconds=taken, rows=rows, moment=moment)
        moment += window.slide


def by_duckdb(sql: str, table: pa.Table, window: rpq.Window, *, first: int, seconds: float) -> Evaluated:
    """The same in SQL over `tuples`, the content of the window; one thread."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", table)
        connection.execute("CREATE TABLE stream AS SELECT * FROM given")
        times = table["timestamp"].to_numpy()
        taken: list[float] = []
        moment = first
        while True:
            bound = window.lower_bound(moment)
            started = time.process_time()
            found = connection.execute(
                f"WITH tuples AS (SELECT * FROM stream WHERE timestamp > {bound} AND timestamp <= {moment}) {sql}"
            ).fetchnumpy()
            taken.append(time.process_time() - started)
            if sum(taken) > seconds or moment + window.slide > times[-1]:
                return Evaluated(seconds=taken, rows=len(next(iter(found.values()))), moment=moment)
            moment += window.slide


def _bounds(times: np.ndarray, window: rpq.Window, moment: int) -> tuple[int, int]:
    """Where in the stream the window at a time begins and ends."""
    low, high = np.searchsorted(times, [window.lower_bound(moment), moment], side="right")
    return int(low), int(high)
