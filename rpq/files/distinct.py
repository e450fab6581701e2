"""Whether the files that a command names are different ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from rpq.files.destinations import STANDARD_STREAM, WriteError, descriptor_of


class SameFileError(WriteError):
    """Two options of a command that mean one file."""


def check_distinct(
    *, written: Iterable[tuple[str, str | os.PathLike[str]]], read: Iterable[tuple[str, str | os.PathLike[str]]] = ()
) -> None:
    """Raise `SameFileError` if a file that is written is also read, or written by two; pairs of option and path.

    Names are compared by the file that they lead to, by whatever spelling, hard link or symbolic link, and by folder
    and name where there is none yet.  `-` is what standard input or output was redirected from or to.  Devices
    such as `/dev/null` may be shared, and files that are only read.  A Parquet file in a folder
    that is read counts as one of its files.
    """
    outputs = [(option, os.fspath(path)) for option, path in written]
    inputs = [(option, os.fspath(path)) for option, path in read]
    known: dict[tuple[object, ...], tuple[str, str]] = {}
    for option, path in outputs:
        for key in _identities(path, is_written=True):
            if key in known:
                raise SameFileError(
                    f"{_pair(*known[key])} and {_pair(option, path)} are one file; each needs a file of its own"
                )
            known[key] = option, path
    for option, path in inputs:
        for key in _identities(path, is_written=False):
            if key in known:
                raise SameFileError(
                    f"{_pair(*known[key])} and {_pair(option, path)} are one file: "
                    "it would be overwritten by what is made of it"
                )
        for other, output in outputs:
            if output.endswith(".parquet") and os.path.isdir(path) and is_read_with(output, path):
                raise SameFileError(
                    f"{_pair(other, output)} lies in {_pair(option, path)}, whose Parquet files are all read; "
                    "expected a place outside"
                )


def is_read_with(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether a path, which need not exist, is a folder or leads to somewhere below it where its files are read.

    That is not so below a name that begins with `_` or `.`, as for Spark and Hive.
    """
    here = os.path.realpath(path)
    while not _is_same(here, folder):
        above, name = os.path.split(here)
        if above == here or name.startswith(("_", ".")):
            return False
        here = above
    return True


def _is_same(path: str, other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return path == os.path.realpath(other)


def _identities(path: str, *, is_written: bool) -> Iterator[tuple[object, ...]]:
    """What two names of one file have in common; nothing for what may be shared."""
    descriptor = int(is_written) if path == STANDARD_STREAM else descriptor_of(path)
    if descriptor is not None:
        yield "descriptor", descriptor
    try:
        found = os.stat(path) if descriptor is None else os.fstat(descriptor)
    except OSError:
        if descriptor is None:
            yield _future_identity(path)
        return
    if stat.S_ISREG(found.st_mode) or (stat.S_ISFIFO(found.st_mode) and (is_written or path != STANDARD_STREAM)):
        yield found.st_dev, found.st_ino


def _future_identity(path: str) -> tuple[object, ...]:
    folder, name = os.path.split(os.path.realpath(path))
    try:
        found = os.stat(folder)
    except OSError:
        return folder, os.path.normcase(name)
    return found.st_dev, found.st_ino, os.path.normcase(name)


def _pair(option: str, path: str) -> str:
    return f"{option} {path}"
