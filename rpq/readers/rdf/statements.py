"""The statements of an RDF input as columns, and the errors between them.

Canonical lines of N-Triples and N-Quads are used unchanged; pyoxigraph parses everything else and serialises it to canonical
lines. The cost of a statement is therefore about that of its parser. A short document can stand for very long lines, whose
bytes are counted (`TermGrowth`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from rpq.readers.edges import InMemorySource
from rpq.readers.open_source import OpenSource
from rpq.readers.rdf.blank_nodes import LabelCollector
from rpq.readers.rdf.canonical_lines import NAMES, columns_of, kinds_of, lines_of, split_statement, texts_of
from rpq.readers.rdf.growth import GrowthError, TermGrowth, check_json_growth
from rpq.readers.rdf.rdf_syntax import (
    RdfSyntax,
    is_unresolved,
    parser_message,
    parser_of,
    pyoxigraph,
    unresolved_iri,
)
from rpq.readers.source import ByteSource, LineBlock
from rpq.stream.arrays.fields import quote_value
from rpq.stream.gc_pause import gc_paused

BLOCK_BYTES = 1 << 22
"""The maximum size of a block of lines, in bytes."""

BATCH_STATEMENTS = 1 << 14
"""The number of statements in a batch of the other syntaxes."""

_STEP = 8
"""The number of statements between two looks at their size: short documents can have very long terms."""

_BYTES_A_LINE = 100
_CHUNK = 1 << 16
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_LITERAL_GRAPH = re.compile(r'(.*[^\s])\s+("(?:[^"\\]|\\.)*"(?:\^\^<[^<>]*>)?)\s*\.\s*(?:#.*)?', re.DOTALL)

SCHEMA = pa.schema([*((name, pa.string()) for name in NAMES), ("number", pa.int64())])
"""The columns of statements: texts of vertices, null for the default graph, and the number of the line or statement."""

RDF12_MESSAGE = "it uses RDF 1.2 (a triple term, or a text direction), which is not supported; expected RDF 1.1"


@dataclass(frozen=True, kw_only=True)
class BadStatement:
    """An error in a line, or in the input if `line` is None; with `ends`, nothing after the error can be read."""

    message: str
    line: int | None
    ends: bool = False


ReadResult: TypeAlias = pa.RecordBatch | BadStatement


class Statements:
    """The statements of an input, read once: batches of `SCHEMA`, and errors between them, in the order of the input.

    Relative IRIs refer to `base`. With `literal_graphs` the fourth term of a line may be a literal, as in early N-Quads.
    `line_of` returns the line of a statement by its number.
    """

    def __init__(
        self,
        source: ByteSource | InMemorySource | OpenSource,
        syntax: RdfSyntax,
        *,
        batch_rows: int,
        base: str | None = None,
        literal_graphs: bool = False,
    ) -> None:
        self._source = source
        self._syntax = syntax
        self._batch_rows = batch_rows
        self._base = base
        self._labels_seen = LabelCollector() if syntax.has_local_blanks else None
        self._growth = TermGrowth()
        self._literal_graphs = literal_graphs and syntax.name == "nq"
        pyoxigraph()

    def __iter__(self) -> Iterator[ReadResult]:
        if self._syntax.has_documents:
            return self._read_documents()
        return self._read_lines() if self._syntax.is_line_based else self._read_document()

    @property
    def labels(self) -> Set[str]:
        """The labels of blank nodes so far that look like generated ones; empty if that does not matter."""
        return frozenset() if self._labels_seen is None else self._labels_seen.labels

    def line_of(self, number: int) -> int | None:
        """Return the line of the statement with this number, or None if the input cannot be read again."""
        if self._syntax.is_line_based or self._syntax.has_documents:
            return number
        return self._line_where(lambda count: count > number)

    # --- lines -----------------------------------------------------------------------------------------------------

    def _read_lines(self) -> Iterator[ReadResult]:
        size = max(64, min(BLOCK_BYTES, self._batch_rows * _BYTES_A_LINE))
        for block in self._source.blocks(size):
            yield from self._read_block(block)

    def _read_block(self, block: LineBlock) -> Iterator[ReadResult]:
        try:
            lines = lines_of(block.data)
        except pa.ArrowInvalid:
            yield from self._line_by_line(block)
            return
        kinds = kinds_of(
            lines, block.data, graphs=self._syntax.has_graphs, literal_graphs=self._literal_graphs
        )
        numbers = np.arange(block.line, block.line + len(lines))
        others = np.flatnonzero(~kinds.canonical)
        if not len(others):
            yield _batch(columns_of(lines, kinds.of_graph), numbers)
            return
        parsed = self._parse_lines(lines.take(pa.array(others)).to_pylist())
        plain = columns_of(lines.filter(pa.array(kinds.canonical)), kinds.of_graph[kinds.canonical])
        rows = np.concatenate([np.flatnonzero(kinds.canonical), others[parsed.rows]])
        order = pa.array(np.argsort(rows))
        columns = [pa.concat_arrays(pair).take(order) for pair in zip(plain, parsed.columns, strict=True)]
        bad = {int(numbers[others[row]]): message for row, message in parsed.bad.items()}
        yield from _yield_in_order(columns, numbers[np.sort(rows)], bad)

    def _line_by_line(self, block: LineBlock) -> Iterator[ReadResult]:
        """Read a block that contains invalid UTF-8 line by line."""
        for number, data in enumerate(_LINE.findall(block.data), block.line):
            yield from self._read_one_by_one(LineBlock(data, number))

    def _read_one_by_one(self, block: LineBlock) -> Iterator[ReadResult]:
        try:
            block.data.decode()
        except UnicodeDecodeError as error:
            yield BadStatement(message=f"at byte {error.start + 1}: is not UTF-8", line=block.line)
            return
        yield from self._read_block(block)

    def _parse_lines(self, texts: list[str]) -> _ParseResult:
        """Parse lines that are statements, blank or comments."""
        data_rows = [row for row, text in enumerate(texts) if (bare := text.strip()) and not bare.startswith("#")]
        bad: dict[int, str] = {}
        literals: dict[int, str] = {}
        quads: list[Any] = []
        with gc_paused():
            try:
                quads.extend(parser_of("\n".join(texts[row].rstrip("\r\n") for row in data_rows).encode(), self._syntax))
            except SyntaxError:
                quads.clear()
        rows = data_rows
        if len(quads) != len(data_rows):
            rows, quads = [], []
            for row in data_rows:
                found = self._single(texts[row].strip(), literals, row)
                if isinstance(found, str):
                    bad[row] = f"{found}: {quote_value(texts[row].strip())}"
                else:
                    rows.append(row)
                    quads.append(found)
        parsed = _columns_of_lines(_serialize(quads), self._syntax)
        bad |= {rows[row]: message for row, message in parsed.bad.items()}
        found_rows = np.array(rows, np.int64)[parsed.rows]
        if literals:
            graphs = zip(found_rows.tolist(), parsed.columns[3].to_pylist(), strict=True)
            parsed.columns[3] = pa.array([literals.get(row, graph) for row, graph in graphs], pa.string())
        return _ParseResult(columns=parsed.columns, rows=found_rows, bad=bad)

    def _single(self, text: str, literals: dict[int, str], row: int) -> Any:
        """Parse the quad in a line, and return the quad or an error message."""
        try:
            quads = list(parser_of(text.encode(), self._syntax))
        except SyntaxError as error:
            found = _LITERAL_GRAPH.fullmatch(text) if self._literal_graphs else None
            if found is not None:
                quad = self._single(f"{found[1]} .", {}, row)
                if not isinstance(quad, str):
                    literals[row] = found[2]
                    return quad
            return parser_message(error)
        return quads[0] if len(quads) == 1 else "is not a complete statement"

    # --- one document in each line ---------------------------------------------------------------------------------

    def _read_documents(self) -> Iterator[ReadResult]:
        """Read lines that are documents. A bad document has no statements. The number of a statement is its line."""
        for block in self._source.blocks(max(64, min(BLOCK_BYTES, self._batch_rows * _BYTES_A_LINE))):
            written = _WrittenStatements()
            lines: list[int] = []
            bad: dict[int, str] = {}
            for line, data in enumerate(_LINE.findall(block.data), block.line):
                self._growth.read += len(data)
                if not data.strip():
                    continue
                found = _WrittenStatements()
                try:
                    check_json_growth(data)
                except GrowthError as error:
                    bad[line] = str(error)
                    continue
                try:
                    with gc_paused():
                        found.extend(parser_of(data, self._syntax, self._base), self._growth)
                except SyntaxError as error:
                    bad[line] = f"{parser_message(error)}; expected a document of JSON-LD in each line"
                    continue
                except GrowthError as error:
                    yield from self._yield_documents(written, lines, bad)
                    yield BadStatement(message=str(error), line=line, ends=True)
                    return
                written += found
                lines += [line] * found.count
                if written.size >= BLOCK_BYTES:
                    yield from self._yield_documents(written, lines, bad)
                    written, lines, bad = _WrittenStatements(), [], {}
            yield from self._yield_documents(written, lines, bad)

    def _yield_documents(self, written: _WrittenStatements, lines: list[int], bad: dict[int, str]) -> Iterator[ReadResult]:
        """Yield the statements of documents, each with the line of its document, and the errors of other documents."""
        if not written.count:
            yield from (BadStatement(message=message, line=line) for line, message in sorted(bad.items()))
            return
        parsed = _columns_of_lines(written.lines, self._syntax)
        numbers = np.array(lines, np.int64)
        of_rdf12 = {lines[row]: message for row, message in parsed.bad.items()}
        whole = ~np.isin(numbers[parsed.rows], [*of_rdf12])
        columns = [column.filter(pa.array(whole)) for column in parsed.columns]
        yield from _yield_in_order(columns, numbers[parsed.rows][whole], {**bad, **of_rdf12})

    # --- documents -------------------------------------------------------------------------------------------------

    def _read_document(self) -> Iterator[ReadResult]:
        file = _Chunks(self._source.chunks(_CHUNK), self._labels_seen, self._growth)
        parser = parser_of(file, self._syntax, self._base)
        size = min(BATCH_STATEMENTS, self._batch_rows)
        number, has_ended = 0, False
        while not has_ended:
            written = _WrittenStatements()
            bad = None
            with gc_paused():
                try:
                    has_ended = self._extend(written, parser, file, size)
                except SyntaxError as error:
                    bad = self._bad(error)
                    has_ended = bad.ends
                except GrowthError as error:
                    bad = BadStatement(message=str(error), line=self.line_of(number + written.count), ends=True)
                    has_ended = True
            if written.count:
                yield from self._read_written(written, number)
                number += written.count
            if bad is not None:
                yield bad

    def _extend(self, written: _WrittenStatements, parser: Any, file: _Chunks, size: int) -> bool:
        """Append more statements, from a pipe only those that have arrived; return whether these were the last."""
        if self._source.size is not None:
            return written.extend(parser, self._growth, size=size, most_bytes=BLOCK_BYTES)
        while written.count < size and written.size < BLOCK_BYTES:
            if written.extend(parser, self._growth, size=written.count + 1):
                return True
            if file.is_empty:
                break
        return False

    def _read_written(self, written: _WrittenStatements, number: int) -> Iterator[ReadResult]:
        parsed = _columns_of_lines(written.lines, self._syntax)
        numbers = np.arange(number, number + written.count)
        bad = {number + row: message for row, message in parsed.bad.items()}
        for read in _yield_in_order(parsed.columns, numbers[parsed.rows], bad):
            yield replace(read, line=self.line_of(read.line or 0)) if isinstance(read, BadStatement) else read

    def _bad(self, error: SyntaxError) -> BadStatement:
        line = error.lineno
        if line is None:
            line = self._line_where(lambda count: False)
        return BadStatement(message=parser_message(error), line=line, ends=not self._syntax.recovers)

    def _line_where(self, is_reached: Callable[[int], bool]) -> int | None:
        """Parse the source again up to a statement; return the line at which it is reached or at which parsing fails."""
        if self._source.size is None:
            return None
        file = _LineByLine(self._source.reopen())
        parser = iter(parser_of(file, self._syntax, self._base))
        count = 0
        while True:
            try:
                next(parser)
            except SyntaxError:
                if not self._syntax.recovers:
                    return file.line
                continue
            except StopIteration:
                return None
            count += 1
            if is_reached(count):
                return file.line


@dataclass(frozen=True, kw_only=True)
class _ParseResult:
    """Statements as columns, their rows, and the messages of bad rows."""

    columns: list[pa.Array]
    rows: np.ndarray
    bad: dict[int, str]


class _WrittenStatements:
    """Statements as lines of N-Quads: their `count`, and their `size` in bytes."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._parts: list[bytes] = []

    @property
    def lines(self) -> bytes:
        return b"".join(self._parts)

    def __iadd__(self, other: _WrittenStatements) -> _WrittenStatements:
        self.count += other.count
        self.size += other.size
        self._parts += other._parts
        return self

    def extend(self, parser: Any, growth: TermGrowth, *, size: int | None = None, most_bytes: int | None = None) -> bool:
        """Append statements of a parser, until there are `size` of them or `most_bytes`; return whether it has ended.

        What precedes an error is appended. Raises `SyntaxError` and `GrowthError`.
        """
        while (size is None or self.count < size) and (most_bytes is None or self.size < most_bytes):
            step = _STEP if size is None else min(_STEP, size - self.count)
            quads: list[Any] = []
            try:
                quads.extend(islice(parser, step))
            finally:
                data = _serialize(quads) if quads else b""
                growth.count_statements(data)
                self.count += len(quads)
                self.size += len(data)
                self._parts.append(data)
            if len(quads) < step:
                return True
        return False


def _serialize(quads: list[Any]) -> bytes:
    package = pyoxigraph()
    data: bytes = package.serialize(quads, format=package.RdfFormat.N_QUADS)
    return data


def _columns_of_lines(data: bytes, syntax: RdfSyntax) -> _ParseResult:
    """Convert lines that pyoxigraph wrote to columns; the row of a statement is its position."""
    lines = lines_of(data)
    kinds = kinds_of(lines, data, graphs=syntax.has_graphs)
    if is_unresolved(data):
        kinds.canonical[:] = False
    if kinds.canonical.all():
        return _ParseResult(columns=columns_of(lines, kinds.of_graph), rows=np.arange(len(lines)), bad={})
    columns = columns_of(lines.filter(pa.array(kinds.canonical)), kinds.of_graph[kinds.canonical])
    odd: list[tuple[str | None, ...]] = []
    rows: list[int] = []
    bad: dict[int, str] = {}
    for row in np.flatnonzero(~kinds.canonical).tolist():
        terms = split_statement(lines[row].as_py().rstrip("\n"))
        if terms is None:
            bad[row] = RDF12_MESSAGE
        elif (iri := unresolved_iri(terms)) is not None:
            bad[row] = f"the IRI {quote_value(iri)} is relative, without a base; @base in the input or --rdf-base sets it"
        else:
            odd.append(terms)
            rows.append(row)
    further = [texts_of(pa.array(column, pa.string())) for column in zip(*odd, strict=True)]
    places = np.concatenate([np.flatnonzero(kinds.canonical), np.array(rows, np.int64)])
    order = pa.array(np.argsort(places))
    if odd:
        columns = [pa.concat_arrays(pair).take(order) for pair in zip(columns, further, strict=True)]
    return _ParseResult(columns=columns, rows=np.sort(places), bad=bad)


def _yield_in_order(columns: list[pa.Array], numbers: np.ndarray, bad: dict[int, str]) -> Iterator[ReadResult]:
    """Yield the statements with these numbers and, in order, the errors in `bad` (number → message)."""
    start = 0
    for number, message in sorted(bad.items()):
        end = int(np.searchsorted(numbers, number))
        if start < end:
            yield _batch([column.slice(start, end - start) for column in columns], numbers[start:end])
        yield BadStatement(message=message, line=number)
        start = end
    if start < len(numbers):
        yield _batch([column.slice(start) for column in columns], numbers[start:])


def _batch(columns: list[pa.Array], numbers: np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], schema=SCHEMA)


class _Chunks:
    """Chunks of bytes as a file for the parser; `is_empty` is true when the parser has read everything that has arrived."""

    def __init__(self, chunks: Iterator[bytes], labels_seen: LabelCollector | None, growth: TermGrowth) -> None:
        self._chunks = chunks
        self._labels_seen = labels_seen
        self._growth = growth
        self._rest = memoryview(b"")

    @property
    def is_empty(self) -> bool:
        return not self._rest

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            chunk = next(self._chunks, b"")
            if self._labels_seen is not None:
                self._labels_seen.scan(chunk)
            self._growth.read += len(chunk)
            self._rest = memoryview(chunk)
        size = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)


class _LineByLine:
    """A source as a file that returns at most one line per call; `line` is the number of the last line."""

    def __init__(self, source: ByteSource | InMemorySource | OpenSource) -> None:
        self._blocks = source.blocks(_CHUNK)
        self._lines: list[bytes] = []
        self._rest = b""
        self.line = 0

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            if not self._lines:
                block = next(self._blocks, None)
                self._lines = [] if block is None else _LINE.findall(block.data)[::-1]
            if not self._lines:
                return b""
            self._rest = self._lines.pop()
            self.line += 1
        size = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
