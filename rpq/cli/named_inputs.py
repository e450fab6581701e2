"""Inputs that belong to a stream: `--input NAME=FILE`.

What exists as it is written is a file, whatever stands in its name.  Else the part before the first `=` is the name of a
stream, if it has no `/` in it, or stands in angle brackets: `answers=sx-a2q.txt`, `<http://example.org/answers>=-`.  A
file whose name has a `=` and that may not be there yet is meant with `./` before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

import click

_NAMED = re.compile(r"(?:<([^<>]*)>|([^/=<>]*))=(.*)", re.DOTALL)


class NamedInput(NamedTuple):
    """A file, and the stream that its tuples belong to, if any."""

    path: str
    stream: str | None = None

    def __str__(self) -> str:
        return self.path if self.stream is None else f"{self.stream}={self.path}"


def named_input(text: str) -> NamedInput:
    """What a value of `--input` says.

    >>> named_input("answers=a2q.csv"), named_input("./x=y.csv")
    (NamedInput(path='a2q.csv', stream='answers'), NamedInput(path='./x=y.csv', stream=None))
    """
    found = None if os.path.exists(text) else _NAMED.fullmatch(text)
    if found is None:
        return NamedInput(text)
    stream, path = found[1] or found[2], found[3]
    if not stream or not path:
        raise click.UsageError(f"--input {text}: is no file, and no NAME=FILE: a name stands before = and a file behind it")
    return NamedInput(path, stream)


def named_inputs(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    """The files that values of `--input` say, and the stream of each."""
    found = [named_input(text) for text in texts]
    return tuple(one.path for one in found), tuple(one.stream for one in found)
