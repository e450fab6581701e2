"""Runs over files that several processes evaluate (`--jobs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from rpq.cli.engines import Engines
from rpq.cli.inputs import FileSlice, LabelMonitor
from rpq.cli.request import RunRequest, RunSettings, read_request
from rpq.cli.run_outputs import FileOutputs
from rpq.engine.machine_memory import default_limit
from rpq.errors import QueryError
from rpq.run.divided_run import DividedEngine
from rpq.run.time_division import TimeDivision

if TYPE_CHECKING:
    from rpq.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class RunWork:
    """What a process needs for the chunks of a run: its options, and what is known of its input."""

    settings: RunSettings
    unit: str | None
    integers: bool
    times: pa.DataType | None
    max_ahead: int | str | None

    def make_engine(self) -> Engine:
        """Return a new engine with the queries and the static edges of the run."""
        queries = self._request().queries(unit=self.unit, integers=self.integers)
        ...
