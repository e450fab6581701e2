"""Files that appear in a folder as a streaming data frame of edges: Parquet, which Spark reads, and text.

Text is read by tasks, line by line as by `rpq run`: the first data line of each file determines its layout, by the rules of
`rpq.readers.edges`.  A task reads a whole file, because only the text before a line says whether it begins within quotes.

The first files determine the types of the columns.  These are stored in the checkpoint, so that a stream that continues has
the same types, whatever its folder contains by then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import InMemorySource
from rpq.readers.source import BYTE_ORDER_MARK, LineBlock, compression_by_suffix, count_lines
from rpq.readers.text.detection import Detection
from rpq.readers.text.line_layout import check_integer
from rpq.readers.text.textfile import BEGINNING_BYTES, TextFile
from rpq.spark.columns import has_usual_op, null_rows, quote_name
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.data_sets import lacks_op, with_op_of_files
from rpq.spark.line_blocks import check_is_text, line_rows, pieces_of
from rpq.spark.shipping import ShippedObject
from rpq.stream.arrays.fields import DELETE, EDGE, FieldError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.readers.text.edge_rules import EdgeRules

FILE = "rpq-files.json"
FORMAT = 1

WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(1 << 44),
    "spark.sql.files.openCostInBytes": str(1 << 44),
}
"""Settings of a session with which Spark passes each file to a task of its own, and divides none."""

_MAX_FILE_AGE = "365d"
"""How much older than the newest file that was read a file may be when it appears; older ones are ignored.

By default Spark ignores files that are a week older, such as copies that keep the time of the original.  It has the names of
all files of this age in memory.
"""


class FileEdges(NamedTuple):
    """A stream of edges, or of records for rules, with the columns of the files.

    `first_edges` returns the files that are there as a data frame with these columns; bad lines of text are rows of nulls.
    With `applied_rules` the rules have made the edges already.  `types` are those of the columns, for `store_types`.
    """

    edges: DataFrame
    first_edges: Callable[[], DataFrame]
    types: Mapping[str, Any]
    applied_rules: EdgeRules | None = None


def file_edges(
    session: SparkSession,
    folder: str,
    files: str,
    *,
    names: ColumnNames | None = None,
    rules: EdgeRules | None = None,
    sequence: str | None = None,
    has_ids: bool = False,
    on_error: str = "stop",
    max_files: int = 1,
    checkpoint: str | None = None,
    is_begun: bool = False,
) -> FileEdges:
    """Return a stream of the files that appear in a folder, the oldest first; `files` is the ending of their names.

    `names` are those of the columns, among them `edge` if edges have ids (`has_ids`); the column `sequence` has integers.
    With `rules` each line of text is a record.  A bad line of text ends the stream, or is a row of nulls if `on_error` is
    "skip".  A stream that has begun (`is_begun`) has the types that `store_types` wrote to its `checkpoint`, if any.

    Raises `PipelineError` for a folder without such files, unless the types are stored, and `InputError` if the first file
    does not determine the columns.
    """
    if not hadoop_files.is_folder(session, folder):
        raise PipelineError(f"{folder}: there is no such folder")
    stored = _stored_types(session, checkpoint, files) if checkpoint is not None and is_begun else None
    names_there = [name for name in hadoop_files.list_names(session, folder) if _has_ending(name, files)]
    if stored is None and not names_there:
        raise PipelineError(f"{folder}: has no .{files} file yet; the first file determines the columns")
    later = session.readStream.option("maxFilesPerTrigger", max_files).option("maxFileAge", _MAX_FILE_AGE)
    if files == "parquet":
        has_op = rules is None and has_usual_op(names)
        return _parquet_edges(session, later, folder, stored=stored, has_op=has_op)
    detection = _text_detection(names, rules, sequence=sequence, has_ids=has_ids)
    stops = on_error == "stop"
    try:
        types = stored or _types_of_text(session, folder, files, names_there, detection, stops=stops)
    except InputError as error:
        if sequence is None or error.column != sequence:
            raise
        raise PipelineError(f"sequence is {sequence!r}: {error}") from error
    return _text_edges(session, later, folder, detection, types, sequence=sequence, stops=stops)


def store_types(session: SparkSession, checkpoint: str, files: str, types: Mapping[str, Any]) -> None:
    """Write the types of the columns of files to the checkpoint of a stream, unless it has them.

    Call it after the identity of the stream has been compared: types of a stream that is refused would remain.
    """
    if _stored_types(session, checkpoint, files) != types:
        content = {"format": FORMAT, "files": files, "types": types}
        hadoop_files.write_text(session, hadoop_files.join(checkpoint, FILE), json.dumps(content) + "\n")


def _has_ending(name: str, files: str) -> bool:
    """Return whether Spark reads a file of this name, and the name has the ending, perhaps before that of a compression.

    >>> [_has_ending(name, "csv") for name in ("a.csv", "a.csv.gz", "_a.csv", "a.gz")]
    [True, True, False, False]
    """
    compression = compression_by_suffix(name)
    plain = name if compression is None else name.removesuffix(compression.suffix)
    return plain.endswith(files) and not name.startswith(("_", "."))


def _stored_types(session: SparkSession, checkpoint: str, files: str) -> dict[str, Any] | None:
    """Return the types in a checkpoint for files of this ending, or None.  Raises `PipelineError` if they are damaged."""
    path = hadoop_files.join(checkpoint, FILE)
    text = hadoop_files.read_text(session, path)
    if text is None:
        return None
    try:
        content = json.loads(text)
        version, of_files, types = content["format"], content["files"], dict(content["types"])
    except (ValueError, KeyError, TypeError) as problem:
        raise PipelineError(f"{path} is damaged: {problem}") from problem
    if version != FORMAT:
        raise PipelineError(f"{path} is of format {version}; this release reads format {FORMAT}")
    return types if of_files == files else None


def _parquet_edges(
    session: SparkSession, later: Any, folder: str, *, stored: dict[str, Any] | None, has_op: bool
) -> FileEdges:
    """Return the edges of Parquet files; with `has_op` the column op is that of each file (`with_op_of_files`)."""
    from pyspark.sql.types import StructType

    schema = session.read.parquet(folder).schema if stored is None else StructType.fromJson(stored)

    def existing() -> DataFrame:
        return session.read.schema(schema).parquet(folder)

    if has_op and lacks_op(schema):
        edges = with_op_of_files(later, folder, schema)
    else:
        edges = later.schema(schema).parquet(folder)
    return FileEdges(edges, existing, schema.jsonValue())


def _text_detection(
    names: ColumnNames | None, rules: EdgeRules | None, *, sequence: str | None, has_ids: bool
) -> Detection:
    """Return the detection of the layout of a file, which reads the ids of edges and the sequence like properties."""
    columns = names or ColumnNames()
    properties = [EDGE] if has_ids else []
    if sequence is not None and rules is not None:
        properties.append(sequence)
    elif sequence is not None:  # whatever the columns of tuples are called
        properties.append(_SEQUENCE)
        columns = replace(columns, renamed=(*columns.renamed, (_SEQUENCE, sequence)))
    columns = replace(columns, properties=tuple(properties))
    detection = Detection(columns=columns, time_unit="us", rules=rules)
    if sequence in _output_columns(detection, None).values():
        raise PipelineError(f"sequence is {sequence!r}, which is a column of tuples; expected another column")
    return detection


def _types_of_text(
    session: SparkSession, folder: str, files: str, names: Iterable[str], detection: Detection, *, stops: bool
) -> dict[str, Any]:
    """Return the kind of timestamps, and whether vertices are integers, as in the first file that has a tuple.

    Raises `PipelineError` if all files are empty, and `InputError` for a first line that does not determine the columns.
    """
    types: dict[str, Any] | None = None
    for name in names:
        uri = hadoop_files.join(folder, name)
        if hadoop_files.is_folder(session, uri) or not (beginning := _beginning(session, uri)).strip():
            continue  # Spark does not read a folder in the folder
        text = InMemorySource(beginning, name=uri)
        sampled = detection.with_sample_of(text, stop=stops)
        assert sampled.sample is not None
        types = {"times": sampled.times, "integers": sampled.sample.json.integers}
        if any(batch.num_rows for batch in TextFile(text, detect=sampled, on_error="skip")):
            break
    if types is None:
        raise PipelineError(f"{folder}: its .{files} files are empty; expected a header")
    return types


def _beginning(session: SparkSession, uri: str) -> bytes:
    """Return the first lines of a file, whose first bytes must be those of text, without a byte order mark."""
    data = hadoop_files.first_bytes(session, uri, BEGINNING_BYTES)
    check_is_text(uri, data)
    end = len(data) if len(data) < BEGINNING_BYTES else data.rfind(b"\n") + 1 or len(data)
    return data[:end].removeprefix(BYTE_ORDER_MARK)


def _text_edges(
    session: SparkSession,
    later: Any,
    folder: str,
    detection: Detection,
    types: Mapping[str, Any],
    *,
    sequence: str | None,
    stops: bool,
) -> FileEdges:
    """Return the edges of text files, with times in place of numbers if their timestamps are times."""
    from pyspark.sql import functions as sql

    columns = _output_columns(detection, sequence)
    vertex = "bigint" if types["integers"] else "string"
    kinds = {"source": vertex, "target": vertex, "timestamp": "bigint", DELETE: "boolean", _SEQUENCE: "bigint"}
    schema = ", ".join(f"{quote_name(name)} {kinds.get(column, 'string')}" for column, name in columns.items())

    def edges_of(reader: Any, *, stops: bool) -> DataFrame:
        read = TextEdges(detection, columns, times=types["times"], integers=types["integers"], stops=stops)
        edges: DataFrame = line_rows(reader, folder).mapInArrow(read, schema)
        if types["times"] == "integers":
            return edges
        stamp = columns["timestamp"]
        return edges.withColumn(stamp, sql.timestamp_micros(sql.col(quote_name(stamp))))

    edges = edges_of(later, stops=stops)
    return FileEdges(edges, lambda: edges_of(session.read, stops=False), types, detection.rules)


_SEQUENCE = "sequence"


def _output_columns(detection: Detection, sequence: str | None) -> dict[str, str]:
    """Return the names of the columns of edges, which are those in the files, by the columns of tuples."""
    names = detection.columns
    of_tuples = [column for column in names.columns if column != "op"]
    renamed = dict(names.renamed)
    deletes = [column for column in ("op", DELETE) if column in names.accepted_columns]
    of_tuples += [column for column in deletes if column in renamed] or deletes[:1]
    found = {column: names[column] for column in of_tuples}
    if names.has_ids:
        found[EDGE] = names[EDGE]
    return found if sequence is None else {**found, _SEQUENCE: sequence}


class TextEdges(ShippedObject):
    """A function for `mapInArrow` that turns the lines of whole text files (`line_rows`) into edges.

    `columns` are the names of the columns of edges, by those of tuples.  `times` is the kind of the timestamps of all
    files, and `integers` says whether vertices are integers.  With `stops` a bad line raises `InputError`; otherwise it is
    a row of nulls.
    """

    def __init__(
        self, detection: Detection, columns: Mapping[str, str], *, times: str, integers: bool, stops: bool
    ) -> None:
        self._detection = detection
        self._columns = dict(columns)
        self._times = times
        self._integers = integers
        self._stops = stops

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece, texts in pieces_of(batches):
            if piece.start or not piece.is_last:
                settings = " and ".join(WHOLE_FILES)
                raise InputError(
                    f"{piece.file}: is divided between tasks, but a stream reads whole files of text; leave out the "
                    f"settings {settings}",
                    file=piece.file,
                )
            yield from self._edges(piece.file, texts)

    def _edges(self, file: str, texts: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
        first = b""
        while len(first) < BEGINNING_BYTES and (text := next(texts, b"")):
            first += text
        detection = self._detection_of(file, first)
        lines = _Lines(file, chain([first], texts))
        on_error = "stop" if self._stops else "skip"
        tuples = TextFile(lines, detect=detection, on_error=on_error, label=detection.columns.constant_label)
        for batch in tuples:
            yield self._batch(file, batch)
        if tuples.rejected:
            vertex = pa.int64() if self._integers else pa.string()
            kinds = {"timestamp": pa.int64(), DELETE: pa.bool_(), _SEQUENCE: pa.int64(), "source": vertex, "target": vertex}
            types = [(name, kinds.get(column, pa.string())) for column, name in self._columns.items()]
            yield null_rows(pa.schema(types), tuples.rejected)

    def _detection_of(self, file: str, first: bytes) -> Detection:
        """Return the detection for a file with these first lines, whose timestamps are those of the stream.

        Raises `InputError` for a file that cannot be read together with the first one.
        """
        cut = first.find(b"\n", BEGINNING_BYTES) + 1 or len(first)
        detection = self._detection.with_sample_of(InMemorySource(first[:cut], name=file), stop=self._stops)
        assert detection.sample is not None
        if detection.times not in ("integers", self._times):
            kinds = {"integers": "numbers", "naive": "times without a zone", "aware": "times with a zone"}
            raise InputError(
                f"{file}: its timestamps are {kinds[detection.times]}, those of the first file {kinds[self._times]}; all "
                "files of a stream must agree",
                file=file,
                column="timestamp",
            )
        sample = detection.sample
        sample = replace(sample, times=self._times, json=replace(sample.json, times=self._times))
        return replace(detection, sample=sample)

    def _batch(self, file: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_integer = pa.types.is_integer(batch.column("source").type)
        if is_integer != self._integers:
            kinds = ("text", "integers")
            raise InputError(
                f"{file}: vertices are {kinds[is_integer]}, but {kinds[self._integers]} in the first file; all files of a "
                "stream must agree",
                file=file,
                column="source",
            )
        found = {name: batch.column(name) for name in batch.schema.names}
        deletes = found.get(DELETE, pa.nulls(batch.num_rows, pa.bool_())).fill_null(False)
        found |= {DELETE: deletes, "op": pc.if_else(deletes, "-", "+")}
        for name in ("label", EDGE):
            if name in found:
                found[name] = found[name].cast(pa.string())
        if _SEQUENCE in self._columns:
            name = self._columns[_SEQUENCE]
            texts = found[_SEQUENCE if self._detection.rules is None else name]
            found[_SEQUENCE] = self._sequence(file, texts.cast(pa.string()), name)
        return pa.RecordBatch.from_pydict({name: found[column] for column, name in self._columns.items()})

    def _sequence(self, file: str, texts: pa.Array, name: str) -> pa.Array:
        """Return a column of text as integers; null for text that is none, unless it raises `InputError`."""
        if not pc.any(pc.invert(pc.match_substring_regex(texts, "^-?[0-9]{1,18}$"))).as_py():
            return texts.cast(pa.int64())
        values: list[int | None] = []
        for text in texts.to_pylist():
            try:
                values.append(None if text is None else check_integer(text, name))
            except FieldError as error:
                if self._stops:
                    raise InputError(f"{file}: column '{name}': {error.message}", file=file, column=name) from error
                values.append(None)
        return pa.array(values, pa.int64())


class _Lines:
    """The lines of a file, in blocks, as a source of text that is read once."""

    def __init__(self, name: str, texts: Iterable[bytes]) -> None:
        self.name = name
        self.position = 0
        self.size: int | None = None
        self._texts = texts

    def blocks(self, size: int) -> Iterator[LineBlock]:
        """Yield the blocks, regardless of `size`."""
        line = 1
        for text in self._texts:
            yield LineBlock(text, line)
            line += count_lines(text)
