"""The format `edges`: source, target, label, timestamp and optionally op, as text or as Parquet.

Text: separated by tabs, commas or blanks, gzip or not, with or without a header.  The first line that is neither
blank nor a comment decides for its file:

* It is a **header** if, cut at tabs, else at commas, else at blanks, its fields include each of `source`, `target`,
  `label` and `timestamp` once (in any order, upper or lower case).  `op` is read if it is there, further columns are
  not.
* Otherwise the **separator** is the first of tab, comma, blanks that cuts it into four or five fields, and the fields
  are source, target, label, timestamp and op in this order; each line may leave out op, which then is `+`.

Vertices and labels are text (`007` is not `7`), timestamps plain int64 numbers.  Parquet is recognised by its first
and last four bytes, whatever the name; a folder is the Parquet files in it, one after the other, as
`rpq.readers.parquet` says.

Each input keeps the order of its lines; several are merged by the timestamps of their heads (`rpq.readers.merge`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rpq.errors import InputError
from rpq.readers.inputs import BATCH_ROWS, Input, InputsReader, check_arguments
from rpq.readers.layout import FieldError, Layout, split_line
from rpq.readers.merge import merge_by_heads
from rpq.readers.parquet import ParquetInput, is_parquet
from rpq.readers.parsing import LineParser
from rpq.readers.source import STANDARD_INPUT
from rpq.readers.textfile import Detected, TextFile

COLUMNS = ("source", "target", "label", "timestamp", "op")
REQUIRED = frozenset(COLUMNS[:-1])
SEPARATORS = ("\t", ",", " ")


def detect(line: bytes, separators: Sequence[str] = SEPARATORS) -> Detected:
    """Tell from the first data line of a file how it is laid out; raise `FieldError` if it cannot be told.

    >>> detect(b"timestamp,source,target,label").parser.layout.fields
    ('timestamp', 'source', 'target', 'label')
    >>> detect(b"1 2 knows 17").parser.layout.separator
    ' '
    """
    cuts: dict[str, list[str]] = {}
    for separator in separators:
        try:
            cuts[separator] = split_line(line, separator)
        except FieldError:
            continue
    for separator, texts in cuts.items():
        names = [text.strip().lower() for text in texts]
        if set(names) >= REQUIRED:
            return Detected(parser=LineParser(_header_layout(names, separator)), is_header=True)
    for separator, texts in cuts.items():
        if len(texts) in (4, 5):
            return Detected(parser=LineParser(Layout(separator=separator, fields=COLUMNS, optional=1)))
    raise FieldError(
        "the first line does not tell the columns: expected source, target, label, timestamp and optionally op, "
        "separated by tabs, commas or blanks, or a header with these names"
    )


def _header_layout(names: list[str], separator: str) -> Layout:
    for name in COLUMNS:
        if names.count(name) > 1:
            raise FieldError("stands in the header twice; expected each column once", name)
    return Layout(separator=separator, fields=tuple(name if name in COLUMNS else "" for name in names))


def open_edges(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[Input]:
    """Open inputs in the format `edges`: text files, Parquet files or folders, `-` for standard input.

    Raises `InputError` for an input that is missing, or where one has integer vertices and another text, or
    timestamps of different units.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    inputs = [_open(path, on_error=on_error, batch_rows=batch_rows) for path in paths]
    kinds = {_vertex_type(one): one.name for one in inputs}
    if len(kinds) > 1:
        (kind, name), (other_kind, other_name) = kinds.items()
        raise InputError(
            f"{other_name}: vertices are {other_kind}, but {kind} in {name}; inputs that are read together must agree",
            file=other_name,
            column="source",
        )
    return InputsReader(inputs, combine=merge_by_heads, batch_rows=batch_rows)


def _open(path: str, *, on_error: str, batch_rows: int) -> Input:
    if path != STANDARD_INPUT and (os.path.isdir(path) or is_parquet(path)):
        return ParquetInput(path, on_error=on_error, batch_rows=batch_rows)
    return TextFile(path, detect=detect, on_error=on_error, batch_rows=batch_rows)


def _vertex_type(one: Input) -> str:
    return one.vertex_type if isinstance(one, ParquetInput) else "text"
