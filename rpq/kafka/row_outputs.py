"""Where rows go, and messages that are no tuples: into the open transaction, or to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rpq.kafka.row_messages import RowMessages
from rpq.kafka.run_events import warn
from rpq.kafka.sent_messages import Messages
from rpq.kafka.transactions import Transactions

if TYPE_CHECKING:
    import pyarrow as pa

    from rpq.kafka.message_tuples import Bad
    from rpq.results.changes import Changes

MESSAGES_TOLD = 10


class RowSink(Protocol):
    """Where rows go that go to no topic; what was computed it has as terms where it `wants_terms`."""

    @property
    def wants_terms(self) -> bool: ...

    def write(self, rows: pa.Table) -> None: ...

    def commit(self) -> Any: ...


class RowOutputs:
    """Sends rows as messages into `transactions`, where there are such, or to the `sink`.

    `has_sent` says whether any has gone since it was last set; `set_aside` are the first roots that were.
    """

    def __init__(self, rows: RowMessages | None, *, witness: bool, dead_letters: str | None) -> None:
        self.rows = rows
        self.transactions: Transactions | None = None
        self.sink: RowSink | None = None
        self.has_sent = False
        self.set_aside: list[str] = []
        self._witness = witness
        self._dead_letters = dead_letters

    @property
    def topics(self) -> list[str]:
        """The topics that are written."""
        found = set() if self.rows is None else {destination.topic for destination in self.rows.destinations.values()}
        return [*sorted(found), *([self._dead_letters] if self._dead_letters else ())]

    @property
    def are_wanted(self) -> bool:
        """Whether rows go anywhere."""
        return self.rows is not None or self.sink is not None

    @property
    def wait(self) -> bool:
        """Whether messages wait to be committed."""
        return self.transactions is not None and self.transactions.messages > 0

    @property
    def age(self) -> float:
        """Seconds since the first of those was sent."""
        return 0.0 if self.transactions is None else self.transactions.age

    def send(self, changes: Changes) -> int:
        """Send the rows of changes; how many they are."""
        for report in changes.set_aside:
            message = f"{report.query}: root {report.root} set aside: its search took {report.size:,} nodes"
            warn(message, time=report.timestamp)
            if len(self.set_aside) < MESSAGES_TOLD:
                self.set_aside.append(message)
        if not len(changes):
            return 0
        self.has_sent = True
        for rows in changes.tables(witness=self._witness, terms=self.sink is not None and self.sink.wants_terms):
            if self.rows is not None and self.transactions is not None:
                for topic, messages in self.rows.of(rows):
                    self.transactions.send(topic, messages)
            elif self.sink is not None:
                self.sink.write(rows)
        return len(changes)

    def set_apart(self, bad: Bad) -> None:
        """Send a message that is no tuple to where such go, as it was, with the reason and its place in its headers."""
        if self._dead_letters is None or self.transactions is None:
            return
        about = {
            "rpq.reason": bad.reason,
            "rpq.topic": bad.message.topic(),
            "rpq.partition": str(bad.message.partition()),
            "rpq.offset": str(bad.message.offset()),
        }
        headers = [*(bad.message.headers() or ()), *((name, text.encode()) for name, text in about.items())]
        self.transactions.send(self._dead_letters, Messages([bad.message.key()], [bad.message.value()], [headers]))
