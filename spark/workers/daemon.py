"""The process from which Spark forks its Python workers on this machine, with the modules of tasks imported already.

Spark forks workers from a daemon that imports little, so each worker would import this package, numba and Arrow, which takes
longer than a small replay.  `open_session` chooses this daemon where workers run the Python of the driver
(`spark.python.daemon.module`); elsewhere the package may be missing until a worker receives it.
"""

from __future__ import annotations

import gc

from pyspark import daemon, worker  # noqa: F401  # the module of workers

import rpq.spark.batch.replay  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # collections in workers leave the pages of these modules shared
    daemon.manager()
