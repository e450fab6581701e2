"""Files of records of nodes: CSV with a header, JSON lines, Parquet or Arrow, one record a row.

The columns `node`, `labels`, `op` and `timestamp`, which may have other names, are those of a record; all others are
properties.  In lines of fields an empty one is null; an object of JSON names only its keys, nested ones as
`rpq.readers.key_paths` writes them.  A file of which no record has a time is read as a whole before the first tuple;
others are merged with the tuples by time, and come before tuples of the same time.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError, did_you_mean
from rpq.readers.batch import Batch, Reader
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import InMemorySource
from rpq.readers.inputs import REJECTION_MESSAGES, Input, merge_by_heads
from rpq.readers.key_paths import names_in
from rpq.readers.parquet import ParquetInput, is_typed, names_in_file
from rpq.readers.selection import ReaderWrapper
from rpq.readers.source import LineBlock
from rpq.readers.text.detection import SEPARATORS
from rpq.readers.text.edge_rules import EdgeReader, EdgeRules, NodeRule, RecordParser, record_layout
from rpq.readers.text.jsonlines import JsonLines, read_object
from rpq.readers.text.line_layout import FURTHER, LineLayout, split_line
from rpq.readers.text.parsing import BlockParser, LineError, LineParser, Rows, data_lines
from rpq.readers.text.textfile import DetectedFormat, TextFile, detect_file, line_error
from rpq.stream.arrays.fields import DEFAULT_UNIT, FieldError
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.nodes.node_table import NO_TIME, OWN_COLUMNS

_KEYS = {"node": "node", "labels": "labels_from", "op": "op", "timestamp": "timestamp"}
"""The keys of a rule by the columns of a record."""


@dataclass(frozen=True, kw_only=True)
class NodeFileColumns:
    """How files of nodes are read: the names of their columns, and the properties that are kept, None for all.

    >>> NodeFileColumns.parse("node=account_id,labels=kind").renamed
    {'node': 'account_id', 'labels': 'kind'}
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    properties: tuple[str, ...] | None = None
    time_format: str | None = None
    trim: bool = False

    @classmethod
    def parse(
        cls,
        text: str | None,
        *,
        properties: Sequence[str] | None = None,
        time_format: str | None = None,
        trim: bool = False,
    ) -> NodeFileColumns:
        """Parse `COLUMN=NAME,…`.  Raises `InputError`."""
        renamed: dict[str, str] = {}
        for pair in next(csv.reader([text])) if text else ():
            column, _, name = pair.partition("=")
            column = column.strip()
            if not name:
                raise InputError(f"{pair!r} is not COLUMN=NAME; expected, for example, node=account_id,labels=kind")
            if column not in OWN_COLUMNS or column in renamed:
                what = "is mapped twice" if column in renamed else f"is not one of {', '.join(OWN_COLUMNS)}"
                raise InputError(f"{column!r} {what}{did_you_mean(column, OWN_COLUMNS)}")
            renamed[column] = name
        kept = None if properties is None else tuple(properties)
        return cls(renamed=renamed, properties=kept, time_format=time_format, trim=trim)

    def rules(self, names: Sequence[str]) -> EdgeRules:
        """Return the rule by which records with these names are records of nodes.  Raises `FieldError`."""
        columns = {column: self.renamed.get(column, column) for column in OWN_COLUMNS}
        for column, name in columns.items():
            if name not in names and (column in self.renamed or column == "node"):
                hint = did_you_mean(name, names)
                remedy = "" if column in self.renamed else "; give --node-columns node=NAME"
                raise FieldError(f"is missing; found {', '.join(names)}{hint}{remedy}", name)
        used = {_KEYS[column]: name for column, name in columns.items() if name in names}
        properties = [name for name in names if name not in used.values()]
        if self.properties is not None:
            properties = [name for name in properties if name in self.properties]
        for name in OWN_COLUMNS:
            if name in properties:
                raise FieldError(f"cannot be a property of nodes, as --node-columns gives {name} another column", name)
        rule = NodeRule(number=1, names=used, properties={name: name for name in properties}, is_required=True)
        return EdgeRules(rules=(), nodes=(rule,), file="--nodes", digest="")

    def reader(self, names: Sequence[str], *, unit: str, times: str | None = None) -> EdgeReader:
        """Return the reader of records with these names in text.  Raises `FieldError`."""
        return EdgeReader(self.rules(names), ColumnNames(time_format=self.time_format), unit=unit, times=times)


class _NodeLines(BlockParser):
    """A parser of objects whose keys are not known in advance."""

    def __init__(self, columns: NodeFileColumns, unit: str) -> None:
        self._columns = columns
        self._unit = unit
        self.times: str | None = None
        self.has_times = False

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        names: dict[str, None] = {self._columns.renamed.get("node", "node"): None}
        for _, line in data_lines(block):
            with suppress(FieldError):  # of which the parser makes an error with its line
                names.update(dict.fromkeys(names_in(read_object(line))))
        renamed = {column: name for column, name in self._columns.renamed.items() if name in names}
        columns = NodeFileColumns(
            renamed={"node": next(iter(names)), **renamed},
            properties=self._columns.properties,
            time_format=self._columns.time_format,
        )
        reader = columns.reader(list(names), unit=self._unit, times=self.times)
        self.has_times |= bool(reader.rules.times)
        yield from RecordParser(JsonLines(record_layout(reader, reader.rules.ends)), reader).parse(block, stop=stop)
        self.times = reader.times


class _NodeFields(RecordParser):
    """A parser of lines of fields, whose header names them."""

    reader: EdgeReader

    @property
    def times(self) -> str | None:
        return self.reader.times

    @property
    def has_times(self) -> bool:
        return bool(self.reader.rules.times)


def read_nodes(
    data: bytes, *, name: str, only_json: bool, time_unit: str | None = None, columns: NodeFileColumns | None = None
) -> list[pa.RecordBatch]:
    """Read all records of nodes of a text, JSON lines or lines of fields with a header, as rows of batches.

    Times in text require a `time_unit`.  Raises `InputError` at a bad line.

    >>> [batch] = read_nodes(b'{"node": "x", "risk": 4}', name="the body", only_json=True)
    >>> batch.column("source").to_pylist()
    ['x']
    """
    parsers: list[_NodeFields | _NodeLines] = []

    def detect(line: bytes) -> DetectedFormat:
        if only_json:
            read_object(line)
        found, parser = _detect(line, columns or NodeFileColumns(), time_unit or DEFAULT_UNIT)
        parsers.append(parser)
        return found

    batches = list(TextFile(InMemorySource(data, name=name), detect=detect))
    if time_unit is None and any(parser.times not in (None, "integers") for parser in parsers):
        raise InputError(f"{name}: column 'timestamp' has times; expected numbers, or a time unit", column="timestamp")
    return batches


def _detect(line: bytes, columns: NodeFileColumns, unit: str) -> tuple[DetectedFormat, _NodeFields | _NodeLines]:
    """Detect how to read a file from its first line, an object or a header."""
    if line.lstrip(b" \t").startswith(b"{"):
        lines = _NodeLines(columns, unit)
        return DetectedFormat(parser=lines), lines
    cuts: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        with suppress(FieldError):
            cuts[separator] = [text.strip() for text in split_line(line, separator, quotes=True)]
    node = columns.renamed.get("node", "node")
    separator = max(cuts, key=lambda one: (node in cuts[one], len(cuts[one])))
    names = cuts[separator]
    for name in names:
        if names.count(name) > 1:
            raise FieldError("occurs twice in the header", name)
    reader = columns.reader(names, unit=unit)
    fields = tuple(FURTHER + name if name in reader.names else "" for name in names)
    layout = LineLayout(separator=separator, fields=fields, quotes=True, trim=columns.trim)
    parser = _NodeFields(LineParser(layout), reader)
    return DetectedFormat(parser=parser, is_header=True, quoted=layout if layout.has_quotes else None), parser


class NodeFile:
    """The records of a file, as rows of batches (`rpq.stream.nodes.node_rows`).

    `unit` is the unit of the stream's timestamps, None for plain numbers.  `has_times` says whether records have times.
    Raises `InputError`.
    """

    def __init__(self, path: str, columns: NodeFileColumns, *, unit: str | None, on_error: str = "stop") -> None:
        self.name = path
        self._unit = unit
        text_unit = unit or DEFAULT_UNIT
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise InputError(f"{path}: there is no such file; records of nodes are read from files", file=path)
        if os.path.isdir(path) or is_typed(path):
            try:
                rules = columns.rules(names_in_file(path))
            except FieldError as error:
                message = f"{path}: column '{error.column}' {error.message}"
                raise InputError(message, file=path, column=error.column) from error
            names = ColumnNames(time_format=columns.time_format)
            parquet = ParquetInput(path, on_error=on_error, columns=names, rules=rules, time_unit=text_unit)
            self.has_times = bool(rules.times)
            self._has_unit = parquet.time_unit is not None
            if parquet.has_typed_times:
                parquet.time_unit = text_unit
            self.input: Input = parquet
            return
        errors: list[LineError] = []
        parsers: list[_NodeFields | _NodeLines] = []

        def detect(line: bytes) -> DetectedFormat:
            found, parser = _detect(line, columns, text_unit)
            parsers.append(parser)
            return found

        sample = detect_file(path, detect, errors.append)
        if errors and sample is None:
            raise line_error(path, errors[0])
        if sample is not None:
            list(sample[0].parser.parse(sample[1], stop=False))
        self.has_times = any(parser.has_times for parser in parsers)
        self._has_unit = any(parser.times not in (None, "integers") for parser in parsers)
        self.input = TextFile(path, detect=detect, on_error=on_error)

    def check_unit(self) -> None:
        """Raise `InputError` if records have times and the stream plain numbers."""
        if self.has_times and self._has_unit and self._unit is None:
            raise InputError(
                f"{self.name}: records of nodes have times, but the timestamps of the tuples are numbers without a unit; "
                "expected --time-unit, the unit in which they count from 1970",
                file=self.name,
            )

    def batches(self, *, integers: bool) -> Iterator[pa.RecordBatch]:
        """Yield the records; where vertices are `integers`, their names are too."""
        for batch in self.input:
            if not self.has_times and pc.any(pc.not_equal(batch.column("timestamp"), NO_TIME)).as_py():
                raise InputError(
                    f"{self.name}: a record has a timestamp, but the first records have none; expected it in the first one",
                    file=self.name,
                    column="timestamp",
                )
            yield with_integers(batch, self.name) if integers else batch


_INTEGER = r"^[+-]?[0-9]{1,18}$"


def are_integers(batch: pa.RecordBatch) -> bool:
    """Return whether the vertices of all records are integers."""
    return bool(pc.all(pc.match_substring_regex(batch.column("source"), _INTEGER)).as_py())


def with_integers(batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
    """Return records with integers as vertices."""
    texts = batch.column("source")
    is_integer = numpy_array(pc.match_substring_regex(texts, _INTEGER))
    if not is_integer.all():
        name = texts[int(np.argmin(is_integer))].as_py()
        message = f"the node {name!r} is not an integer, as the vertices of the tuples are (--vertices text makes them text)"
        raise InputError(f"{file}: {message}", file=file, column="node")
    vertices = texts.cast(pa.int64())
    names = batch.schema.names
    for column in ("source", "target"):
        batch = batch.set_column(names.index(column), column, vertices)
    return batch


class NodeMerge(ReaderWrapper):
    """The tuples of a reader, merged by time with the records of files."""

    def __init__(self, reader: Reader, files: Sequence[NodeFile]) -> None:
        super().__init__(reader)
        self._files = tuple(files)

    @property
    def rejected(self) -> int:
        return super().rejected + sum(one.input.rejected for one in self._files)

    @property
    def rejections(self) -> list[str]:
        return [*super().rejections, *(text for one in self._files for text in one.input.rejections)][:REJECTION_MESSAGES]

    @property
    def warnings(self) -> list[str]:
        return [*super().warnings, *(text for one in self._files for text in one.input.warnings)]

    def __iter__(self) -> Iterator[Batch]:
        batches = iter(self._reader)
        first = next(batches, None)
        integers = first is not None and pa.types.is_integer(first.columns.schema.field("source").type)
        tuples: Iterable[Batch] = batches if first is None else chain([first], batches)
        streams = [one.batches(integers=integers) for one in self._files]
        for rows in merge_by_heads([*streams, (batch.columns for batch in tuples)]):
            yield Batch(columns=rows, bytes_read=self.bytes_read)
