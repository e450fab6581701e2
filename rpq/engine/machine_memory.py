"""The memory of this machine and of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DEFAULT_FRACTION = 0.7
_UNKNOWN_MACHINE = 8 << 30
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Return bytes of memory of this machine, or of the container; 8 GiB if neither can be determined."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        size = _UNKNOWN_MACHINE
    for name in _CONTAINER_LIMITS:
        try:
            limit = Path(name).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            size = min(size, int(limit))
    return size


def default_limit() -> int:
    """Return the limit of an engine for which none was given: 70 % of the machine's memory."""
    return int(machine_memory() * DEFAULT_FRACTION)


def peak_memory_bytes() -> int:
    """Return the peak of the resident memory of this process in bytes; 0 if the system does not report it.

    On Linux it is that of the address space: `ru_maxrss` includes the process that started this one.
    """
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
