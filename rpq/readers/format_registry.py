"""The formats by their names, and hints if an input seems to be in another format than the specified one.

Formats are defined in this package or by installed packages: an entry point of the group `rpq.formats` has the name of its
format and refers to a `Format`, or to a function that opens inputs, `(paths, *, on_error, batch_rows) -> Reader`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from rpq.errors import InputError, did_you_mean
from rpq.readers.batch import Batch, Reader
from rpq.readers.edges import EDGES, JSON_LINES
from rpq.readers.input_format import Format
from rpq.readers.selection import ReaderWrapper
from rpq.readers.source import COMPRESSIONS, ByteSource

GROUP = "rpq.formats"

BUILTIN_FORMATS = ("edges", "jsonl", "rdf")
"""The formats of this package; the modules of RDF are imported when it is read."""


def formats() -> list[str]:
    """Return the names of the available formats, in alphabetical order.

    >>> formats()[:2]
    ['edges', 'gmark']
    """
    return sorted({*BUILTIN_FORMATS, *entry_points(group=GROUP).names})


def format_by_name(name: str) -> Format:
    """Return a format by its name, importing the package that defines it.  Raises `InputError` for an unknown name."""
    if name in (EDGES.name, JSON_LINES.name):
        return EDGES if name == EDGES.name else JSON_LINES
    if name == "rdf":
        from rpq.readers.rdf.rdf_format import RDF

        return RDF
    for point in entry_points(group=GROUP, name=name):
        found: Format | Callable[..., Reader] = point.load()
        return found if isinstance(found, Format) else Format(name=name, open=found)
    names = formats()
    raise InputError(f"unknown format {name!r}: expected one of {', '.join(names)}{did_you_mean(name, names)}")


LINES = 20
"""The number of first lines that hints are based on."""

Open = Callable[[str, str, str], Reader]
"""A function that opens a file: (format, path, on_error) → reader."""


class FormatHintReader(ReaderWrapper):
    """A reader that adds a hint about other formats if every line of its input is an error."""

    def __init__(self, reader: Reader, *, format: str, paths: Iterable[str], formats: Iterable[str], open_as: Open) -> None:
        super().__init__(reader)
        self._format = format
        self._paths = tuple(paths)
        self._formats = tuple(formats)
        self._open_as = open_as
        self._hint: str | None = None

    @property
    def rejections(self) -> list[str]:
        return [*self._reader.rejections, *([self._hint] if self._hint else [])]

    def __iter__(self) -> Iterator[Batch]:
        count = 0
        try:
            for batch in self._reader:
                count += len(batch)
                yield batch
        except InputError as error:
            hint = self._format_hint(error.file) if not count else None
            if hint is None or error.line is None:
                raise
            raise _add_hint(error, hint) from error
        if not count and self._reader.rejected:
            hints = {path: self._format_hint(path) for path in self._paths}
            self._hint = next((f"{path}: {hint}" for path, hint in hints.items() if hint), None)

    def _format_hint(self, path: str | None) -> str | None:
        return _format_hint(path, self._format, self._formats, self._open_as)


@contextmanager
def hint_on_error(*, format: str, formats: Iterable[str], open_as: Open) -> Iterator[None]:
    """Add the likely formats of an input to an error about its first lines."""
    try:
        yield
    except InputError as error:
        hint = _format_hint(error.file, format, formats, open_as) if error.line is not None else None
        if hint is None:
            raise
        raise _add_hint(error, hint) from error


def _format_hint(path: str | None, format: str, formats: Iterable[str], open_as: Open) -> str | None:
    fitting = _matching_formats(path, format, formats, open_as) if path is not None else []
    if not fitting:
        return None
    return f"the first lines are not of the format {format}, but could be of {' or '.join(fitting)}"


def _add_hint(error: InputError, hint: str) -> InputError:
    message = f"{error.message}; {hint}"
    return InputError(message, file=error.file, line=error.line, column=error.column, row=error.row)


def _matching_formats(path: str, format: str, formats: Iterable[str], open_as: Open) -> list[str]:
    """Return the formats that read the first lines of a file without errors; none if `format` reads any of them."""
    if not os.path.isfile(path):
        return []
    try:
        block = next(ByteSource(path).blocks(1 << 14), None)
    except InputError:
        return []
    if block is None:
        return []
    name = os.path.basename(path)  # the name may determine the label
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression.suffix)
    with tempfile.TemporaryDirectory(prefix="rpq-format-") as folder:
        copy = os.path.join(folder, name)
        Path(copy).write_bytes(b"\n".join(block.data.split(b"\n")[:LINES]) + b"\n")
        if _count(open_as, format, copy, "skip"):
            return []
        fitting = [one for one in formats if one != format and _count(open_as, one, copy, "stop")]
    return ["edges"] if "edges" in fitting else fitting


def _count(open_as: Open, format: str, path: str, on_error: str) -> int:
    """Return the number of tuples that a format reads, or 0 if it finds an error."""
    try:
        return sum(map(len, open_as(format, path, on_error)))
    except (InputError, ValueError):
        return 0
