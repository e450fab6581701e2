"""The stateful processor as Spark inspects it: its state, and the processor of a share, still pickled.

Spark unpickles the stateful processor of each stream in a process on the driver's machine, only to ask for its state.  That
process must be ready within seconds on a busy machine, so this module imports no more than PySpark does.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


def open_states(states: Mapping[str, tuple[str, ...]], handle: StatefulProcessorHandle) -> dict[str, Any]:
    """Declare variables of the state: one schema is that of a value, two are those of the keys and the values of a map."""
    return {
        name: handle.getMapState(name, *schemas) if len(schemas) == 2 else handle.getValueState(name, schemas[0])
        for name, schemas in states.items()
    }


class ShareProcessor(Protocol):
    """The part of `rpq.spark.stream.processor.AnswerChanges` that is used here."""

    @property
    def states(self) -> dict[str, tuple[str, ...]]: ...

    def open_states(self, states: Mapping[str, Any]) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]: ...  # noqa: N802, N803


class InspectedProcessor(StatefulProcessor):
    """A stateful processor that declares the state of another, and unpickles that one with the first micro-batch."""

    def __init__(self, processor: ShareProcessor) -> None:
        self._processor: ShareProcessor | None = processor
        self._packed: bytes | None = None
        self._states = processor.states

    def __getstate__(self) -> dict[str, Any]:
        # Pickling registers the broadcasts of the processor with the function of Spark that is being pickled.
        return {"_processor": None, "_packed": pickle.dumps(self._processor), "_states": self._states}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._opened = open_states(self._states, handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  # Spark's names
        """Apply a micro-batch."""
        if self._processor is None:
            assert self._packed is not None
            self._processor = pickle.loads(self._packed)
        self._processor.open_states(self._opened)
        yield from self._processor.handleInputRows(key, rows, timerValues)
