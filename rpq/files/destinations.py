"""Output files: all files for users are opened here.

=====================================================  ==============================================================
existing file at the path                              destination of the output
=====================================================  ==============================================================
none, or a regular file                                a new file, which replaces the old one as a whole (`open_replacement`)
a symbolic link                                        as for the target of the link; the link remains
a device, a FIFO, a descriptor such as `/dev/stdout`   in place
=====================================================  ==============================================================

The new file has no name if the system supports that (Linux), so that it vanishes however a process ends; otherwise it is a
hidden file in the same folder.  A replaced file passes on its mode, and a new file follows the umask.  If a folder accepts
no new file, or the file cannot be replaced by renaming (because it is a mount point), its content is overwritten at the end
instead.

Outputs that readers may follow (`tail -f`, of a stream without end), or that continue the output of an earlier run, are
`GrowingFile`: written in place from their first byte on.  A command calls `check_writable` and `check_distinct` for all its
paths before it opens any of them.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Protocol

from rpq.errors import RpqError

STANDARD_STREAM = "-"
"""The path of standard input or standard output in the arguments of commands that accept it."""

STANDARD_OUTPUT = "/dev/stdout"
"""A path that stands for standard output in this module, on every system."""

BUFFER_BYTES = 1 << 17

PRIVATE = 0o600
"""The mode of new files that contain stream data but are not outputs, such as states and journals."""

_DESCRIPTORS = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MAX_LINKS = 40
_RENAME_REFUSED = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)
_UNNAMED = getattr(os, "O_TMPFILE", 0)


class WriteError(RpqError, OSError):
    """A file that cannot or must not be written; the message contains its name."""

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


@contextmanager
def open_replacement(path: str | os.PathLike[str], *, is_private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces the file at `path` when the block ends, but not after an exception.

    A new file has the mode of the umask, a private file 0600; a replaced file passes on its mode.

    Raises `WriteError` if the file cannot be opened, written or put in place.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_replacement(folder + "/a.txt") as file:
    ...         _ = file.write(b"whole")
    ...     open(folder + "/a.txt").read()
    'whole'
    """
    replacement = Replacement(path, is_private=is_private)
    try:
        yield replacement.file
        replacement.put_in_place()
    finally:
        replacement.discard()


class Destination(Protocol):
    """The destination of a writer: `file`, until `put_in_place` or `discard` ends it.  Messages use `path`.

    `begins_at_once` is true if opening `file` before there is anything to write loses no content.
    """

    path: str
    begins_at_once: bool

    @property
    def file(self) -> IO[bytes]: ...

    def put_in_place(self) -> None: ...

    def discard(self, *, whole: int = 0) -> None: ...


class Replacement:
    """A file that replaces another, like `open_replacement` without the block: `put_in_place` or `discard` ends it.

    `file` can be written and, unless the path is a device or FIFO, truncated and positioned.  Raises `WriteError`.
    """

    begins_at_once = True

    def __init__(self, path: str | os.PathLike[str], *, is_private: bool = False) -> None:
        self.path = os.fspath(path)
        self._new_mode = PRIVATE if is_private else 0o666
        self._temporary: str | None = None
        self._is_copied = False
        check_writable(self.path)
        with write_errors(self.path):
            self._is_in_place = _is_written_in_place(self.path)
            if self._is_in_place:
                descriptor = _open_in_place(self.path)
            else:
                self._target = os.path.realpath(self.path)
                descriptor = self._open_temporary_file()
        self._file = _open_buffer(descriptor, self.path)

    @property
    def file(self) -> IO[bytes]:
        """The file to write to."""
        return self._file

    def put_in_place(self) -> None:
        """Replace the file at the path, on disk when this returns.  Raises `WriteError`; then nothing has changed."""
        synchronise(self.file)
        with write_errors(self.path):
            if self._is_copied:
                self._copy()
            elif not self._is_in_place:
                self._rename()
        self.file.close()

    def discard(self, *, whole: int = 0) -> None:
        """Discard the written data; has no effect after `put_in_place`."""
        _close_unwritten(self.file)
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None

    def _open_temporary_file(self) -> int:
        folder = os.path.dirname(self._target)
        try:
            before = os.stat(self._target)
        except FileNotFoundError:
            before = None
        mode = self._new_mode if before is None else stat.S_IMODE(before.st_mode) & 0o777
        try:
            descriptor, self._temporary = _create_file(folder, mode)
        except PermissionError:
            if before is None:
                raise
            self._is_copied = True
            with tempfile.TemporaryFile() as file:
                return os.dup(file.fileno())
        if before is not None:
            _copy_owner(descriptor, before)
        return descriptor

    def _rename(self) -> None:
        folder = os.path.dirname(self._target)
        if self._temporary is None:
            name = _unused_name(folder)
            at = os.open(folder, os.O_RDONLY)
            try:  # with a folder's descriptor Python calls linkat, which follows the name in /proc
                os.link(f"/proc/self/fd/{self.file.fileno()}", name, src_dir_fd=at, follow_symlinks=True)
            finally:
                os.close(at)
            self._temporary = name
        try:
            os.replace(self._temporary, self._target)
        except OSError as error:
            if error.errno not in _RENAME_REFUSED or not os.path.isfile(self._target):
                raise
            self._copy()
            return
        self._temporary = None
        synchronise_folder(folder)

    def _copy(self) -> None:
        with open(os.dup(self.file.fileno()), "rb") as source, open(self._target, "r+b") as target:
            source.seek(0)
            shutil.copyfileobj(source, target, 1 << 20)
            target.truncate()
            synchronise(target)


class GrowingFile:
    """A file that is written in place; its previous content is removed at the first use of `file`, not before.

    With a `position` the file is truncated after that many bytes at once, and continued there.  Raises `WriteError` if it
    cannot be written, or if there is a position and the file is missing or shorter.
    """

    begins_at_once = False

    def __init__(self, path: str | os.PathLike[str], *, position: int | None = None) -> None:
        self.path = os.fspath(path)
        self._file: IO[bytes] | None = None
        check_writable(self.path)
        if position is not None:
            with write_errors(self.path):
                self._file = self._reopen(position)

    @property
    def file(self) -> IO[bytes]:
        """The file to write to."""
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
            with write_errors(self.path):
                self._file = _open_buffer(os.open(os.path.realpath(self.path), flags, 0o666), self.path)
        return self._file

    def put_in_place(self) -> None:
        """Close the file."""
        self.file.close()

    def discard(self, *, whole: int = 0) -> None:
        """Close the file, and truncate it after its first `whole` bytes; if that is 0, remove it.  Never raises."""
        if self._file is None or self._file.closed:
            return
        _close_unwritten(self._file)
        with suppress(OSError):
            if whole:
                os.truncate(self.path, whole)
            else:
                os.unlink(os.path.realpath(self.path))

    def _reopen(self, position: int) -> IO[bytes]:
        try:
            descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError as error:
            raise WriteError(f"{self.path}: is missing, but the checkpoint continues its content") from error
        file = _open_buffer(descriptor, self.path)
        size = file.seek(0, os.SEEK_END)
        if size < position:
            file.close()
            raise WriteError(
                f"{self.path}: has {size:,} bytes, but the checkpoint continues after byte {position:,}; it was changed"
            )
        file.truncate(position)
        file.seek(position)
        return file


class BorrowedFile:
    """An open file that is not closed, such as standard output."""

    begins_at_once = True

    def __init__(self, file: IO[bytes], *, path: str = "standard output") -> None:
        self.path = path
        self._file = file

    @property
    def file(self) -> IO[bytes]:
        """The file to write to."""
        return self._file

    def put_in_place(self) -> None:
        """Flush the file."""
        self._file.flush()

    def discard(self, *, whole: int = 0) -> None:
        """Do nothing: written data cannot be withdrawn."""


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `WriteError` if a file cannot be written; an existing file is neither opened nor changed."""
    name = os.fspath(path)
    if not name:
        raise WriteError("the name of a file to write is empty")
    with write_errors(name):
        descriptor = descriptor_of(name)
        if descriptor is not None:
            os.fstat(descriptor)
            return
        try:
            mode = os.stat(name).st_mode
        except FileNotFoundError:
            _check_folder(name)
            return
        if stat.S_ISDIR(mode):
            raise WriteError(f"{name}: is a folder; expected the name of a file")
        if not _has_access(name, os.W_OK):
            raise WriteError(f"{name}: cannot be written: it is write-protected")


def check_folder_writable(path: str | os.PathLike[str]) -> None:
    """Raise `WriteError` if a path cannot be a folder of new files; no folder is created."""
    name = os.fspath(path)
    folder = os.path.realpath(name)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise WriteError(f"{name}: cannot be created: {folder} is not a folder")
    if not _has_access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"{name}: cannot be created: the folder {folder} is write-protected")


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether writing to a path creates or replaces a regular file."""
    return not _is_written_in_place(os.fspath(path))


def synchronise(file: IO[bytes]) -> None:
    """Put the data of a file on disk; a pipe is only flushed."""
    file.flush()
    try:
        descriptor = file.fileno()
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:  # a file in memory
        return
    if is_file:
        with write_errors(getattr(getattr(file, "raw", None), "path", None) or str(file.name)):
            os.fsync(descriptor)


def synchronise_folder(folder: str) -> None:
    """Put the new names in a folder on disk, if the system supports that."""
    with suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Convert errors of the system to a `WriteError` with the name of the file, except `BrokenPipeError`."""
    try:
        yield
    except (WriteError, BrokenPipeError):
        raise
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}", number=error.errno) from error


class _NamedFile(io.FileIO):
    """An open file whose errors contain its name."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "wb")
        self.path = path

    def write(self, data, /) -> int:  # type: ignore[no-untyped-def]
        with write_errors(self.path):
            return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        with write_errors(self.path):
            return super().truncate(size)

    def close(self) -> None:
        with write_errors(self.path):
            super().close()


def _open_buffer(descriptor: int, path: str) -> IO[bytes]:
    return io.BufferedWriter(_NamedFile(descriptor, path), BUFFER_BYTES)


def _close_unwritten(file: IO[bytes]) -> None:
    """Close a file without flushing its buffer, because writing the buffer may have failed before."""
    with suppress(OSError):
        getattr(file, "raw", file).close()


def _copy_owner(descriptor: int, before: os.stat_result) -> None:
    """Copy the mode, and if permitted the owner, of the file that will be replaced."""
    if hasattr(os, "fchown"):
        for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
            with suppress(OSError):
                os.fchown(descriptor, owner, group)
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _create_file(folder: str, mode: int) -> tuple[int, str | None]:
    """Create a file in a folder, without a name if possible, and return its descriptor and its name."""
    if _UNNAMED and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # not every file system has files without a name
            return os.open(folder, _UNNAMED | os.O_RDWR | os.O_CLOEXEC, mode), None
    name = _unused_name(folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(name, flags, mode), name


def _unused_name(folder: str) -> str:
    return os.path.join(folder, f".rpq-{secrets.token_hex(8)}.tmp")


def descriptor_of(path: str) -> int | None:
    """Return the descriptor for a name such as `/dev/stdout` or `/dev/fd/3`, or None for other names."""
    for _ in range(_MAX_LINKS):
        path = os.path.abspath(path)
        if path in _STANDARD:
            return _STANDARD[path]
        if match := _DESCRIPTORS.fullmatch(path):
            return int(match[1])
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return None
    return None


def _is_written_in_place(path: str) -> bool:
    if descriptor_of(path) is not None:
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # there is no file, or it cannot be accessed
        return False


def _open_in_place(path: str) -> int:
    descriptor = descriptor_of(path)
    return os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor)


def _check_folder(path: str) -> None:
    """Raise `WriteError` if no file can be created at a path where there is none."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if path.endswith(os.sep):
        raise WriteError(f"{path}: is the name of a folder; expected the name of a file")
    if os.path.islink(target):
        raise WriteError(f"{path}: cannot be written: the symbolic links form a cycle")
    if not os.path.exists(folder):
        raise WriteError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.path.isdir(folder):
        raise WriteError(f"{path}: cannot be written: {folder} is not a folder")
    if not _has_access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"{path}: cannot be written: the folder {folder} is write-protected")
    descriptor, name = _create_file(folder, 0o600)  # permissions alone do not show whether a folder accepts files
    os.close(descriptor)
    if name is not None:
        os.unlink(name)


def _has_access(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


class SameFileError(WriteError):
    """An error for two options of a command that name the same file."""


def check_distinct(
    *, written: Iterable[tuple[str, str | os.PathLike[str]]], read: Iterable[tuple[str, str | os.PathLike[str]]] = ()
) -> None:
    """Raise `SameFileError` if an output is also an input, or another output; arguments are pairs of option and path.

    Paths are compared by the file that they refer to, with any spelling, hard link or symbolic link, and by folder and name
    if there is no file yet.  `-` is the file to which standard input or output is redirected.  Devices such as `/dev/null`
    may be shared, and so may files that are only read.  A Parquet output in an input folder counts as one of the folder's
    files.
    """
    outputs = [(option, os.fspath(path)) for option, path in written]
    inputs = [(option, os.fspath(path)) for option, path in read]
    pair_of_file: dict[tuple[object, ...], tuple[str, str]] = {}
    for option, path in outputs:
        for key in _identities(path, is_written=True):
            if key in pair_of_file:
                raise SameFileError(
                    f"{_pair(*pair_of_file[key])} and {_pair(option, path)} are the same file; use a separate file for each"
                )
            pair_of_file[key] = option, path
    for option, path in inputs:
        for key in _identities(path, is_written=False):
            if key in pair_of_file:
                raise SameFileError(
                    f"{_pair(*pair_of_file[key])} and {_pair(option, path)} are the same file: "
                    "the output would overwrite the input"
                )
        for other, output in outputs:
            if output.endswith(".parquet") and os.path.isdir(path) and is_read_with(output, path):
                raise SameFileError(
                    f"{_pair(other, output)} is inside {_pair(option, path)}, whose Parquet files are all read; "
                    "expected a path outside"
                )


def is_read_with(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether a path, which need not exist, is a folder, or is below the folder where its files are read.

    Files below a name that begins with `_` or `.` are not read, as in Spark and Hive.
    """
    place = os.path.realpath(path)
    while not _is_same(place, folder):
        above, name = os.path.split(place)
        if above == place or name.startswith(("_", ".")):
            return False
        place = above
    return True


def _is_same(path: str, other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return path == os.path.realpath(other)


def _identities(path: str, *, is_written: bool) -> Iterator[tuple[object, ...]]:
    """Yield keys that all names of the same file share; none for files that may be shared."""
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
