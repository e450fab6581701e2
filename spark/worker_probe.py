"""What a worker's Python says of itself.

This travels as source, so that a worker that lacks this package, or has another release, can say so: it may import nothing
of it at its top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

NEEDED = ("numba", "numpy", "pandas", "pyarrow")


def probe(tasks: Iterable[int]) -> Iterator[dict[str, Any]]:
    """A report: the machine, the process, versions, and why something is missing (`problem`, or None)."""
    import os
    import platform
    import socket
    from importlib import import_module, metadata

    for _ in tasks:
        report: dict[str, Any] = {"host": socket.gethostname(), "process": os.getpid(), "problem": None}
        report["python"] = platform.python_version()
        try:
            for name in NEEDED:
                import_module(name)
                report[name] = metadata.version(name)
            package = import_module("rpq")
            report["rpq"] = package.__version__
            report["sources"] = import_module("rpq.compiled.kernel_sources").digest("rpq.engine")
            report["place"] = os.path.dirname(os.path.dirname(str(package.__file__)))
        except Exception as error:
            report["problem"] = f"{type(error).__name__}: {error}"
        yield report
