"""What travels to Spark's workers: it knows which version of this package packed it."""

from __future__ import annotations

import platform
import socket
from typing import Any

import rpq
from rpq.spark.errors import PipelineError


class Shipped:
    """Something of this package that tasks are given.  Where another version unpacks it, that is an error that says so."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed_by": rpq.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed_by = state.pop("_packed_by", "another release")
        if packed_by != rpq.__version__:
            raise PipelineError(differs("streaming-rpq", rpq.__version__, packed_by))
        self.__dict__.update(state)


def differs(what: str, here: str, driver: str) -> str:
    """What to say where an executor has something else than the driver."""
    return (
        f"the executor on {socket.gethostname()} (Python {platform.python_version()}) has {what} {here}, the driver has "
        f"{driver}: give both the same, by --py-files of one wheel, an archive of one environment, or one image"
    )
