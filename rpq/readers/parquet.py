"""Parquet as an input: typed columns keep their type.

Columns, by name: `source` and `target` (both text, or both integers, which become int64), `label` (text), `timestamp`
(an integer, or an Arrow timestamp, which becomes the int64 of its unit as Parquet stores it: seconds are stored as
milliseconds; or a date, which becomes seconds) and optionally `op` (text, `+` or
`-`).  Text may be dictionary-encoded.  Further columns are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.inputs import BATCH_ROWS, REJECTIONS_TOLD

MAGIC = b"PAR1"
_REQUIRED = ("source", "target", "label", "timestamp")


def is_parquet(path: str) -> bool:
    """Whether a file begins and ends like Parquet; False where there is no regular file."""
    if not os.path.isfile(path) or os.path.getsize(path) < 3 * len(MAGIC):
        return False
    try:
        with open(path, "rb") as file:
            begin = file.read(len(MAGIC))
            file.seek(-len(MAGIC), os.SEEK_END)
            return begin == file.read() == MAGIC
    except OSError:
        return False


class ParquetInput:
    """The tuples of a Parquet file, or of the Parquet files of a folder in the order of their paths.

    In a folder, names that begin with `_` or `.` are left out, as Spark and Hive do.  `vertex_type` is "text" or
    "integers".  A row with a null, an empty name or an unknown op is a bad row: with `on_error="stop"` it raises
    `InputError` (with `row`, counted from 0 in its file) after the rows before it, with `"skip"` it is counted.
    """

    def __init__(self, path: str, *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> None:
        self.name = path
        self.rejected = 0
        self.rejections: list[str] = []
        self._stop = on_error == "stop"
        self._batch_rows = batch_rows
        self._files = _files(path)
        self.bytes_total = sum(os.path.getsize(file) for file in self._files)
        self._bytes_read = 0.0
        kinds = {file: _checked_schema(file, _schema(file)) for file in self._files}
        self.vertex_type, self.time_unit = kinds[self._files[0]]
        for file, kind in kinds.items():
            if kind != kinds[self._files[0]]:
                raise InputError(
                    f"{file}: its columns differ in type from those of {self._files[0]}; files of a folder must agree",
                    file=file,
                )

    @property
    def bytes_read(self) -> int:
        return int(self._bytes_read)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            yield from self._read(file)

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        row = 0
        try:
            metadata = pq.read_metadata(path)
            names = [name for name in (*_REQUIRED, "op") if name in metadata.schema.to_arrow_schema().names]
            with pq.ParquetFile(path, read_dictionary=_repetitive(metadata, names), metadata=metadata) as file:
                bytes_a_row = os.path.getsize(path) / max(1, metadata.num_rows)
                for batch in file.iter_batches(self._batch_rows, columns=names):
                    self._bytes_read += bytes_a_row * batch.num_rows
                    yield from self._checked(batch, path, row)
                    row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: cannot be read as Parquet: {error}", file=path) from error

    def _checked(self, batch: pa.RecordBatch, path: str, row: int) -> Iterator[pa.RecordBatch]:
        """Convert a batch and take out its bad rows; the batch begins with row number `row` of the file."""
        bad, columns = np.zeros(batch.num_rows, np.bool_), {}
        for name in batch.schema.names:
            columns[name], wrong = _converted(batch.column(name), name)
            bad |= wrong
        kept = len(bad)
        if bad.any():
            if self._stop:
                kept = int(np.argmax(bad))
            else:
                self.rejected += int(np.count_nonzero(bad))
                for place in np.flatnonzero(bad)[: REJECTIONS_TOLD - len(self.rejections)]:
                    self.rejections.append(str(_row_error(batch, path, row, int(place))))
        good = _edges(columns)
        good = good.slice(0, kept) if self._stop else good.filter(pa.array(~bad)) if bad.any() else good
        if good.num_rows:
            yield good
        if self._stop and kept < len(bad):
            raise _row_error(batch, path, row, kept)


def _repetitive(metadata: pq.FileMetaData, names: list[str]) -> list[str]:
    """The columns to read as dictionaries: labels, and vertices where that is twice as fast and not five times slower.

    Written out, a text takes four bytes for its length and then its own; a column with less a value repeats itself.
    """
    bytes_a_value: dict[str, float] = {}
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if column.physical_type == "BYTE_ARRAY" and column.num_values:
                size = column.total_uncompressed_size / column.num_values
                bytes_a_value[column.path_in_schema] = max(size, bytes_a_value.get(column.path_in_schema, 0))
    return [name for name in names if name in ("label", "op") or bytes_a_value.get(name, 9) < 5]


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    root = Path(path)
    found = sorted(
        file
        for file in root.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(root).parts) and file.is_file()
    )
    if not found:
        raise InputError(f"{path}: the folder holds no .parquet file", file=path)
    return [str(file) for file in found]


def _schema(path: str) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}", file=path) from error


def _checked_schema(path: str, schema: pa.Schema) -> tuple[str, str | None]:
    """Return the kind of the vertices and the unit of the timestamps, or raise `InputError`."""
    for name in _REQUIRED:
        if schema.names.count(name) != 1:
            raise InputError(
                f"{path}: column '{name}' is {'missing' if name not in schema.names else 'there twice'}; "
                f"expected {', '.join(_REQUIRED)} and optionally op, found {', '.join(schema.names)}",
                file=path,
                column=name,
            )
    types = {name: schema.field(name).type for name in (*_REQUIRED, "op") if name in schema.names}
    for name, type_ in types.items():
        allowed = {
            "source": _is_text(type_) or pa.types.is_integer(type_),
            "target": _is_text(type_) or pa.types.is_integer(type_),
            "timestamp": pa.types.is_integer(type_) or pa.types.is_timestamp(type_) or pa.types.is_date(type_),
        }.get(name, _is_text(type_))
        if not allowed:
            expected = {
                "timestamp": "integers or timestamps",
                "label": "text",
                "op": "text: + or -",
            }.get(name, "integers or text")
            raise InputError(f"{path}: column '{name}' holds {type_}; expected {expected}", file=path, column=name)
    if _is_text(types["source"]) != _is_text(types["target"]):
        raise InputError(
            f"{path}: column 'target' holds {types['target']}, 'source' {types['source']}; "
            "vertices must be all integers or all text",
            file=path,
            column="target",
        )
    return "text" if _is_text(types["source"]) else "integers", _unit(types["timestamp"])


def _unit(type_: pa.DataType) -> str | None:
    if pa.types.is_timestamp(type_):
        return str(type_.unit)
    if pa.types.is_date(type_):
        return "s" if pa.types.is_date32(type_) else "ms"
    return None


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_text(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _converted(column: pa.Array, name: str) -> tuple[pa.Array, np.ndarray]:
    """The column in the type of the batches, and which rows are bad; a bad row's value is arbitrary."""
    if name == "timestamp":
        return _integers(column)
    if name == "op":
        text = column.cast(pa.string())
        wrong = pc.invert(pc.is_in(text, pa.array(["+", "-"])))
        return pc.fill_null(pc.equal(text, "-"), False), _mask(wrong)
    if pa.types.is_integer(column.type):
        return _integers(column)
    if name == "label":
        return _label(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.take(column.indices)
    text = column if column.type == pa.string() else column.cast(pa.string())
    return text, _mask(pc.fill_null(pc.equal(pc.binary_length(text), 0), True))


def _integers(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    wrong = _mask(column.is_null()) if column.null_count else np.zeros(len(column), np.bool_)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.timestamp("s"))
    elif pa.types.is_date64(column.type):
        column = column.cast(pa.timestamp("ms"))
    elif column.type == pa.uint64():
        wrong |= _mask(pc.fill_null(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), False))
        column = column.cast(pa.int64(), safe=False)
    column = column.cast(pa.int64())
    return (column.fill_null(0) if column.null_count else column), wrong


def _label(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    if not pa.types.is_dictionary(column.type) or column.dictionary.null_count:
        column = column.cast(pa.string()).dictionary_encode()
    elif column.type != LABEL_TYPE:
        column = pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary.cast(pa.string()))
    empty = np.append(_mask(pc.equal(pc.binary_length(column.dictionary), 0)), True)
    wrong = empty[column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)]
    return column, wrong


def _mask(flags: pa.Array) -> np.ndarray:
    return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)


def _edges(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    named = {"delete" if name == "op" else name: column for name, column in columns.items()}
    order = [name for name in (*_REQUIRED, "delete") if name in named]
    return pa.RecordBatch.from_arrays([named[name] for name in order], order)


def _row_error(batch: pa.RecordBatch, path: str, row: int, place: int) -> InputError:
    """Say what is wrong with the row at `place` of the batch."""
    for name in batch.schema.names:
        value = batch.column(name)[place].as_py()
        if name == "op" and value not in ("+", "-"):
            problem = f"{value!r} is not an operation; expected + or -"
        elif value is None:
            problem = "is null; expected a value"
        elif value == "":
            problem = "is empty; expected a name"
        elif isinstance(value, int) and value > 2**63 - 1:
            problem = f"{value} does not fit 64 bits; expected at most 2⁶³ − 1"
        else:
            continue
        message = f"{path}: row {row + place} (counted from 0): column '{name}': {problem}"
        return InputError(message, file=path, column=name, row=row + place)
    raise AssertionError("a row was found bad without a reason")
