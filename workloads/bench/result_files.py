"""The files that experiments leave: NAME.json with the figures, NAME.png with the plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rpq.files.destinations import replacing

FIGURES = Path(__file__).resolve().parents[1] / "figures.json"


def default_directory() -> Path:
    """`workloads/results` of a checkout; of an installed package, `results` where one stands."""
    package = Path(__file__).resolve().parents[1]
    return package / "results" if (package.parent / "pyproject.toml").exists() else Path("results")


def write_result(directory: Path, name: str, result: dict[str, Any]) -> Path:
    """Write a result as JSON, replaced as a whole; the path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    return path


def read_result(directory: Path, name: str) -> dict[str, Any]:
    """A result that was written before; `FileNotFoundError` if there is none."""
    result: dict[str, Any] = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
    return result


def figures_of_others(name: str) -> dict[str, Any]:
    """What others need, and the rows that are right, each with its source."""
    known: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return known[name]
