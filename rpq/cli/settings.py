"""What a run was asked for, as values that are checked, before anything is read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Literal

import click

from rpq.files.destinations import STANDARD_OUTPUT, STANDARD_STREAM

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The options of `rpq run`.  `window` and `slide` are texts: what they mean depends on the input's time unit.

    There is an `expression`, with a window and a slide, or else a file of `queries`, for which the others are defaults.
    """

    expression: str | None = None
    queries: str | None = None
    inputs: tuple[str, ...]
    format: str
    window: str | None = None
    slide: str | None = None
    time_unit: str | None = None
    columns: str | None = None
    label: str | None = None
    where: str | None = None
    paths: Literal["walk", "simple"] = "walk"
    simple_budget: int = 10_000_000
    on_budget: Literal["error", "set_aside"] = "error"
    semantics: Literal["implicit", "explicit"] = "implicit"
    output: str | None = None
    witness: bool = False
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    threads: int = 1
    memory_limit: int | None = None
    limit: int | None = None
    drop_self_loops: bool = False
    deletes: float = 0.0
    seed: int = 0
    late: str | None = None
    on_error: str = "stop"
    checkpoint: str | None = None
    stats: str | None = None
    quiet: bool = False

    def identity(self, *, window: int | None, slide: int | None) -> dict[str, Any]:
        """What must be the same for a run to go on from another's checkpoint, as JSON values by option name.

        Not part of it: `--limit`, `--threads`, `--memory-limit`, `--stats`, `--quiet`.
        """
        return {
            "EXPRESSION": self.expression,
            "--input": [path if path == "-" else os.path.abspath(path) for path in self.inputs],
            "--format": self.format,
            "--columns": self.columns,
            "--label": self.label,
            "--where": self.where,
            "--window": window,
            "--slide": slide,
            "--paths": self.paths,
            "--simple-budget": self.simple_budget,
            "--on-budget": self.on_budget,
            "--semantics": self.semantics,
            "--output": self.output and os.path.abspath(self.output),
            "--witness": self.witness,
            "--source": sorted(self.sources),
            "--target": sorted(self.targets),
            "--drop-self-loops": self.drop_self_loops,
            "--deletes": self.deletes,
            "--seed": self.seed if self.deletes else 0,
            "--late": self.late and os.path.abspath(self.late),
            "--on-error": self.on_error,
        }


class WrittenFile(click.ParamType):
    """The name of a file that is written; `-` is standard output."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return STANDARD_OUTPUT if value == STANDARD_STREAM else str(value)


class ByteSize(click.ParamType):
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
