"""Finding a Java that Spark can run on, saying what to install where there is none, and how its memory is collected."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from rpq.spark.errors import PipelineError

OLDEST = 17
"""Spark 4 needs this Java or a newer one."""

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
COLLECTOR = "-XX:+UseParallelGC"
"""What a JVM on the machine of its user collects with: rows that pass through live for moments, and it has no other duty.

It takes a seventh of the processor time off a micro-batch of 800,000 rows (`COSTS.md`).
"""

_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
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


def is_collector_chosen(settings: Mapping[str, str]) -> bool:
    """Whether someone says with what the JVM of a driver collects: these settings, the environment, or Spark's defaults.

    A JVM that is told of two collectors does not start.  Default options of others are left alone as a whole.
    """
    found = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (found is not None and found.origin and os.path.dirname(found.origin)) or ""
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"), "spark-defaults.conf")
    of_spark = defaults.read_text(errors="replace") if defaults.is_file() else ""
    said = [*settings.values(), *(os.environ.get(name, "") for name in _VARIABLES), of_spark]
    return JAVA_OPTIONS in of_spark or any(re.search(r"-XX:\S*GC\b", text) for text in said)
