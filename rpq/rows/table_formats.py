"""Tables as files: CSV lines (RFC 4180), lines of JSON objects and JSON arrays, and Parquet."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

if TYPE_CHECKING:
    from pyarrow import parquet as pq

_CSV_SPECIAL = b'",\r\n'
_YEAR_0, _YEAR_10000 = -62_167_219_200, 253_402_300_800  # seconds since 1970
_PARTS_OF_SECOND = {"s": 1, "ms": 1000, "us": 10**6}
_FIRST_PRINTED = 0x20  # smaller bytes must be escaped in JSON


def _scalar(text: str) -> pa.Scalar:
    """Return a text as a value of Arrow, whose own `scalar` imports pandas wherever that is installed."""
    data = text.encode()
    ends = np.array([0, len(data)], np.int64)
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(data))[0]


_TEXT = {text: _scalar(text) for text in (",", "", "null")}

Cells: TypeAlias = tuple[str, pa.Array]
"""The quotes around each value of a column, and the texts of the values."""


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """A text format of tables: `header` returns the first line or nothing, `encode` the lines of a table.

    `between` separates parts that are written one after the other; `footer` follows the last part.
    """

    header: Callable[[Sequence[str]], bytes]
    encode: Callable[[pa.Table], Iterator[pa.Buffer]]
    between: bytes = b""
    footer: bytes = b""


def csv_lines(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the lines of a table as RFC 4180 CSV without a header; values are quoted only if necessary.

    >>> rows = pa.table({"source": ["a", "b,c"], "timestamp": [1, 2]})
    >>> b"".join(buffer.to_pybytes() for buffer in csv_lines(rows))
    b'a,1\\n"b,c",2\\n'
    """
    for batch in rows.to_batches():
        texts = [value_texts(_decode_dictionary(column)) for column in batch.columns]
        if any(_has_special(column, _CSV_SPECIAL) for column in texts):
            yield _quoted_lines(texts)
            continue
        # Arrow's "needed" quotes every string; "none" is as fast, and correct if no value needs quotes.
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 14)
        pa.csv.write_csv(pa.RecordBatch.from_arrays(texts, names=batch.schema.names), out, options)
        yield out.getvalue()


def _decode_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _has_special(column: pa.Array, special: bytes) -> bool:
    """Return whether a text column contains one of these bytes."""
    if not _is_text(column) or not len(column):
        return False
    data = np.frombuffer(_content(column), dtype=np.uint8)
    return any(bool((data == byte).any()) for byte in special)


def _quoted_lines(columns: Sequence[pa.Array]) -> pa.Buffer:
    cells = []
    for column in columns:
        if not _is_text(column):
            cells.append(column.cast(pa.string()))
            continue
        text = column.cast(pa.large_string())
        special = pc.match_substring_regex(text, '[",\r\n]')
        quoted = _join_texts(['"', pc.replace_substring(text, '"', '""'), '"'])
        cells.append(pc.if_else(special, quoted, text))
    cells = [pc.fill_null(cell.cast(pa.large_string()), "") for cell in cells]
    return _content(_join_texts([pc.binary_join_element_wise(*cells, _TEXT[","]), "\n"]))


def iso_texts(column: pa.Array) -> pa.Array:
    """Return times in UTC as texts in ISO 8601, with as many digits of a second as their unit has; others as they are.

    Times outside the years 0 to 9999, for which ISO 8601 has no text, become the digits of their numbers.

    >>> iso_texts(pa.array([1709287200123, 10**15]).view(pa.timestamp("ms", "UTC"))).to_pylist()
    ['2024-03-01T10:00:00.123Z', '1000000000000000']
    """
    if not pa.types.is_timestamp(column.type):
        return column
    if column.type.unit != "ns":  # 64 bits of nanoseconds do not reach beyond these years
        parts = _PARTS_OF_SECOND[column.type.unit]
        numbers = column.view(pa.int64())
        first, last = (pa.scalar(second * parts, pa.int64()) for second in (_YEAR_0, _YEAR_10000))
        has_text = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, last))
        if pc.all(has_text).as_py() is False:  # `all` skips nulls
            texts = iso_texts(pc.if_else(has_text, column, pa.scalar(None, column.type)))
            return pc.if_else(has_text, texts, numbers.cast(texts.type))
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)


def value_texts(column: pa.Array) -> pa.Array:
    """Return times as `iso_texts` does, and lists as texts in JSON; others as they are.

    >>> value_texts(pa.array([[1, None], None])).to_pylist()
    ['[1, null]', None]
    """
    if not pa.types.is_list(column.type):
        return iso_texts(column)
    quote, texts = json_cells(column.flatten())
    ends = np.zeros(len(column) + 1, np.int32)
    np.cumsum(column.value_lengths().fill_null(0).to_numpy(), out=ends[1:])
    items = _join_texts([quote, texts, quote]) if quote else texts
    lists = pa.ListArray.from_arrays(pa.array(ends), items, mask=column.is_null())
    return _join_texts(["[", pc.binary_join(lists, _scalar(", ")), "]"])


def json_lines(rows: pa.Table, *, json_columns: Collection[str] = ()) -> Iterator[pa.Buffer]:
    """Yield the rows of a table as JSON objects, one per line, with numbers, texts and nulls.

    The texts of `json_columns` are JSON already; an empty one becomes null.

    >>> rows = pa.table({"source": ["a", 'say "b"'], "timestamp": [1, 2]})
    >>> print(b"".join(buffer.to_pybytes() for buffer in json_lines(rows)).decode(), end="")
    {"source": "a", "timestamp": 1}
    {"source": "say \\"b\\"", "timestamp": 2}
    """
    for batch in rows.to_batches():
        if batch.num_rows:
            names = batch.schema.names
            cells = [json_cells(batch.column(name), is_json=name in json_columns) for name in names]
            yield _content(_join_texts(object_pieces(names, cells)))


def json_arrays(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the rows of a table as JSON arrays without blanks, one per line.

    >>> rows = pa.table({"query": ["a+"], "source": [1], "target": ["y"]})
    >>> b"".join(buffer.to_pybytes() for buffer in json_arrays(rows))
    b'["a+",1,"y"]\\n'
    """
    for batch in rows.to_batches():
        if batch.num_rows:
            yield _content(_join_texts(array_pieces(map(json_cells, batch.columns))))


def object_pieces(names: Iterable[str], columns: Iterable[Cells]) -> list[str | pa.Array]:
    """Return the pieces of lines of JSON objects with these keys: constants, and text columns."""
    pieces: list[str | pa.Array] = []
    constant = "{"
    for number, (name, (quote, texts)) in enumerate(zip(names, columns, strict=True)):
        pieces += [f"{constant}{', ' * bool(number)}{json.dumps(name)}: {quote}", texts]
        constant = quote
    return [*pieces, f"{constant}}}\n"]


def array_pieces(columns: Iterable[Cells]) -> list[str | pa.Array]:
    """Return the pieces of lines of JSON arrays: constants, and text columns."""
    pieces: list[str | pa.Array] = []
    constant = "["
    for number, (quote, texts) in enumerate(columns):
        pieces += [f"{constant}{',' * bool(number)}{quote}", texts]
        constant = quote
    return [*pieces, f"{constant}]\n"]


def json_cells(column: pa.Array, *, is_json: bool = False) -> Cells:
    """Return the values of a column in JSON: the quotes around each value, and the texts (large_string, without nulls).

    Texts that are JSON already stay as they are; an empty one becomes null.
    """
    is_json = is_json or pa.types.is_list(column.type)
    column = value_texts(_decode_dictionary(column))
    if is_json:
        texts = pc.fill_null(column.cast(pa.large_string()), "")
        return "", pc.if_else(pc.equal(texts, ""), _TEXT["null"], texts)
    if not _is_text(column):
        return "", pc.fill_null(column.cast(pa.large_string()), _TEXT["null"])
    data = np.frombuffer(_content(column), dtype=np.uint8)  # all texts at once, which is much faster than one by one
    if column.null_count or (len(data) and data.min() < _FIRST_PRINTED):
        return "", pa.array([json.dumps(value, ensure_ascii=False) for value in column.to_pylist()], pa.large_string())
    text = column.cast(pa.large_string())
    for special in "\\", '"':
        if _has_special(column, special.encode()):
            text = pc.replace_substring(text, special, f"\\{special}")
    return '"', text


def _join_texts(pieces: Sequence[str | pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*(_scalar(one) if isinstance(one, str) else one for one in pieces), _TEXT[""])


def _content(texts: pa.Array) -> pa.Buffer:
    """Return the bytes of all texts of an array."""
    if not len(texts) or texts.buffers()[2] is None:
        return pa.py_buffer(b"")
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], dtype=width)
    first, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    return texts.buffers()[2].slice(first, end - first)


@dataclass(frozen=True)
class MessageTemplate:
    """A text with columns of a row in braces, `{{` and `}}` for braces.  Raises `ValueError` for a malformed text.

    >>> template = MessageTemplate("{source} reached {target}")
    >>> rows = pa.table({"source": ["ann"], "target": [7]})
    >>> template.with_messages(rows).column("message").to_pylist()
    ['ann reached 7']
    >>> MessageTemplate("{source").columns
    Traceback (most recent call last):
    ValueError: expected '}' before end of string
    """

    text: str

    @property
    def columns(self) -> list[str]:
        """The names in braces, in order."""
        return [name for _, name in self._parts() if name is not None]

    def check(self, columns: Collection[str]) -> None:
        """Raise `ValueError` for a name that is none of the columns."""
        for name in self.columns:
            if name not in columns:
                raise ValueError(f"there is no column {name!r}; the columns of the rows are {', '.join(columns)}")

    def with_messages(self, rows: pa.Table) -> pa.Table:
        """Return rows with a last column `message`; a value that is missing is empty text."""
        batches = [self._messages(batch) for batch in rows.combine_chunks().to_batches()]
        return rows.append_column(MESSAGE, pa.chunked_array(batches, pa.large_string()).cast(pa.string()))

    def message(self, values: Mapping[str, Any]) -> str:
        """Return the message of one row, whose values are those of JSON.

        >>> MessageTemplate("{x} at {timestamp}").message({"x": None, "timestamp": 7})
        ' at 7'
        """
        return "".join(
            constant + ("" if name is None or (value := values.get(name)) is None else json_word(value))
            for constant, name in self._parts()
        )

    def _messages(self, rows: pa.RecordBatch) -> pa.Array:
        pieces: list[str | pa.Array] = [""]
        for constant, name in self._parts():
            pieces.append(constant)
            if name is not None:
                text = value_texts(_decode_dictionary(rows.column(name))).cast(pa.large_string())
                pieces.append(pc.fill_null(text, ""))
        texts = _join_texts(pieces)
        return texts if isinstance(texts, pa.Array) else pa.array([texts.as_py()] * rows.num_rows, pa.large_string())

    def _parts(self) -> Iterator[tuple[str, str | None]]:
        for constant, name, form, conversion in string.Formatter().parse(self.text):
            if form or conversion:
                raise ValueError(f"{{{name}}} has a format, which is not supported; expected the name of a column alone")
            yield constant, name


def json_word(value: Any) -> str:
    """Return a text as it is, and another value of JSON as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


MESSAGE = "message"
"""The column of messages."""


def message_lines(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the messages of rows, one on each line; line breaks inside of them become blanks."""
    for batch in rows.select([MESSAGE]).to_batches():
        texts = pc.replace_substring_regex(batch.column(0).cast(pa.large_string()), "[\r\n]+", " ")
        yield _content(_join_texts([texts, "\n"]))


CSV = LineFormat(header=lambda columns: (",".join(columns) + "\n").encode(), encode=csv_lines)
JSON_LINES = LineFormat(header=lambda columns: b"", encode=json_lines)
MESSAGES = LineFormat(header=lambda columns: b"", encode=message_lines)


def parquet_writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer of tables of answer changes to a file (a path, or a file object for Arrow).

    Text columns have no statistics: these would take a third of the time, and the order of vertices makes them useless.

    >>> from pyarrow import parquet as pq
    >>> changes = pa.table({"source": ["x"], "timestamp": [3]})
    >>> out = pa.BufferOutputStream()
    >>> with parquet_writer(out, changes.schema) as writer:
    ...     writer.write_table(changes)
    >>> columns = pq.ParquetFile(pa.BufferReader(out.getvalue())).metadata.row_group(0)
    >>> [columns.column(place).is_stats_set for place in range(2)]
    [False, True]
    """
    from pyarrow import parquet as pq

    measured_columns = [field.name for field in schema if not pa.types.is_string(field.type)]
    return pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, write_statistics=measured_columns)
