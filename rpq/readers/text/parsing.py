"""Blocks of lines as columns: a fast path for plain blocks, and an exact path for others.

`parse_plain` passes a whole block to Arrow's CSV parser, at millions of lines per second, and returns None if anything in
the block might be read differently from the rules of `rpq.readers.text.line_layout`.  `parse_exact` follows those rules line
by line, at a few hundred thousand lines per second, with line numbers.  Both produce the same rows for every block that
`parse_plain` accepts, which a property in the tests checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from rpq.readers.batch import LABEL_TYPE
from rpq.readers.source import BYTE_ORDER_MARK, LineBlock, count_lines
from rpq.readers.text.line_layout import FURTHER, INTEGER, LineLayout, is_ignored
from rpq.readers.text.quotes import pieces, quotes_of, records
from rpq.stream.arrays.fields import FieldError, quote_value, times_of
from rpq.stream.arrays.values import booleans_of_text

One = TypeVar("One")

_TYPES = {
    **dict.fromkeys(("source", "target"), pa.string()),
    "timestamp": pa.int64(),
    **dict.fromkeys(("label", "op", "delete", "stream", "event"), LABEL_TYPE),
}
_EXACT_TYPES = {**_TYPES, "delete": pa.bool_()}
EXACT_BYTES = 1 << 14
"""The size in bytes up to which a block that is not plain is read exactly without splitting it further."""

_PLAIN_INTEGER = f"^(?:{INTEGER.pattern})$"
_BRACKETED = "^<(.+)>$"
_BYTES_WORTH_THREADS = 2**16
"""The size in bytes from which a block is parsed by several threads. A process that ends just after one of Arrow's threads
has run may abort (apache/arrow#34314), and the last block of a stream is usually smaller than this."""


@dataclass(frozen=True, kw_only=True)
class LineError:
    """A line that could not be read: its number, counted from 1, and the error."""

    line: int
    error: FieldError


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The tuples of a block.

    `columns` are by name; `ordinals` are the positions of the tuples among the block's data lines, including bad lines, or
    None for 0, 1, 2, …; `data_lines` is the number of data lines; `errors` are the bad lines, which have no rows.
    """

    columns: dict[str, pa.Array]
    data_lines: int
    ordinals: np.ndarray | None = None
    errors: list[LineError] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns["source"])


class PaddedValues:
    """Counts texts that begin or end with a space, in columns of fields whose blanks are not dropped.

    >>> padded = PaddedValues()
    >>> padded.count({"source": pa.array(["ann", " bob"]), "timestamp": pa.array([1, 2])})
    >>> padded.warning.partition(";")[0]
    "1 value begins or ends with a blank, such as ' bob', which is another name than 'bob'"
    """

    def __init__(self) -> None:
        self._count = 0
        self._example = ""

    def count(self, columns: Mapping[str, pa.Array]) -> None:
        """Count the texts in columns. O(rows) with a small constant."""
        for column in columns.values():
            is_encoded = pa.types.is_dictionary(column.type)
            values = column.dictionary if is_encoded else column
            if not pa.types.is_string(values.type):
                continue
            is_padded = pc.or_(pc.starts_with(values, " "), pc.ends_with(values, " "))
            if is_padded.true_count:
                self._example = self._example or values.filter(is_padded)[0].as_py()
                self._count += (is_padded.take(column.indices) if is_encoded else is_padded).true_count

    @property
    def warning(self) -> str:
        """The warning, empty if there were no such texts."""
        if not self._count:
            return ""
        values = "1 value begins or ends" if self._count == 1 else f"{self._count:,} values begin or end"
        names = f"{quote_value(self._example)}, which is another name than {quote_value(self._example.strip())}"
        return f"{values} with a blank, such as {names}; --trim drops the blanks around fields"


class BlockParser(Protocol):
    """A parser of blocks of lines into tuples."""

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        """Read a block in one or more pieces; with `stop`, no further than its first bad line."""


@dataclass(frozen=True)
class LineParser:
    """A parser for blocks of lines with a `layout`, one tuple per line: the fast path if possible, otherwise the exact one.

    A block that is not plain is halved repeatedly, so that only small pieces around bad lines are read exactly.
    """

    layout: LineLayout

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        rows = parse_plain(block.data, self.layout)
        middle = block.data.find(b"\n", len(block.data) // 2) + 1
        if rows is not None:
            yield rows
        elif len(block.data) <= EXACT_BYTES or middle in (0, len(block.data)):
            yield parse_exact(block, self.layout, stop=stop)
        else:
            # A line end in the middle may be inside quotes, so the block is cut between records.
            cut = pieces(block, self.layout, EXACT_BYTES) if self._may_span(block) else iter(halves(block, middle))
            yield from self._parse_parts(cut, block, stop=stop)

    def _may_span(self, block: LineBlock) -> bool:
        """Return whether a record may span several lines."""
        if not self.layout.has_quotes or b'"' not in block.data:
            return False
        quotes = quotes_of(block.data, self.layout.separator)
        return not quotes.regular or len(quotes.inner) > 0

    def _parse_parts(self, parts: Iterator[LineBlock], block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        for part in parts:
            if len(part.data) == len(block.data):  # a single record, or nearly
                found: Iterator[Rows] = iter([parse_exact(part, self.layout, stop=stop)])
            else:
                found = self.parse(part, stop=stop)
            for rows in found:
                yield rows
                if stop and rows.errors:
                    return


def halves(block: LineBlock, middle: int) -> tuple[LineBlock, LineBlock]:
    """Split a block in two at the beginning of a line."""
    first, second = block.data[:middle], block.data[middle:]
    return LineBlock(first, block.line), LineBlock(second, block.line + count_lines(first))


def data_lines(block: LineBlock) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text, without its end, of each line that is neither blank nor a comment."""
    lines = block.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, block.line):
        line = line.removesuffix(b"\r")
        if not is_ignored(line):
            yield number, line


def data_records(block: LineBlock, layout: LineLayout) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line and the text, without its end, of each record of one or more lines."""
    if not layout.has_quotes or b'"' not in block.data:
        yield from data_lines(block)
        return
    number = block.line
    for start, end, _ in records(block.data, layout):
        record = block.data[start:end].removesuffix(b"\r")
        if b"\n" in record or not is_ignored(record):
            yield number, record
        number += 1 + record.count(b"\n")


@dataclass(frozen=True, kw_only=True)
class ExactRows(Generic[One]):
    """The result of reading record by record: the values and positions of good records, and the errors of bad ones."""

    values: list[One]
    ordinals: list[int]
    errors: list[LineError]
    data_lines: int

    def rows(self, columns: dict[str, pa.Array]) -> Rows:
        """Return the rows with these columns, which the caller has built from the values."""
        return Rows(
            columns=columns, data_lines=self.data_lines, ordinals=np.array(self.ordinals, np.int64), errors=self.errors
        )


def read_exactly(
    lines: Iterable[tuple[int, bytes]], read: Callable[[bytes], One], *, stop: bool
) -> ExactRows[One]:
    """Read records one by one with their line numbers; with `stop`, up to the first bad one."""
    values: list[One] = []
    ordinals: list[int] = []
    errors: list[LineError] = []
    count = 0
    for number, line in lines:
        try:
            values.append(read(line))
            ordinals.append(count)
        except FieldError as error:
            errors.append(LineError(line=number, error=error))
            if stop:
                break
        count += 1
    return ExactRows(values=values, ordinals=ordinals, errors=errors, data_lines=count)


def parse_exact(block: LineBlock, layout: LineLayout, *, stop: bool) -> Rows:
    """Read a block line by line with `LineLayout.read`; O(bytes), in Python."""
    read = read_exactly(data_records(block, layout), layout.read, stop=stop)
    of_tuples = ("source", "target", "label", "timestamp", "stream", "event")
    names: list[str] = [name for name in of_tuples if name in layout.fields]
    names += [name for name in layout.fields if name.startswith(FURTHER)]
    columns = {name: column_of([values[name] for values in read.values], name) for name in names}
    if any("delete" in values for values in read.values):
        columns["delete"] = column_of([values.get("delete", False) for values in read.values], "delete")
    return read.rows(columns)


def column_of(values: Sequence[str | int | bool | None], name: str) -> pa.Array:
    """Return a column with the type of the column `name`, from Python values."""
    type_ = _EXACT_TYPES.get(name, pa.string())
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode()
    return pa.array(values, type_)


def parse_plain(data: bytes, layout: LineLayout) -> Rows | None:
    """Read a block with Arrow, or return None if the exact path is required; O(bytes), vectorised."""
    plain = _with_plain_line_ends(data)
    if plain is None or not _is_plain(plain):
        return None
    if layout.has_quotes and b'"' in plain:
        return _parse_quoted(plain, layout, has_returns=plain is not data)
    data = plain
    if layout.separator != " ":
        return _parse_plain(data, layout)
    if b"\t" not in data and all(field and not field.startswith(FURTHER) for field in layout.fields):
        # Repeated blanks make empty fields, which are refused because all fields are read: no need to search for them.
        rows = _parse_plain(data, layout)
        if rows is not None:
            return rows
    return _parse_plain(_with_single_blanks(data), layout)


def _parse_quoted(data: bytes, layout: LineLayout, *, has_returns: bool) -> Rows | None:
    """Read a block with quotes if all parsers agree on them; return None otherwise."""
    quotes = quotes_of(data, layout.separator)
    if quotes.regular:
        # Inside quotes a carriage return is text, but it was removed from this data; with tabs, the exact rules apply.
        is_exact = len(quotes.inner) and (has_returns or layout.separator == "\t")
        return None if is_exact else _parse_plain(data, layout, quotes=True)
    if layout.separator == "\t" and not (data.startswith(b'"') or b'\t"' in data or b'\n"' in data):
        return _parse_plain(data, layout)
    return None


def _parse_plain(data: bytes, layout: LineLayout, *, quotes: bool = False) -> Rows | None:
    # Arrow reads hexadecimal numbers as integers.  Names such as 0xab are common, so only timestamps are checked.
    as_text = layout.times != "integers" or b"x" in data or b"X" in data
    for width in reversed(layout.widths):
        table = _arrow_table(data, layout, width, timestamps_as_text=as_text, quotes=quotes)
        if table is not None:
            columns = _check_columns(table, layout)
            if columns is not None:
                return Rows(columns=columns, data_lines=table.num_rows)
    if layout.optional and layout.fields[-1] == "op" and not quotes:
        whole = replace(layout, optional=0)
        return _parse_plain(_with_every_op(data, layout), whole)
    return None


def _with_every_op(data: bytes, layout: LineLayout) -> bytes:
    """Return the block with `+` added to lines that lack the last field, op."""
    separator = layout.separator.encode()
    short, insert = len(layout.fields) - 2, separator + b"+"
    return b"\n".join(line + insert if line.count(separator) == short else line for line in data.split(b"\n"))


def _with_plain_line_ends(data: bytes) -> bytes | None:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
        if b"\r" in data:  # a line end for Arrow, but text in this format
            return None
    return data


def _is_plain(data: bytes) -> bool:
    """Return whether no line is a comment."""
    # A search for one byte is many times as fast as a search for two.
    if b"#" in data and (data.startswith(b"#") or b"\n#" in data):
        return False
    return not data.startswith(BYTE_ORDER_MARK)


def _with_single_blanks(data: bytes) -> bytes:
    """Return the block with one space for each run of blanks, and none at the ends of a line."""
    data = data.replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    if data.startswith(b" ") or b"\n " in data:
        data = data.replace(b"\n ", b"\n").removeprefix(b" ")
    if b" \n" in data or data.endswith(b" "):
        data = data.replace(b" \n", b"\n").removesuffix(b" ")
    return data


def _arrow_table(data: bytes, layout: LineLayout, width: int, *, timestamps_as_text: bool, quotes: bool) -> pa.Table | None:
    fields = layout.fields[:width]
    names = [name or f"unread {place}" for place, name in enumerate(fields)]
    types = {name: _TYPES.get(name, pa.string()) for name in fields if name}
    if timestamps_as_text and "timestamp" in types:
        types["timestamp"] = pa.string()
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(
                column_names=names, block_size=len(data) + 1, use_threads=len(data) >= _BYTES_WORTH_THREADS
            ),
            parse_options=csv.ParseOptions(
                delimiter=layout.separator, quote_char='"' if quotes else False, newlines_in_values=quotes
            ),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None


def _check_columns(table: pa.Table, layout: LineLayout) -> dict[str, pa.Array] | None:
    """Convert the columns of a parsed block; return None if a value is not allowed."""
    if not table.num_rows:
        return None
    if layout.trim:
        table = pa.table({name: _trimmed(table.column(name)) for name in table.column_names})
    columns: dict[str, pa.Array] = {}
    is_by_id = None
    if layout.edge:
        is_by_id = _deletes_by_id(table, layout)
        if is_by_id is None:
            return None
    for name in table.column_names:
        column = table.column(name)
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if name == "timestamp":
            column = _timestamps(column, layout)
        elif name == "op":
            name, column = "delete", _deletes(column)
        elif name == "delete":
            column = booleans_of_text(column)
            column = None if column.null_count else column
        elif name.startswith(FURTHER):
            pass
        elif name in ("stream", "event"):
            column = _names_or_none(column)
        else:
            if is_by_id is not None and is_by_id.true_count:
                column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                column = pc.if_else(pc.and_(is_by_id, pc.equal(column, "")), pa.scalar(None, pa.string()), column)
                column = column.dictionary_encode() if name == "label" else column
            column = _names(column, layout)
        if column is None:
            return None
        columns[name] = column
    return columns


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        return column
    texts = pc.utf8_trim(column.cast(pa.string()), " \t")
    return texts.dictionary_encode() if pa.types.is_dictionary(column.type) else texts


def _deletes_by_id(table: pa.Table, layout: LineLayout) -> pa.Array | None:
    """Return which tuples are deletes with an id of an edge; None where an insert has none, or a delete cannot be read."""
    names = [name for name in table.column_names if name in ("op", "delete", layout.edge)]
    columns = {name: table.column(name).combine_chunks() for name in names}
    has_id = pc.not_equal(columns[layout.edge], "")
    is_delete = pa.array(np.zeros(table.num_rows, np.bool_))
    if "op" in columns:
        is_delete = _deletes(columns["op"])
    elif "delete" in columns:
        is_delete = booleans_of_text(columns["delete"])
    if is_delete is None or is_delete.null_count or not pc.all(pc.or_(is_delete, has_id)).as_py():
        return None
    return pc.and_(is_delete, has_id)


def _names_or_none(column: pa.Array) -> pa.Array:
    """Return names of streams or events with nulls for empty names."""
    if pc.any(pc.equal(column.dictionary, "")).as_py():
        texts = column.dictionary_decode()
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts).dictionary_encode()
    return column


def _timestamps(column: pa.Array, layout: LineLayout) -> pa.Array | None:
    if layout.times != "integers":
        return times_of(column, kind=layout.times, unit=layout.time_unit)
    if column.type == pa.int64():
        return column
    if pc.any(pc.match_substring_regex(column, "[xX]")).as_py():
        return None
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _deletes(column: pa.DictionaryArray) -> pa.Array | None:
    ops = column.dictionary.to_pylist()
    if not set(ops) <= {"+", "-"}:
        return None
    is_delete = np.array([op == "-" for op in ops], dtype=np.bool_)
    return pa.array(is_delete[column.indices.to_numpy(zero_copy_only=False)])


def _names(column: pa.Array, layout: LineLayout) -> pa.Array | None:
    if not pa.types.is_dictionary(column.type):
        return _check_names(column, layout)
    names = _check_names(column.dictionary, layout)
    if names is None or names is column.dictionary:
        return None if names is None else column
    # Two labels may be equal without their brackets.
    unique = names.dictionary_encode()
    return pa.DictionaryArray.from_arrays(unique.indices.take(column.indices), unique.dictionary)


def _check_names(names: pa.Array, layout: LineLayout) -> pa.Array | None:
    if pc.min(pc.binary_length(names)).as_py() == 0:
        return None
    if layout.integers and not pc.all(pc.match_substring_regex(names, _PLAIN_INTEGER)).as_py():
        return None
    if layout.brackets:
        if pc.any(pc.equal(names, "<>")).as_py():  # the name would be empty
            return None
        bracketed = pc.and_(pc.starts_with(names, "<"), pc.ends_with(names, ">"))
        if pc.all(bracketed).as_py():
            return pc.utf8_slice_codeunits(names, 1, -1)
        return pc.replace_substring_regex(names, _BRACKETED, r"\1")
    return names
