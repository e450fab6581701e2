"""Durations in the stream's time unit.

semantics.md S3
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.stream.durations import NANOSECONDS, TIME_UNITS, DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("30d", "s", 2_592_000),
        ("10m", "ms", 600_000),
        ("500ms", "ms", 500),
        ("500 ms", "us", 500_000),
        ("2w", "s", 1_209_600),
        ("1.5h", "s", 5_400),
        ("0.1s", "ms", 100),
        ("1000ms", "s", 1),
        ("12", "s", 12),
        ("12", None, 12),
        (" 2.0 ", None, 2),
        ("-1d", "s", -86_400),
        ("3ns", "ns", 3),
    ],
)
def test_durations(text, unit, expected):
    assert parse_duration(text, unit=unit) == expected


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("30d", None, "has a unit, but the timestamps of the stream have none"),
        ("3y", "s", "unknown unit 'y': expected .* such as 30d, 10m"),
        ("3M", "s", "unknown unit 'M'"),
        ("500ms", "s", "is no whole number of the stream's time unit"),
        ("1.5", None, "is no whole number"),
        ("", "s", "is not a duration"),
        ("1e3", "s", "is not a duration"),
        ("1 2", "s", "is not a duration"),
        ("1_0", "s", "is not a duration"),
        ("10000000w", "ns", "does not fit 64 bits"),
        ("1s", "minutes", "unknown time unit 'minutes'"),
    ],
)
def test_what_is_no_duration(text, unit, message):
    with pytest.raises(DurationError, match=message):
        parse_duration(text, unit=unit)


@given(number=st.integers(-(10**4), 10**4), own=st.sampled_from(sorted(NANOSECONDS)), unit=st.sampled_from(TIME_UNITS))
def test_a_duration_is_exact_or_refused(number, own, unit):
    nanoseconds = number * NANOSECONDS[own]
    if nanoseconds % NANOSECONDS[unit]:
        with pytest.raises(DurationError):
            parse_duration(f"{number}{own}", unit=unit)
    else:
        assert parse_duration(f"{number}{own}", unit=unit) * NANOSECONDS[unit] == nanoseconds
