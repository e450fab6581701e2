"""Detection of the layout of a file from its first data lines: header, separator, JSON, integers or times.

`rpq.readers.edges` documents the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rpq.errors import did_you_mean
from rpq.language.predicate import ColumnKind, Predicate, tuple_kinds
from rpq.language.where import Where
from rpq.readers.column_names import EVENT, ColumnNames, check_delete_columns
from rpq.readers.key_paths import MISSING, names_in, value_at
from rpq.readers.source import LineBlock
from rpq.readers.text.changes import ChangeParser, unsupported_form
from rpq.readers.text.edge_rules import EdgeReader, EdgeRules, RecordParser, json_records
from rpq.readers.text.jsonlines import JsonLayout, JsonLines, read_object
from rpq.readers.text.line_layout import FURTHER, INTEGER, LineLayout, split_line
from rpq.readers.text.parsing import BlockParser, LineError, LineParser, Rows, data_records
from rpq.readers.text.textfile import DetectedFormat, TextSource, detect_file, line_error
from rpq.stream.arrays.fields import DEFAULT_UNIT, EDGE, STREAM, FieldError, quote_value, time_kind


def with_times(layout: LineLayout, block: LineBlock, *, unit: str) -> LineLayout | None:
    """Return the layout with the kind of the first timestamp in the block, or None if no line has a timestamp.

    >>> line = LineLayout(separator=",", fields=("source", "target", "timestamp"))
    >>> with_times(line, LineBlock(b"a,b,2024-05-01T12:00Z", 1), unit="s").times
    'aware'
    """
    if "timestamp" not in layout.fields:
        return layout
    place = layout.fields.index("timestamp")
    for _, line in data_records(block, layout):
        try:
            texts = split_line(line, layout.separator, quotes=layout.quotes)
        except FieldError:
            continue
        text = texts[place].strip(" \t") if len(texts) in layout.widths else ""
        if INTEGER.fullmatch(text):
            return layout
        kind = time_kind(text)
        if kind is not None:
            return replace(layout, times=kind, time_unit=unit)
    return None


class PipeParser:
    """A parser for the lines of a pipe, whose layout is known except for the kind of its timestamps."""

    def __init__(self, layout: LineLayout, *, unit: str) -> None:
        self.layout = layout
        self._unit = unit
        self._parser: LineParser | None = None

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        if self._parser is None:
            layout = with_times(self.layout, block, unit=self._unit)
            self._parser = None if layout is None else LineParser(layout)
        return (self._parser or LineParser(self.layout)).parse(block, stop=stop)


SEPARATORS = ("\t", ",", " ")


@dataclass(frozen=True, kw_only=True)
class FileSample:
    """Properties of the beginning of a file: the kind of its timestamps and, for JSON, the layout and some keys."""

    times: str = "integers"
    json: JsonLayout
    keys: tuple[str, ...] = ()


def detect(line: bytes, separators: Sequence[str] = SEPARATORS) -> DetectedFormat:
    """Detect the layout of a file from its first data line; raise `FieldError` if that is impossible.

    >>> detect(b"timestamp,source,target,label").parser.layout.fields
    ('timestamp', 'source', 'target', 'label')
    >>> detect(b"1 2 knows 17").parser.layout.separator
    ' '
    """
    layout, names = line_layout(line, ColumnNames(), separators)
    return DetectedFormat(parser=LineParser(layout), is_header=bool(names), quoted=layout if layout.has_quotes else None)


def line_layout(line: bytes, columns: ColumnNames, separators: Sequence[str] = SEPARATORS) -> tuple[LineLayout, list[str]]:
    """Return the layout of the lines of a file, and the names of its columns if its first line is a header."""
    cuts: dict[str, list[str]] = {}
    for separator in separators:
        try:
            cuts[separator] = [text.strip() for text in split_line(line, separator, quotes=True)]
        except FieldError:
            continue
    for separator, names in cuts.items():
        header_names = {*names, *(name.lower() for name in names)}
        if {columns[column] for column in columns.required_columns} <= header_names:
            places: dict[int, str] = {}
            for column, place in columns.places(names, any_case=True).items():
                if (other := places.setdefault(place, column)) != column:
                    message = f"is both {other} and {column}; in a file of fields each needs one of its own"
                    raise FieldError(message, names[place])
            fields = tuple(places.get(place, "") for place in range(len(names)))
            return LineLayout(separator=separator, fields=fields, quotes=True), names
    names = max(cuts.values(), key=len, default=[])
    fields, optional = _headerless_fields(columns)
    hint = _unsupported_text_hint(line, names)
    # Without a timestamp, any three words can be a tuple. Only a line that lacks the number can be recognised as a header.
    needs_header = bool(columns.renamed) or columns.has_events or (columns.timed and columns.is_header(names))
    if needs_header and not hint:
        columns.places(names, any_case=True)  # raises an error with the missing columns
    for separator, texts in cuts.items() if not needs_header else ():
        if len(fields) - optional <= len(texts) <= len(fields):
            return LineLayout(separator=separator, fields=fields, optional=optional, quotes=True), []
    raise FieldError(
        f"the first line does not determine the columns: expected {', '.join(columns.columns[:-1])} and optionally op, "
        "separated by tabs, commas or blanks, or a header with these names (delete in place of op is true or false)"
        f"{hint or _missing_label_hint(cuts.values(), fields, optional, columns)}"
    )


def _unsupported_text_hint(line: bytes, names: Sequence[str]) -> str:
    """Return advice for a first line in an unsupported notation, or an empty text for any other line."""
    if line.startswith(b"PK\x03\x04"):
        return "; this is a ZIP archive, as a workbook of Excel is: save the sheet as CSV, or unpack the archive"
    if b"\0" in line:
        return "; this line contains zero bytes, as in UTF-16: convert the file to UTF-8"
    if line.lstrip(b" \t").startswith((b"[", b"{")):
        return "; this line is a part of a JSON document: write one object per line"
    if b"\r" in line:
        return "; its lines end with carriage returns alone: convert them to line feeds, as with tr '\\r' '\\n'"
    if line.lower().startswith(b"sep="):
        return "; this line tells Excel the separator: leave it out"
    for mark, name in ((b";", "semicolons"), (b"|", "bars")):
        if line.count(mark) >= max(2, len(names)):
            return f"; this line contains {name}: use commas or tabs instead"
    return ""


def _missing_label_hint(cuts: Iterable[Sequence[str]], fields: Sequence[str], optional: int, columns: ColumnNames) -> str:
    """Return advice for a first line that lacks one field, which may be the label, or an empty text for any other line."""
    lacks_one = any(len(texts) == len(fields) - optional - 1 for texts in cuts)
    if lacks_one and "label" in fields and not columns.fixed:
        return "; if the lines have no label, set one with --label LABEL"
    return ""


def _headerless_fields(columns: ColumnNames) -> tuple[tuple[str, ...], int]:
    """Return the fields of lines without a header, and the number of optional fields at the end."""
    if columns.timed:
        return columns.columns, 1
    return (*columns.columns[:-1], "", "op"), 2  # the timestamp may be present, but is not read


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Detects the layout of a file from its first data line, under the options of the reader.

    `sample` is the beginning of the file, or None if there is none, as for a pipe.  With `rules` each line is a
    record, from which the rules make edges.
    """

    columns: ColumnNames
    where: Where | None = None
    only_json: bool = False
    time_unit: str | None = None
    sample: FileSample | None = None
    rules: EdgeRules | None = None
    filters: frozenset[str] = frozenset()
    """The names that the condition uses, for a sample, which has no `where`."""

    def __call__(self, line: bytes) -> DetectedFormat:
        if self.rules is not None:
            return self._records(self.rules, line)
        if self.only_json or _is_json(line):
            return self._json(line)
        layout, names = line_layout(line, self.columns)
        predicate = None
        if self.where is not None:
            layout, predicate = self._with_condition(self.where, layout, names)
        layout = replace(self._with_properties(layout, names), trim=self.columns.trim)
        parser: BlockParser
        if self.sample is None and self.time_unit is not None and self.columns.time_format is None:
            parser = PipeParser(layout, unit=self.time_unit)
        else:
            layout = replace(layout, times=self.times, time_unit=self.unit)
            parser = LineParser(layout)
        quoted = layout if layout.has_quotes else None
        warnings = self.columns.deletes_not_read(names, self._condition_names)
        return DetectedFormat(
            parser=parser,
            is_header=bool(names),
            quoted=quoted,
            predicate=predicate,
            properties={name: column for name, column in self._property_columns.items() if column in layout.fields},
            warnings=warnings,
        )

    @property
    def times(self) -> str:
        """The kind of the timestamps; integers if it is unknown."""
        return self.columns.time_format or ("integers" if self.sample is None else self.sample.times)

    @property
    def unit(self) -> str:
        """The unit to which times in text are converted."""
        return self.time_unit or DEFAULT_UNIT

    def with_sample_of(self, path: str | TextSource, *, stop: bool) -> Detection:
        """Return the detection with a sample of the beginning of a file, or of a text that can be read again.

        Raises `WhereError` if the condition does not fit the file, and `InputError` if its beginning does not determine
        the columns (unless bad lines are skipped; then only if the file lacks columns that the user has named).
        """
        json = JsonLayout(names=self.columns, further=self._further_keys(), time_unit=self.unit)
        sample = FileSample(json=json)
        name = path if isinstance(path, str) else path.name
        errors: list[LineError] = []
        found = detect_file(path, replace(self, where=None, filters=self._condition_names), errors.append)
        if errors and (stop or (found is None and self._needs_columns)):
            raise line_error(name, errors[0])  # before any other error of a run
        if found is not None:
            parser, block = found[0].parser, found[1]
            if isinstance(parser, RecordParser):
                list(parser.parse(block, stop=False))
                is_json = isinstance(parser.inner, JsonLines)
                keys = _keys(block.data, parser.reader.names) if is_json else parser.reader.names
                sample = replace(sample, times=parser.reader.times or "integers", keys=keys)
            if isinstance(parser, JsonLines):
                json = replace(parser.layout, further=json.further)
                names = () if self.where is None else self.where.names
                sample = FileSample(json=json, times=json.times, keys=_keys(block.data, names))
            elif isinstance(parser, LineParser | PipeParser):
                is_known = self.columns.time_format is not None
                layout = parser.layout if is_known else with_times(parser.layout, block, unit=self.unit)
                if layout is None and stop:
                    _check_first_line(name, parser.layout, block)
                sample = FileSample(json=json, times="integers" if layout is None else layout.times)
        detection = replace(self, sample=sample)
        if self.where is not None:
            detect_file(path, detection, lambda bad: None)
        return detection

    def _records(self, rules: EdgeRules, line: bytes) -> DetectedFormat:
        """Return the format of a file whose records become edges: JSON lines, or fields with a header."""
        kinds = self._tuple_kinds("text")
        further = tuple(sorted(self.where.names - set(kinds))) if self.where is not None else ()
        times = None if self.sample is None else self.sample.times
        reader = EdgeReader(rules, self.columns, unit=self.unit, times=times, further=further)
        layout = None
        if rules.changes is not None:
            changes = ChangeParser(reader, has_ids=self.columns.has_ids, unit=self.time_unit)
            if line.strip() != b"null" and not _is_json(line):
                raise FieldError(unsupported_form("fields").args[0])
            if line.strip() != b"null":
                changes.check_first(line)
            parser: RecordParser = changes
        elif self.only_json or _is_json(line):
            check_delete_columns(read_object(line), {*reader.names, *self._condition_names}, rules.file)
            parser = RecordParser(json_records(reader), reader)
        else:
            layout = replace(_record_layout(line, reader, self._condition_names), trim=self.columns.trim)
            parser = RecordParser(LineParser(layout), reader)
        predicate = None
        if self.where is not None:
            there = further if self.sample is None or rules.changes is not None else self.sample.keys
            untyped = {name: ColumnKind(key=FURTHER + name, kind="untyped") for name in there if name not in kinds}
            predicate = Predicate(self.where, {**kinds, **untyped})
        return DetectedFormat(
            parser=parser,
            is_header=layout is not None,
            quoted=layout if layout is not None and layout.has_quotes else None,
            predicate=predicate,
            properties={name: FURTHER + name for name in self.columns.properties},
            warnings=() if self.sample is None or rules.changes is not None else rules.misspelt(self.sample.keys),
        )

    def _json(self, line: bytes) -> DetectedFormat:
        if self.sample is not None:
            layout = self.sample.json
        else:
            layout = JsonLayout(names=self.columns, further=self._further_keys(), time_unit=self.unit)
            layout = layout.with_detected_kinds(line)
        predicate = None
        if self.where is not None:
            kinds = self._tuple_kinds("number" if layout.integers else "text")
            keys = self.where.names if self.sample is None else self.sample.keys
            further = {key: ColumnKind(key=FURTHER + key, kind="untyped") for key in keys if key not in kinds}
            predicate = Predicate(self.where, {**kinds, **further})
        warnings = self.columns.deletes_not_read(_keys(line), self._condition_names) if b"__" in line else ()
        return DetectedFormat(
            parser=JsonLines(layout), predicate=predicate, properties=self._property_columns, warnings=warnings
        )

    @property
    def _condition_names(self) -> frozenset[str]:
        return self.filters if self.where is None else self.where.names

    def _further_keys(self) -> tuple[str, ...]:
        """Return the keys of objects that a condition or a property uses in addition to those of a tuple."""
        keys = {self.columns[name] for name in self.columns.properties}
        if self.where is not None:
            keys |= self.where.names - set(self._tuple_kinds("text"))
        return tuple(sorted(keys))

    @property
    def _needs_columns(self) -> bool:
        """True if the user has named columns that a file may lack."""
        return bool(self.columns.renamed or self.columns.has_events or self.columns.properties)

    @property
    def _property_columns(self) -> dict[str, str]:
        """The columns of rows that have properties."""
        return {name: FURTHER + self.columns[name] for name in self.columns.properties}

    def _with_properties(self, layout: LineLayout, names: list[str]) -> LineLayout:
        """Add the columns of properties. Raises `FieldError` for one that is missing."""
        fields = list(layout.fields)
        for name in (self.columns[name] for name in self.columns.properties):
            if name not in names and self.columns.fixed:
                continue  # a property that a posted tuple lacks is null
            if names.count(name) != 1:
                found = f"found {', '.join(map(quote_value, names))}{did_you_mean(name, names)}" if names else (
                    "the file has no header that names its columns"
                )
                reason = f"occurs {names.count(name)} times" if names.count(name) else "is missing"
                raise FieldError(f"{reason}; {self.columns.use_of(name)}, and {found}", name)
            place = names.index(name)
            if fields[place] not in ("", FURTHER + name):
                raise FieldError(f"is the column {fields[place]} of tuples, and cannot also be a property of edges", name)
            fields[place] = FURTHER + name
        edge = FURTHER + self.columns[EDGE] if self.columns.has_ids and FURTHER + self.columns[EDGE] in fields else ""
        return replace(layout, fields=tuple(fields), edge=edge)

    def _with_condition(self, where: Where, layout: LineLayout, names: list[str]) -> tuple[LineLayout, Predicate]:
        """Add the columns that a condition uses; an input's names take precedence over a tuple's."""
        kinds = self._tuple_kinds("text")
        fields = list(layout.fields)
        for column in (STREAM, EVENT):
            if column not in fields:
                kinds.pop(column, None), kinds.pop(self.columns[column], None)
        for place, name in enumerate(names):
            if fields[place]:
                kinds[name] = kinds[fields[place]]
        own = {name for place, name in enumerate(names) if fields[place]}
        for place, name in enumerate(names):
            if name and not fields[place] and name not in own:
                if name in where.names:
                    if names.count(name) > 1:
                        raise where.error(f"column {name!r} occurs twice in the header", 1)
                    fields[place] = FURTHER + name
                kinds[name] = ColumnKind(key=FURTHER + name, kind="untyped")
        return replace(layout, fields=tuple(fields)), Predicate(where, kinds)

    def _tuple_kinds(self, vertex: str) -> dict[str, ColumnKind]:
        """Return the columns of a tuple, under their own names and those of the input."""
        unit = self.time_unit if self.times == "integers" else self.unit
        kinds = tuple_kinds(vertex=vertex, unit=unit)
        if self.columns.has_events:
            kinds[EVENT] = ColumnKind(key=EVENT, kind="text")
        return {**kinds, **{self.columns[column]: kinds[column] for column in self.columns.accepted_columns}}


def _record_layout(line: bytes, reader: EdgeReader, condition: Collection[str]) -> LineLayout:
    """Return the layout of lines with this header, whose records become edges.  Raises `FieldError`."""
    cuts: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        with suppress(FieldError):
            cuts[separator] = [text.strip() for text in split_line(line, separator, quotes=True)]
    separator = max(cuts, key=lambda one: len({*cuts[one]} & {*reader.names}))
    names = cuts[separator]
    check_delete_columns(names, {*reader.names, *condition}, reader.rules.file)
    for rule in reader.rules.all_rules:
        for key, name in rule.names.items():
            if names.count(name) != 1:
                what = f"{key} of {rule} in {reader.rules.file}"
                reason = f"occurs {names.count(name)} times in the header" if name in names else "is missing in the header"
                raise FieldError(f"{reason}; it is the {what}; found {', '.join(names)}{did_you_mean(name, names)}", name)
    missing = [name for name in reader.names if names.count(name) != 1]
    if missing:
        hint = did_you_mean(missing[0], names)
        raise FieldError(f"is missing in the header; a condition or a query reads it{hint}", missing[0])
    fields = tuple(FURTHER + name if name in reader.names else "" for name in names)
    return LineLayout(separator=separator, fields=fields, quotes=True)


def _check_first_line(path: str, layout: LineLayout, block: LineBlock) -> None:
    """Raise `InputError` for the first line of a file, if it has no tuple."""
    for number, line in data_records(block, layout):
        try:
            layout.read(line)
        except FieldError as error:
            raise line_error(path, LineError(line=number, error=error)) from error
        return


def _is_json(line: bytes) -> bool:
    """Return whether a line is a JSON object."""
    if not line.lstrip(b" \t").startswith(b"{"):
        return False
    try:
        read_object(line)
    except FieldError:
        return False
    return True


def _keys(data: bytes, names: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of the values in some lines, and those of `names` that are there."""
    keys: dict[str, None] = {}
    for line in data.split(b"\n"):
        try:
            found = read_object(line)
        except FieldError:
            continue
        keys.update(dict.fromkeys(names_in(found)))
        keys.update(dict.fromkeys(name for name in names if value_at(found, name, MISSING) is not MISSING))
    return tuple(keys)
