"""Measurements in a separate process for one query on one stream: resident memory, start-up, cold compilation.

The stream is written to a temporary Arrow file that the process reads batch by batch, so that its memory is that of the
engine and one batch. The peak is the high-water mark of its own address space. The process runs this module as a program:
`python -m rpq.workloads.bench.memory SPECIFICATION`.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import rpq

if TYPE_CHECKING:  # the memory of a run is not that of what prepares it
    from rpq.workloads.bench.streams import Stream


@dataclass(frozen=True, kw_only=True)
class Resident:
    """Peak resident bytes of three processes: one only imports, one also loads its kernels, one runs the query."""

    imports: int
    kernels: int
    run: int

    @property
    def beyond_imports(self) -> int:
        """The memory of the run beyond the interpreter with its imports: kernels, one batch, graph and index."""
        return self.run - self.imports

    @property
    def beyond_kernels(self) -> int:
        """The memory of the run beyond a process with loaded kernels: one batch, names, graph, index, rows."""
        return self.run - self.kernels


def resident_memory(query: rpq.Query, stream: Stream, *, static: pa.RecordBatch | None = None) -> Resident:
    """Measure three processes: one runs a query over static edges and a stream, one only imports, one only loads kernels."""
    with tempfile.TemporaryDirectory() as folder:
        _write_arrow(Path(folder, "stream.arrow"), stream.table.schema, stream.batches())
        if static is not None:
            _write_arrow(Path(folder, "static.arrow"), static.schema, [static])
        Path(folder, "query.pickle").write_bytes(pickle.dumps(query))
        peaks = {step: _child({"folder": folder, "step": step}) for step in ("imports", "kernels", "run")}
    return Resident(**peaks)


def _write_arrow(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def command_memory(query: rpq.Query, stream: Stream) -> int:
    """Return the peak resident bytes of `rpq run` with a path query over a text file."""
    from pyarrow import csv

    with tempfile.TemporaryDirectory() as folder:
        path, figures = Path(folder, "stream.tsv"), Path(folder, "figures.json")
        columns = stream.table.select(["source", "target", "label", "timestamp"])
        csv.write_csv(columns, path, csv.WriteOptions(delimiter="\t", quoting_style="none"))
        command = [sys.executable, "-m", "rpq.cli", "run", query.expression, "--input", str(path), "--stats", str(figures)]
        windows = ["--window", str(query.window.size), "--slide", str(query.window.slide), "--output", f"{folder}/rows.csv"]
        subprocess.run([*command, *windows, "--quiet"], check=True)
        peak: int = json.loads(figures.read_text())["peak_memory_bytes"]
    return peak


def start_seconds(expression: str, *, cache: Path | None = None) -> float:
    """Return the wall-clock seconds of `rpq run` on a stream of one tuple; `cache` is another directory for kernels."""
    environment = dict(os.environ) if cache is None else {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "one.tsv")
        path.write_text("source\ttarget\tlabel\ttimestamp\nx\ty\ta\t1\n", encoding="utf-8")
        command = [sys.executable, "-m", "rpq.cli", "run", expression, "--input", str(path)]
        started = time.perf_counter()
        subprocess.run([*command, "--window", "10", "--slide", "1", "--quiet"], check=True, env=environment)
        return time.perf_counter() - started


def cold_seconds(expression: str) -> float:
    """Return the wall-clock seconds of `rpq run` on a stream of one tuple without compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        return start_seconds(expression, cache=Path(folder))


def _child(specification: dict[str, Any]) -> int:
    command = [sys.executable, "-m", "rpq.workloads.bench.memory", json.dumps(specification)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(ran.stdout)


def _work(specification: dict[str, Any]) -> None:
    import rpq.engine.engine  # the imports of a run

    if specification["step"] == "imports":
        return
    folder = Path(specification["folder"])
    query = pickle.loads((folder / "query.pickle").read_bytes())
    rpq.warm_up(query)
    if specification["step"] == "kernels":
        return
    engine = rpq.Engine(query)
    if (folder / "static.arrow").exists():
        with pa.OSFile(str(folder / "static.arrow"), "rb") as file, pa.ipc.open_stream(file) as reader:
            engine.load_static(reader.read_all())
    with pa.OSFile(str(folder / "stream.arrow"), "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            engine.push(batch, collect=False)


if __name__ == "__main__":
    _work(json.loads(sys.argv[1]))
    from rpq.engine.machine_memory import peak_memory_bytes

    print(peak_memory_bytes())
