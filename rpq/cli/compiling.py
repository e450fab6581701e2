"""The kernels of a run, compiled or loaded before it begins: that takes time, which is no part of the run."""

from __future__ import annotations

from collections.abc import Sequence

import rpq
from rpq.cli.progress import compiling_notice, notice_after
from rpq.queries.query import PatternQuery, Query


def compile_kernels(
    queries: Sequence[Query],
    *,
    integers: bool,
    threads: int = 1,
    witness: bool = False,
    state: bool = False,
    quiet: bool = False,
) -> float:
    """Compile what the queries need over integers or texts as vertices, saying so if it takes long; the seconds it took."""
    with notice_after(1.0, compiling_notice, shown=not quiet):
        return sum(
            rpq.warm_up(
                query, vertices="int64" if integers else "string", threads=threads, witness=witness, state=state
            )
            for query in one_of_each_kind(queries)
        )


def one_of_each_kind(queries: Sequence[Query]) -> list[Query]:
    """One query of each kind that may need kernels of its own."""
    return list({kernels_of(query): query for query in reversed(queries)}.values())


def kernels_of(query: Query) -> tuple[object, ...]:
    """What kernels depend on: the notation and the window; of a path also which paths count, and what restricts it."""
    window = query.window
    slides = (window.size // window.slide).bit_length() if window.kind == "time" else 0
    if isinstance(query, PatternQuery):
        return ("pattern", window.kind)
    return ("path", window.kind, slides, query.paths, query.sources is None, query.targets is None)
