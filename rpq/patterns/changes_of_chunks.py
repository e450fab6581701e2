"""How derived relations change in a chunk: the rows of their indexes as one sequence of events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpq.paths.index.delta_index import PathDelta
from rpq.patterns.live_patterns import NO_CHANGES
from rpq.patterns.tables import Changes


def merged(found: Sequence[tuple[int, PathDelta]], *, before: int | None = None) -> Changes:
    """The rows of indexes, each with the number of its relation, in order; those `before` a place in it.

    Of one event of several relations come what leaves, then what enters, one relation after the other. O(rows), and
    O(events log events) where there are several indexes.
    """
    found = [(number, delta) for number, delta in found if len(delta.ends)]
    if not found:
        return NO_CHANGES
    parts = [_changes(number, delta) for number, delta in found]
    changes = parts[0] if len(parts) == 1 else _joined(parts)
    if before is not None:
        kept = int(np.searchsorted(changes.order, before))
        changes = Changes(
            order=changes.order[:kept],
            time=changes.time[:kept],
            sign=changes.sign[:kept],
            relation=changes.relation[:kept],
            first=changes.first[:kept],
            end=changes.end[:kept],
            pairs=changes.pairs,
            spent=changes.spent,
        )
    return changes


def _changes(number: int, delta: PathDelta) -> Changes:
    first = np.zeros(len(delta.ends), np.int64)
    first[1:] = delta.ends[:-1]
    return Changes(
        order=delta.orders,
        time=delta.times,
        sign=delta.kinds,
        relation=np.full(len(first), number, np.int32),
        first=first,
        end=delta.ends,
        pairs=delta.pairs,
        spent=NO_CHANGES.spent,
    )


def _joined(parts: Sequence[Changes]) -> Changes:
    begins = np.cumsum([0, *(len(part.pairs) for part in parts)])
    moved = [
        part._replace(first=part.first + begin, end=part.end + begin) for part, begin in zip(parts, begins, strict=False)
    ]
    order, time, sign, relation, first, end, pairs, spent = (np.concatenate(columns) for columns in zip(*moved, strict=True))
    # An index brings what it grows at the beginning before everything else, and nothing leaves before what it had. Of one
    # event what leaves is first.
    rank = np.lexsort((sign, time, order))
    return Changes(order[rank], time[rank], sign[rank], relation[rank], first[rank], end[rank], pairs, spent)
