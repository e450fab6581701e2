"""Kinds of values that options take, beside those that click knows."""

from __future__ import annotations

import re
from typing import Any

import click

from rpq.errors import RpqError
from rpq.files.destinations import STANDARD_OUTPUT, STANDARD_STREAM
from rpq.kafka.topic_names import is_topic

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class WrittenFile(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """The name of a file that is written; `-` is standard output."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return STANDARD_OUTPUT if value == STANDARD_STREAM else str(value)


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names with commas between them: `x,z`."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(name.strip() for name in value.split(","))


class ByteSize(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: `4000000`, `500M`, `4G`, `4GiB`; the letters are powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        size = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else 0
        if size <= 0:
            self.fail(f"{value!r} is no size: expected a number of bytes such as 500M or 4G", param, ctx)
        return size


class CountOrNone(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1 on, or none."""

    name = "count"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "none" or not isinstance(value, str):
            return None if value == "none" else int(value)
        digits = value.replace(",", "").replace("_", "")
        if not digits.isdecimal() or not int(digits):
            self.fail(f"{value!r} is no whole number from 1 on, nor none", param, ctx)
        return int(digits)


class Ahead(click.ParamType):  # type: ignore[type-arg]
    """How far ahead of the stream time a tuple may be: a length of time, so many times the longest window, or none."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "DURATION|Nx|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | None:
        from rpq.stream.stream_time import MaxAhead

        text = str(value).strip()
        if text == "none":
            return None
        try:
            MaxAhead.of(int(text) if text.isdecimal() else text)
        except RpqError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return text


class OnError(click.ParamType):  # type: ignore[type-arg]
    """What to do at bad input: stop, skip, or a topic that it goes to."""

    name = "[stop|skip|kafka://…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in ("stop", "skip") or is_topic(value):
            return str(value)
        return self.fail(f"{value!r} is not one of 'stop', 'skip', and no kafka://BROKER/TOPIC.", param, ctx)


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A length of time on the clock: 5s, 200ms, 1m, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no length of time; expected such as 5s, 200ms or 1m", param, ctx)
        return float(found[1]) * {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}[found[2]]


class Endpoint(click.ParamType):  # type: ignore[type-arg]
    """A port, or an address with a port."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or not int(port) < 1 << 16:
            self.fail(f"{value!r} is no port; expected such as 9100 or 127.0.0.1:9100", param, ctx)
        return f"{host}:{port}"
