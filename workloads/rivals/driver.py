"""Building and running rivals, and comparing their answers with those of this engine."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.baselines.reevaluation import InsertedEdges
from rpq.workloads.rivals.questions import Question, RdfQuestion

SOURCES = Path(__file__).parent
START_SECONDS = 120.0
"""The time in which a rival must have read the file and warmed up."""
WALL_FACTOR = 3
"""Seconds on the clock for each second of CPU that a rival may use, because other programs also use the machine."""
TOLERANCE = 1e-5
"""The part by which totals of numbers may differ: an average of `xsd:float` has seven digits, in the order of its sum."""
MEMORY_FOLDER = Path("/dev/shm")
"""The folder for the files of rivals, which the system may keep in memory."""
_NEO4J_OPTIONS = tuple(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in ("java.nio", "java.io", "sun.nio.ch"))
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

Edge = tuple[int, int, int]
"""Source, label, target."""


class RivalError(Exception):
    """A rival that cannot be built or run here."""


class AnswersDifferError(Exception):
    """A rival and the engine have different answers at the end of a slide, so their times cannot be compared."""


def checksums(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return the checksum of each row of vertices: for each value, xor with it, multiply, xor with the upper half.

    >>> checksums([np.array([1, 1]), np.array([2, 3])])
    array([16682901111866666349,  9636871851626279103], dtype=uint64)
    """
    found = np.zeros(len(columns[0]) if len(columns) else 0, np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * _MIXER
        found ^= found >> _HALF
    return found


def totals(checksum: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """Return the numbers of each row, whose sum is `values`, weighted by the row's checksum, from 1 to 2.

    >>> totals(np.array([2**63], np.uint64), np.array([10.0]))
    array([15.])
    """
    weighted: np.ndarray = values * (1 + (checksum >> np.uint64(44)).astype(np.float64) / 2**20)
    return weighted


@dataclass(frozen=True, kw_only=True)
class SlideState:
    """The state of an engine at the end of a slide: CPU seconds so far, the number of answers and their checksum.

    `total` is the sum of the numbers in the answers, each by the weight of its row (`totals`), and `change_seconds` those of
    `seconds` before the query is evaluated, None if the two are one.
    """

    slide: int
    seconds: float
    answers: int
    checksum: int
    total: float = 0.0
    change_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """The readings of a rival up to its last slide or its time limit, and why it stopped early, None if it did not.

    `loaded_bytes` is the memory of the edges loaded before the first slide, without their terms, if the rival reports it.
    """

    readings: Sequence[SlideState]
    problem: str | None
    loaded_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A rival: its name, version, way of evaluation, and a description of its settings.

    `command` returns the command for a question without the file of changes, which is inserted at the place `{changes}`.
    It builds the rival if it must, and raises `RivalError` if it cannot.
    """

    name: str
    version: str
    is_incremental: bool
    settings: str
    command: Callable[[Question], list[str]]


def cache_folder() -> Path:
    """Return the folder in which rivals are built, in the user's cache."""
    from numba.misc.appdirs import AppDirs

    return Path(AppDirs(appname="streaming-rpq", appauthor=False).user_cache_dir) / "rivals"


def build(folder: str, command: Sequence[str], *, needs: str, cache: Path | None = None) -> Path:
    """Build the sources in a folder, unless it was done before; return the folder of the build.

    Raises `RivalError` if a tool is missing or the build fails.
    """
    sources = SOURCES / folder
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    digest = hashlib.sha256(repr([(str(path.relative_to(sources)), path.read_bytes()) for path in files]).encode())
    target = (cache or cache_folder()) / f"{folder}-{digest.hexdigest()[:12]}"
    if (target / "built").exists():
        return target
    if shutil.which(command[0]) is None:
        raise RivalError(f"{folder} needs {needs}: {command[0]} is not on the path")
    shutil.copytree(sources, target, dirs_exist_ok=True)
    built = subprocess.run(command, check=False, cwd=target, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if built.returncode:
        last = "\n".join((built.stderr + built.stdout).strip().splitlines()[-5:])
        raise RivalError(f"{folder} is not built by {' '.join(command)} in {target}: {last}")
    (target / "built").touch()
    return target


def _java(main: str, *words: str, options: Sequence[str] = ()) -> list[str]:
    folder = build("java", ["mvn", "-q", "-B", "package"], needs="a JDK 17 and Maven")
    places = f"{folder / 'target' / 'classes'}{os.pathsep}{folder / 'target' / 'libraries'}/*"
    options = ["-Xmx4g", "-XX:+UseParallelGC", "-Dslf4j.provider=org.slf4j.nop.NOPServiceProvider", *options]
    return ["java", *options, "-cp", places, f"rivals.{main}", *words]


def _store(main: str) -> Callable[[Question], list[str]]:
    return lambda question: _java(main, "{changes}", *_sparql(question))


def _sparql(question: Question) -> list[str]:
    return [question.sparql, *([str(question.terms)] if isinstance(question, RdfQuestion) else [])]


def _differential(question: Question) -> list[str]:
    if isinstance(question, RdfQuestion):
        raise RivalError("differential-dataflow evaluates path queries and patterns, no SPARQL")
    folder = build("differential", ["cargo", "build", "--release", "--locked"], needs="cargo")
    return [str(folder / "target" / "release" / "differential"), "{changes}", *question.arguments]


def _esper(question: Question) -> list[str]:
    if not isinstance(question, RdfQuestion) or not question.epl:
        raise RivalError("Esper evaluates statements over windows, no SPARQL")
    return _java("Esper", str(question.terms.with_name("tuples.tsv")), question.epl, str(question.terms))


def _neo4j(question: Question) -> list[str]:
    if isinstance(question, RdfQuestion):
        raise RivalError("Neo4j evaluates path queries and patterns, no SPARQL")
    return _java("Neo4j", "{changes}", question.cypher, options=_NEO4J_OPTIONS)


def neo4j_patterns(patterns: Path) -> list[str]:
    """Return the command for a file of patterns over a file of edges, which is inserted at the place `{changes}`.

    Both are described in `rpq.workloads.rivals`. Raises `RivalError` if Neo4j cannot be built.
    """
    return _java("Neo4jPatterns", "{changes}", str(patterns), options=_NEO4J_OPTIONS)


def _sql(question: Question) -> list[str]:
    if isinstance(question, RdfQuestion):
        raise RivalError("DuckDB evaluates path queries and patterns, no SPARQL")
    return [question.sql]


def _ladybug(question: Question) -> list[str]:
    if isinstance(question, RdfQuestion):
        raise RivalError("ladybug evaluates path queries and patterns, no SPARQL")
    return [question.ladybug]


def _python(name: str, words: Callable[[Question], list[str]]) -> Callable[[Question], list[str]]:
    def command(question: Question) -> list[str]:
        if _version(name) is None:
            raise RivalError(f"{name} is not installed: python -m pip install {name}")
        return [sys.executable, "-m", "rpq.workloads.rivals.stores", name, "{changes}", *words(question)]

    return command


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def rivals() -> dict[str, Rival]:
    """Return the rivals by their names."""
    all_rivals = (
        Rival(
            name="differential-dataflow", version="0.26.0", is_incremental=True, command=_differential,
            settings="one worker, a time a slide, joins in the order of the text, mimalloc",
        ),
        Rival(
            name="DuckDB", version=_version("duckdb") or "", is_incremental=False,
            command=_python("duckdb", _sql),
            settings="one thread, a table in memory, recursive common tables",
        ),
        Rival(
            name="ladybug", version=_version("ladybug") or "", is_incremental=False, command=_python("ladybug", _ladybug),
            settings="one thread, a database in memory, a table for each label, vertices created before, shortest paths",
        ),
        Rival(
            name="pyoxigraph", version=_version("pyoxigraph") or "", is_incremental=False,
            command=_python("pyoxigraph", _sparql), settings="a store in memory",
        ),
        Rival(
            name="Jena", version="5.5.0", is_incremental=False, command=_store("Jena"),
            settings="GraphMem2Fast, the query parsed once; CPU of the evaluating thread, without compiler and collector",
        ),
        Rival(
            name="RDF4J", version="5.2.0", is_incremental=False, command=_store("Rdf4j"),
            settings="MemoryStore without isolation or inference; CPU of the evaluating thread, as for Jena",
        ),
        Rival(
            name="Neo4j", version="5.26.0", is_incremental=False, command=_neo4j,
            settings="in this process, a store in memory, nodes by their numbers, plans in the cache; CPU as for Jena",
        ),
        Rival(
            name="Esper", version="9.0.0", is_incremental=True, command=_esper,
            settings="windows of time on a clock of slides, events as beans, a listener with irstream; CPU as for Jena",
        ),
    )  # fmt: skip
    return {rival.name: rival for rival in all_rivals}


def run(
    command: Sequence[str],
    changes: Path,
    *,
    seconds: float,
    start_seconds: float = START_SECONDS,
    clock_seconds: float | None = None,
) -> RivalRun:
    """Run the command of a rival over a file of changes until its slides have taken `seconds` of CPU.

    A rival that takes much longer is stopped by the clock, after `clock_seconds`, by default `WALL_FACTOR` times as many.

    Raises `RivalError` if it fails, is not ready in time or prints something else.
    """
    clock_seconds = clock_seconds or WALL_FACTOR * seconds
    words = [str(changes) if word == "{changes}" else word for word in command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    readings: list[SlideState] = []
    problem: list[str] = []
    memory = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryDirectory(prefix="rpq-rival-", dir=memory) as files:
        environment["TMPDIR"] = files
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)

        def stop(limit: str) -> None:
            problem.append(f"stopped after {limit}")
            process.kill()

        assert process.stdout is not None
        timer = threading.Timer(start_seconds, stop, [f"{start_seconds:g} s before it was ready"])
        timer.start()
        try:
            is_ready, loaded_bytes = _ready(process.stdout.readline())
            timer.cancel()
            if is_ready:
                timer = threading.Timer(clock_seconds, stop, [f"{clock_seconds:g} s on the clock"])
                timer.start()
                for line in process.stdout:
                    if line.endswith("\n"):
                        readings.append(_parse_reading(line, words))
                        if readings[-1].seconds > seconds:
                            stop(f"{seconds:g} s of CPU")
                            break
        finally:
            timer.cancel()
            if sys.exc_info()[0] is not None:
                process.kill()
            process.wait()
            process.stdout.close()
        if problem:
            return RivalRun(readings=readings, problem=problem[0], loaded_bytes=loaded_bytes)
        if process.returncode or not is_ready:
            errors.seek(0)
            last = " ".join(errors.read().strip().splitlines()[-3:]) or f"status {process.returncode}"
            raise RivalError(f"{Path(words[0]).name} failed: {last}")
    return RivalRun(readings=readings, problem=None, loaded_bytes=loaded_bytes)


def _ready(line: str) -> tuple[bool, int | None]:
    word, *cells = line.split() or [""]
    return word == "ready", int(cells[0]) if cells else None


def _parse_reading(line: str, words: Sequence[str]) -> SlideState:
    try:
        slide, seconds, answers, checksum, *others = line.split("\t")
        total, change_seconds = map(float, others) if others else (0.0, None)
        return SlideState(
            slide=int(slide),
            seconds=float(seconds),
            answers=int(answers),
            checksum=int(checksum),
            total=total,
            change_seconds=change_seconds,
        )
    except ValueError as error:
        raise RivalError(f"{Path(words[0]).name} printed {line!r}, expected slide, seconds, answers, checksum") from error


def write_changes(
    slides: Iterable[tuple[int, pa.RecordBatch]], window: rpq.Window, labels: Sequence[str], path: Path
) -> None:
    """Write the edges that enter and leave the window at each slide of a stream of inserts in the order of time.

    `slides` are the numbers and the tuples of slides; vertices are numbers. Other labels than `labels` are left out.
    """
    changes_of_window = WindowChanges(window)
    numbers = {label: number for number, label in enumerate(labels)}
    with path.open("w", encoding="ascii") as file:
        for slide, batch in slides:
            names = ("source", "label", "target", "timestamp")
            tuples = zip(*(batch[name].to_pylist() for name in names), strict=True)
            removed, added = changes_of_window.slide(
                (((source, numbers[label], target), time) for source, label, target, time in tuples if label in numbers),
                batch["timestamp"][-1].as_py(),
            )
            for sign, edges in (("-", removed), ("+", added)):
                file.writelines(f"{slide}\t{sign}\t{source}\t{label}\t{target}\n" for source, label, target in edges)


class WindowChanges:
    """The edges that enter and leave a window from the end of one slide to the end of the next.

    >>> changes = WindowChanges(rpq.Window(size=10, slide=1))
    >>> changes.slide([((7, 0, 8), 1), ((8, 0, 9), 1)], 5), changes.slide([((7, 0, 8), 6)], 12)
    (([], [(7, 0, 8), (8, 0, 9)]), ([(8, 0, 9)], []))
    """

    def __init__(self, window: rpq.Window) -> None:
        self._edges: InsertedEdges[Edge] = InsertedEdges(window)

    def slide(self, tuples: Iterable[tuple[Edge, int]], end: int) -> tuple[list[Edge], list[Edge]]:
        """Insert the edges of a slide with their times, up to its end; return the edges that left and that entered."""
        changes: dict[Edge, int] = {}
        for edge, time in tuples:
            is_new, left = self._edges.insert(edge, time)
            for other in left:
                changes[other] = changes.get(other, 0) - 1
            if is_new:
                changes[edge] = changes.get(edge, 0) + 1
        for other in self._edges.advance(end):
            changes[other] = changes.get(other, 0) - 1
        return [edge for edge, sign in changes.items() if sign < 0], [edge for edge, sign in changes.items() if sign > 0]


def compare(
    rival: str, rival_readings: Iterable[SlideState], ours: Mapping[int, SlideState]
) -> tuple[SlideState, SlideState] | None:
    """Check the readings of a rival at the slides for which we have one; return the last pair, or None without any.

    Raises `AnswersDifferError`.
    """
    last = None
    for reading in rival_readings:
        own = ours.get(reading.slide)
        if own is None:
            continue
        equal = math.isclose(reading.total, own.total, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if not equal or (reading.answers, reading.checksum) != (own.answers, own.checksum):
            raise AnswersDifferError(
                f"{rival} has {reading.answers:,} answers, checksum {reading.checksum}, total {reading.total:g}, at the end "
                f"of slide {reading.slide}; this engine has {own.answers:,}, checksum {own.checksum}, total {own.total:g}"
            )
        last = reading, own
    return last
