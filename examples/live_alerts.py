"""Alert on transfers of money: report suspicious accounts whose money can reach an exchange within a day.

Transfers arrive one at a time, with their times. An alert shows the path. It is withdrawn when a transfer is cancelled or a
day has passed. Prints:

    09:00  alert      mallory → exchange   mallory transfer ann transfer bob cashes_out exchange
    09:30  withdrawn  mallory → exchange
    11:00  alert      mallory → exchange   mallory transfer cho cashes_out exchange
    01:00  withdrawn  mallory → exchange
"""

from datetime import datetime

import rpq

watch = rpq.Query(
    "transfer+/cashes_out",
    name="money to an exchange",
    window=rpq.Window(size="1d", slide="1h"),
    semantics="explicit",  # expired answers are reported with a row, too
    sources=["mallory"],
)
engine = rpq.Engine(watch)


def print_alerts(changes: rpq.Changes) -> None:
    """Print changes, and for each new answer its path, which is available as long as the answer is current."""
    for change in changes:
        found = engine.witness(change.source, change.target) if change.op == "+" else None
        path = ""
        if found:
            path = "   " + " ".join(word for pair in zip(found.vertices, (*found.labels, ""), strict=True) for word in pair)
        kind = "alert" if change.op == "+" else "withdrawn"
        print(f"{change.timestamp:%H:%M}  {kind:<10} {change.source} → {change.target}{path}".rstrip())


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2026, 3, day, hour, minute)


print_alerts(engine.insert("mallory", "ann", "transfer", at(8, 10)))
print_alerts(engine.insert("bob", "exchange", "cashes_out", at(8, 20)))
print_alerts(engine.insert("ann", "bob", "transfer", at(9)))  # this edge completes the path
print_alerts(engine.delete("ann", "bob", "transfer", at(9, 30)))  # the transfer is cancelled
print_alerts(engine.insert("cho", "exchange", "cashes_out", at(0, 15)))  # arrives late, but is still in the window
print_alerts(engine.insert("mallory", "cho", "transfer", at(11)))
print_alerts(engine.advance(at(12, day=2)))  # time passes without a tuple: the cash-out of 00:15 leaves the window
