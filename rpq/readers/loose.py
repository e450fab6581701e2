"""Columns whose values have no type of their own: the further columns of text files and of JSON lines.

A value is text, and may be read as a number (`12`, `-0.5`, `1e3`) or as true or false; an empty one is null.  Each is
judged for itself, never by what else is in its column: so it does not matter how the input is cut into batches.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INTEGER = "^[+-]?[0-9]{1,19}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
EXACT = 2.0**53
"""Below, a float tells integers apart."""


class LooseColumn:
    """Values as an array of text, or of int64, float64 or bool where a format knows them to be that."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def texts(self) -> pa.Array:
        """The values as text; null where they are empty."""
        values = self._values
        if pa.types.is_string(values.type):
            return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        if pa.types.is_floating(values.type):
            return texts_of(values.to_pylist())
        return values.cast(pa.string())

    def numbers(self) -> tuple[pa.Array, ...]:
        """The values as numbers, in one array or more: a value is in one of them at most, and null elsewhere."""
        values = self._values
        if pa.types.is_boolean(values.type):
            return (pa.nulls(len(values), pa.float64()),)
        if not pa.types.is_string(values.type):
            return (values,)
        texts = self.texts()
        try:
            quick = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
        else:
            absolute = np.abs(quick.to_numpy(zero_copy_only=False))
            if bool((np.isnan(absolute) | (absolute < EXACT)).all()) and _nans(absolute) == quick.null_count:
                return (quick,)
        texts = pc.utf8_trim(texts, " \t")
        is_integer = pc.match_substring_regex(texts, _INTEGER)
        is_number = pc.and_(pc.invert(is_integer), pc.match_substring_regex(texts, _NUMBER))
        unsigned = pc.utf8_ltrim(texts, "+")
        nothing = pa.scalar(None, pa.string())
        return (
            *_integers(pc.if_else(is_integer, unsigned, nothing)),
            _floats(pc.if_else(is_number, unsigned, nothing)),
        )

    def booleans(self) -> pa.Array:
        """The values as true or false."""
        if pa.types.is_boolean(self._values.type):
            return self._values
        texts = pc.utf8_lower(self.texts())
        known = pc.is_in(texts, pa.array(["true", "false"]))
        return pc.if_else(known, pc.equal(texts, "true"), pa.scalar(None, pa.bool_()))


def texts_of(values: Sequence[Any]) -> pa.Array:
    """Values of JSON as the texts that they stand for.

    >>> texts_of(["a", 5, 5.0, 0.25, True, None, {"b": [1]}]).to_pylist()
    ['a', '5', '5', '0.25', 'true', None, '{"b":[1]}']
    """
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < EXACT else repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _nans(values: np.ndarray) -> int:
    return int(np.count_nonzero(np.isnan(values)))


def _integers(texts: pa.Array) -> tuple[pa.Array, ...]:
    try:
        return (texts.cast(pa.int64()),)
    except pa.ArrowInvalid:  # some of nineteen digits do not fit: they are floats
        values = [None if text is None else int(text) for text in texts.to_pylist()]
        fits = [value is not None and -(2**63) <= value < 2**63 for value in values]
        integers = [value if fit else None for value, fit in zip(values, fits, strict=True)]
        others = [None if fit or value is None else float(value) for value, fit in zip(values, fits, strict=True)]
        return pa.array(integers, pa.int64()), pa.array(others, pa.float64())


def _floats(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:  # out of range
        values = [None if text is None else float(text) for text in texts.to_pylist()]
        return pa.array(values, pa.float64())
