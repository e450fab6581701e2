"""Sources that the tests install by entry points: over records in memory, and the one of docs/extending.md."""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import rpq
from tests.services.environments import ROOT

BATCHES: dict[str, list[Any]] = {}
"""The records by the host of a URL, in batches: bytes or record batches, or an exception that is raised there."""

POSITIONS: list[Any] = []
"""The positions at which sources were read."""


class Rewind(rpq.Source):
    """Batches in memory, from any of them on."""

    guarantee = "rewind"

    def __init__(self, url: str) -> None:
        self._batches = BATCHES[urlsplit(url).hostname]

    def read(self, position: Any) -> Iterator[rpq.Records]:
        POSITIONS.append(position)
        begin = position["batch"] if position else 0
        for number, batch in enumerate(self._batches[begin:], begin + 1):
            if isinstance(batch, Exception):
                raise batch
            yield rpq.Records(data=batch, position={"batch": number})


class RewindEdges(Rewind):
    """Batches of edges in memory, from any of them on."""

    delivers = "edges"


class Replay(Rewind):
    """Batches in memory, always from the first one."""

    guarantee = "replay"

    def read(self, position: Any) -> Iterator[rpq.Records]:
        assert position is None
        for records in super().read(None):
            yield rpq.Records(data=records.data)


class Live(Rewind):
    """Batches in memory, as if they had just come; nobody needs to inherit from `rpq.Source`, nor to have a `close`."""

    guarantee = "none"

    def read(self, position: Any) -> Iterator[rpq.Records]:
        yield from super().read(None)


class Seconds(Rewind):
    """Edges with timestamps in seconds."""

    delivers, time_unit = "edges", "s"


class NoSource:
    """No source."""


class Vague(Rewind):
    """A source whose guarantee is none of them."""

    guarantee = "mostly"


SOURCES = {
    "rewind": "Rewind",
    "rewind-edges": "RewindEdges",
    "replay": "Replay",
    "live": "Live",
    "seconds": "Seconds",
    "nosource": "NoSource",
    "vague": "Vague",
    "missing": "Missing",
}


def write_distribution(folder: Path, provided: dict[str, str], name: str, group: str = "rpq.sources") -> None:
    """Write what is installed of a distribution that provides sources or sinks: entry points by their schemes."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{scheme} = {value}\n" for scheme, value in provided.items()]
    (metadata / "entry_points.txt").write_text("".join([f"[{group}]\n", *lines]))


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    provided: dict[str, str],
    name: str = "of-tests",
    group: str = "rpq.sources",
) -> None:
    """Install a distribution that provides sources or sinks in this process."""
    write_distribution(folder, provided, name, group)
    monkeypatch.syspath_prepend(folder)


def install_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the sources of this module."""
    install(folder, monkeypatch, {scheme: f"{__name__}:{name}" for scheme, name in SOURCES.items()})


def path_with_example(folder: Path, kind: str) -> str:
    """Install the source or sink of docs/extending.md in a folder; return the path of Python for a process with it."""
    section = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").split(f"\n## A {kind}\n")[1].split("\n## ")[0]
    found = re.findall(r"^ *```(\w+)\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE)
    blocks = {language: textwrap.dedent(block) for language, block in found}
    ((group, points),) = tomllib.loads(blocks["toml"])["project"]["entry-points"].items()
    assert group == f"rpq.{kind}s"
    write_distribution(folder, points, f"example-{kind}", group)
    ((module, _),) = (point.split(":") for point in points.values())
    (folder / f"{module}.py").write_text(blocks["py"], encoding="utf-8")
    return os.pathsep.join([str(folder), str(ROOT)])
