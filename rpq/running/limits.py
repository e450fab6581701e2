"""How much memory the engine may take."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_FRACTION = 0.7
_UNKNOWN_MACHINE = 8 << 30
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container; 8 GiB where neither can be found out."""
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
    """The limit of an engine for which none was given: 70 % of the machine's memory."""
    return int(machine_memory() * DEFAULT_FRACTION)
