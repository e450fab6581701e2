"""Sinks that the tests install by entry points, one with each guarantee; they write JSON lines to the path of their URL."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

import rpq
from tests.services.installed_sources import install


class Plain(rpq.Sink):
    """Rows as lines, at once."""

    guarantee = "none"

    def __init__(self, url: str) -> None:
        self.path = unquote(urlsplit(url).path)
        if "broken" in url:
            raise rpq.InputError("the URL is broken")

    def begin(self, run: str, position: Any) -> None:
        self.run, self.file = run, open(self.path, "ab", buffering=0)  # noqa: SIM115

    def write(self, rows: pa.Table) -> None:
        if "full" in self.path:
            raise ValueError("there is no room")
        self.file.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows.to_pylist()))

    def close(self) -> None:
        self.file.close()


class Rewind(Plain):
    """Rows as lines, which are cut at the position of a checkpoint."""

    guarantee = "rewind"

    def begin(self, run: str, position: Any) -> None:
        super().begin(run, position)
        assert position is None or position["run"] == run
        self.file.truncate(0 if position is None else position["bytes"])

    def position(self) -> Any:
        os.fsync(self.file.fileno())
        return {"run": self.run, "bytes": os.path.getsize(self.path)}


class Commit(Plain):
    """A file with all rows and the number of the last commit, which is replaced as a whole."""

    guarantee = "commit"

    def begin(self, run: str, position: Any) -> None:
        super().begin(run, position)
        text = Path(self.path).read_text()
        self.rows = json.loads(text)["rows"] if text and position is not None else []
        self.number = json.loads(text)["number"] if text and position is not None else 0

    def write(self, rows: pa.Table) -> None:
        self.rows += rows.to_pylist()

    def commit(self, number: int) -> None:
        assert number >= self.number
        self.number = number
        Path(f"{self.path}.new").write_text(json.dumps({"number": number, "rows": self.rows}))
        os.replace(f"{self.path}.new", self.path)

    def last_commit(self) -> int:
        return self.number


class Key(Plain):
    """Batches as lines, with their keys."""

    guarantee = "key"
    batch_rows = 3

    def write(self, rows: pa.Table) -> None:
        self.batch = rows.to_pylist()

    def commit(self, number: int) -> None:
        os.fsync(self.file.fileno())  # a moment to die at
        self.file.write(json.dumps({"key": f"{self.run}-{number}", "rows": self.batch}).encode() + b"\n")


def install_sinks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the sinks of this module, by the names of their guarantees."""
    names = {name: f"{__name__}:{name.capitalize()}" for name in ("plain", "rewind", "commit", "key", "missing")}
    install(folder, monkeypatch, names, group="rpq.sinks")
