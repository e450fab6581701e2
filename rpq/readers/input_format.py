"""The interface of a format: how it opens inputs as a stream and, for text, the layout of its lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rpq.readers.batch import Reader
from rpq.readers.inputs import InputsReader, check_arguments
from rpq.readers.text.textfile import Detect, TextFile


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """A reader of text files. Each line is read independently of others, so that a part of a file can be read.

    `detect` determines the layout of a file from its first data line; `label` derives the label of all edges of a file
    from its name.
    `time_unit` is the unit of the timestamps ("s", "ms", "us", "ns"), or None for plain numbers.  With `by_position`, the
    timestamp of a tuple is the number of its line among the data lines of all files.

    >>> from rpq.readers.edges import EDGES
    >>> EDGES.text.by_position, EDGES.text.label
    (False, None)
    """

    detect: Detect
    label: Callable[[str], str] | None = None
    time_unit: str | None = None
    by_position: bool = False

    def open(
        self,
        paths: Sequence[str],
        *,
        combine: Callable[[Sequence[TextFile]], Iterator[pa.RecordBatch]],
        on_error: str,
        batch_rows: int,
    ) -> InputsReader[TextFile]:
        """Open files as one reader; `combine` merges them.  Raises `InputError` for a file name without a label.

        >>> import os, tempfile
        >>> from rpq.readers.edges import EDGES
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "edges.tsv"), "w") as file:
        ...         _ = file.write("x\\ty\\ta\\t1\\n")
        ...     options = {"on_error": "stop", "batch_rows": 1000}
        ...     reader = EDGES.text.open([file.name], combine=lambda files: iter(files[0]), **options)
        ...     [len(batch) for batch in reader]
        [1]
        """
        check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
        files = [
            TextFile(
                path,
                detect=self.detect,
                on_error=on_error,
                batch_rows=batch_rows,
                time_unit=self.time_unit,
                label=self.label(path) if self.label is not None else None,
            )
            for path in paths
        ]
        return InputsReader(files, combine=combine, batch_rows=batch_rows)


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format and its name.

    `open(paths, *, on_error, batch_rows)` opens inputs as one stream.  It can accept `columns`, `where` and `time_unit` too,
    like `rpq.readers.edges.open_edges`; other options are refused, or applied to its output.  `text` is the layout of its
    lines; without it, tasks that share a file (`rpq spark prepare`) cannot read the format.

    >>> from rpq.readers.edges import EDGES
    >>> EDGES.name, EDGES.text is not None
    ('edges', True)
    """

    name: str
    open: Callable[..., Reader]
    text: TextFormat | None = None

    @property
    def options(self) -> frozenset[str]:
        """The names of the parameters of `open`.

        >>> from rpq.readers.edges import EDGES
        >>> "columns" in EDGES.options, "by_position" in EDGES.options
        (True, False)
        """
        return frozenset(inspect.signature(self.open).parameters)
