"""A pause of the garbage collector while many objects are created that cannot be garbage.

Collections during such a block would take half of its time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY_OBJECTS = 100_000
"""The number of new objects from which the end of a block moves them to the oldest generation."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the garbage collector within a block; objects without reference cycles are still freed.

    If a block leaves many objects, they are traversed once at its end. Otherwise each of the first two collections after the
    block would traverse all of them, in the middle of later work.

    >>> with gc_paused():
    ...     gc.isenabled()
    False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _MANY_OBJECTS:
                gc.collect(1)
            gc.enable()
