"""The report of a worker about its Python.

This module is pickled by value, so that a worker can report a missing package or another release.  The module must not
import anything of the package at its top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

PACKAGES = ("numba", "numpy", "pandas", "pyarrow")


def probe(tasks: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield a report for each task: the machine, the process, versions, and why an import fails (`problem`, or None)."""
    import os
    import platform
    import socket
    from importlib import import_module, metadata

    for _ in tasks:
        report: dict[str, Any] = {"host": socket.gethostname(), "process": os.getpid(), "problem": None}
        report["python"] = platform.python_version()
        try:
            for name in PACKAGES:
                import_module(name)
                report[name] = metadata.version(name)
            package = import_module("rpq")
            report["rpq"] = package.__version__
            report["sources"] = import_module("rpq.engine.compilation").sources_digest()
            report["place"] = os.path.dirname(os.path.dirname(str(package.__file__)))
        except Exception as error:
            report["problem"] = f"{type(error).__name__}: {error}"
        yield report
