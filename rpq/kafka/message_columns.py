"""What stands beside the value of a message, as columns: `@key`, `@time`, `@topic`, `@partition`, `@offset`, `@header.NAME`.

`--columns timestamp=@time,source=@key,label=@header.kind` takes these columns of a tuple from there; the others are in the
value.  `@time` is the message's own time, or the broker's where the topic says so, in the unit of the timestamps
(milliseconds, where none is given).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rpq.errors import InputError
from rpq.readers.column_names import DELETE, ColumnNames, did_you_mean
from rpq.readers.fields import FieldError, check_time, time_kind
from rpq.readers.text.line_layout import check_delete, check_integer, check_op, check_text

BESIDE = ("@key", "@time", "@topic", "@partition", "@offset", "@header.NAME")
MILLISECONDS = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""By what a time in milliseconds is multiplied and divided in each unit."""


@dataclass(frozen=True, kw_only=True)
class ValueColumns(ColumnNames):
    """The columns that the values of messages have: those of a tuple but for the ones that stand `beside` them."""

    beside: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in super().columns if column not in self._elsewhere)

    @property
    def looked_for(self) -> tuple[str, ...]:
        return tuple(column for column in super().looked_for if column not in self._elsewhere)

    @property
    def _elsewhere(self) -> set[str]:
        """The columns that values do not have: op stands for delete, too, and delete for op."""
        says_op = {"op", DELETE} & {*self.beside}
        return {*self.beside, *(("op", DELETE) if says_op else ())}


@dataclass(frozen=True, kw_only=True)
class MessageColumns:
    """Where each column of a tuple is: in the `values`, by these names, or `beside` them."""

    values: ValueColumns
    beside: tuple[tuple[str, str], ...] = ()
    time_unit: str | None = None

    @classmethod
    def of(cls, names: ColumnNames, time_unit: str | None = None) -> MessageColumns:
        """Divide names; raises `InputError` for an unknown one with an @.

        >>> MessageColumns.of(ColumnNames.parse("source=@key,target=item")).beside
        (('source', '@key'),)
        """
        beside = tuple((column, name) for column, name in names.renamed if name.startswith("@"))
        for column, name in beside:
            check_beside(name)
            if name == "@time" and column != "timestamp":
                raise InputError(f"{column}=@time: a time is a timestamp; expected timestamp=@time")
        values = ValueColumns(
            renamed=tuple(pair for pair in names.renamed if pair not in beside),
            constant_label=names.constant_label,
            timed=names.timed,
            beside=tuple(column for column, _ in beside),
        )
        return cls(values=values, beside=beside, time_unit=time_unit)

    @property
    def unit(self) -> str | None:
        """The unit of the timestamps, where these columns tell it."""
        return self.time_unit or ("ms" if ("timestamp", "@time") in self.beside else None)

    def read(self, message: Any) -> dict[str, Any]:
        """The values beside a message by column; raises `FieldError`."""
        return {column: self._checked(column, name, message) for column, name in self.beside}

    def _checked(self, column: str, name: str, message: Any) -> Any:
        if name == "@time":
            return self._time(message)
        value = text_beside(name, message)
        if value is None:
            if column in ("op", DELETE, "stream"):
                return None if column == "stream" else False
            raise FieldError("is not there", name)
        if column == "timestamp":
            kind = time_kind(value.strip(" \t"))
            return check_integer(value, name) if kind is None else check_time(value, name, kind=kind, unit=self.unit or "us")
        checks = {"op": check_op, DELETE: check_delete}
        return checks.get(column, check_text)(value, name)

    def _time(self, message: Any) -> int:
        kind, milliseconds = message.timestamp()
        if kind == 0:
            raise FieldError("is not there: the message has no time", "@time")
        times, over = MILLISECONDS[self.unit or "ms"]
        return int(milliseconds * times // over)


def check_beside(name: str) -> None:
    """Raise `InputError` for what does not stand beside a message."""
    if name in BESIDE[:-1] or re.fullmatch(r"@header\..+", name):
        return
    raise InputError(f"{name!r} is nothing of a message: expected one of {', '.join(BESIDE)}{did_you_mean(name, BESIDE)}")


def text_beside(name: str, message: Any) -> str | None:
    """What stands beside a message, as text; None where there is none of it.  Raises `FieldError` for what is no text."""
    if name == "@time":
        return str(message.timestamp()[1])
    if name in ("@topic", "@partition", "@offset"):
        return str(getattr(message, name[1:])())
    raw = message.key() if name == "@key" else _header(message.headers() or (), name.removeprefix("@header."))
    if raw is None or isinstance(raw, str):
        return raw
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise FieldError("is not UTF-8 text", name) from error


def _header(headers: Sequence[tuple[str, Any]], name: str) -> Any:
    """The last header of that name."""
    return next((value for header, value in reversed(headers) if header == name), None)
