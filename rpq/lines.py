"""Tables as lines of text: CSV as RFC 4180 has it, and JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

_CSV_SPECIAL = b'",\r\n'
_JSON_CONTROLS = bytes(range(0x20))
_TEXT = {text: pa.scalar(text, pa.large_string()) for text in ('"', ",", "\n", "", "{", "}", "null")}


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A form of lines: `header` gives the line above them (or nothing), `of` the lines of a table."""

    header: Callable[[Sequence[str]], bytes]
    of: Callable[[pa.Table], Iterator[pa.Buffer]]


def csv_lines(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the lines of a table as RFC 4180 CSV without header; values are quoted only where they need it.

    >>> rows = pa.table({"source": ["a", "b,c"], "timestamp": [1, 2]})
    >>> b"".join(buffer.to_pybytes() for buffer in csv_lines(rows))
    b'a,1\\n"b,c",2\\n'
    """
    for batch in rows.to_batches():
        texts = [_decoded(column) for column in batch.columns]
        if any(_has_special(column, _CSV_SPECIAL) for column in texts):
            yield _quoted_lines(texts)
            continue
        # Arrow's own "needed" puts quotes around every string; "none" is as fast, and right where nothing is special.
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 14)
        pa.csv.write_csv(pa.RecordBatch.from_arrays(texts, names=batch.schema.names), out, options)
        yield out.getvalue()


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _has_special(column: pa.Array, special: bytes) -> bool:
    """Whether a text column holds one of some bytes (bytes next to a slice may be looked at too)."""
    if not _is_text(column) or column.buffers()[2] is None:
        return False
    data = np.frombuffer(column.buffers()[2], dtype=np.uint8)
    return any(bool((data == byte).any()) for byte in special)


def _quoted_lines(columns: Sequence[pa.Array]) -> pa.Buffer:
    cells = []
    for column in columns:
        if not _is_text(column):
            cells.append(column.cast(pa.string()))
            continue
        text = column.cast(pa.large_string())
        special = pc.match_substring_regex(text, '[",\r\n]')
        quoted = _joined(_TEXT['"'], pc.replace_substring(text, '"', '""'), _TEXT['"'])
        cells.append(pc.if_else(special, quoted, text))
    cells = [pc.fill_null(cell.cast(pa.large_string()), "") for cell in cells]
    return _content(_joined(pc.binary_join_element_wise(*cells, _TEXT[","]), _TEXT["\n"]))


def json_lines(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the rows of a table as JSON objects, one a line: numbers as numbers, texts as texts, null as null.

    >>> rows = pa.table({"source": ["a", 'say "b"'], "timestamp": [1, 2]})
    >>> print(b"".join(buffer.to_pybytes() for buffer in json_lines(rows)).decode(), end="")
    {"source": "a", "timestamp": 1}
    {"source": "say \\"b\\"", "timestamp": 2}
    """
    for batch in rows.to_batches():
        if not batch.num_rows:
            continue
        fields = []
        for name, column in zip(batch.schema.names, batch.columns):
            cells = pc.fill_null(_json_values(_decoded(column)), _TEXT["null"])
            fields.append(_joined(pa.scalar(f"{json.dumps(name)}: ", pa.large_string()), cells))
        objects = pc.binary_join_element_wise(*fields, pa.scalar(", ", pa.large_string()))
        yield _content(_joined(_TEXT["{"], objects, _TEXT["}"], _TEXT["\n"]))


def _json_values(column: pa.Array) -> pa.Array:
    if not _is_text(column):
        return column.cast(pa.large_string())
    if _has_special(column, _JSON_CONTROLS):
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_pylist()]
        return pa.array(values, pa.large_string())
    text = column.cast(pa.large_string())
    for special in "\\", '"':
        if _has_special(column, special.encode()):
            text = pc.replace_substring(text, special, f"\\{special}")
    return _joined(_TEXT['"'], text, _TEXT['"'])


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _TEXT[""])


def _content(texts: pa.Array) -> pa.Buffer:
    """The bytes of all texts of an array, one behind the other."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


CSV = Lines(header=lambda columns: (",".join(columns) + "\n").encode(), of=csv_lines)
JSON_LINES = Lines(header=lambda columns: b"", of=json_lines)
