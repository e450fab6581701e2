"""Stream readers: from files, pipes and Parquet to batches of columns.

`open_reader` is the entry point. `input_format` defines what a format is; `format_registry` lists the formats and describes
how an installed package adds one. The formats `edges` and `jsonl` are in `edges`, the format `rdf` is in `rdf`, and those of
data sets are in `rpq.workloads.formats`.

    bytes (source) or records of another package (open_source) → records (text.quotes) → fields (text.detection,
    text.line_layout, text.parsing, text.jsonlines) → columns (text.textfile, parquet, rdf) in a batch, with the names of
    tuples (column_names, key_paths) → selected rows (rpq.language.predicate) → one stream (inputs) → a part of it
    (selection)

Imports from the layers of the engine below (`rpq.language`, `rpq.stream`), never from the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rpq.errors import InputError, WhereError
from rpq.language.where import Where, parse_where
from rpq.readers.batch import LABEL_TYPE, Batch, Reader
from rpq.readers.column_names import ColumnNames
from rpq.readers.format_registry import BUILTIN_FORMATS, format_by_name, formats
from rpq.readers.input_format import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS
from rpq.readers.open_source import OpenSource, open_source
from rpq.readers.selection import FilterReader, LimitReader, SelfLoopFilter
from rpq.readers.text.edge_rules import EdgeRules
from rpq.stream.arrays.fields import FieldError, quote_value

if TYPE_CHECKING:
    from rpq.readers.rdf.rdf_format import RdfReading

__all__ = [
    "BATCH_ROWS",
    "LABEL_TYPE",
    "Batch",
    "ColumnNames",
    "EdgeRules",
    "FieldError",
    "Format",
    "RdfReading",
    "Reader",
    "TextFormat",
    "Where",
    "WhereError",
    "formats",
    "open_reader",
    "parse_where",
    "quote_value",
]


def __getattr__(name: str) -> Any:
    if name != "RdfReading":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rpq.readers.rdf.rdf_format import RdfReading

    return RdfReading


def open_reader(
    format: str,
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    on_error: str = "stop",
    limit: int | None = None,
    drop_self_loops: bool = False,
    batch_rows: int = BATCH_ROWS,
    columns: ColumnNames | None = None,
    where: Where | None = None,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
    rdf: RdfReading | None = None,
    rules: EdgeRules | None = None,
) -> Reader:
    """Open inputs of a format as one stream of tuples, which can be read once.

    `paths` are files, `-` for standard input, or URLs of installed sources (`rpq.Source`).  `on_error="stop"` raises
    `InputError` at the first bad line, after yielding everything before it; `"skip"` omits bad lines and counts them in
    `rejected` (by blocks: with a `limit`, the count may include bad lines shortly after it).  Then `limit` is the maximum
    number of tuples, and `drop_self_loops` removes edges from a vertex to itself.

    `columns` maps the columns of a tuple to the columns of the input, or sets one label for all edges.  `where` is a
    condition on the input's columns: tuples for which it does not hold are removed before all other options apply, and
    counted in `filtered`.  `time_unit` ("s", "ms", "us", "ns") is the unit of times in text.  `streams` are the names of
    the streams of the inputs, one per input, or None for inputs without; every tuple belongs to the merged stream in
    addition.  `rdf` sets how inputs of the format `rdf` are read.  With `rules` (`EdgeRules.read(FILE)`)
    each record becomes several edges or none; then `columns` only names properties.

    Raises `InputError` for an unknown format, a missing file, or inputs that do not fit together, and `WhereError` for a
    condition that does not fit an input (for a pipe, when it is read).

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "edges.csv"), "w") as file:
    ...         _ = file.write("source,target,label,timestamp\\nx,y,a,1\\ny,z,a,2\\n")
    ...     [batch.columns.to_pylist() for batch in open_reader("edges", file.name, limit=1)]
    [[{'source': 'x', 'target': 'y', 'label': 'a', 'timestamp': 1}]]
    """
    if columns is not None and not isinstance(columns, ColumnNames):
        raise TypeError(
            f"columns is {columns!r}; expected ColumnNames, such as rpq.readers.ColumnNames.parse('source=from,target=to', "
            "label='knows')"
        )
    path_list = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    names: list[Any] = [path if isinstance(path, OpenSource) else open_source(os.fspath(path)) for path in path_list]
    found = format_by_name(format)
    accepted_options = found.options
    for one in names:
        if isinstance(one, OpenSource) and format not in BUILTIN_FORMATS:
            reason = f"the format {format} is for files only; a source is read as {_formats_with('paths')}"
            raise InputError(f"{one.name}: {reason}", file=one.name)
    if columns and columns.properties and "columns" not in accepted_options:
        if columns.has_ids:
            raise InputError(f"the format {format} has no ids of edges; edges have ids in {_formats_with('columns')}")
        raise InputError(
            f"the format {format} has no properties of edges, and a query reads {', '.join(columns.properties)}; edges have "
            f"properties in {_formats_with('columns')}"
        )
    if columns and "columns" not in accepted_options:
        raise InputError(
            f"the format {format} has fixed columns; names of columns, or a label, can be set for {_formats_with('columns')}"
        )
    if rules is not None and "rules" not in accepted_options:
        raise InputError(f"the format {format} has fixed edges; rules make edges of records in {_formats_with('rules')}")
    if rdf is not None and "rdf" not in accepted_options:
        raise InputError(f"the format {format} is not RDF; the syntax, time and graphs of RDF are options of the format rdf")
    if streams is not None and any(name is not None for name in streams):
        if "streams" not in accepted_options:
            raise InputError(
                f"the format {format} has no streams; the names of streams can be set for {_formats_with('streams')}"
            )
        if len(streams) != len(names):
            raise InputError(f"there are {len(names)} inputs, but streams for {len(streams)}")
    else:
        streams = None
    options: dict[str, Any] = {"columns": columns or None, "time_unit": time_unit, "rdf": rdf, "rules": rules}
    options |= {"where": where, "streams": streams}
    accepted = {name: value for name, value in options.items() if name in accepted_options}
    reader: Reader = found.open(names, on_error=on_error, batch_rows=batch_rows, **accepted)
    if where is not None and "where" not in accepted_options:
        reader = FilterReader(reader, where, time_unit=time_unit)
    if limit is not None:
        reader = LimitReader(reader, limit)
    if drop_self_loops:
        reader = SelfLoopFilter(reader)
    return reader


def _formats_with(option: str) -> str:
    """Return the names of the built-in formats that accept an option, as an enumeration."""
    *first, last = (name for name in BUILTIN_FORMATS if option in format_by_name(name).options)
    return f"{', '.join(first)} and {last}" if first else last
