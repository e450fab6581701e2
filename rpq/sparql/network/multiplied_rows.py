"""How the product of bags changes when rows of one of them do: a kernel."""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.rows.row_bags import NONE, STRIDE, add


@njit(cache=True, nogil=True)
def _longer(array, count):
    longer = np.empty(2 * count, array.dtype)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True)
def change_product(bags, changes, parts, places, change_weights, change_events, widths):
    """Let rows of parts come and go; (rows, weights, events, how many) of what comes of it.

    Those of one event are multiplied one after the other, each with what the other parts are by then.
    """
    count, number, stride, width = len(parts), len(widths), bags.fields[STRIDE], widths.sum()
    room = count + 16
    rows, weights, events = np.empty(room * max(width, 1), np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    told = 0
    entries = np.empty(number, np.int64)
    for i in range(count):
        mine = parts[i]
        changed = add(bags, mine, changes, places[i], change_weights[i])
        is_empty = False
        for part in range(number):
            entries[part] = changed if part == mine else np.int64(bags.first[part])
            is_empty |= entries[part] == NONE
        while not is_empty:
            if told == len(weights):
                rows, weights, events = _longer(rows, len(rows)), _longer(weights, told), _longer(events, told)
            weight = change_weights[i]
            at = told * width
            for part in range(number):
                entry = entries[part]
                if part != mine:
                    weight *= bags.counts[entry]
                for column in range(widths[part]):
                    rows[at] = bags.rows[entry * stride + column]
                    at += 1
            weights[told] = weight
            events[told] = change_events[i]
            told += 1
            # The next combination of the rows of the others; at the end there is none.
            is_empty = True
            for part in range(number):
                if part == mine:
                    continue
                entries[part] = np.int64(bags.next[entries[part]])
                if entries[part] != NONE:
                    is_empty = False
                    break
                entries[part] = np.int64(bags.first[part])
    return rows, weights, events, told
