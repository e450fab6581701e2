"""An open source of another package: its records for the readers, and positions among their tuples.

A source yields records with positions.  Readers turn a record into several tuples, or none, and yield these later, in
batches of their own.  Therefore a position among tuples is found as follows.  Readers request a block only when they have
passed on all tuples of the blocks before it.  At that moment `OpenSource` records a `Mark`: the number of tuples so far, and
the position.  A resumed run reads from the last mark before its position and skips the tuples between the two.  Before that,
it passes the first line of the source to the reader once more, which derives the layout from this line; the tuples of the
line are dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import pyarrow as pa

from rpq.errors import InputError, RpqError
from rpq.readers.source import BYTE_ORDER_MARK, LineBlock, count_lines
from rpq.readers.text.line_layout import is_ignored
from rpq.stream.providers import scheme_of, without_login
from rpq.stream.sources import SOURCES, Guarantee, Records

AHEAD = 256
"""The number of `Records` that the thread of a source may fetch in advance."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A position of a source between two blocks, behind a number of `tuples`.

    `line` is the number of the next line, `head` the first line that is neither blank nor a comment, and `counts` are the
    records so far that the reader left out: rejected, filtered, undecided.
    """

    tuples: int = 0
    position: Any = None
    line: int = 1
    head: bytes = b""
    counts: tuple[int, int, int] = (0, 0, 0)


class OpenSource:
    """A source of a URL, for readers: blocks of lines, or batches of edges, that begin behind a mark.

    It is also path-like, so that it can replace the name of a file.  `position` is the number of bytes that were read.
    """

    size: int | None = None

    def __init__(self, url: str) -> None:
        scheme = scheme_of(url)
        assert scheme is not None
        self.url, self.name = url, without_login(url)
        self.position = 0
        of_scheme = SOURCES.load(scheme)
        self.guarantee: Guarantee = of_scheme.guarantee
        self.delivers: str = getattr(of_scheme, "delivers", "records")
        self.time_unit: str | None = getattr(of_scheme, "time_unit", None)
        try:
            self._source = of_scheme(url)
        except Exception as error:
            raise self._wrap_error(error) from error
        self._begin = Mark()
        self._marks: deque[Mark] = deque()  # stays empty unless `begin` is called
        self._tuples = 0
        self._is_head = self._is_closed = False
        self._counts: Callable[[], tuple[int, int, int]] = lambda: (0, 0, 0)
        self._counts_before = self._counts()

    def __fspath__(self) -> str:
        return self.url

    # --- positions -------------------------------------------------------------------------------------------

    def begin(self, mark: Mark, counts: Callable[[], tuple[int, int, int]]) -> None:
        """Move the beginning of the next reading behind a mark.  `counts` returns the counts of the reader."""
        self._begin, self._tuples, self._counts = mark, mark.tuples, counts
        self._marks = deque([mark])

    def count(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches that readers produce from this source, without the tuples of a first line that was repeated."""
        for batch in batches:
            if not self._is_head:
                self._tuples += len(batch)
                yield batch

    def mark_before(self, tuples: int) -> Mark:
        """Return the last mark before a number of tuples, and discard the marks before it."""
        while len(self._marks) > 1 and self._marks[1].tuples <= tuples:
            self._marks.popleft()
        return self._marks[0]

    @property
    def first_row(self) -> int:
        """The number of the first row of edges that is read, counted from 0."""
        return self._begin.line - 1

    def counts(self) -> tuple[int, int, int]:
        """Return the records that were left out so far: rejected, filtered, undecided."""
        pairs = zip(self._begin.counts, self._counts(), self._counts_before, strict=True)
        first, second, third = (before + now - of_head for before, now, of_head in pairs)
        return first, second, third

    # --- reading ---------------------------------------------------------------------------------------------

    def blocks(self, size: int) -> Iterator[LineBlock]:
        """Yield the records as text, in blocks of all records that have arrived, up to about `size` bytes."""
        line, head = self._begin.line, self._begin.head
        if head:
            self._is_head = True
            yield LineBlock(head, line)
            self._is_head = False
            self._counts_before = self._counts()
        for data, position in self._join_records(size):
            if data:
                head = head or _first_line(data)
                self.position += len(data)
                yield LineBlock(data, line)
                line += count_lines(data)
            self._record_mark(position, line, head)

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the records as text, in chunks of about `size` bytes."""
        for number, block in enumerate(self.blocks(size)):
            yield block.data if number else block.data.removeprefix(BYTE_ORDER_MARK)

    def tables(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as batches of edges."""
        row = self.first_row
        for records in self._read():
            data = records.data
            if not isinstance(data, pa.RecordBatch):
                raise self._wrap_error(TypeError(f"edges are {type(data).__name__}; expected a RecordBatch of Arrow"))
            if data.num_rows:
                self.position += data.nbytes
                yield data
                row += data.num_rows
            self._record_mark(records.position, row + 1, b"")

    def reopen(self) -> OpenSource:
        """Return the source itself, because readers do not read an input of unknown size twice."""
        return self

    def close(self) -> None:
        """Disconnect, once. Errors that the source raises afterwards are ignored."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(Exception):
            getattr(self._source, "close", lambda: None)()

    def _join_records(self, size: int) -> Iterator[tuple[bytes, Any]]:
        """Yield the joined text of the records that have arrived, and the position behind them.

        Another thread fetches the records, at most `AHEAD` of them in advance.
        """
        queue: Queue[tuple[bytes, Any] | Exception | None] = Queue(AHEAD)
        is_left = threading.Event()

        def fetch() -> None:
            try:
                for records in self._read():
                    queue.put((self._text_of(records), records.position))
                    if is_left.is_set():
                        return
                queue.put(None)
            except Exception as error:
                queue.put(error)

        threading.Thread(target=fetch, name="source", daemon=True).start()
        parts: list[bytes] = []
        length, position = 0, None
        try:
            while True:
                one: tuple[bytes, Any] | Exception | None = None
                has_come = True
                try:
                    one = queue.get(block=not parts)
                except Empty:
                    has_come = False
                if isinstance(one, tuple):
                    data, position = one
                    parts.append(data)
                    length += len(data)
                    if length < size:
                        continue
                if parts:
                    yield b"".join(parts), position
                    parts, length = [], 0
                if isinstance(one, Exception):
                    raise one
                if has_come and one is None:
                    return
        finally:
            is_left.set()
            with suppress(Empty):  # the thread may be waiting for room in the queue
                while True:
                    queue.get_nowait()

    def _text_of(self, records: Records) -> bytes:
        data = records.data
        if not isinstance(data, bytes):
            raise self._wrap_error(TypeError(f"records are {type(data).__name__}; expected bytes, as it delivers records"))
        return data if not data or data.endswith(b"\n") else data + b"\n"

    def _read(self) -> Iterator[Records]:
        try:
            yield from self._source.read(self._begin.position)
        except Exception as error:
            if not self._is_closed:
                raise self._wrap_error(error) from error

    def _record_mark(self, position: Any, line: int, head: bytes) -> None:
        """Record a mark, when all tuples of the records so far were passed on."""
        if not self._marks:
            return
        mark = Mark(tuples=self._tuples, position=position, line=line, head=head, counts=self.counts())
        if self._marks[-1].tuples == mark.tuples:
            self._marks[-1] = mark
        else:
            self._marks.append(mark)

    def _wrap_error(self, error: Exception) -> InputError:
        if isinstance(error, InputError) and self.name in str(error):
            return error
        reason = str(error) if isinstance(error, RpqError) else f"{type(error).__name__}: {error}"
        return InputError(f"{self.name}: {reason}", file=self.name)


def _first_line(data: bytes) -> bytes:
    """Return the first line that is neither blank nor a comment, with its end."""
    return next((line for line in data.splitlines(keepends=True) if not is_ignored(line.rstrip(b"\r\n"))), b"")


def open_source(path: Any) -> Any:
    """Return the open source of a URL whose scheme is installed, and any other path unchanged.  Raises `InputError`."""
    return OpenSource(path) if SOURCES.has(path) else path
