"""The common parts of experiments: settings, records, columns, the table, and the files NAME.json and NAME.png."""

from __future__ import annotations

import fnmatch
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rpq
from rpq.errors import install_command
from rpq.files.destinations import open_replacement
from rpq.workloads import named_queries
from rpq.workloads.bench.streams import Stream, open_streams
from rpq.workloads.named_queries import UnknownQueryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

FIGURES = Path(__file__).resolve().parents[1] / "figures.json"


def default_directory() -> Path:
    """Return `workloads/results` of a checkout; for an installed package, `results` in the working directory."""
    package = Path(__file__).resolve().parents[1]
    return package / "results" if (package.parent / "pyproject.toml").exists() else Path("results")


def write_result(directory: Path, name: str, result: dict[str, Any]) -> Path:
    """Write a result as JSON, replacing the file atomically; return the path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    with open_replacement(path) as file:
        file.write(f"{text}\n".encode())
    return path


def read_result(directory: Path, name: str) -> dict[str, Any]:
    """Return a result.  Raises `FileNotFoundError` if there is none."""
    result: dict[str, Any] = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
    return result


def earlier_result(settings: Settings, name: str) -> dict[str, Any] | None:
    """Return the result of an earlier run with the same settings except for `queries`; None if there is none."""
    try:
        earlier = read_result(settings.output, name)
    except FileNotFoundError:
        return None
    expected = {**settings.describe(), "queries": earlier["settings"]["queries"]}
    return earlier if earlier["settings"] == expected else None


def select(patterns: Iterable[str], names: Iterable[str], kind: str) -> list[str]:
    """Return the names that match a pattern like `MATCH-*`, whatever the case, or all names if there are no patterns.

    Raises `UnknownQueryError` for a pattern that matches none, with the `kind` of name.

    >>> select(["p*", "q1"], ["P1", "P2", "Q1", "Q2"], "query")
    ['P1', 'P2', 'Q1']
    """
    name_of_key = {name.upper(): name for name in names}
    chosen: set[str] = set()
    for pattern in map(str.upper, patterns):
        matching = fnmatch.filter(name_of_key, pattern)
        chosen |= {named_queries.look_up(key, name_of_key, kind) for key in matching or [pattern]}
    return [name for name in name_of_key.values() if name in chosen or not chosen]


def figures_of_others(name: str) -> dict[str, Any]:
    """Return the published figures of other systems, and the expected rows, each with its source."""
    figures: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures[name]


Record = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run of an experiment.

    `data` is the folder of real files, `scale` the part of a stream that is used (of files, the beginning; of generated
    streams, `edges` × scale), `repeat` the number of runs whose median counts, `queries` the names to run (all if empty).
    `sample` is the number of tuples to push one at a time in experiments that measure this; `seconds` limits the time of a
    baseline. `other` is the Python of another installation to compare with, `sketch` the folder of the C++ sketch of
    patterns. `kafka` is the address of brokers, HOST:PORT, on which experiments create topics. With `resumes` what an
    earlier run has measured is not measured again, in experiments that can continue.
    """

    output: Path
    data: Path | None = None
    scale: float = 1.0
    edges: int = 1_000_000
    seed: int = 1
    repeat: int = 5
    queries: tuple[str, ...] = ()
    sample: int = 200
    seconds: float = 60.0
    is_cold: bool = False
    other: Path | None = None
    sketch: Path | None = None
    kafka: str | None = None
    resumes: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the settings that figures depend on, for the result."""
        names = ("scale", "edges", "seed", "repeat", "sample", "seconds")
        return {name: getattr(self, name) for name in names} | {"queries": list(self.queries) or "all"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: its key in the records, its heading, the format of its values, and what they are a part of."""

    key: str
    heading: str
    format: str = ""
    of: str = ""
    """The key of a whole; the share is written behind the value."""

    def text(self, record: Mapping[str, Any]) -> str:
        """Return the value of a record as text, or "–" if there is none.

        >>> Column(key="done", heading="done", format=",", of="tuples").text({"done": 1000, "tuples": 8000})
        '1,000 (12.5 %)'
        """
        value = record.get(self.key)
        if value is None:
            return "–"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.of:
            return f"{value:{self.format}} ({100 * value / record[self.of]:.3g} %)"
        return format(value, self.format) if self.format and not isinstance(value, str) else str(value)


@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """The result of an experiment: a record per measurement, its inputs, and checks (condition → whether it holds)."""

    records: list[Record]
    streams: Sequence[Mapping[str, Any]]
    checks: dict[str, bool]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper, or of this project.

    `paper` is the finding of the paper; `how` describes the measurement. `measure` returns the outcome, or yields one
    whenever there is more of it, so that an interrupted run leaves what it has measured. `plot` draws the records into a
    figure. `repeat` is the default number of runs, `edges` that of edges of a generated stream, `seconds` the default time
    limit of a baseline or of another engine.
    """

    name: str
    title: str
    how: str
    columns: Sequence[Column]
    measure: Callable[[Settings, Say], ExperimentResult | Iterator[ExperimentResult]]
    paper: str = ""
    plot: Callable[[Figure, list[Record]], None] | None = None
    repeat: int = 5
    edges: int = 1_000_000
    seconds: float = 60.0

    def run(self, settings: Settings, say: Say) -> dict[str, Any]:
        """Measure, write NAME.json and NAME.png, and return the content of the JSON.

        Raises `UnknownQueryError` if the settings select nothing.
        """
        from rpq.workloads.bench.machine import describe_machine

        machine, started = describe_machine(), time.monotonic()
        measured = self.measure(settings, say)
        result: dict[str, Any] = {}
        for outcome in [measured] if isinstance(measured, ExperimentResult) else measured:
            result = self._result(settings, machine, outcome)
            result["elapsed_seconds"] = round(time.monotonic() - started, 1)
            write_result(settings.output, self.name, result | {"complete": False})
        if not result:
            raise UnknownQueryError(f"--only {','.join(settings.queries)}: {self.name} has no such queries")
        result["complete"] = True
        say(f"wrote {write_result(settings.output, self.name, result)}")
        if self.plot is not None:
            self._draw(settings.output / f"{self.name}.png", result["records"], say)
        return result

    def _result(self, settings: Settings, machine: Mapping[str, Any], outcome: ExperimentResult) -> dict[str, Any]:
        """Return the content of the JSON."""
        return {
            "experiment": self.name,
            "title": self.title,
            "how": self.how,
            "paper": self.paper,
            "machine": dict(machine),
            "settings": settings.describe(),
            "streams": [dict(stream) for stream in outcome.streams],
            "facts": outcome.facts,
            "checks": outcome.checks,
            "records": [{key: round_figure(value) for key, value in record.items()} for record in outcome.records],
        }

    def _draw(self, path: Path, records: list[Record], say: Say) -> None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            say(f"no plot: matplotlib is missing; install it with: {install_command('bench')}")
            return
        assert self.plot is not None
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        self.plot(figure, records)
        with open_replacement(path) as file:
            figure.savefig(file, format="png", dpi=110)
        say(f"wrote {path}")

    def table(self, result: Mapping[str, Any]) -> Table:
        """Return the records as a table for a terminal."""
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        columns = self.present_columns(result["records"])
        for column in columns:
            table.add_column(column.heading, justify="right" if column.format else "left")
        for record in result["records"]:
            table.add_row(*(column.text(record) for column in columns))
        return table

    def present_columns(self, records: Iterable[Mapping[str, Any]]) -> list[Column]:
        """Return the columns that some record has a value for."""
        records = list(records)
        return [column for column in self.columns if any(record.get(column.key) is not None for record in records)]


def round_figure(value: Any) -> Any:
    """Round a float to six significant digits, more than a clock resolves; return other values unchanged.

    >>> round_figure(0.123456789), round_figure(7)
    (0.123457, 7)
    """
    return float(f"{value:.6g}") if isinstance(value, float) else value


def streams_of(settings: Settings, names: list[str], say: Say) -> Iterator[Stream]:
    """Return the streams of data sets according to the settings."""
    return open_streams(names, data=settings.data, scale=settings.scale, seed=settings.seed, edges=settings.edges, say=say)


def queries_of(
    settings: Settings, stream: Stream, *, window: rpq.Window | None = None
) -> Iterator[tuple[str, rpq.Query]]:
    """Yield the named queries of a stream that the settings select, in the order of the paper."""
    available = named_queries.names(stream.queries)
    selected = {name.upper() for name in settings.queries} or {*available}
    for name in available:
        if name in selected:
            yield name, rpq.Query(named_queries.named_query(name, stream.queries), window=window or stream.window)
