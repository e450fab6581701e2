"""From several inputs to one stream: what an input is, and the reader that puts inputs together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.batch import Batch
from rpq.readers.source import STANDARD_INPUT

BATCH_ROWS = 1 << 17
"""Rows of a batch unless told otherwise: enough that the cost of a batch does not count, small against a window."""

ON_ERROR = ("stop", "skip")

REJECTIONS_TOLD = 10
"""The first bad lines of an input have their messages kept, all are counted."""


class Input(Protocol):
    """One file (or pipe) of tuples in the order of its lines; iterating reads it from its beginning."""

    name: str
    time_unit: str | None

    @property
    def rejected(self) -> int: ...

    @property
    def rejections(self) -> list[str]: ...

    @property
    def warnings(self) -> list[str]: ...

    @property
    def filtered(self) -> int: ...

    @property
    def undecided(self) -> int: ...

    @property
    def bytes_total(self) -> int | None: ...

    @property
    def bytes_read(self) -> int: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


One = TypeVar("One", bound=Input)


class InputsReader(Generic[One]):
    """A reader over inputs that `combine` turns into one stream, in batches of at most `batch_rows` rows.

    Raises `InputError` where the inputs do not fit together: timestamps in different units.
    """

    def __init__(
        self,
        inputs: Sequence[One],
        *,
        combine: Callable[[Sequence[One]], Iterator[pa.RecordBatch]],
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._inputs = tuple(inputs)
        self._combine = combine
        self._batch_rows = batch_rows
        units = {one.time_unit: one.name for one in self._inputs}
        if len(units) > 1:
            (unit, name), (other_unit, other_name) = list(units.items())[:2]
            raise InputError(
                f"{other_name}: timestamps are {_described(other_unit)}, but {_described(unit)} in {name}; "
                "inputs that are read together must agree",
                file=other_name,
                column="timestamp",
            )
        self.time_unit = next(iter(units), None)

    @property
    def rejected(self) -> int:
        return sum(one.rejected for one in self._inputs)

    @property
    def rejections(self) -> list[str]:
        return [message for one in self._inputs for message in one.rejections][:REJECTIONS_TOLD]

    @property
    def warnings(self) -> list[str]:
        return [message for one in self._inputs for message in one.warnings]

    @property
    def filtered(self) -> int:
        return sum(one.filtered for one in self._inputs)

    @property
    def undecided(self) -> int:
        return sum(one.undecided for one in self._inputs)

    @property
    def bytes_total(self) -> int | None:
        sizes = [one.bytes_total for one in self._inputs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_read(self) -> int:
        return sum(one.bytes_read for one in self._inputs)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._combine(self._inputs):
            for start in range(0, batch.num_rows, self._batch_rows):
                yield Batch(columns=batch.slice(start, self._batch_rows), bytes_read=self.bytes_read)


def _described(unit: str | None) -> str:
    return "numbers without a unit" if unit is None else f"in {unit}"


def one_after_the_other(inputs: Sequence[Input]) -> Iterator[pa.RecordBatch]:
    """Combine inputs by reading the first to its end, then the second, and so on."""
    for one in inputs:
        yield from one


def check_arguments(paths: Sequence[str], *, on_error: str, batch_rows: int) -> None:
    """Raise where a reader is asked for something that cannot be: `InputError` for the paths, `ValueError` else."""
    if not paths:
        raise InputError("no input: expected at least one file, or - for standard input")
    if sum(path == STANDARD_INPUT for path in paths) > 1:
        raise InputError("- is given twice: standard input can be read only once", file="<stdin>")
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error is {on_error!r}; expected one of {', '.join(ON_ERROR)}")
    if batch_rows < 1:
        raise ValueError(f"batch_rows is {batch_rows}; expected at least 1")
