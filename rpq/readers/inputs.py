"""The combination of several inputs to one stream: the interface of an input, the reader, and the merge by heads.

`merge_by_heads` merges streams by the timestamps of their next lines (heads): of all heads, the one with the smallest
timestamp goes next, and of equal heads that of the first stream.  Streams need not be sorted: a line that is late within its
own stream directly follows the line before it, because its smaller timestamp precedes all other heads.

The position of a line is thus determined by the largest timestamp *up to* the line in its stream.  That running maximum
never decreases, and ordering all lines by (running maximum, stream, line) is the merge by heads: a line becomes a head only
after all lines before it, and it is next when no other head is smaller, that is, when all lines with a smaller running
maximum are done.  Hence no loop over lines is needed: one batch of every stream is in memory, all rows below the smallest
last running maximum can be passed on, and one stable sort orders them.  Each round consumes a batch, so the time is
O(rows · log streams) and the memory one batch per stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE, Batch
from rpq.readers.column_names import EVENT
from rpq.readers.source import STANDARD_INPUT
from rpq.stream.arrays.fields import STREAM, UNLESS_NEWER

BATCH_ROWS = 1 << 17
"""The default number of rows of a batch: large enough to amortise the cost of a batch, small against a window."""

ON_ERROR = ("stop", "skip")

REJECTION_MESSAGES = 10
"""The maximum number of bad lines of an input with stored messages; all are counted."""


class Input(Protocol):
    """One file (or pipe) of tuples in the order of its lines; iteration starts at its beginning."""

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
    """A reader over inputs that `combine` merges into one stream, in batches of at most `batch_rows` rows.

    Raises `InputError` if the timestamps of the inputs have different units.
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
                f"{other_name}: timestamps are {_describe_unit(other_unit)}, but {_describe_unit(unit)} in {name}; "
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
        return [message for one in self._inputs for message in one.rejections][:REJECTION_MESSAGES]

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


def _describe_unit(unit: str | None) -> str:
    return "numbers without a unit" if unit is None else f"in {unit}"


def concatenate_inputs(inputs: Sequence[Input]) -> Iterator[pa.RecordBatch]:
    """Combine inputs by reading the first to its end, then the second, and so on."""
    for one in inputs:
        yield from one


def check_arguments(paths: Sequence[object], *, on_error: str, batch_rows: int) -> None:
    """Check the arguments of a reader; raise `InputError` for the paths, `ValueError` for the others."""
    if not paths:
        raise InputError("no input: expected at least one file, or - for standard input")
    if sum(path == STANDARD_INPUT for path in paths) > 1:
        raise InputError("- occurs twice: standard input can be read only once", file="<stdin>")
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error is {on_error!r}; expected one of {', '.join(ON_ERROR)}")
    if batch_rows < 1:
        raise ValueError(f"batch_rows is {batch_rows}; expected at least 1")


class SingleStreamInput:
    """An input whose tuples all belong to one stream; raises `InputError` if they have a column `stream`."""

    def __init__(self, one: Input, stream: str) -> None:
        self._input = one
        self._stream = pa.array([stream], LABEL_TYPE.value_type)
        self.name = one.name
        self.time_unit = one.time_unit

    @property
    def rejected(self) -> int:
        return self._input.rejected

    @property
    def rejections(self) -> list[str]:
        return self._input.rejections

    @property
    def warnings(self) -> list[str]:
        return self._input.warnings

    @property
    def filtered(self) -> int:
        return self._input.filtered

    @property
    def undecided(self) -> int:
        return self._input.undecided

    @property
    def bytes_total(self) -> int | None:
        return self._input.bytes_total

    @property
    def bytes_read(self) -> int:
        return self._input.bytes_read

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._input:
            if STREAM in batch.schema.names:
                raise InputError(
                    f"{self.name}: has a column {STREAM!r}, but the input is assigned to the stream "
                    f"{self._stream[0].as_py()!r}; use one of the two",
                    file=self.name,
                    column=STREAM,
                )
            names = pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, np.int32), self._stream)
            yield batch.append_column(STREAM, names)


class _Head:
    """A stream, the remaining rows of its current batch, and their running maxima."""

    def __init__(self, stream: Iterable[pa.RecordBatch]) -> None:
        self._stream = iter(stream)
        self._highest = np.iinfo(np.int64).min
        self.batch: pa.RecordBatch | None = None
        self.keys = np.empty(0, np.int64)

    def refill(self) -> None:
        """Read the next batch that is not empty; `batch` is None at the end of the stream."""
        self.batch = next((batch for batch in self._stream if batch.num_rows), None)
        if self.batch is not None:
            times = self.batch.column("timestamp").to_numpy()
            self.keys = np.maximum(np.maximum.accumulate(times), self._highest)
            self._highest = self.keys[-1]

    def take(self, count: int) -> pa.RecordBatch:
        assert self.batch is not None
        rows, self.batch, self.keys = self.batch.slice(0, count), self.batch.slice(count), self.keys[count:]
        return rows


def merge_by_heads(streams: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all streams, merged by the timestamps of their heads, ties in the order of the streams.

    An error of a stream is raised when its next head is needed, after all rows before it.
    """
    if len(streams) == 1:  # the rows of a single stream stay unchanged, including their types
        yield from streams[0]
        return
    heads = [_Head(stream) for stream in streams]
    for head in heads:
        head.refill()
    while heads := [head for head in heads if head.batch is not None]:
        # The rows of any stream are final up to the smallest last maximum of all batches.
        first = min(range(len(heads)), key=lambda place: heads[place].keys[-1])
        bound = heads[first].keys[-1]
        keys, parts = [], []
        for place, head in enumerate(heads):
            count = int(np.searchsorted(head.keys, bound, side="right" if place <= first else "left"))
            if count:
                keys.append(head.keys[:count])
                parts.append(head.take(count))
        yield parts[0] if len(parts) == 1 else order_rows(parts, np.concatenate(keys))
        heads[first].refill()


_OF_TUPLES = frozenset({"source", "target", "label", "timestamp", "delete", STREAM, EVENT})


def order_rows(parts: Sequence[pa.RecordBatch], keys: np.ndarray) -> pa.RecordBatch:
    """Concatenate the rows of all parts and sort them by their keys; equal keys keep their order."""
    order = pa.array(np.argsort(keys, kind="stable"))
    names = ["source", "target", "label", "timestamp"]
    names += [name for name in ("delete", STREAM, EVENT) if any(name in part.schema.names for part in parts)]
    properties = {field.name: field for part in parts for field in part.schema if field.name not in _OF_TUPLES}
    arrays = [_concatenate(parts, name).take(order) for name in (*names, *properties)]
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=False)]
    fields += [one.with_type(array.type) for one, array in zip(properties.values(), arrays[len(names) :], strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _concatenate(parts: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    arrays = [_column(part, name) for part in parts]
    if name in ("label", STREAM, EVENT) and len({array.type for array in arrays}) > 1:
        arrays = [array if array.type == LABEL_TYPE else array.dictionary_encode() for array in arrays]
    types = {array.type for array in arrays}
    if len(types) > 1:  # records of nodes have no properties of edges, and the reverse; what is null has no type
        types = {array.type for array in arrays if array.null_count < len(array)} or {pa.string()}
        one = next(iter(types))
        arrays = [pa.nulls(len(array), one) if array.null_count == len(array) else array for array in arrays]
    kinds = sorted(map(str, types))
    if len(kinds) > 1:
        raise InputError(
            f"column '{name}' is {kinds[0]} in one input and {kinds[1]} in another; they must agree", column=name
        )
    return pa.concat_arrays(arrays)


def _column(part: pa.RecordBatch, name: str) -> pa.Array:
    if name == "delete" and name not in part.schema.names:
        return pa.array(np.zeros(part.num_rows, np.bool_))
    if name in (STREAM, EVENT) and name not in part.schema.names:
        return pa.nulls(part.num_rows, LABEL_TYPE)
    if name == UNLESS_NEWER and name not in part.schema.names:
        return pa.array(np.zeros(part.num_rows, np.bool_))
    return part.column(name) if name in part.schema.names else pa.nulls(part.num_rows)
