"""The format `rdf`: N-Triples, N-Quads, Turtle, TriG, JSON-LD and RDF/XML, parsed by pyoxigraph.

The name of a file tells its syntax (`rpq.readers.rdf.rdf_syntax`), and what is compressed is recognised as elsewhere.
Where times are positions, inputs are read one after the other and numbered through; else they are merged by the
timestamps of their heads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from rpq.errors import InputError
from rpq.readers.in_stream import InStream
from rpq.readers.input_format import Format
from rpq.readers.inputs import BATCH_ROWS, Input, InputsReader, check_arguments, one_after_the_other
from rpq.readers.merge import merge_by_heads
from rpq.readers.rdf.graph_times import ByProperty
from rpq.readers.rdf.rdf_input import GRAPH_NAME, POSITION, RdfInput, RdfReading
from rpq.readers.rdf.rdf_syntax import pyoxigraph, syntax_named, syntax_of
from rpq.readers.rdf.time_terms import Kind, TimeTerms, unit_of
from rpq.readers.rdf.triple_times import ByGraphName, ByGraphPosition, ByPosition, TripleTimes
from rpq.readers.source import STANDARD_INPUT, ByteSource

LOOKED_AT = 1_000
"""Triples at the beginning of a file that are looked at for its first time."""


def open_rdf(
    paths: Sequence[str],
    *,
    on_error: str = "stop",
    batch_rows: int = BATCH_ROWS,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
    rdf: RdfReading | None = None,
) -> InputsReader[Input]:
    """Open inputs of RDF as one stream of tuples; `rdf` says how they are read.

    Times that are dates become integers in `time_unit`: microseconds where it is not given; a pipe needs it. Raises
    `InputError` for an input that is missing, where inputs do not fit together, and where pyoxigraph is not installed.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    pyoxigraph()
    reading = rdf or RdfReading()
    if reading.graph == "stream" and streams is not None and any(streams):
        raise InputError("inputs are said to be of streams, and so are graphs; give one of the two")
    positions: TripleTimes = ByPosition() if reading.time == POSITION else ByGraphPosition()
    inputs: list[Input] = []
    for number, path in enumerate(paths, 1):
        times, unit = positions, None
        if reading.has_graph_times:
            kind = _first_kind(path, reading, time_unit)
            unit = unit_of(kind, time_unit)
            times = _times(reading, TimeTerms(unit=unit, kind=kind))
        one = _opened(
            path,
            reading,
            times=times,
            scope=f"{reading.scope}{number}",
            on_error=on_error,
            batch_rows=batch_rows,
            time_unit=unit,
        )
        stream = streams[number - 1] if streams is not None else None
        inputs.append(one if stream is None else InStream(one, stream))
    combine = merge_by_heads if reading.has_graph_times else one_after_the_other
    return InputsReader(inputs, combine=combine, batch_rows=batch_rows)


RDF = Format(name="rdf", open=open_rdf)


def _opened(
    path: str,
    reading: RdfReading,
    *,
    times: TripleTimes,
    scope: str = "",
    on_error: str = "skip",
    batch_rows: int = LOOKED_AT,
    time_unit: str | None = None,
) -> RdfInput:
    return RdfInput(
        ByteSource(path),
        syntax=syntax_named(reading.syntax) if reading.syntax is not None else syntax_of(path),
        reading=reading,
        times=times,
        scope=scope,
        on_error=on_error,
        batch_rows=batch_rows,
        time_unit=time_unit,
    )


def _times(reading: RdfReading, terms: TimeTerms) -> TripleTimes:
    if reading.time == GRAPH_NAME:
        return ByGraphName(terms)
    return ByProperty(reading.time.removeprefix("<").removesuffix(">"), terms)


def _first_kind(path: str, reading: RdfReading, time_unit: str | None) -> Kind | None:
    """The kind of the times of a file, as its beginning tells it; None for a pipe, and where it does not tell."""
    if path == STANDARD_INPUT or not os.path.isfile(path):
        return None
    terms = TimeTerms(unit=time_unit or "s")
    seen = 0
    try:
        for batch in _opened(path, replace(reading, graph=None), times=_times(reading, terms)):
            seen += batch.num_rows
            if terms.kind is not None or seen >= LOOKED_AT:
                break
    except InputError:
        pass
    return terms.kind
