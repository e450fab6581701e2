"""Edges without time, which a run loads before its first tuple: `--static FILE`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.compute as pc

from rpq.cli.settings import RunSettings
from rpq.errors import InputError
from rpq.readers import ColumnNames, RdfReading, open_reader

if TYPE_CHECKING:
    from rpq.cli.labels_seen import LabelsSeen
    from rpq.engine import Engine

_NAMES = ["source", "target", "label"]
_HASHED = 1 << 20


def load_static(settings: RunSettings, engine: Engine | None, labels_seen: LabelsSeen) -> int:
    """Load the edges of all files, or see their labels alone where an engine has them; how many there were.

    Raises `InputError`, which names the file.
    """
    count = 0
    for number, path in enumerate(settings.static, 1):
        for edges in _edges_of(path, settings.static_format, number):
            if settings.drop_self_loops:
                edges = edges.filter(pc.not_equal(edges.column("source"), edges.column("target")))
            labels_seen.look_at(edges.column("label"))
            count += edges.num_rows
            if engine is None:
                continue
            try:
                engine.load_static(edges)
            except InputError as error:
                raise InputError(f"{path}: {error}", file=path, column=error.column) from error
    return count


def _edges_of(path: str, format: str, number: int) -> Iterator[pa.RecordBatch]:
    """The edges of a file in batches; times are not looked at, and a delete is an error."""
    columns = ColumnNames(timed=False, fixed=True) if format in ("edges", "jsonl") else None
    rdf = RdfReading(scope=f"s{number}.") if format == "rdf" else None
    for batch in open_reader(format, [path], columns=columns, rdf=rdf):
        names = batch.columns.schema.names
        if "delete" in names and pc.any(batch.columns.column("delete")).as_py():
            message = "deletes an edge; edges without time are there from the beginning to the end"
            raise InputError(f"{path}: {message}", file=path)
        yield pa.RecordBatch.from_arrays([batch.columns.column(name) for name in _NAMES], _NAMES)


def digests(paths: Sequence[str]) -> list[str]:
    """Each file with what tells its content from any other: rows depend on it, but it is read only once."""
    found = []
    for path in paths:
        files = [path] if os.path.isfile(path) else sorted(_inside(path))
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{os.path.relpath(file, path)}\0".encode(errors="surrogateescape"))
            try:
                with open(file, "rb") as opened:
                    while data := opened.read(_HASHED):
                        digest.update(data)
            except OSError as error:
                raise click.UsageError(f"--static {file}: cannot be read: {error.strerror or error}") from error
        found.append(f"{os.path.abspath(path)} ({digest.hexdigest()[:16]})")
    return found


def _inside(folder: str) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        yield from (os.path.join(root, name) for name in names)
