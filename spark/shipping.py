"""Objects and values that travel to Spark's workers.

Objects of this package record the version that pickled them (`Shipped`).  Small values travel with the function that uses
them, others are broadcast (`ship_value`).  A broadcast of Spark cannot be unpickled in a process that has not received it,
and the driver inspects a stateful processor in a worker to which nothing is broadcast.  A `ShippedValue` represents the
broadcast in such a process, and fetches the value only when it is used.

Files that were shipped reach the workers of executors.  Spark also starts Python processes on the driver's machine, which it
gives neither these files nor an unpacked archive: `equip_driver` does.
"""

from __future__ import annotations

import atexit
import os
import pickle
import platform
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import rpq
from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession


class Shipped:
    """An object of this package for tasks.  Unpickling it with another version of the package raises `PipelineError`."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed_by": rpq.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed_by = state.pop("_packed_by", "another release")
        if packed_by != rpq.__version__:
            raise PipelineError(version_mismatch("streaming-rpq", rpq.__version__, packed_by))
        self.__dict__.update(state)


def version_mismatch(package: str, here: str, driver: str) -> str:
    """Return the message for an executor whose version of a package is not the driver's."""
    return (
        f"the executor on {socket.gethostname()} (Python {platform.python_version()}) has {package} {here}, the driver has "
        f"{driver}: use the same version on both, with one wheel for --py-files, one archived environment, or one image"
    )


MAX_INLINE_BYTES = 1 << 19
"""The largest number of bytes that travel with a function.  Spark broadcasts functions of more than twice this size."""


class ShippedValue(Protocol):
    """A value in a worker, fetched when it is first used."""

    @property
    def value(self) -> Any:
        """The value."""


def ship_value(session: SparkSession, value: Any) -> ShippedValue:
    """Return a value in a form that tasks of a session can unpickle and use."""
    if len(pickle.dumps(value)) <= MAX_INLINE_BYTES:
        return _Inline(value)
    return _Broadcast(session.sparkContext.broadcast(value))


class _Inline(Shipped):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Broadcast:
    def __init__(self, broadcast: Broadcast[Any]) -> None:
        self._broadcast = broadcast

    @property
    def value(self) -> Any:
        return self._broadcast.value

    def __reduce__(self) -> tuple[Any, ...]:
        _, number = self._broadcast.__reduce__()  # this also registers the broadcast for the tasks
        return _ReceivedBroadcast, number


class _ReceivedBroadcast:
    """A broadcast in a worker, by its number."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def value(self) -> Any:
        from pyspark.core.broadcast import _from_id

        return _from_id(self._number).value

    def __reduce__(self) -> tuple[Any, ...]:
        return _ReceivedBroadcast, (self._number,)


_PATHS = "PYTHONPATH"
_WHEEL = ".whl"


def accept_wheels(context: SparkContext) -> None:
    """Let workers import from shipped wheels: Spark ships any file, but knows only the endings .zip, .egg and .jar."""
    kind = type(context)
    kind.PACKAGE_EXTENSIONS = tuple({*kind.PACKAGE_EXTENSIONS, _WHEEL})
    shipped = context.getConf().get("spark.submit.pyFiles", "") or ""
    includes = _includes(context)
    wheels = {os.path.basename(path) for path in shipped.split(",") if path.endswith(_WHEEL)}
    includes += sorted(wheels - set(includes))


def equip_driver(session: SparkSession) -> None:
    """Let Python processes that Spark starts on the driver's machine find what was shipped to the executors.

    One of them inspects the stateful processor of every stream.  Spark gives it the environment variables of workers, but
    not the shipped files, so these are added to `PYTHONPATH`.  It runs the Python of the workers, which may be in an archive
    (`./env/bin/python`): executors unpack archives into their working folders, the driver elsewhere.  A link in the driver's
    working folder, which this process removes at its end, leads there.  Calls after the first have no effect.  Raises
    `PipelineError` if the path of the workers' Python is relative and leads nowhere, in an archive either.
    """
    from pyspark import SparkFiles

    context = session.sparkContext
    accept_wheels(context)
    if includes := _includes(context):
        root = SparkFiles.getRootDirectory()
        paths = [path for path in context.environment.get(_PATHS, "").split(os.pathsep) if path]
        new = [path for path in (os.path.join(root, name) for name in includes) if path not in paths]
        context.environment[_PATHS] = os.pathsep.join([*new, *paths])
    program = os.path.normpath(context.pythonExec)
    if os.sep in program and not os.path.isabs(program) and not os.path.exists(program):
        _link_archive(program, SparkFiles.getRootDirectory())


def _includes(context: SparkContext) -> list[str]:
    """Return the names of the shipped files from which workers import; the list belongs to the context."""
    if context._python_includes is None:
        context._python_includes = []
    return context._python_includes


def _link_archive(program: str, root: str) -> None:
    """Link the archive that contains a program, and was unpacked in the folder `root`, into the working folder."""
    archive = program.partition(os.sep)[0]
    target = os.path.join(root, archive)
    problem = f"workers run {program}, and {os.getcwd()}, the working folder of the driver, has no such program"
    if not os.path.exists(os.path.join(root, program)):
        remedy = f"ship an archive of this name with --archives FILE#{archive}, or unpack it there"
        raise PipelineError(f"{problem}, nor has {archive} been unpacked for it: {remedy}")
    try:
        if os.path.islink(archive) and not os.path.exists(archive):
            os.unlink(archive)  # a driver that was killed has left it
        os.symlink(target, archive)
    except OSError as error:
        raise PipelineError(f"{problem}; a link to the unpacked archive cannot be created there: {error}") from error
    atexit.register(_unlink, os.path.abspath(archive), target)


def _unlink(link: str, target: str) -> None:
    """Remove a link, unless it leads elsewhere by now."""
    with suppress(OSError):
        if os.readlink(link) == target:
            os.unlink(link)
