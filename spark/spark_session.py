"""A Spark session with the settings that the pipeline needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rpq.errors import install_command
from rpq.spark.errors import PipelineError
from rpq.spark.java import check_java
from rpq.spark.local_jvm import is_local, local_settings
from rpq.spark.slots import SHUFFLE_PARTITIONS, task_slots, wait_for_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE_KEY = "spark.sql.streaming.stateStore.providerClass"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only state store that can hold what `transformWithState` keeps."""

_NOBODY_SAID = "200"
"""Spark's own number of shuffle partitions."""

SETTINGS = {
    STATE_STORE_KEY: STATE_STORE,
    # A micro-batch commits what it changed, not all that there is: the window stays, but for its ends.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def open_session(
    *,
    master: str | None = None,
    partitions: int | None = None,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
) -> SparkSession:
    """A session, the running one if there is one; `settings` go over those of this module.

    `partitions` is the number of shuffle partitions, which is best that of the shares into which roots are divided: one a
    task slot of the cluster, unless it or a setting says otherwise.  The workers run the Python that runs this, or that
    which PYSPARK_PYTHON names.  `py_files` are shipped to them: wheels (of this package, where their Python lacks it) or
    what else `--py-files` takes.  Raises `PipelineError` where Java, PySpark or one of these files is missing.

    >>> from rpq.spark import open_session
    >>> session = open_session(master="local[2]", partitions=2)  # doctest: +SKIP
    >>> session.conf.get("spark.sql.shuffle.partitions")  # doctest: +SKIP
    '2'
    """
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise PipelineError(f"{missing}; install it with: {install_command('spark')}") from missing
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("rpq")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # A name that cannot be looked up, or that leads to an interface that is down, must not matter here.
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    chosen = dict(SETTINGS)
    if partitions is not None:
        chosen[SHUFFLE_PARTITIONS] = str(partitions)
    chosen |= settings or {}
    if is_local(master):
        chosen |= local_settings(chosen)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    missing_files = [path for path in py_files if "://" not in path and not os.path.isfile(path)]
    if missing_files:
        raise PipelineError(f"py-files: {missing_files[0]}: there is no such file")
    session = builder.getOrCreate()
    if py_files:
        context = session.sparkContext
        # Spark ships any file, and workers look for modules in those with known endings, of which that of wheels is none.
        type(context).PACKAGE_EXTENSIONS = tuple({*context.PACKAGE_EXTENSIONS, ".whl"})
        for path in py_files:
            context.addPyFile(path)
    from rpq.spark.data_source import RpqDataSource

    session.dataSource.register(RpqDataSource)
    if master is not None and not is_local(master):
        wait_for_executors(session)
    if SHUFFLE_PARTITIONS not in chosen and session.conf.get(SHUFFLE_PARTITIONS) == _NOBODY_SAID:
        session.conf.set(SHUFFLE_PARTITIONS, task_slots(session))
    return session
