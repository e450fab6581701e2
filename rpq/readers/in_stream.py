"""An input all of whose tuples belong to one stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.column_names import STREAM
from rpq.readers.inputs import Input


class InStream:
    """An input whose tuples get the name of a stream; `InputError` where they have one of their own."""

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
                    f"{self.name}: has a column {STREAM!r}, and all of it is said to be of the stream "
                    f"{self._stream[0].as_py()!r}; give one of the two",
                    file=self.name,
                    column=STREAM,
                )
            names = pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, np.int32), self._stream)
            yield batch.append_column(STREAM, names)
