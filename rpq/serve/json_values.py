"""Values of rows as JSON has them."""

from __future__ import annotations

import datetime
import math
from typing import Any

import msgspec


def json_value(value: Any) -> Any:
    """A vertex, a value of SPARQL or a time as JSON: what JSON has no word for is text.

    >>> [json_value(value) for value in (1, "x", None, float("nan"), datetime.date(2024, 5, 1))]
    [1, 'x', None, 'NaN', '2024-05-01']
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=json_value)


def json_text(value: Any) -> bytes:
    """A model, or another value, as JSON in UTF-8, on one line without blanks.

    >>> json_text({"name": "ü\\n"}).decode()
    '{"name":"ü\\\\n"}'
    """
    return _ENCODER.encode(value)
