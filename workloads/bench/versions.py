"""The comparison of this version of the engine with another version that is installed elsewhere.

The speed of a host varies more within an hour than with most changes of the code. The two versions therefore take turns, run
by run, and the result is the ratio within a turn. Each figure has a verdict (`Verdict`), or none if the ratios scatter.

Turns are written to a file as they are measured. An interrupted run continues after the last turn, and a run with a larger
`--repeat` adds the missing turns, as long as both versions and the streams are the same.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import comb
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from rpq.workloads import named_queries
from rpq.workloads.bench import measure
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.comparisons.sparql_speed import QUESTIONS
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, figures_of_others
from rpq.workloads.bench.streams import BATCH_ROWS, DATA_SETS, Stream, StreamError, generate
from rpq.workloads.generate.pattern_sets import query_set

TOLERANCE = 1.03
"""The median ratio up to which this version counts as not slower."""
_DOUBT = 0.125
"""The probability with which the interval of a verdict may miss the median; for seven turns, the interval extends from the
second smallest to the second largest ratio."""
_TABLES = {"stackoverflow": "mathoverflow", "ldbc": "ldbc"}
"""Data sets, and the figures that name the path queries of their tables."""
_GENERATED = "generated "
"""The beginning of the name of a stream that is generated even if the files of its data set are there."""
_GENERATED_PART = 0.25
"""The part of `--edges` that these streams have: at a million edges each they would take longer than all other figures."""
_RUNS = {"ldbc": 5, "yago": 10, "gmark": 10}
"""The runs of a query per turn over real data sets so small that the CPU seconds of one run scatter by some per cent."""
_PATTERN_ROWS = 4_096
"""The tuples per push if rows are converted to tables: P6 has 300 rows per tuple."""
_SET_SIZE, _SET_UPDATES, _SET_DRAWN_FROM = 5_000, 20_000, 100_000
_SPARQL_WINDOW = 100_000
_CALLS = 4_000
_WORKER = Path(__file__).with_name("version_worker.py")
_TURNS = "versions.turns.jsonl"

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The evaluation of the ratios of turns: their median, and an interval of order statistics for the true median.

    The interval extends from the k-th smallest to the k-th largest ratio, with the largest k for which, by the binomial
    distribution, it misses the median in at most one of eight experiments. `text` is "slower" if the whole interval is
    above `TOLERANCE`, "not slower" if no part of it is ("faster" if all of it is below 1 / `TOLERANCE`), and "no verdict"
    otherwise.

    >>> Verdict.of([0.99, 1.0, 1.0, 1.01, 1.01, 1.02, 1.2]).text
    'not slower'
    >>> Verdict.of([0.9, 1.0, 1.0, 1.01, 1.1, 1.2, 1.2]).text
    'no verdict'
    """

    ratio: float
    low: float
    high: float
    text: str

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Verdict:
        """Return the verdict on the ratios of the turns, each this version's figure divided by the other's."""
        ordered, count = sorted(ratios), len(ratios)
        place, missed = 0, 0
        while 2 * (missed + comb(count, place)) <= _DOUBT * 2**count:
            missed += comb(count, place)
            place += 1
        place = max(0, place - 1)
        low, high = ordered[place], ordered[count - 1 - place]
        if high < 1 / TOLERANCE:
            text = "faster"
        elif high <= TOLERANCE:
            text = "not slower"
        else:
            text = "slower" if low > TOLERANCE else "no verdict"
        return cls(ratio=measure.median(ordered), low=low, high=high, text=text)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A task that both versions run in turn, with one or more figures.

    `figures` maps a key of the result of a run to (the name of the figure, its unit). A task without `do` is a command line
    that is run as a process, with `arguments` for the Python interpreter.
    """

    name: str
    task: Mapping[str, Any]
    figures: Mapping[str, tuple[str, str]]

    def is_selected(self, patterns: Sequence[str]) -> bool:
        """Return whether a pattern (`P1`, `insert/*`) matches its name, its last part or a figure; no patterns match all."""
        names = {self.name, self.name.rpartition("/")[2], *(name for name, _ in self.figures.values())}
        return not patterns or any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns for name in names)


class Version:
    """An installation: a process that runs tasks one after the other, and new processes for tasks that need one."""

    def __init__(self, python: str) -> None:
        self._python = python
        # -P leaves the program's folder out of the path, because modules there would shadow others.
        self._command = [python, "-P", str(_WORKER)]
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._answer()

    def run(self, task: Mapping[str, Any]) -> Result:
        """Run a task and return its result. Raises `StreamError` if this version cannot run it."""
        if "arguments" in task:
            return self._start(task["arguments"], is_cold=task.get("is_cold", False))
        if task["do"] == "memory":
            with Version(self._python) as fresh:
                return fresh._run(task)
        return self._run(task)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, task: Mapping[str, Any]) -> Result:
        assert self._process.stdin is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Result:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise StreamError(f"{self._python} ended; its message is above")
        found: Result = json.loads(line)
        if "error" in found:
            raise StreamError(f"{self._python}: {found['error']}")
        return found

    def _start(self, arguments: Sequence[str], *, is_cold: bool) -> Result:
        """Run a command to its end, without compiled kernels if it `is_cold`, and return the CPU seconds of the process."""
        before = _seconds_of_children()
        with tempfile.TemporaryDirectory() as kernels:
            environment = {**os.environ, "NUMBA_CACHE_DIR": kernels} if is_cold else None
            command = [self._python, *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StreamError(f"{self._python} {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
        return {"seconds": _seconds_of_children() - before}


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Inputs:
    """The streams of the measurements, written to Arrow files when they are first needed."""

    settings: Settings
    say: Say
    folder: Path
    streams: dict[str, Stream] = field(default_factory=dict)

    def stream(self, name: str) -> Stream:
        """Return a data set, a stream generated like one, or the stream of a question in SPARQL."""
        if name not in self.streams:
            questions = {f"sparql {one.name}": one for one in QUESTIONS}
            if name.startswith(_GENERATED):
                dataset = DATA_SETS[name.removeprefix(_GENERATED)]
                edges = max(1_000, round(self.settings.edges * self.settings.scale * _GENERATED_PART))
                self.streams[name] = generate(dataset, edges=edges, seed=self.settings.seed)
            elif name in questions:
                window = max(1_200, round(_SPARQL_WINDOW * min(1.0, self.settings.edges / 1e6) * self.settings.scale))
                self.streams[name] = questions[name].stream(window, self.settings.seed)
            else:
                self.streams[name] = stream_of(name, self.settings, self.say)
        return self.streams[name]

    def file(self, name: str, *, tuples: int | None = None) -> str:
        """Return the path of the Arrow file with the tuples of a stream, or with the first `tuples` of them."""
        path = self.folder / f"{name.replace(' ', '-')}-{tuples or 'all'}.arrow"
        if not path.exists():
            table = self.stream(name).table.slice(0, tuples)
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=BATCH_ROWS)
        return str(path)

    def pattern_set(self) -> str:
        """Return the path of a JSON file with the texts of thousands of patterns over LDBC's updates."""
        path = self.folder / "patterns.json"
        if not path.exists():
            table = self.stream("ldbc").first(_SET_DRAWN_FROM).table
            size = max(20, round(_SET_SIZE * min(1.0, table.num_rows / _SET_DRAWN_FROM)))
            edges = list(zip(*(table[name].to_pylist() for name in ("source", "label", "target")), strict=True))
            drawn = query_set(edges, size, seed=self.settings.seed, length=5, overlap=0.35, selectivity=0.25)
            path.write_text(json.dumps([one.text for one in drawn]))
        return str(path)

    def one_tuple(self) -> str:
        """Return the path of a text file with one tuple."""
        path = self.folder / "one.tsv"
        path.write_text("source\ttarget\tlabel\ttimestamp\nx\ty\ta\t1\n", encoding="utf-8")
        return str(path)


def measurements() -> Iterator[tuple[Measurement, Callable[[Inputs], Result]]]:
    """Yield the measurements, each with a function that computes the rest of its task from the streams."""
    for dataset, figures in _TABLES.items():
        for published in figures_of_others(figures)["queries"]:
            name = f"{'mathoverflow' if dataset == 'stackoverflow' else dataset}/{published['name']}"
            yield _of_stream(name, dataset, query=published["name"])
    for dataset in ("yago", "gmark"):
        for name in named_queries.names(DATA_SETS[dataset].queries):
            yield _of_stream(f"{dataset}/{name}", dataset, query=name)
    for dataset in DATA_SETS:
        # The names of the labels differ between the facts of Yago and the generated ones; the names of the queries do not.
        for name in named_queries.names(DATA_SETS[dataset].queries):
            yield _of_stream(f"generated/{dataset}/{name}", _GENERATED + dataset, query=name)
    for published in figures_of_others("patterns")["queries"]:
        yield _of_stream(f"patterns/{published['name']}", published["data"], text=published["pattern"], tables=True)
    yield (
        Measurement(
            name="patterns/5000",
            task={"do": "run", "tables": True, "window": None, "batch_rows": 10_000},
            figures={"seconds": ("patterns/5000", "s"), "register": ("patterns/5000 registering", "s")},
        ),
        lambda inputs: {"texts": inputs.pattern_set(), "stream": inputs.file("ldbc", tuples=_SET_UPDATES)},
    )
    for one in QUESTIONS:
        yield _of_stream(f"sparql/{one.name}", f"sparql {one.name}", text=one.text, options={"semantics": "explicit"})
    patterns = {published["name"]: published["pattern"] for published in figures_of_others("patterns")["queries"]}
    for name, text in {"Q2": None, "Q11": None, "P2": patterns["P2"], "P5": patterns["P5"]}.items():
        measured, rest = _of_stream(f"insert/{name}", "stackoverflow", query=name, text=text)
        by_quantile = {key: (f"insert/{name} {key}", "µs") for key in ("median", "p99")}
        task = {**measured.task, "do": "insert"}
        yield Measurement(name=measured.name, task=task, figures=by_quantile), _behind_window(rest)
    commands = {
        "import": ["-c", "import rpq"],
        "help": ["-m", "rpq.cli", "--help"],
        "path": ["-m", "rpq.cli", "run", "a/b*"],
        "pattern": ["-m", "rpq.cli", "run", "?x a ?y . ?y b ?z"],
        "sparql": ["-m", "rpq.cli", "run", "SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x"],
    }
    for name, arguments in commands.items():
        measured = Measurement(name=f"start/{name}", task={}, figures={"seconds": (f"start/{name}", "s")})
        yield measured, _command(arguments, "run" in arguments)
    cold = Measurement(name="start/cold", task={"is_cold": True}, figures={"seconds": ("start/cold", "s")})
    yield cold, _command(commands["path"], True)
    for name, data in {"Q2": "stackoverflow", "P2": "stackoverflow", "L5": "ldbc"}.items():
        measured, rest = _of_stream(f"memory/{name}", data, query=name, text=patterns.get(name))
        task = {**measured.task, "do": "memory"}
        yield Measurement(name=measured.name, task=task, figures={"megabytes": (measured.name, "MB")}), rest


def _of_stream(
    name: str,
    stream: str,
    *,
    query: str | None = None,
    text: str | None = None,
    tables: bool = False,
    options: Mapping[str, Any] | None = None,
) -> tuple[Measurement, Callable[[Inputs], Result]]:
    """Return a measurement of a query, named or as text, over a whole stream."""

    def rest(inputs: Inputs) -> Result:
        source = inputs.stream(stream)
        expression = text or named_queries.named_query(str(query), source.queries).replace(" ", "")
        return {"texts": [expression], "stream": inputs.file(stream), "window": [source.window.size, source.window.slide]}

    task = {
        "do": "run",
        "tables": tables,
        "batch_rows": _PATTERN_ROWS if tables else BATCH_ROWS,
        "options": options or {},
        "runs": _RUNS.get(stream, 1),
    }
    return Measurement(name=name, task=task, figures={"seconds": (name, "s")}), rest


def _behind_window(rest: Callable[[Inputs], Result]) -> Callable[[Inputs], Result]:
    """Return a function for the task of single tuples from the middle of a stream on, when the window is full."""

    def measure_once(inputs: Inputs) -> Result:
        stream = inputs.stream("stackoverflow")
        first = len(stream) // 2
        times = stream.table["timestamp"].to_numpy()
        begin = int((times < times[first] - stream.window.size).sum())
        return {**rest(inputs), "begin": min(begin, first), "first": first, "calls": min(_CALLS, len(stream) - first)}

    return measure_once


def _command(arguments: Sequence[str], is_run: bool) -> Callable[[Inputs], Result]:
    def measure_once(inputs: Inputs) -> Result:
        options = ["--input", inputs.one_tuple(), "--window", "10", "--slide", "1", "--quiet"] if is_run else []
        return {"arguments": [*arguments, *options]}

    return measure_once


class Turns:
    """The measured turns, in a file that a later run of the experiment continues.

    A line contains the name of a measurement and the results of both versions in a turn; the first line is the identity of
    the experiment, and a file with another identity is replaced.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self._path = path
        self._found: dict[str, list[tuple[Result, Result]]] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        # The last line may be incomplete after a run was killed.
        records = [record for record in map(_parse_turn, lines) if record is not None]
        self.is_new = not records or records[0] != dict(identity)
        if self.is_new:
            path.write_text(json.dumps(identity) + "\n", encoding="utf-8")
        else:
            for record in records[1:]:
                self._found.setdefault(record["name"], []).append((record["this"], record["other"]))

    def of(self, name: str) -> list[tuple[Result, Result]]:
        """Return the turns of a measurement: the results of this version and of the other."""
        return self._found.setdefault(name, [])

    def add(self, name: str, this: Result, other: Result) -> None:
        """Add a turn, and write it to the file."""
        self.of(name).append((this, other))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "this": this, "other": other}) + "\n")


def _parse_turn(line: str) -> Result | None:
    try:
        found: Result = json.loads(line)
    except ValueError:
        return None
    return found


def measure_versions(settings: Settings, say: Say) -> ExperimentResult:
    """Measure every requested figure, turn by turn, and evaluate the ratios."""
    if settings.other is None:
        raise StreamError("--other is missing: the Python of another installation of rpq")
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        versions = [closing.enter_context(Version(python)) for python in (sys.executable, str(settings.other))]
        inputs = Inputs(settings, say, folder)
        identity = {
            "this": versions[0].about,
            "other": versions[1].about,
            "data": None if settings.data is None else os.path.abspath(settings.data),
            **{name: getattr(settings, name) for name in ("scale", "edges", "seed")},
        }
        turns = Turns(settings.output / _TURNS, identity)
        say("starting with the first turn" if turns.is_new else "continuing after the turns of an earlier run")
        records_of_figure = dict(_measure_one(settings, say, versions, inputs, turns))
        described = [stream.describe() for stream in inputs.streams.values()]
    records = [record for found in records_of_figure.values() for record in found]
    if not records:
        names = ", ".join(one.name for one, _ in measurements())
        raise StreamError(f"--only {','.join(settings.queries)} matches none of: {names}")
    verdicts = [record["verdict"] for record in records]
    return ExperimentResult(
        records=records,
        streams=described,
        checks={"rows are equal": all(record["rows_equal"] for record in records)},
        facts={
            "this": versions[0].about["version"],
            "other": versions[1].about["version"],
            "verdicts": {text: verdicts.count(text) for text in dict.fromkeys(verdicts)},
            "median of the ratios": round(measure.median(record["ratio"] for record in records), 4),
        },
    )


def _measure_one(
    settings: Settings, say: Say, versions: Sequence[Version], inputs: Inputs, turns: Turns
) -> Iterator[tuple[str, list[Record]]]:
    """Yield the name and the records of each measurement, including those of an earlier run."""
    for measurement, rest in measurements():
        done = turns.of(measurement.name)
        if measurement.is_selected(settings.queries) and len(done) < settings.repeat:
            try:
                _take_turns(measurement.name, {**measurement.task, **rest(inputs)}, versions, turns, settings.repeat)
            except StreamError as error:
                say(f"{measurement.name}: left out: {error}")
        if done:
            records = [_record(figure, unit, key, done) for key, (figure, unit) in measurement.figures.items()]
            for record in records:
                say(
                    f"{record['figure']}: {record['verdict']}: {record['ratio']:.3f} "
                    f"({record['low']:.3f} to {record['high']:.3f}, {record['turns']} turns)"
                )
            yield measurement.name, records


def _take_turns(name: str, task: Mapping[str, Any], versions: Sequence[Version], turns: Turns, repeat: int) -> None:
    """Run both versions in turn, alternating which is first; a run before the turns compiles or loads kernels."""
    for version in versions:
        version.run(task)
    for turn in range(len(turns.of(name)), repeat):
        order = (0, 1) if turn % 2 else (1, 0)
        found = {place: versions[place].run(task) for place in order}
        turns.add(name, found[0], found[1])


def _record(figure: str, unit: str, key: str, turns: Sequence[tuple[Result, Result]]) -> Record:
    verdict = Verdict.of([this[key] / max(other[key], 1e-9) for this, other in turns])
    return {
        "figure": figure,
        "unit": unit,
        "before": measure.median(other[key] for _, other in turns),
        "after": measure.median(this[key] for this, _ in turns),
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "turns": len(turns),
        "rows": turns[0][0].get("rows", [None])[0],
        "rows_equal": len({tuple(one.get("rows", ())) for turn in turns for one in turn}) == 1,
        "verdict": verdict.text,
    }


EXPERIMENT = Experiment(
    name="versions",
    title="This version against another one, turn by turn",
    how=(
        "Two processes, one for each version, take turns over the same streams, each run in a fresh engine with warm "
        "kernels. Path queries and SPARQL: CPU seconds of all pushes, with rows counted. Patterns: also the conversion to "
        f"tables of Arrow with names. patterns/5000: 5,000 patterns over the first {_SET_UPDATES:,} updates of LDBC. "
        "insert: microseconds of a call of `insert` and of reading its rows, in the middle of the stream. start: CPU "
        "seconds of a process, start/cold those of start/path without compiled kernels. memory: "
        "peak resident memory of a process that reads the stream batch by batch. Ratio: the "
        "median over the turns of this version's figure divided by the other's in the same turn; below 1 this version is "
        "better. Low and high: an interval of order statistics around the median. Not slower: no part of the interval is "
        f"above {TOLERANCE}; slower: the whole interval is."
    ),
    columns=(
        Column(key="figure", heading="figure"),
        Column(key="before", heading="other", format=",.4g"),
        Column(key="after", heading="this", format=",.4g"),
        Column(key="unit", heading="unit"),
        Column(key="ratio", heading="ratio", format=".3f"),
        Column(key="low", heading="low", format=".3f"),
        Column(key="high", heading="high", format=".3f"),
        Column(key="turns", heading="turns", format=","),
        Column(key="rows", heading="rows", format=","),
        Column(key="verdict", heading="verdict"),
    ),
    measure=measure_versions,
    repeat=7,
)
