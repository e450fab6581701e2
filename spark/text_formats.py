"""The text formats as tasks read them, which share a file and so have to know where its first lines end."""

from __future__ import annotations

from dataclasses import dataclass

from rpq.readers import TextFormat, formats
from rpq.readers.known_formats import format_named
from rpq.readers.source import ByteSource
from rpq.readers.text.textfile import Detected, settle
from rpq.spark.errors import PipelineError
from rpq.spark.splits import BLOCK_BYTES


def text_format_named(name: str) -> TextFormat:
    """How the lines of a format are laid out; raises `PipelineError` for an unknown one, and one that does not say it."""
    text = format_named(name).text if name in formats() else None
    if text is not None:
        return text
    readable = ", ".join(known for known in formats() if format_named(known).text is not None)
    if name in formats():
        raise PipelineError(
            f"the format {name!r} does not say how its lines are laid out, so that tasks cannot share a file of it: "
            f"expected one of {readable}"
        )
    raise PipelineError(f"unknown format {name!r}: expected one of {readable}")


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
        detected, rest = settle(block, format.detect, lambda bad: None)
        size += len(block.data)
        if detected is not None:
            return Head(detected=detected, size=size - len(rest.data))
    return Head(detected=None, size=size)
