"""Arrow columns of any type as the few plain types that the engine works with.

The producer of a column chooses the layout of its values: polars writes views, pandas large text, databases run ends,
extension types and dictionaries of all these. Values decide what a column means, not their layout; so each door (the engine,
readers of typed files, the bodies of requests, tasks on Spark) converts a column to its plain type once, and no code behind
it meets another type:

| given                                                  | plain                                  |
|--------------------------------------------------------|----------------------------------------|
| string, large_string, string_view                      | string                                 |
| a dictionary of text                                   | a dictionary of string, int32 indices  |
| a dictionary of anything else                          | its values, written out                |
| run-end-encoded                                        | its values, written out                |
| an extension type (json, opaque, those that others made) | its storage, made plain; bool8 is bool |
| any other                                              | as it is                               |

`is_fit` says which types a column of tuples may have. Bytes, floats, decimals, lists and such are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array
from rpq.stream.arrays.values import EMPTY, EXPECTATIONS, MISSING, Misfit, first_empty

TEXT = pa.string()
TEXTS = pa.dictionary(pa.int32(), TEXT)
"""The type of a column with few texts and many rows."""


_FIRST_NOT_ASCII = 128


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold a text: it has no lone surrogate."""
    if text.isascii():  # as most are
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_sound_ascii(texts: pa.StringArray) -> bool:
    """Return whether an array of string is well-formed, without nulls, and of ASCII alone. O(length).

    This takes an eighth of the time in which Arrow validates an array.

    >>> is_sound_ascii(pa.array(["x", ""])), is_sound_ascii(pa.array(["ä"])), is_sound_ascii(pa.array(["x", None]))
    (True, False, False)
    """
    valid, places, data = texts.buffers()
    first, end = texts.offset, texts.offset + len(texts) + 1
    if valid is not None or places is None or data is None or places.size < 4 * end:
        return False
    ends = np.frombuffer(places, np.int32, count=end)[first:]
    if ends[0] < 0 or ends[-1] > data.size or (ends[1:] < ends[:-1]).any():
        return False
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return not len(content) or bool(content.max() < _FIRST_NOT_ASCII)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text in any layout, other than a dictionary.

    >>> [is_text(kind) for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), TEXTS)]
    [True, True, True, False, False]
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type to which `plain` converts a column of this type.

    >>> plain_type(pa.run_end_encoded(pa.int32(), pa.string_view()))
    DataType(string)
    >>> plain_type(pa.dictionary(pa.uint8(), pa.large_string())) == TEXTS
    True
    """
    if isinstance(kind, pa.BaseExtensionType):
        found = pa.bool_() if _is_bool8(kind) else plain_type(kind.storage_type)
    elif pa.types.is_dictionary(kind):
        found = plain_type(kind.value_type)
        found = TEXTS if found == TEXT else found
    elif pa.types.is_run_end_encoded(kind):
        found = plain_type(kind.value_type)
    else:
        return TEXT if is_text(kind) else kind
    return found if _can_be_plain(found) else kind


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece and of its plain type. O(rows); O(1) if it is both already.

    Types for which not all bytes are valid are validated first. Raises `pa.ArrowException` for a broken column, and
    `ValueError` for more text than one array holds.

    >>> words = pa.array(["a", "a", "b"], pa.string_view())
    >>> plain(pa.chunked_array([words, words[:1]])).to_pylist()
    ['a', 'a', 'b', 'a']
    >>> plain(pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])).to_pylist()
    [7, 7, 8]
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return plain(column.chunk(0))
        kind = plain_type(column.type)
        # Chunks become plain one by one, because Arrow cannot concatenate arrays of some layouts.
        joined = pa.chunked_array([plain(chunk) for chunk in column.chunks], kind).combine_chunks()
        if isinstance(joined, pa.ChunkedArray):
            raise ValueError("it is too large for one push: push it in parts")
        return joined
    kind = column.type
    if pa.types.is_primitive(kind):
        return column
    column.validate(full=True)
    if kind in (TEXT, TEXTS):
        return column
    target_type = plain_type(kind)
    return column if target_type == kind else _convert(column, target_type)


def with_plain_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns are of plain types; plain columns are not examined. O(rows that change)."""
    if all(plain_type(field.type) == field.type for field in batch.schema):
        return batch
    columns = [column if plain_type(column.type) == column.type else plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def is_fit(name: str, kind: pa.DataType) -> bool:
    """Return whether a column of tuples of this name may be of this plain type.

    >>> is_fit("source", pa.int8()), is_fit("source", pa.float64()), is_fit("op", TEXTS), is_fit("delete", TEXT)
    (True, False, True, True)
    """
    if pa.types.is_null(kind) or name == "event":
        return True
    if name == "delete":
        return kind in (TEXT, TEXTS) or bool(pa.types.is_boolean(kind))
    if name == "timestamp":
        return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))
    return kind in (TEXT, TEXTS) or (name in ("source", "target", "edge") and bool(pa.types.is_integer(kind)))


def plain_column(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of tuples as `plain` makes it.

    Raises `InputError` if it is broken, or of a type that no column of tuples has.
    """
    try:
        found = plain(column)
    except (pa.ArrowException, ValueError) as problem:
        reason = str(problem).strip().split("\n")[0]
        raise InputError(
            f"column {name!r} of type {column.type} cannot be read: {reason}; {EXPECTATIONS[name]}", column=name
        ) from problem
    if not is_fit(name, found.type):
        if found.null_count == len(found):  # a pandas frame has floats in place of missing values: none is of the wrong type
            return pa.nulls(len(found))
        is_binary = _holds_bytes(found.type) or isinstance(column.type, pa.BaseExtensionType)
        hint = "; cast it to text first" if is_binary and name not in ("delete", "timestamp") else ""
        if name == "timestamp" and pa.types.is_string(found.type):
            hint = "; cast it to timestamps first, as with column.cast(pyarrow.timestamp('us', 'UTC'))"
        raise InputError(f"column {name!r} is of type {column.type}; {EXPECTATIONS[name]}{hint}", column=name)
    return found


def _convert(column: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Return an array of another layout; its plain type is `target_type`."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = column.storage
        return pc.not_equal(storage, 0) if _is_bool8(kind) else _converted_if_needed(storage, target_type)
    if pa.types.is_run_end_encoded(kind):
        # Arrow's own function has no kernel for many of the types that the values may have.
        ends = numpy_array(column.run_ends) - column.offset
        lengths = np.diff(np.clip(ends, 0, len(column)), prepend=0)
        runs = np.repeat(np.arange(len(lengths)), lengths)
        return _converted_if_needed(column.values, target_type).take(arrow_array(runs))
    if pa.types.is_dictionary(kind):
        words = plain(column.dictionary)
        if target_type == TEXTS and words.type == TEXT:
            return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), words)
        return words.take(column.indices)
    return column.cast(target_type)


def _converted_if_needed(column: pa.Array, target_type: pa.DataType) -> pa.Array:
    return column if column.type == target_type else _convert(column, target_type)


def _can_be_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type are text, numbers, Booleans or times, as in tuples and properties."""
    is_number = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return is_number or any(is_fit(name, kind) for name in ("source", "delete", "timestamp"))


def _is_bool8(kind: pa.BaseExtensionType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.bool8"


def _holds_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


# --- values that do not fit a column ------------------------------------------------------------------------

NUMBER = pa.int64()


def cast(array: pa.Array, kind: pa.DataType, *, safe: bool = True) -> pa.Array:
    """Return an array as another type."""
    # Arrow takes ten microseconds to cast an array to the type that it already has.
    return array if array.type == kind else array.cast(kind, safe=safe)


def add_problem(problems: list[InputError], row: int, column: str, what: str) -> None:
    """Record a problem with the value of a row."""
    problems.append(row_error(row, column, what))


def row_error(row: int, column: str, what: str) -> InputError:
    """Return the error about the value of a row."""
    return InputError(f"row {row}: column {column!r}: {what}", row=int(row), column=column)


def padded_to_length(taken: tuple[Any, Misfit | None], count: int, name: str, problems: list[InputError]) -> Any:
    """Return the values before the first misfit as an array that is padded to the length of the other columns."""
    array, misfit = taken
    if misfit is None:
        return array
    add_problem(problems, misfit.row, name, misfit.reason)
    if isinstance(array, np.ndarray):
        return np.concatenate([array, np.zeros(count - len(array), array.dtype)])
    return pa.concat_arrays([array, pa.nulls(count - len(array), array.type)])


def fill_nulls(array: pa.Array, name: str, value: Any, problems: list[InputError]) -> pa.Array:
    """Return an array without nulls, the first of which is a problem."""
    if not array.null_count:
        return array
    add_problem(problems, pc.index(pc.is_null(array), pa.scalar(True)).as_py(), name, MISSING)
    return array.fill_null(value)


def check_names(array: pa.Array, name: str, problems: list[InputError]) -> pa.Array:
    """Return an array of text without nulls and empty texts, the first of which is a problem."""
    texts = fill_nulls(array, name, "", problems)
    place = first_empty(texts)
    if place is not None and array[place].is_valid:
        add_problem(problems, place, name, EMPTY)
    return texts


def to_int64(array: pa.Array, name: str, problems: list[InputError]) -> pa.Array:
    """Return unsigned integers as int64, the first of which that does not fit is a problem."""
    numbers = numpy_array(array)
    beyond = numbers > np.uint64(2**63 - 1)
    if beyond.any():
        row = int(np.argmax(beyond))
        add_problem(problems, row, name, f"{numbers[row]} does not fit into 64 bits with a sign")
    return arrow_array(numbers.view(np.int64))
