"""Finding a Java that Spark can run on, and saying what to install where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from rpq.spark.errors import PipelineError

OLDEST = 17
"""Spark 4 needs this Java or a newer one."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_version(program: str) -> int | None:
    """The major version of a Java, None if it does not run or says nothing that is understood."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def check_java() -> None:
    """Raise `PipelineError` unless the Java that Spark would start is new enough.

    That is `$JAVA_HOME/bin/java` where JAVA_HOME is set, else the first `java` on the PATH, as Spark's launcher does.
    """
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    version = java_version(program) if program else None
    if version is not None and version >= OLDEST:
        return
    place = f"JAVA_HOME is {home}, where" if home else "on the PATH"
    found = f"{place} there is Java {version}" if version else f"{place} there is no Java that runs"
    raise PipelineError(
        f"Spark needs Java {OLDEST} or newer; {found}. Install one, e.g. `apt install openjdk-17-jre-headless`, "
        "`brew install openjdk@17`, `conda install openjdk=17` or from https://adoptium.net, and let JAVA_HOME name "
        "its folder"
    )
