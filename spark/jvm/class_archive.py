"""The archive of the classes that Spark loads, with which its JVM starts in about half of the processor time.

Spark loads some ten thousand classes before its first job.  A JVM can store them when it ends, as they are after they have
been parsed and verified, and later JVMs map this file into memory (class data sharing).  `rpq spark warm-up` stores the
classes of a small pipeline.  An archive is beside the compiled kernels, 200 MB large, and belongs to a Java and an
installation of Spark.  The JVM itself checks that both are unchanged, and otherwise starts without it.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM would warn on standard output that an archive is outdated."""


def java_program() -> str | None:
    """Return the Java that Spark starts: `$JAVA_HOME/bin/java` if JAVA_HOME is set, otherwise the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def options_to_load(spark_home: str) -> str:
    """Return the options of a JVM that loads the archive for an installation of Spark; empty if there is none."""
    from rpq.engine.compilation import kernel_folders  # imports Numba

    name = _name(spark_home)
    found = (folder / name for folder in kernel_folders())
    archive = next((path for path in found if path.is_file()), None)
    return "" if archive is None or " " in str(archive) else f"-XX:SharedArchiveFile={archive} {_QUIET}"


def options_to_store(path: str) -> str:
    """Return the options of a JVM that stores its classes in a new file when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


def place_of_archive(spark_home: str) -> Path | None:
    """Return the path of a new archive, or None if no place for kernels is writable."""
    from rpq.engine.compilation import writable_kernel_folder

    folder = writable_kernel_folder()
    return None if folder is None else folder / _name(spark_home)


def _name(spark_home: str) -> str:
    belongs_to = os.path.realpath(java_program() or ""), os.path.realpath(spark_home)
    return f"spark-{sha256(repr(belongs_to).encode()).hexdigest()[:20]}.jsa"
