"""The text formats as tasks read them: how a file's lines are laid out, and what its name tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rpq.readers.edges import detect
from rpq.readers.source import ByteSource
from rpq.readers.text.line_layout import FieldError, is_ignored
from rpq.readers.text.textfile import Detect, Detected, always
from rpq.spark.errors import PipelineError
from rpq.spark.splits import BLOCK_BYTES
from rpq.workloads.formats import gmark_edges, ldbc_edges, stackoverflow_edges, yago_facts


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """A format: `detect` tells from its first line how a file is laid out, `label` the label that its name tells.

    With `by_position` a tuple's timestamp is the number of its line among the data lines of all files.
    """

    detect: Detect
    label: Callable[[str], str] | None = None
    by_position: bool = False
    time_unit: str | None = None


FORMATS = {
    "edges": TextFormat(detect=detect),
    "stackoverflow": TextFormat(detect=always(stackoverflow_edges.LAYOUT), label=stackoverflow_edges.label_of, time_unit="s"),
    "ldbc": TextFormat(detect=ldbc_edges.detect_ldbc, time_unit="ms"),
    "yago": TextFormat(detect=always(yago_facts.LAYOUT), by_position=True),
    "gmark": TextFormat(detect=always(gmark_edges.LAYOUT), by_position=True),
}


def format_named(name: str) -> TextFormat:
    """The format of that name; raises `PipelineError`."""
    if name not in FORMATS:
        raise PipelineError(f"unknown format {name!r}: expected one of {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The beginning of a file: how the rest is read, and how many bytes precede it, header and bad lines included.

    `detected` is None where no line tells.
    """

    detected: Detected | None
    size: int


def head_of(path: str, format: TextFormat) -> Head:
    """Read as much of a file as it takes to know how it is laid out, usually a line."""
    size = 0
    for block in ByteSource(path).blocks(BLOCK_BYTES):
        start = 0
        while start < len(block.data):
            end = block.data.find(b"\n", start) + 1 or len(block.data)
            text = block.data[start:end].removesuffix(b"\n").removesuffix(b"\r")
            if not is_ignored(text):
                try:
                    detected = format.detect(text)
                except FieldError:
                    pass
                else:
                    return Head(detected=detected, size=size + (end if detected.is_header else start))
            start = end
        size += len(block.data)
    return Head(detected=None, size=size)
