"""Messages that are documents of RDF: a message is read as a whole, or not at all.

The header `content-type` determines the syntax of a message; without it `--rdf-syntax` does, and N-Quads is the default.
`--rdf-time` takes the time of a triple from the name of its graph or from a property of the graph, and
`--columns timestamp=@time` from the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.kafka.message_reader import BadMessage, MessageColumns, MessageEdges, metadata_text, place_of
from rpq.language.predicate import Predicate, tuple_kinds
from rpq.language.where import Where
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.inputs import order_rows
from rpq.readers.rdf.rdf_format import NO_TIME, RdfDocuments, RdfReading
from rpq.readers.rdf.rdf_syntax import SYNTAX_OF_TYPE
from rpq.stream.arrays.fields import STREAM, FieldError


class RdfMessages:
    """A reader of the messages of one topic as documents of RDF.

    Raises `InputError` if triples have no time, or if an option names columns that RDF does not have, and `WhereError`.
    """

    def __init__(
        self,
        reading: RdfReading,
        columns: MessageColumns,
        *,
        stream: str | None = None,
        where: Where | None = None,
        layout: dict[str, Any] | None = None,
    ) -> None:
        metadata = dict(columns.metadata)
        others = {column: name for column, name in (*columns.metadata, *columns.values.renamed) if column != "timestamp"}
        if others or columns.values.constant_label is not None:
            raise InputError("--columns, --label: triples have the columns of their terms; expected timestamp=@time alone")
        if ("timestamp" in metadata) == reading.has_graph_times:
            both = "both --rdf-time and --columns timestamp= set the time of a triple: use one of the two"
            raise InputError(both if reading.has_graph_times else NO_TIME_OF_MESSAGES)
        if stream is not None and reading.graph == STREAM:
            raise InputError("both the topics and the graphs are assigned to streams; use one of the two")
        self._syntax = reading.syntax or "nq"
        self._columns = columns
        self._stream = stream
        self._has_time = "timestamp" in metadata
        self._predicate = None if where is None else Predicate(where, tuple_kinds(vertex="text", unit=columns.unit))
        kind = None if layout is None else layout["times"]
        self._documents = RdfDocuments(reading, time_unit=columns.time_unit, kind=kind)
        self.warnings: list[str] = []

    @property
    def layout(self) -> dict[str, Any] | None:
        """The kind of the times, for a later reader of the same topic; None before the first time."""
        return None if self._documents.kind is None else {"times": self._documents.kind}

    @property
    def integers(self) -> bool:
        """Always False, because vertices are terms."""
        return False

    def read(self, messages: Sequence[Any]) -> MessageEdges:
        """Read messages, each of which may be many tuples. O(bytes)."""
        bad: dict[int, BadMessage] = {}
        batches: list[pa.RecordBatch] = []
        numbers: list[np.ndarray] = []
        filtered = undecided = 0
        for number, message in enumerate(messages):
            try:
                found = self._tuples_of(message)
            except InputError as error:
                bad[number] = BadMessage(message, str(error).removeprefix(f"{place_of(message)}:"))
                continue
            except FieldError as error:
                bad[number] = BadMessage(message, f"{error.column} {error.message}" if error.column else error.message)
                continue
            if found is None:
                continue
            if self._predicate is not None:
                columns = {name: found.column(name) for name in found.schema.names}
                is_selected, doubtful = self._predicate.mask(columns, len(found))
                undecided += doubtful
                filtered += int(np.count_nonzero(~is_selected))
                found = found.filter(pa.array(is_selected))
            if len(found):
                batches.append(found)
                numbers.append(np.full(len(found), number))
        if not batches:
            return MessageEdges(None, np.empty(0, np.int64), bad, filtered, undecided)
        of_rows = np.concatenate(numbers)
        return MessageEdges(order_rows(batches, np.zeros(len(of_rows), np.int8)), of_rows, bad, filtered, undecided)

    def _tuples_of(self, message: Any) -> pa.RecordBatch | None:
        value = message.value()
        if value is None:
            raise FieldError("there is no value (a tombstone); expected a document of RDF")
        type_ = (metadata_text("@header.content-type", message) or "").partition(";")[0].strip().lower()
        if type_ and type_ not in SYNTAX_OF_TYPE:
            raise FieldError(f"the header content-type is {type_!r}; expected one of {', '.join(SYNTAX_OF_TYPE)}")
        place = place_of(message)
        found = self._documents.read(
            value,
            syntax=SYNTAX_OF_TYPE.get(type_, self._syntax),
            name=place,
            scope=f"{message.topic()}.{message.partition()}.{message.offset()}",
            timestamp=self._columns.read(message)["timestamp"] if self._has_time else None,
        )
        if found is None or self._stream is None:
            return found
        names = pa.array([self._stream], LABEL_TYPE.value_type)
        return found.append_column(STREAM, pa.DictionaryArray.from_arrays(np.zeros(len(found), np.int32), names))


NO_TIME_OF_MESSAGES = NO_TIME.replace(
    "or the document comes with a timestamp", "or --columns timestamp=@time takes that of messages"
)
