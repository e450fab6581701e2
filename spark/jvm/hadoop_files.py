"""Files and folders by any URI that Spark reads, through Hadoop's file systems in the JVM, never by local file calls.

As everywhere in Spark, a name without a scheme belongs to the default file system of the cluster, which is that of the
machine itself unless configured otherwise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BEFORE_PATH = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
"""The scheme and the authority of a URI."""


def exists(session: SparkSession, uri: str) -> bool:
    """Return whether there is a file or folder."""
    files, path = _resolve(session, uri)
    return bool(files.exists(path))


def is_folder(session: SparkSession, uri: str) -> bool:
    """Return whether there is a folder."""
    files, path = _resolve(session, uri)
    return bool(files.exists(path)) and bool(files.getFileStatus(path).isDirectory())


def list_names(session: SparkSession, uri: str) -> list[str]:
    """Return the names of the files and folders in a folder, sorted."""
    files, path = _resolve(session, uri)
    return sorted(status.getPath().getName() for status in files.listStatus(path))


def list_files(session: SparkSession, uri: str) -> list[str]:
    """Return the full URIs of the files at a URI, which may have wildcards; of a folder, all except hidden files.

    They are sorted by `file_key`.  Raises `PipelineError` if there are no files.
    """
    return sorted(file_sizes(session, uri), key=file_key)


def file_sizes(session: SparkSession, uri: str) -> dict[str, int]:
    """Return the sizes in bytes of the files of `list_files`, by URI."""
    files, path = _resolve(session, uri)
    found = files.globStatus(path) if not files.exists(path) else [files.getFileStatus(path)]
    statuses = [one for status in found or [] for one in _files_in(files, status)]
    if not statuses:
        raise PipelineError(f"{uri}: there is no such file, or a folder without files")
    return {str(status.getPath().toString()): int(status.getLen()) for status in statuses}


def _files_in(files: Any, status: Any) -> list[Any]:
    if not status.isDirectory():
        return [status]
    shown = (one for one in files.listStatus(status.getPath()) if not one.getPath().getName().startswith(("_", ".")))
    return [found for one in shown for found in _files_in(files, one)]


def path_of(uri: str, *, is_encoded: bool = False) -> str:
    """Return the path of a full URI, as Hadoop writes it or, with `is_encoded`, as the column `_metadata` does.

    >>> path_of("file:/a/b c"), path_of("viewfs://there/a/b%20c", is_encoded=True)
    ('/a/b c', '/a/b c')
    """
    path = _BEFORE_PATH.sub("", uri)
    return unquote(path) if is_encoded else path


def file_key(uri: str, *, is_encoded: bool = False) -> str:
    """Return a text by which files sort as `rpq run` reads those of a folder: by one part of their paths after the other.

    The URIs are written as for `path_of`.

    >>> sorted(["file:/data/a-b/1.parquet", "file:/data/a/1.parquet"], key=file_key)
    ['file:/data/a/1.parquet', 'file:/data/a-b/1.parquet']
    """
    return path_of(uri, is_encoded=is_encoded).replace("/", "\0")


def first_bytes(session: SparkSession, uri: str, count: int) -> bytes:
    """Return at most `count` bytes of the beginning of a file, inflated as by Spark.

    Raises `PipelineError` if it cannot be read.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    files, path = _resolve(session, uri)
    compress = session._jvm.org.apache.hadoop.io.compress  # type: ignore[union-attr]
    try:
        codec = compress.CompressionCodecFactory(session._jsc.hadoopConfiguration()).getCodec(path)
        stream = files.open(path)
        try:
            inflated = stream if codec is None else codec.createInputStream(stream)
            return bytes(inflated.readNBytes(count))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise PipelineError(f"{uri}: cannot be read: {error.java_exception.toString()}") from error


def set_ages(session: SparkSession, uris: Sequence[str]) -> None:
    """Set the times of files one second apart, the first the oldest, on file systems that can set times."""
    now = int(time.time())
    for age, uri in enumerate(reversed(uris)):
        files, path = _resolve(session, uri)
        files.setTimes(path, (now - age) * 1000, (now - age) * 1000)


def read_text(session: SparkSession, uri: str) -> str | None:
    """Return the content of a small text file, or None if there is none.  Raises `PipelineError` if it cannot be read."""
    from py4j.protocol import Py4JJavaError

    files, path = _resolve(session, uri)
    if not files.exists(path):
        return None
    try:
        stream = files.open(path)
        try:
            return str(session._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # type: ignore[union-attr]
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise PipelineError(f"{uri}: cannot be read: {error.java_exception.toString()}") from error


PARTIAL = ".partial"
"""The ending of the name of a file that is being written.  If the file that it replaces is gone, it is complete."""


def write_text(session: SparkSession, uri: str, text: str) -> None:
    """Write a small text file atomically, in place of an existing one.

    On file systems that cannot replace a file, for a moment only the new file exists, with the ending `PARTIAL`.
    """
    files, path = _resolve(session, uri)
    partial = path.suffix(PARTIAL)
    stream = files.create(partial, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    files.delete(path, False)
    files.rename(partial, path)


def remove(session: SparkSession, uri: str) -> None:
    """Remove a file or folder, if there is one."""
    files, path = _resolve(session, uri)
    files.delete(path, True)


def rename_endings(session: SparkSession, folder: str, old: str, new: str) -> int:
    """Replace the ending `old` of the names of files in a folder by `new`, and return the number of renamed files.

    Empty files with this ending, which tasks without rows leave, are removed.
    """
    files, path = _resolve(session, folder)
    count = 0
    for status in files.listStatus(path):
        name = status.getPath().getName()
        if name.endswith(old) and not status.getLen():
            files.delete(status.getPath(), False)
        elif name.endswith(old):
            files.rename(status.getPath(), _path(session, path, name.removesuffix(old) + new))
            count += 1
    return count


def qualify(session: SparkSession, uri: str) -> str:
    """Return a URI with scheme and absolute path, so that different names of one place become equal."""
    files, path = _resolve(session, uri)
    return str(files.makeQualified(path).toString())


def join(folder: str, name: str) -> str:
    """Return the URI of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def _resolve(session: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return the file system of a URI and its path there."""
    path = _path(session, uri)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def _path(session: SparkSession, *parts: Any) -> Any:
    return session._jvm.org.apache.hadoop.fs.Path(*parts)  # type: ignore[union-attr]
