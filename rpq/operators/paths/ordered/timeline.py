"""The edges of the window in the order of time, and the other arrays of ordered paths that are not in the table.

With a strict order, and tuples in the order of time, the newest edge can only be the last edge of a path. It costs one row
operation for each transition, `row(v, t) = max(row(v, t), min(row(u, s), slide(edge)))`. Nothing is pushed further.
This is the forward pass of Wu et al. (Path problems in temporal graphs, PVLDB 7(9), 2014), for every root at once; it stores
only the latest start. The table, its rows and slots are those of the Δ index
(`rpq/operators/paths/index/layout.py`).

* **The timeline** has an entry for every edge of the window, including parallel edges, sorted by timestamp. Late tuples and
  deletes are handled by scans over it (`scans.py`).
* **Spans**: an edge continues the paths whose first edge is young enough. Of the paths from a root to a node, the one whose
  first edge is the latest can be continued for longest, so one cell suffices. With a span over a window of time, cells
  therefore tell times and not just slides (`IndexSettings.step`), and row operations leave out those of too old paths.
* **Gaps**: an edge continues the paths whose last edge is young enough, which cells do not tell. Then paths are found by
  scans over the timeline; so are those with a span in other windows, where the path with the latest first edge may leave
  before others.
* **Moments**: under a strict order, the edges of one timestamp read the rows as they were before this timestamp. Therefore
  a block is copied before the first edge of the present moment changes it, and edges of the same moment read the copy.
  Copies are blocks of the table, found by a hash table, and are released when the moment ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.growth import request
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, lengthen

# The codes that kernels return besides those of `rpq.operators.paths.index.layout`.
NEED_TIMELINE = 100
NEED_COPIES = 101
NEED_LATE = 102  # the tuple is an insert out of order
NEED_DELETE = 103
NEED_WITNESS = 104  # the rows of the tuple need paths
NEED_FOUND = 105
NEED_VECTORS = 106
NEED_STEPS = 107
NEED_LAYERS = 108  # a path has more edges than the automaton counts
NEED_SHORTEST = 109  # the rows of the event, with new lengths, need paths


class TimelineState(Record):
    """The progress of scans, their conditions, and the lengths of the arrays."""

    _fields_ = (
        ("first", int64),  # no entry before this one is in the window
        ("count", int64),
        ("capacity", int64),
        ("moment", int64),  # the largest timestamp of an edge so far
        ("is_open", int64),  # 1: further edges of the moment can read copies
        ("copies", int64),  # blocks that are copied
        ("copy_capacity", int64),
        ("serial", int64),  # the number of the present moment: entries of the hash table with another number are free
        ("has_grown", int64),  # 1: a cell grew since the current tuple began
        ("scan", int64),  # the number of the last scan: entries of its arrays with another number are empty
        ("hits", int64),  # roots that this scan found
        ("strict", int64),
        ("gap", int64),  # UNLIMITED if there is none
        ("span", int64),
        ("scans", int64),  # 1: paths are found by scans back, since cells do not tell which of them an edge may continue
        ("skipped_entry", int64),  # an entry that scans back skip, -1 if there is none
        ("lowest_slide", int64),  # scans back skip entries with a lower relative slide
        ("in_order", int64),  # 1: entries leave in the order of time
        ("found_paths", int64),  # entries of `found_node`, `found_root` and `found_value`
        ("found_capacity", int64),
        ("columns", int64),  # roots of the vectors
        ("vectors", int64),
        ("vector_capacity", int64),
        ("vector_blocks", int64),  # the capacity of `vectors`
        ("raised_count", int64),  # vectors, steps, rows or entries that are finished
        ("edge_vectors", int64),  # the number of the vectors, the first ones, that are those of paths through a deleted edge
        ("step_count", int64),
        ("step_capacity", int64),
        ("vertex_capacity", int64),  # of the arrays with an entry a vertex
        ("departures", int64),  # departures that the last scan back noted one by one; number 0 is none
        ("departures_of_entry", int64),  # the most departures that a scan may note for an entry; 0 if it notes none
        ("most_edges", int64),  # the number of edges from which on the automaton counts no more
        ("settled", int64),  # pairs that were noted in the event, and have their marks where they belong
        ("changed", int64),  # those of them with another length
        ("has_new_rows", int64),  # 1: the rows of the event with the new lengths have been written, perhaps without paths
    )


UNLIMITED = np.iinfo(np.int64).max
EARLIEST = np.iinfo(np.int64).min


class TimelineNode(Record):
    """The result, at a product node, of the last scan that reached it, or of the vectors of paths (`edge_paths.py`)."""

    _fields_ = (
        ("scan", int64),  # the number of this scan
        ("time", int64),  # the last departure found (backward), or arrival (forward)
        ("previous_time", int64),  # the departure or arrival found before, with another timestamp
        ("width", int64),  # the largest slide up to which a path lasts that departs from `time` on; or the vector
        # The width from `previous_time` on, or 0; or the last one in `departures`, or 0; or the previous vector, or -1.
        ("previous_width", int64),
    )


class Departure(Record):
    """A time at which paths depart from a product node, where a scan back has to know them one by one (`scans.py`)."""

    _fields_ = (
        ("time", int64),
        ("width", int64),  # the largest slide up to which one of these paths lasts
        ("previous", int64),  # the departure noted before, which is later and whose paths last longer; 0 if there is none
    )


class Timeline(NamedTuple):
    """The entries, the copies of the present moment, and the scratch of scans."""

    time: np.ndarray  # int64 an entry: the timestamp
    slide: np.ndarray  # int64 an entry: the absolute slide at which the edge leaves
    source: np.ndarray  # int32 an entry
    target: np.ndarray  # int32 an entry
    label: np.ndarray  # int32 an entry
    edge: np.ndarray  # int32 an entry: the edge of the snapshot graph, which parallel ones share
    copies: np.ndarray  # int64 a copy: its block
    copy_key: np.ndarray  # int64 a place of the hash table: row << 32 | block number
    copy_serial: np.ndarray  # int64 a place: the moment
    copy_block: np.ndarray  # int64 a place: the block with the copy
    nodes: np.ndarray  # Node a product node
    marks: np.ndarray  # uint8 a vertex: `mark_of` the last scan that reached it, which is read in place of its nodes
    hits: np.ndarray  # int64 a vertex: the roots that a scan found
    best: np.ndarray  # int64 a vertex: the best value of several scans
    best_scan: np.ndarray  # int64 a vertex: 1 + the first of these scans
    found_node: np.ndarray  # int64: a product node to which the edge leads (see `edge_paths.py`); later, the lost pairs
    found_root: np.ndarray  # int64: a root with a path through the edge to it
    found_value: np.ndarray  # int64: the relative slide up to which this path lasts
    column_slot: np.ndarray  # int64 a vertex: the slot of the root of a column, in ascending order
    vector_node: np.ndarray  # int64 a vector: its product node, NO_NODE if it is a copy
    vectors: np.ndarray  # cell type: the vectors, one after the other, each with a cell a column, in blocks of 64
    steps: np.ndarray  # int64: the steps that a scan forward found
    departures: np.ndarray  # Departure: the departures that a scan back notes one by one
    edge_count: np.ndarray  # int64 a state: the number of edges of its paths, if they are counted (`layers.py`)
    length: np.ndarray  # int64 a row of the output: the number of edges of a shortest path
    fields: TimelineState


_OF_VERTICES = ("marks", "hits", "best", "best_scan", "column_slot")
_SCRATCH = {
    NEED_FOUND: ("found_node", "found_root", "found_value"),
    NEED_STEPS: ("steps",),
}
"""The arrays that are enlarged together, by the code that requests it."""


def new_timeline(*, strict: bool, gap: int | None, span: int | None, capacity: int) -> Timeline:
    """Return an empty timeline with room for `capacity` entries."""
    places = 16
    while places < 2 * capacity:
        places *= 2
    fields = TimelineState()
    fields.moment = EARLIEST
    fields.serial = 1
    fields.skipped_entry = -1
    fields.strict = strict
    fields.gap = UNLIMITED if gap is None else gap
    fields.span = UNLIMITED if span is None else span
    fields.in_order = 1
    return Timeline(
        time=np.zeros(capacity, np.int64),
        slide=np.zeros(capacity, np.int64),
        source=np.zeros(capacity, np.int32),
        target=np.zeros(capacity, np.int32),
        label=np.zeros(capacity, np.int32),
        edge=np.zeros(capacity, np.int32),
        copies=np.zeros(places // 2, np.int64),
        copy_key=np.zeros(places, np.int64),
        copy_serial=np.zeros(places, np.int64),
        copy_block=np.zeros(places, np.int64),
        nodes=TimelineNode.zeros(0),
        marks=np.zeros(0, np.uint8),
        hits=np.zeros(0, np.int64),
        best=np.zeros(0, np.int64),
        best_scan=np.zeros(0, np.int64),
        found_node=np.zeros(0, np.int64),
        found_root=np.zeros(0, np.int64),
        found_value=np.zeros(0, np.int64),
        column_slot=np.zeros(0, np.int64),
        vector_node=np.zeros(0, np.int64),
        vectors=np.zeros(0, np.uint8),
        steps=np.zeros(0, np.int64),
        departures=Departure.zeros(0),
        edge_count=np.zeros(0, np.int64),
        length=np.zeros(0, np.int64),
        fields=fields,
    )


def note_capacities(timeline: Timeline) -> None:
    """Store the lengths of the arrays for kernels, which see only pointers."""
    timeline.fields.capacity = len(timeline.time)
    timeline.fields.copy_capacity = len(timeline.copies)
    timeline.fields.found_capacity = len(timeline.found_node)
    timeline.fields.vector_capacity = len(timeline.vector_node)
    timeline.fields.vector_blocks = len(timeline.vectors) // LANES
    timeline.fields.step_capacity = len(timeline.steps)
    timeline.fields.vertex_capacity = len(timeline.marks)


def with_vertices(timeline: Timeline, vertices: int, states: int) -> Timeline:
    """Return a timeline whose scans have room for vertices up to this number."""
    if vertices <= len(timeline.hits):
        return timeline
    longer: dict[str, Any] = {name: lengthen(getattr(timeline, name), vertices) for name in _OF_VERTICES}
    return timeline._replace(nodes=lengthen(timeline.nodes, vertices * states), **longer)


def with_more_entries(timeline: Timeline, current: int) -> Timeline:
    """Return a timeline with room for more entries and without those that have left by the slide `current`."""
    count = timeline.fields.count
    is_live = timeline.slide[:count] > current
    live_count = int(is_live.sum())
    room = len(timeline.time)
    if 2 * live_count > room:
        room = max(2 * room, 16)
    columns: dict[str, Any] = {}
    request(6 * 8 * room)
    for name in ("time", "slide", "source", "target", "label", "edge"):
        array = getattr(timeline, name)
        columns[name] = np.zeros(room, array.dtype)
        columns[name][:live_count] = array[:count][is_live]
    timeline.fields.first, timeline.fields.count = 0, live_count
    return with_departures(timeline._replace(**columns), timeline.fields.departures_of_entry)


def with_departures(timeline: Timeline, of_entry: int) -> Timeline:
    """Return a timeline whose scans back may note up to `of_entry` departures for each entry, one by one."""
    timeline.fields.departures_of_entry = of_entry
    room = (len(timeline.time) * of_entry + 2) if of_entry else 0  # number 0 is none, and one is that of the edge at the end
    return timeline if room == len(timeline.departures) else timeline._replace(departures=Departure.zeros(room))


def with_more_copies(timeline: Timeline) -> Timeline:
    """Return a timeline with room for twice as many copies."""
    places = 2 * len(timeline.copy_key)
    request(3 * 8 * places)
    is_current = timeline.copy_serial == timeline.fields.serial
    longer = timeline._replace(
        copies=lengthen(timeline.copies, places // 2),
        copy_key=np.zeros(places, np.int64),
        copy_serial=np.zeros(places, np.int64),
        copy_block=np.zeros(places, np.int64),
    )
    for key, block in zip(timeline.copy_key[is_current].tolist(), timeline.copy_block[is_current].tolist(), strict=True):
        place = place_of(key, places)
        while longer.copy_serial[place] == timeline.fields.serial:
            place = (place + 1) & (places - 1)
        longer.copy_key[place], longer.copy_serial[place], longer.copy_block[place] = key, timeline.fields.serial, block
    return longer


def with_more_scratch(timeline: Timeline, code: int) -> Timeline:
    """Return a timeline with twice the room in the arrays that were full when a late insert or a delete returned `code`."""
    if code == NEED_VECTORS:
        width = -(-timeline.fields.columns // LANES)
        count, blocks = len(timeline.vector_node), len(timeline.vectors) // LANES
        if timeline.fields.vectors >= count:
            timeline = timeline._replace(vector_node=lengthen(timeline.vector_node, max(2 * count, 16)))
        if (timeline.fields.vectors + 1) * width > blocks:
            blocks = max(2 * blocks, 16 * width)
            timeline = timeline._replace(vectors=lengthen(timeline.vectors, blocks * LANES))
        return timeline
    room = max(2 * len(getattr(timeline, _SCRATCH[code][0])), 64)
    longer: dict[str, Any] = {name: lengthen(getattr(timeline, name), room) for name in _SCRATCH[code]}
    return timeline._replace(**longer)


def without_scratch(timeline: Timeline) -> Timeline:
    """Return a timeline without the memory that `with_more_scratch` added."""
    names = ("vector_node", "vectors", *(name for names in _SCRATCH.values() for name in names))
    return timeline._replace(**{name: getattr(timeline, name)[:0].copy() for name in names})


def timeline_bytes(timeline: Timeline) -> int:
    """Return the number of bytes that a timeline occupies."""
    return sum(array.nbytes for array in timeline)


@njit(cache=True, nogil=True, forceinline=True)
def place_of(key, places):
    """Return the place of the hash table at which the search for a key begins; `places` is a power of two."""
    mixed = (key ^ (key >> 29)) & 0x3FFFFFFF
    return (mixed * 0x9E3779B1 >> 15) & (places - 1)


@njit(cache=True, nogil=True, forceinline=True)
def ended_by(timeline, slide, now):
    """Return the largest value of a cell whose path an edge with a relative slide cannot continue.

    This path has left, or its first edge is too old for the span: with a span, values and slides tell times.
    """
    return max(now, slide - 1 - timeline.fields.span)


@njit(cache=True, nogil=True, forceinline=True)
def mark_of(scan):
    """Return the mark of a scan. It differs from the marks of the 254 scans before it."""
    return np.uint8(scan % 255 + 1)


@njit(cache=True, nogil=True)
def begin_scan(timeline):
    """Begin a scan that has reached no node yet. Return its number. O(1), and once in 255 times O(vertices)."""
    fields = timeline.fields
    fields.scan += 1
    if fields.scan % 255 == 0:
        for vertex in range(fields.vertex_capacity):
            timeline.marks[vertex] = 0
    return fields.scan


@njit(cache=True, nogil=True, forceinline=True)
def _entries_up_to(timeline, column, limit):
    """Return the number of entries up to `limit` in a column along which the entries of the window ascend."""
    low, high = timeline.fields.first, timeline.fields.count
    while low < high:
        middle = (low + high) >> 1
        if column[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def entries_up_to(timeline, time):
    """Return the number of entries with a timestamp up to `time`."""
    return _entries_up_to(timeline, timeline.time, time)


@njit(cache=True, nogil=True)
def entries_leaving_by(timeline, slide):
    """Return the number of entries that leave by a slide, if entries leave in the order of time."""
    return _entries_up_to(timeline, timeline.slide, slide)


@njit(cache=True, nogil=True)
def enter(timeline, time, slide, source, target, label, edge):
    """Enter an edge after all entries that are not younger. Return its place. There must be room. O(younger edges)."""
    fields = timeline.fields
    place = fields.count
    first = fields.first
    while place > first and timeline.time[place - 1] > time:
        timeline.time[place] = timeline.time[place - 1]
        timeline.slide[place] = timeline.slide[place - 1]
        timeline.source[place] = timeline.source[place - 1]
        timeline.target[place] = timeline.target[place - 1]
        timeline.label[place] = timeline.label[place - 1]
        timeline.edge[place] = timeline.edge[place - 1]
        place -= 1
    timeline.time[place] = time
    timeline.slide[place] = slide
    timeline.source[place] = source
    timeline.target[place] = target
    timeline.label[place] = label
    timeline.edge[place] = edge
    fields.count += 1
    return place


@njit(cache=True, nogil=True)
def newest_entry(timeline, edge, current):
    """Return the last entry of an edge that has not left by the slide `current`, or -1. O(entries)."""
    for place in range(timeline.fields.count - 1, timeline.fields.first - 1, -1):
        if timeline.edge[place] == edge and timeline.slide[place] > current:
            return np.int64(place)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def remove(timeline, place):
    """Remove an entry. O(younger edges)."""
    last = timeline.fields.count - 1
    for one in range(place, last):
        timeline.time[one] = timeline.time[one + 1]
    for one in range(place, last):
        timeline.slide[one] = timeline.slide[one + 1]
    for one in range(place, last):
        timeline.source[one] = timeline.source[one + 1]
    for one in range(place, last):
        timeline.target[one] = timeline.target[one + 1]
    for one in range(place, last):
        timeline.label[one] = timeline.label[one + 1]
    for one in range(place, last):
        timeline.edge[one] = timeline.edge[one + 1]
    timeline.fields.count = last


@njit(cache=True, nogil=True)
def skip_expired_entries(timeline, current):
    """Move FIRST past the entries that have left by the slide `current`, up to the first one that has not."""
    fields = timeline.fields
    while fields.first < fields.count and timeline.slide[fields.first] <= current:
        fields.first += 1
