"""Building and running rivals, and comparing their answers with those of this engine."""

from __future__ import annotations

import hashlib
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
from rpq.workloads.baselines.reevaluation import WindowEdges
from rpq.workloads.rivals.questions import Question

SOURCES = Path(__file__).parent
START_SECONDS = 120.0
"""The time in which a rival must have read the file and warmed up."""
WALL_FACTOR = 3
"""Seconds on the clock for each second of CPU that a rival may take: other programs take their part of the machine."""
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


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


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The state of an engine at the end of a slide: CPU seconds so far, the number of answers and their checksum."""

    slide: int
    seconds: float
    answers: int
    checksum: int


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """The readings of a rival up to its last slide or its time limit, and why it stopped early, None if it did not."""

    readings: Sequence[Reading]
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A rival by its name: its version, how it evaluates, and its settings in words.

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


def _java(main: str) -> Callable[[Question], list[str]]:
    def command(question: Question) -> list[str]:
        folder = build("java", ["mvn", "-q", "-B", "package"], needs="a JDK 17 and Maven")
        places = f"{folder / 'target' / 'classes'}{os.pathsep}{folder / 'target' / 'libraries'}/*"
        return ["java", "-Xmx4g", "-XX:+UseParallelGC", "-cp", places, f"rivals.{main}", "{changes}", question.sparql]

    return command


def _differential(question: Question) -> list[str]:
    folder = build("differential", ["cargo", "build", "--release", "--locked"], needs="cargo")
    return [str(folder / "target" / "release" / "differential"), "{changes}", *question.arguments]


def _python(name: str, text: Callable[[Question], str]) -> Callable[[Question], list[str]]:
    def command(question: Question) -> list[str]:
        if _version(name) is None:
            raise RivalError(f"{name} is not installed: python -m pip install {name}")
        return [sys.executable, "-m", "rpq.workloads.rivals.stores", name, "{changes}", text(question)]

    return command


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def rivals() -> dict[str, Rival]:
    """Return the rivals by their names."""
    known = (
        Rival(
            name="differential-dataflow", version="0.26.0", is_incremental=True, command=_differential,
            settings="one worker, a time a slide, joins in the order of the text, mimalloc",
        ),
        Rival(
            name="DuckDB", version=_version("duckdb") or "", is_incremental=False,
            command=_python("duckdb", lambda question: question.sql),
            settings="one thread, a table in memory, recursive common tables",
        ),
        Rival(
            name="pyoxigraph", version=_version("pyoxigraph") or "", is_incremental=False,
            command=_python("pyoxigraph", lambda question: question.sparql), settings="a store in memory",
        ),
        Rival(
            name="Jena", version="5.5.0", is_incremental=False, command=_java("Jena"),
            settings="GraphMem2Fast, the query parsed once; CPU of the evaluating thread, without compiler and collector",
        ),
        Rival(
            name="RDF4J", version="5.2.0", is_incremental=False, command=_java("Rdf4j"),
            settings="MemoryStore without isolation or inference; CPU of the evaluating thread, as for Jena",
        ),
    )  # fmt: skip
    return {rival.name: rival for rival in known}


def run(command: Sequence[str], changes: Path, *, seconds: float, start_seconds: float = START_SECONDS) -> RivalRun:
    """Run the command of a rival over a file of changes until its slides have taken `seconds` of CPU.

    A slide that takes much longer is stopped by the clock, `WALL_FACTOR` times as late.

    Raises `RivalError` if it fails, is not ready in time or prints something else.
    """
    words = [str(changes) if word == "{changes}" else word for word in command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    readings: list[Reading] = []
    problem: list[str] = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)

        def stop(limit: str) -> None:
            problem.append(f"stopped after {limit}")
            process.kill()

        assert process.stdout is not None
        timer = threading.Timer(start_seconds, stop, [f"{start_seconds:g} s before it was ready"])
        timer.start()
        try:
            is_ready = process.stdout.readline() == "ready\n"
            timer.cancel()
            if is_ready:
                timer = threading.Timer(WALL_FACTOR * seconds, stop, [f"{WALL_FACTOR * seconds:g} s on the clock"])
                timer.start()
                for line in process.stdout:
                    if line.endswith("\n"):
                        readings.append(_reading(line, words))
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
            return RivalRun(readings=readings, problem=problem[0])
        if process.returncode or not is_ready:
            errors.seek(0)
            last = " ".join(errors.read().strip().splitlines()[-3:]) or f"status {process.returncode}"
            raise RivalError(f"{Path(words[0]).name} failed: {last}")
    return RivalRun(readings=readings, problem=None)


def _reading(line: str, words: Sequence[str]) -> Reading:
    try:
        slide, seconds, answers, checksum = line.split("\t")
        return Reading(slide=int(slide), seconds=float(seconds), answers=int(answers), checksum=int(checksum))
    except ValueError as error:
        raise RivalError(f"{Path(words[0]).name} printed {line!r}, expected slide, seconds, answers, checksum") from error


def write_changes(
    slides: Iterable[tuple[int, pa.RecordBatch]], window: rpq.Window, labels: Sequence[str], path: Path
) -> None:
    """Write the edges that enter and leave the window at each slide of a stream of inserts in the order of time.

    `slides` are the numbers and the tuples of slides; vertices are numbers. Other labels than `labels` are left out.
    """
    edges_of_window = WindowEdges(window)
    numbers = {label: str(number) for number, label in enumerate(labels)}
    with path.open("w", encoding="ascii") as file:
        for slide, batch in slides:
            names = ("source", "label", "target", "timestamp")
            added: dict[tuple[str, str, str], None] = {}
            removed = dict.fromkeys(edges_of_window.advance(batch["timestamp"][0].as_py()))
            for source, label, target, timestamp in zip(*(batch[name].to_pylist() for name in names), strict=True):
                if label in numbers:
                    edge = (str(source), numbers[label], str(target))
                    is_new, _ = edges_of_window.insert(edge, timestamp)
                    if is_new:
                        added[edge] = None
            again = removed.keys() & added.keys()
            for sign, edges in (("-", removed), ("+", added)):
                file.writelines("\t".join((str(slide), sign, *edge)) + "\n" for edge in edges if edge not in again)


def compare(rival: str, found: Iterable[Reading], ours: Mapping[int, Reading]) -> tuple[Reading, Reading] | None:
    """Check all readings of a rival; return its last and ours at the same slide, None if there is none.

    Raises `AnswersDifferError`.
    """
    last = None
    for reading in found:
        own = ours[reading.slide]
        if (reading.answers, reading.checksum) != (own.answers, own.checksum):
            raise AnswersDifferError(
                f"{rival} has {reading.answers:,} answers, checksum {reading.checksum}, at the end of slide "
                f"{reading.slide}; this engine has {own.answers:,}, checksum {own.checksum}"
            )
        last = reading, own
    return last
