"""Arrow arrays from and to NumPy arrays and lists, without pandas.

Arrow's own `to_numpy`, `array` and `scalar` import pandas wherever it is installed, even for integers. That takes 30 MB and
half a second.
"""

from __future__ import annotations

from array import array as c_array
from typing import Any

import numpy as np
import pyarrow as pa

_INTEGERS = {one.id: np.dtype(str(one)) for one in map(pa.type_for_alias, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))}


def numpy_array(array: pa.Array) -> np.ndarray:
    """Return the values of an array of integers or Booleans without nulls; integers are a read-only view.

    Raises `ValueError` if the array has nulls or values of another type.

    >>> numpy_array(pa.array([1, 2, 3])[1:]).tolist()
    [2, 3]
    >>> numpy_array(pa.array([True, False, True])[1:]).tolist()
    [False, True]
    """
    if array.null_count:
        raise ValueError(f"an array without nulls is expected, not one with {array.null_count}")
    kind = _INTEGERS.get(array.type.id)
    if kind is None:
        if not pa.types.is_boolean(array.type):
            raise ValueError(f"integers or Booleans are expected, not {array.type}")
        return numpy_array(array.cast(pa.uint8())).view(np.bool_)
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


_OFFSET_OF_NONE = np.frombuffer(bytes(4), np.int32)


def text_offsets(texts: pa.Array) -> np.ndarray:
    """Return the offsets (int32, one more than texts) of an array of string into its bytes, a read-only view.

    >>> text_offsets(pa.array(["x", "", "yz"])[1:]).tolist()
    [1, 1, 3]
    """
    if not len(texts):
        return _OFFSET_OF_NONE
    # With a count, because the buffer can have any number of bytes behind the offsets.
    return np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset)


def text_bytes(texts: pa.Array) -> bytes:
    """Return the bytes of all texts of an array of string one after another.

    >>> text_bytes(pa.array(["x", "", "yz"])[1:])
    b'yz'
    """
    begin, end = text_offsets(texts)[[0, -1]].tolist()
    return texts.buffers()[2].slice(begin, end - begin).to_pybytes() if begin < end else b""


def arrow_array(numbers: np.ndarray) -> pa.Array:
    """Return the integers of a NumPy array as an Arrow array of the same type, which is a view if they are contiguous.

    >>> arrow_array(np.array([1, 2, 3], np.int32)[::2]).type, arrow_array(np.arange(3)).to_pylist()
    (DataType(int32), [0, 1, 2])
    """
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, data])


def integer_array(numbers: list[int]) -> pa.Array:
    """Return integers as an array of int64. Raises `OverflowError` if one needs more than 64 bits.

    >>> integer_array([1, -2]).to_pylist()
    [1, -2]
    """
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(c_array("q", numbers))])


def text_array(texts: list[str]) -> pa.Array:
    """Return texts as an array of string.

    Raises `UnicodeEncodeError` for a lone surrogate, and `pyarrow.ArrowCapacityError` if the texts have more than 2 GB.

    >>> text_array(["x", "", "é"]).to_pylist()
    ['x', '', 'é']
    """
    data = "".join(texts).encode()
    if len(data) >= 1 << 31:
        raise pa.ArrowCapacityError(f"the texts of an array have at most 2 GB, not {len(data):,} bytes")
    lengths = np.fromiter(map(len, texts), np.int32, len(texts))
    if lengths.sum(dtype=np.int64) != len(data):  # not all are ASCII
        lengths = np.fromiter(map(len, map(str.encode, texts)), np.int32, len(texts))
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(data))


def refuse_mixed_scalars(values: Any) -> None:
    """Raise `pyarrow.ArrowInvalid` if times and other scalars of NumPy are mixed in a list, or an array or frame of objects.

    Arrow itself crashes the process when another scalar follows a time. O(values); O(1) for arrays of other types.

    >>> refuse_mixed_scalars([np.datetime64("2020-01-01"), None, "x"])
    >>> refuse_mixed_scalars([np.datetime64("2020-01-01"), np.int8(3)])
    Traceback (most recent call last):
    pyarrow.lib.ArrowInvalid: times of NumPy are mixed with values of type int8
    """
    categories = getattr(getattr(values, "dtype", None), "categories", None)  # of pandas
    values = values if categories is None else categories
    if str(getattr(values, "dtype", "object")) != "object":
        return
    kinds = set(map(type, values))
    if np.datetime64 in kinds and (others := {kind for kind in kinds if issubclass(kind, np.generic)} - {np.datetime64}):
        names = ", ".join(sorted(kind.__name__ for kind in others))
        raise pa.ArrowInvalid(f"times of NumPy are mixed with values of type {names}")
