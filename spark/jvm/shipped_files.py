"""Files that were shipped with a session, for the Python processes that Spark starts on the driver's machine.

Shipped files reach the workers of executors.  Spark gives its processes on the driver's machine neither these files nor an
unpacked archive: `equip_driver` does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from rpq.spark.errors import PipelineError
from rpq.spark.jvm.connect import is_connect

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PATHS = "PYTHONPATH"
_PACKAGES = (".zip", ".egg")


def add_package(context: SparkContext, path: str) -> None:
    """Ship a file from which workers import: a wheel under the ending of a zip file, as Spark's workers skip other endings.

    Executors fetch the file as they start, so the copy of a wheel stays until this process ends.
    """
    if path.endswith(".whl"):
        if "://" in path:
            raise PipelineError(f"py-files: {path}: expected a wheel on this machine, or a copy whose name ends in .zip")
        folder = tempfile.mkdtemp(prefix="rpq-wheel-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = shutil.copy(path, os.path.join(folder, os.path.basename(path).removesuffix(".whl") + ".zip"))
    context.addPyFile(path)


def equip_driver(session: SparkSession) -> None:
    """Make Python processes that Spark starts on the driver's machine find what was shipped to the executors.

    One of them inspects the stateful processor of every stream.  Spark gives it the environment variables of workers, but
    not the shipped files, so these are added to `PYTHONPATH`.  It runs the Python of the workers, which may be in an archive
    (`./env/bin/python`): executors unpack archives into their working folders, the driver elsewhere.  A link in the driver's
    working folder, which this process removes at its end, leads there.  Calls after the first have no effect.  Raises
    `PipelineError` if the path of the workers' Python is relative and leads nowhere, in an archive either.
    """
    from pyspark import SparkFiles

    if is_connect(session):
        return  # its server starts these processes
    context, root = session.sparkContext, SparkFiles.getRootDirectory()
    shipped = sorted(os.path.join(root, name) for name in os.listdir(root) if name.endswith(_PACKAGES))
    paths = [path for path in context.environment.get(_PATHS, "").split(os.pathsep) if path]
    if new := [path for path in shipped if path not in paths]:
        context.environment[_PATHS] = os.pathsep.join([*new, *paths])
    program = os.path.normpath(context.pythonExec)
    if os.sep in program and not os.path.isabs(program) and not os.path.exists(program):
        _link_archive(program, root)


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
