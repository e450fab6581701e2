"""The structural invariants of the index of ordered paths, for the tests: plain Python, slow, obvious."""

from __future__ import annotations

from rpq.operators.paths.index import layout
from rpq.operators.paths.index.check import free_slots, stored_cells
from rpq.operators.paths.index.layout import Index
from rpq.operators.paths.ordered.timeline import COPIES, COUNT, FIRST, GAP, MOMENT, SPAN, STRICT, Timeline

_Path = tuple[int, int, int]
"""Of a path: the time of its first edge, that of its last one, and the slide up to which it lasts."""


def expected_cells(index: Index, timeline: Timeline) -> dict[tuple[int, int, int], int]:
    """Return (vertex, state, root) -> value of all cells, from all paths forward, the oldest edges first."""
    program, state = index.program, index.state
    strict, gap, span = (int(timeline.fields[field]) for field in (STRICT, GAP, SPAN))
    base, now, ceiling = int(state[layout.BASE]), int(state[layout.NOW]), int(index.settings[layout.CEILING])
    first_entry, count = int(timeline.fields[FIRST]), int(timeline.fields[COUNT])
    columns = (timeline.time, timeline.slide, timeline.source, timeline.target, timeline.label)
    entries = list(zip(*(column[first_entry:count].tolist() for column in columns), strict=True))
    assert [entry[0] for entry in entries] == sorted(entry[0] for entry in entries), "entries are not in the order of time"
    entries = [(time, min(slide - base, ceiling), u, v, label) for time, slide, u, v, label in entries if slide - base > now]
    paths: dict[tuple[int, int, int], set[_Path]] = {}
    for time in sorted({entry[0] for entry in entries}):
        while True:
            new: dict[tuple[int, int, int], set[_Path]] = {}
            for _, slide, source, target, label in (entry for entry in entries if entry[0] == time):
                for classes, u, v in ((program.forward, source, target), (program.inverse, target, source)):
                    one = int(classes[label])
                    if one < 0:
                        continue
                    start = int(program.start_target[one])
                    if start >= 0 and index.table.is_root[u]:
                        new.setdefault((v, start, u), set()).add((time, time, slide))
                    for step in range(program.step_first[one], program.step_first[one + 1]):
                        before, after = int(program.step_source[step]), int(program.step_target[step])
                        for (vertex, at, root), known in paths.items():
                            if (vertex, at) != (u, before):
                                continue
                            for first, last, width in known:
                                if (last < time or not strict) and time - last <= gap and time - first <= span:
                                    new.setdefault((v, after, root), set()).add((first, time, min(width, slide)))
            grown = False
            for key, found in new.items():
                if not found <= paths.get(key, set()):
                    paths.setdefault(key, set()).update(found)
                    grown = True
            if strict or not grown:
                break
    return {key: max(width for _, _, width in found) for key, found in paths.items()}


def check_ordered(index: Index, timeline: Timeline) -> None:
    """Assert that storage is consistent, and that every cell is the best of its paths."""
    state, table = index.state, index.table
    assert state[layout.PHASE] == layout.IDLE, "a tuple is half done"
    copies = timeline.copies[: timeline.fields[COPIES]].tolist()
    found = {
        (vertex, at, int(table.slot_vertex[slot])): value
        for (vertex, at, slot), (value, _) in stored_cells(index, others=copies).items()
    }
    expected = expected_cells(index, timeline)
    assert found == expected, f"cells differ: {set(found.items()) ^ set(expected.items())}"
    count = int(timeline.fields[COUNT])
    if count:
        assert timeline.time[count - 1] <= timeline.fields[MOMENT], "an edge is younger than the latest moment"
    used = [slot for slot in range(state[layout.SLOTS]) if table.slot_vertex[slot] >= 0]
    free = free_slots(index)
    assert sorted(used + free) == list(range(state[layout.SLOTS])), "slots leak or are shared"
