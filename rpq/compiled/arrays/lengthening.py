"""Longer copies of arrays, for structures that need room for more entries."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from rpq.compiled.growth import request

_Arrays = TypeVar("_Arrays", bound=tuple[Any, ...])


def lengthen(array: np.ndarray, more: int, fill: float | bool | None = 0) -> np.ndarray:
    """Return an array followed by `more` entries with the value `fill`; the same array if `more` is not positive.

    >>> lengthen(np.array([7, 8], np.int32), 2, -1)
    array([ 7,  8, -1, -1], dtype=int32)
    """
    if more <= 0:
        return array
    request((len(array) + more) * array.itemsize)
    # Zeros cost no memory before they are written.
    longer: np.ndarray = np.empty(len(array) + more, array.dtype) if fill else np.zeros(len(array) + more, array.dtype)
    longer[: len(array)] = array
    if fill or fill is None:
        longer[len(array) :] = fill
    return longer


def lengthen_fields(arrays: _Arrays, more: int, **fills: int) -> _Arrays:
    """Return a named tuple of arrays in which each field in `fills` has `more` further entries with that value."""
    longer = {name: lengthen(getattr(arrays, name), more, fill) for name, fill in fills.items()}
    replaced: _Arrays = arrays._replace(**longer)  # type: ignore[attr-defined]
    return replaced
