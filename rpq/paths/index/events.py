"""Binding rows of the output to the moment of their change."""

from rpq.compiled.kernel_cache import njit
from rpq.paths.index.layout import ADDED, EVENT_OUT, EVENTS, OUT, REMOVED


@njit(cache=True, nogil=True)
def end_event(index, time, kind, order):
    """Bind the rows since the last event to a time and an operation; there is room for one event."""
    fields, output = index.state, index.output
    rows = fields[OUT] - fields[EVENT_OUT]
    if rows > 0:
        event = fields[EVENTS]
        output.event_time[event] = time
        output.event_end[event] = fields[OUT]
        output.event_kind[event] = kind
        output.event_tuple[event] = order
        fields[EVENTS] += 1
        fields[EVENT_OUT] = fields[OUT]
        fields[ADDED if kind > 0 else REMOVED] += rows
