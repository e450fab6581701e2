"""A Spark session with the settings that the pipeline needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rpq.spark.errors import PipelineError
from rpq.spark.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE_KEY = "spark.sql.streaming.stateStore.providerClass"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only state store that can hold what `transformWithState` keeps."""

SETTINGS = {
    STATE_STORE_KEY: STATE_STORE,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def open_session(
    *, master: str | None = None, partitions: int | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session, the running one if there is one; `settings` go over those of this module.

    `partitions` is the number of shuffle partitions, best the number of partitions of the roots.  The workers run
    the Python that runs this.  Raises `PipelineError` where Java or PySpark is missing.

    >>> from rpq.spark import open_session
    >>> session = open_session(master="local[2]", partitions=2)  # doctest: +SKIP
    >>> session.conf.get("spark.sql.shuffle.partitions")  # doctest: +SKIP
    '2'
    """
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise PipelineError(f"{missing}; install it with: pip install 'streaming-rpq[spark]'") from missing
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
        chosen["spark.sql.shuffle.partitions"] = str(partitions)
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
