"""Arrow arrays as NumPy arrays, without pandas.

Arrow's own `to_numpy` imports pandas wherever that is installed, even for integers, which takes 30 MB and half a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


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
    if pa.types.is_boolean(array.type):
        return numpy_array(array.cast(pa.uint8())).view(np.bool_)
    if not pa.types.is_integer(array.type):
        raise ValueError(f"integers or Booleans are expected, not {array.type}")
    kind = np.dtype(str(array.type))
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)
