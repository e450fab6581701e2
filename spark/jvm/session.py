"""A Spark session with the settings that the pipeline needs: the Java it runs on, its JVM, executors and task slots.

The JVM of a session on this machine gets a collector and memory, unless the user has chosen them.  It runs the tasks too,
and short-lived rows pass through it.  Spark's own defaults, a gigabyte and a collector with short pauses, cost a fourth of
its processor time if a micro-batch has 800,000 rows (`COSTS.md`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rpq.engine.machine_memory import machine_memory
from rpq.errors import install_command
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.connect import is_connect, slots_of_server
from rpq.spark.jvm.hadoop_files import path_of
from rpq.spark.jvm.shipped_files import add_package, equip_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE_KEY = "spark.sql.streaming.stateStore.providerClass"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only state store that supports `transformWithState`."""

_DEFAULT_SHUFFLE_PARTITIONS = "200"
"""Spark's own number of shuffle partitions."""

SETTINGS = {
    STATE_STORE_KEY: STATE_STORE,
    # A micro-batch commits only its changes, not the whole state: most of the window stays as it is.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # How long Python waits for the JVM of a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
}


def open_session(
    *,
    master: str | None = None,
    partitions: int | None = None,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    archives: Sequence[str] = (),
) -> SparkSession:
    """Return the active session, or a new session if there is none.

    An active session keeps its settings, except for `settings` and `partitions`.  A new session has those of this module
    too, which `settings` override: the RocksDB state store, the time zone UTC, no web page, only errors in the log.

    `partitions` is the number of shuffle partitions, which should equal the number of shares into which roots are divided;
    by default it is the value in `settings`, or else one per task slot of the cluster.  Workers run the Python of this
    process, or that of PYSPARK_PYTHON.  `py_files` are shipped to the workers: wheels (of this package, if their Python
    lacks it) or anything else that `--py-files` accepts.  `archives` are shipped to a new session, and unpacked under the
    name after `#` ("env.tar.gz#env"); the first is a Python environment, whose `bin/python` workers run unless
    PYSPARK_PYTHON specifies another.  Raises `PipelineError` if Java, PySpark or one of these files is missing.

    >>> from rpq.spark import open_session
    >>> session = open_session(master="local[2]", partitions=2)  # doctest: +SKIP
    >>> session.conf.get("spark.sql.shuffle.partitions")  # doctest: +SKIP
    '2'
    """
    _check_files("py-files", py_files)
    _check_files("archives", [path.partition("#")[0] for path in archives])
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise PipelineError(f"{missing}; install it with: {install_command('spark')}") from missing
    check_version()
    os.environ.setdefault("PYSPARK_PYTHON", _python_in(archives[0]) if archives else sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # A session is active in the thread that began it; Spark uses it in other threads as well.
    existing = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    chosen: dict[str, str] = {} if existing is not None else {**SETTINGS, "spark.app.name": "rpq"}
    if existing is None and master is not None:
        chosen["spark.master"] = master
        if master.startswith("local"):
            # The session must not depend on a host name that cannot be resolved, or whose interface is down.
            chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if partitions is not None:
        chosen[SHUFFLE_PARTITIONS] = str(partitions)
    chosen |= settings or {}
    if archives:
        chosen[_ARCHIVES] = ",".join(filter(None, [*archives, chosen.get(_ARCHIVES)]))
    if existing is None and is_local(master):
        chosen |= local_settings(chosen)
    session = SparkSession.builder.config(map={**chosen}).getOrCreate()
    for path in py_files:
        add_package(session.sparkContext, path)
    equip_driver(session)
    from rpq.spark.jvm.data_source import RpqDataSource

    session.dataSource.register(RpqDataSource)
    if existing is not None:
        return session
    if master is not None and not is_local(master):
        wait_for_executors(session)
    if SHUFFLE_PARTITIONS not in chosen and session.conf.get(SHUFFLE_PARTITIONS) == _DEFAULT_SHUFFLE_PARTITIONS:
        session.conf.set(SHUFFLE_PARTITIONS, task_slots(session))
    return session


_ARCHIVES = "spark.archives"


def _check_files(option: str, paths: Sequence[str]) -> None:
    """Raise `PipelineError` if a file on this machine is missing."""
    for path in paths:
        if "://" not in path and not os.path.isfile(path):
            raise PipelineError(f"{option}: {path}: there is no such file")


def _python_in(archive: str) -> str:
    """Return the path of the Python of an archived environment, as a worker sees it.

    >>> _python_in("s3a://files/env.tar.gz#env"), _python_in("env.tar.gz")
    ('./env/bin/python', './env.tar.gz/bin/python')
    """
    path, _, name = archive.partition("#")
    return f"./{name or os.path.basename(path)}/bin/python"


OLDEST_SPARK = "4.0"
"""The oldest Spark with `transformWithStateInPandas`, data sources and analyzed table functions in Python."""


def check_version() -> None:
    """Raise `PipelineError` unless PySpark is new enough."""
    from pyspark import __version__ as found

    if [int(part) for part in _RELEASE.findall(found)[:2]] < [int(part) for part in OLDEST_SPARK.split(".")]:
        raise PipelineError(
            f"PySpark {found} is installed, and Spark {OLDEST_SPARK} or newer is needed; install it with: "
            f"{install_command('spark')}"
        )


OLDEST_JAVA = 17
"""The oldest Java on which Spark 4 runs."""

_RELEASE = re.compile(r"\d+")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_version(program: str) -> int | None:
    """Return the major version of a Java, or None if it does not run or its output is not understood."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def check_java() -> None:
    """Raise `PipelineError` unless the Java that Spark would start is new enough.

    This Java is `$JAVA_HOME/bin/java` if JAVA_HOME is set, otherwise the first `java` on the PATH, as in Spark's launcher.
    """
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    version = java_version(program) if program else None
    if version is not None and version >= OLDEST_JAVA:
        return
    place = f"JAVA_HOME is {home}, where" if home else "on the PATH"
    found = f"{place} there is Java {version}" if version else f"{place} there is no Java that runs"
    raise PipelineError(
        f"Spark needs Java {OLDEST_JAVA} or newer; {found}. Install one, e.g. `apt install openjdk-17-jre-headless`, "
        "`brew install openjdk@17`, `conda install openjdk=17` or from https://adoptium.net, and set JAVA_HOME to "
        "its folder"
    )


_JAVA_OPTIONS, _MEMORY = "spark.driver.defaultJavaOptions", "spark.driver.memory"
_COLLECTOR = "-XX:+UseParallelGC"
_CLASS_MEMORY = "-XX:MetaspaceSize=256m"
"""The memory for classes from which on the collector runs for them; by default it runs five times while Spark starts."""
_MIN_MEMORY, _MAX_MEMORY = 1 << 10, 3 << 10
"""Megabytes of memory: Spark's default, and the amount beyond which more memory does not make Spark faster."""
_MEMORY_DIVISOR = 4
"""The divisor of the machine's memory: a fourth, the default of a JVM."""
_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")


def is_local(master: str | None) -> bool:
    """Return whether the tasks of a master run in the JVM of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))


def local_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add to `settings`, to the environment and to the file of Spark's defaults.

    A JVM with options for two collectors does not start, so nothing is added to default options that exist already.

    >>> local_settings({"spark.driver.memory": "8g", "spark.driver.extraJavaOptions": "-XX:+UseZGC"})
    {}
    """
    of_spark = _default_settings()
    of_environment = [os.environ.get(name, "") for name in _OPTION_VARIABLES]
    existing = "\n".join([*(f"{key} {value}" for key, value in settings.items()), *of_environment, of_spark])
    chosen = {}
    if _JAVA_OPTIONS not in existing and not re.search(r"-XX:\S*GC\b", existing):
        chosen[_JAVA_OPTIONS] = f"{_COLLECTOR} {_CLASS_MEMORY}"
    memory_options = r"spark\.driver\.memory\b|--driver-memory|-Xmx"
    if "SPARK_DRIVER_MEMORY" not in os.environ and not re.search(memory_options, existing):
        megabytes = machine_memory() // _MEMORY_DIVISOR >> 20
        chosen[_MEMORY] = f"{min(max(megabytes, _MIN_MEMORY), _MAX_MEMORY)}m"
    return chosen


def spark_home() -> str:
    """Return the folder of Spark that a session starts: SPARK_HOME, or else that of PySpark; empty if there is neither."""
    found = find_spec("pyspark")
    return os.environ.get("SPARK_HOME") or (found is not None and found.origin and os.path.dirname(found.origin)) or ""


def _default_settings() -> str:
    """Return the text of the file of Spark's defaults, empty if there is none."""
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home(), "conf"), "spark-defaults.conf")
    return defaults.read_text(errors="replace") if defaults.is_file() else ""


def local_path(uri: str, *, master: str | None, settings: Mapping[str, str]) -> str | None:
    """Return the path of a URI if it is certainly one of this machine's files, otherwise None.

    A name without a scheme belongs to the default file system of Hadoop, which only its own settings change.

    >>> local_path("data/in", master="local[2]", settings={}), local_path("s3a://in/data", master="local[2]", settings={})
    ('data/in', None)
    """
    if uri.startswith("file:/"):
        return path_of(uri)
    of_hadoop = [name for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR") if os.environ.get(name)]
    if ":/" in uri or not is_local(master) or of_hadoop:
        return None
    return None if "fs.defaultFS" in " ".join([*settings, _default_settings()]) else uri


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_QUIET_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_warned: set[tuple[str, int]] = set()


def task_threads(session: SparkSession) -> int:
    """Return the number of cores of a task (`spark.task.cpus`), which is also the number of threads of its engine."""
    return max(1, int(session.conf.get("spark.task.cpus", "1") or 1))


def task_slots(session: SparkSession) -> int:
    """Return the number of tasks that run at once on the executors that have started so far, from their cores.

    While there are no executors, it is what Spark assumes (`spark.default.parallelism`).
    """
    context = session.sparkContext._jsc.sc()
    slots = int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
    return slots or max(1, int(session.sparkContext.defaultParallelism) // task_threads(session))


def wait_for_executors(session: SparkSession, *, seconds: float = 30.0) -> int:
    """Wait until all requested executors have started, or no more start for some seconds; return how many there are.

    Spark counts slots only as executors register, and the number of shares depends on the slots.
    """
    requested = int(session.sparkContext.getConf().get("spark.executor.instances", "0") or 0)
    end = time.monotonic() + seconds
    found, since = 0, time.monotonic()
    while time.monotonic() < end and not (found and (found == requested or time.monotonic() - since > _QUIET_SECONDS)):
        # The status includes the driver.
        now = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        if now != found:
            found, since = now, time.monotonic()
        time.sleep(_LOOK_SECONDS)
    return found


_DESCRIPTION = "spark.job.description"


@contextmanager
def describe_jobs(session: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs of a block in words, on the pages of Spark and in the command's line of progress."""
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


def share_count(session: SparkSession, partitions: int | None) -> int:
    """Return the number of shares, `partitions` or one per task slot.

    Raises `PipelineError` for an invalid number or an old Spark.
    """
    check_version()
    if partitions is None:
        return max(1, slots_of_server(session) // task_threads(session)) if is_connect(session) else task_slots(session)
    if isinstance(partitions, bool) or not hasattr(partitions, "__index__") or partitions < 1:
        raise PipelineError(f"partitions is {partitions!r}; expected a whole number, at least 1")
    return int(partitions)


def warn_of_shuffle_partitions(session: SparkSession, shares: int) -> None:
    """Warn once, with the setting to write, if Spark would run more or fewer tasks for the state than there are shares.

    A stateful operator has as many tasks as shuffle partitions at its first start, by default 200, each with a state store
    that is committed with every micro-batch.
    """
    found = str(session.conf.get(SHUFFLE_PARTITIONS, "200"))
    if found == str(shares) or (found, shares) in _warned:
        return
    _warned.add((found, shares))
    warnings.warn(
        f"{SHUFFLE_PARTITIONS} is {found} and there are {shares} shares: every micro-batch of a new stream will run {found} "
        f"tasks. Write spark.conf.set({SHUFFLE_PARTITIONS!r}, {shares}) before the stream starts for the first time",
        stacklevel=3,
    )
