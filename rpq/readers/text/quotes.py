"""Quotes in lines separated by commas or tabs: line ends inside a field, and incomplete records.

Quoted fields follow RFC 4180: a quote begins the field, the next lone quote ends it, two quotes stand for one, and
separators and line ends between them are text.  Other quotes are handled line by line:

* With commas, a quote that begins a field must have a quote that ends it; otherwise the line is an error, and the next line
  is a record of its own.
* With tabs, a field with other quotes is text, including its quotes: `"abc"@en` is a name.  And if each of the lines that
  a quoted field would span has the right number of fields, they are separate lines, and the quotes are text.

A quoted field has at most `LONGEST` bytes, so that a superfluous quote cannot consume the rest of a file.  Whether a record
is complete therefore never depends on the end of a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rpq.readers.source import LineBlock, count_lines
from rpq.readers.text.line_layout import LineLayout, is_ignored

LONGEST = 1 << 16
"""The maximum number of bytes from the quote that begins a field to the quote that ends it."""

_CLOSED_FIELD = re.compile(rb'"(?:[^"]++|"")*+"')
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Quotes:
    """The quotes of a block of lines: `inner` are the positions of the line ends inside quotes.

    Unless `regular`, some quote neither begins nor ends a field nor is doubled, or the last quote is not closed, and
    `inner` is empty.
    """

    regular: bool
    inner: np.ndarray


IRREGULAR = Quotes(regular=False, inner=_NONE)


@lru_cache(maxsize=1)  # called when a block is cut, and again when it is parsed
def quotes_of(data: bytes, separator: str) -> Quotes:
    """Find all quotes of a block that begins outside quotes; O(bytes), vectorised.

    >>> quotes_of(b'"a\\nb",c\\n', ",").inner.tolist(), quotes_of(b'a"b,c\\n', ",").regular
    ([2], False)
    """
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(text == ord('"'))
    if len(places) % 2:
        return IRREGULAR
    begins, ends = places[::2], places[1::2]
    padded = np.full(len(text) + 3, ord("\n"), np.uint8)  # padded[i + 1] is text[i]
    padded[1:-2] = text
    before, after = padded[begins], padded[ends + 2]
    divides = np.zeros(256, np.bool_)
    divides[[ord(separator), ord("\n"), ord('"')]] = True
    is_end = divides[after] | ((after == ord("\r")) & (padded[ends + 3] == ord("\n")))
    # A quote next to another quote is half of a doubled quote or of an empty field; the other end of the pair decides.
    if not (divides[before] & is_end).all():
        return IRREGULAR
    lines = np.flatnonzero(text == ord("\n"))
    inner = lines[np.searchsorted(places, lines) % 2 == 1]
    if len(inner):
        is_doubled = begins[1:] == ends[:-1] + 1
        lengths = ends[np.append(~is_doubled, True)] - begins[np.append(True, ~is_doubled)]
        if lengths.max() >= LONGEST:
            return IRREGULAR
    return Quotes(regular=True, inner=inner)


def records(data: bytes, layout: LineLayout) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each record (without its line end), and whether it is complete.

    An incomplete record has an open quote at the end of the data that more data may close; it extends to the end of its
    first line.  O(bytes), in Python.
    """
    start = 0
    while start < len(data):
        end = _line_end(data, start)
        whole = True
        if data.find(b'"', start, end) >= 0 and not is_ignored(data[start:end]):
            end, whole = _record_end(data, start, end, layout)
        yield start, end, whole
        start = end + 1


def whole_records(blocks: Iterator[LineBlock], layout: LineLayout) -> Iterator[LineBlock]:
    """Yield blocks that end at the end of a record: an incomplete record at the end of a block moves to the next block."""
    pending, line = b"", 1
    for block in blocks:
        data, line = pending + block.data, line if pending else block.line
        cut = _whole_part(data, layout)
        pending = data[cut:]
        if cut:
            yield LineBlock(data[:cut], line)
            line += count_lines(data[:cut]) if pending else 0
    if pending:
        yield LineBlock(pending, line)


def unfinished_record(data: bytes, following: bytes | None, layout: LineLayout) -> bool:
    """Return whether a record that begins in whole lines ends after them.

    `following` is the beginning of the text after them, long enough to contain the end of a quoted field, or None if it is
    unknown; then an open quote counts as a record that ends later.

    >>> layout = LineLayout(separator=",", fields=("source", "target"))
    >>> data = b'a,b\\nc,"d\\n'
    >>> unfinished_record(data, b'e"\\n', layout), unfinished_record(data, b"e,f\\n", layout)
    (True, False)
    """
    first = _whole_part(data, layout)
    if first == len(data) or following is None:
        return first < len(data)
    begun = data[first:]
    for start, end, _ in records(begun + following, layout):
        if start >= len(begun):
            return False
        if end >= len(begun):
            return True
    return False


def pieces(block: LineBlock, layout: LineLayout, size: int) -> Iterator[LineBlock]:
    """Split a block into pieces of complete records, about `size` bytes each."""
    first, line = 0, block.line
    for _, end, _ in records(block.data, layout):
        after = end + 1
        if after - first >= size:
            piece = block.data[first:after]
            yield LineBlock(piece, line)
            first, line = after, line + count_lines(piece)
    if first < len(block.data):
        yield LineBlock(block.data[first:], line)


def _whole_part(data: bytes, layout: LineLayout) -> int:
    """Return the number of bytes of complete records at the beginning of the data."""
    if b'"' not in data:
        return len(data)
    if not (b"#" in data and (data.startswith(b"#") or b"\n#" in data)):  # quotes in comments do not count
        quotes = quotes_of(data, layout.separator)
        if quotes.regular and (layout.separator == "," or not len(quotes.inner)):
            return len(data)
    return next((start for start, _, whole in records(data, layout) if not whole), len(data))


def _record_end(data: bytes, start: int, line_end: int, layout: LineLayout) -> tuple[int, bool]:
    """Return the end of a record with quotes, and whether it is complete."""
    separator = layout.separator.encode()
    is_text = layout.separator == "\t"
    place, end = start, line_end
    while place <= end:
        if data[place : place + 1] == b'"':
            field = _CLOSED_FIELD.match(data, place, place + LONGEST)
            if field is None:
                is_open = len(data) - place < LONGEST
                if is_open or not is_text:
                    return line_end, not is_open
            elif data[field.end() : field.end() + 1] in (separator, b"\n", b"") or data.startswith(b"\r\n", field.end()):
                is_longer = field.end() > end
                last = _line_end(data, field.end()) if is_longer else end
                if not (is_longer and is_text and all(_fits(line, layout) for line in data[start:last].split(b"\n"))):
                    end = last
                    place = field.end() + 1
                    continue
            elif not is_text:
                return line_end, True
        place = data.find(separator, place, end) + 1
        if not place:
            break
    return end, True


def _fits(line: bytes, layout: LineLayout) -> bool:
    return line.count(layout.separator.encode()) + 1 in layout.widths


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end
