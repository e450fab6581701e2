"""The functions of `pyarrow.compute`, which is imported when one of them is used for the first time.

It takes 9 MB and 20 ms, and most pushes use none of its functions: `from rpq.stream.arrays import arrow_compute as pc`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # those that Python looks for in every module
        raise AttributeError(name)
    import pyarrow.compute

    function = globals()[name] = getattr(pyarrow.compute, name)
    return function
