"""What the JVM of a session on this machine is given, unless somebody says otherwise: a collector, and memory.

It runs the tasks too, and rows pass through it that live for moments. Spark's own defaults, a gigabyte and a collector
that keeps pauses short, cost a fourth of its processor time where a micro-batch has 800,000 rows (`COSTS.md`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from rpq.running.limits import machine_memory

_OPTIONS, _MEMORY = "spark.driver.defaultJavaOptions", "spark.driver.memory"
_COLLECTOR = "-XX:+UseParallelGC"
_LEAST, _MOST = 1 << 10, 3 << 10
"""Megabytes of memory: Spark's default, and what more than does not make it faster."""
_PART = 4
"""Of the machine's memory a fourth, as a JVM takes that is told nothing."""
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")


def is_local(master: str | None) -> bool:
    """Whether the tasks of a master run in the JVM of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))


def local_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What to set beside these, the environment and the file of Spark's defaults.

    A JVM that is told of two collectors does not start; default options of others are left alone as a whole.

    >>> local_settings({"spark.driver.memory": "8g", "spark.driver.extraJavaOptions": "-XX:+UseZGC"})
    {}
    """
    found = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (found is not None and found.origin and os.path.dirname(found.origin)) or ""
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"), "spark-defaults.conf")
    of_spark = defaults.read_text(errors="replace") if defaults.is_file() else ""
    of_environment = [os.environ.get(name, "") for name in _VARIABLES]
    said = "\n".join([*(f"{key} {value}" for key, value in settings.items()), *of_environment, of_spark])
    chosen = {}
    if _OPTIONS not in said and not re.search(r"-XX:\S*GC\b", said):
        chosen[_OPTIONS] = _COLLECTOR
    if "SPARK_DRIVER_MEMORY" not in os.environ and not re.search(r"spark\.driver\.memory\b|--driver-memory|-Xmx", said):
        megabytes = machine_memory() // _PART >> 20
        chosen[_MEMORY] = f"{min(max(megabytes, _LEAST), _MOST)}m"
    return chosen
