"""Several edges of one record: the rules of `--edges-from FILE`.

    timestamp = "@timestamp"              # defaults of all edges

    [[edge]]
    label = "spawned"                     # or label_from = "event.action", a key of the record
    source = "process.parent.entity_id"
    target = "process.entity_id"
    when = "event.action = 'start'"       # in the language of --where
    [edge.properties]
    user = "user.name"

Keys are names as in `rpq.readers.key_paths`.  A record has the edges of the rules that apply to it, in the order of the
file.  A rule with `when` applies if the condition holds, and then a missing end is an error of the record.  A rule without
`when` applies if the record has both ends and the key of the label.  Vertices are text, numbers too, because a vertex may be
a number under one key and text under another.  Lists, objects and bytes cannot be vertices.  A delete is a record with
`op` or `delete`, keys of the record, or one for which the condition `delete_when` holds.  With `source_before = "#"` the
source `group:eng#member` is `group:eng`.

With events, `event` is the key of the event of an edge.  If no rule has it, each record is an event.

A table `[[node]]` makes a record of a node (`rpq.stream.nodes.node_rows`) in the same manner, before the edges of its
record:

    [[node]]
    node = "account_id"
    labels = ["Account"]                  # and labels_from = "kinds", a list or text with semicolons
    [node.properties]
    risk = "risk"

Of its values only `node` is needed; `op` is +, = or -.  In an object a missing key names no property, and null takes one
away.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count as count_from
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError, WhereError, did_you_mean
from rpq.language.predicate import ColumnKind, Predicate, UntypedColumn
from rpq.language.where import Where, parse_where
from rpq.readers.column_names import EVENT, ColumnNames
from rpq.readers.source import LineBlock
from rpq.readers.text.jsonlines import JsonLayout, JsonLines
from rpq.readers.text.line_layout import FURTHER, INTEGER, NO_ID, check_integer
from rpq.readers.text.parsing import BlockParser, LineError, LineParser, Rows, data_lines, data_records
from rpq.stream.arrays.fields import (
    DELETE,
    EDGE,
    STREAM,
    FieldError,
    check_time,
    format_hint,
    quote_value,
    time_kind,
    times_of,
)
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.arrays.values import booleans_of_text
from rpq.stream.nodes.node_rows import LABELS_TYPE, NODE, RECORD, record_rows
from rpq.stream.nodes.node_table import NO_TIME, OWN_COLUMNS

_ENDS = ("source", "target")
_NAMES = (*_ENDS, "timestamp", "label_from", "op", DELETE, STREAM, EVENT, "id")
"""The keys of a rule whose values are names of values in a record."""

_CONDITIONS = ("when", "delete_when")
_DELETES = ("op", DELETE, "delete_when")
"""The keys of which one says which edges are deletes."""

_CUTS = tuple(f"{end}_before" for end in _ENDS)
_KEYS = ("label", *_NAMES, *_CUTS, *_CONDITIONS, "properties")

_NODE_NAMES = ("node", "labels_from", "timestamp", "op", DELETE)
_NODE_KEYS = (*_NODE_NAMES, "labels", *_CONDITIONS, "properties")

_WITHOUT_EDGE = ", or --edges-from with a rule for this edge, which is left out where a value is missing"

_BATCHES = count_from()
"""The numbers of batches of records in this process, so that no two records have the same event."""


@dataclass(frozen=True, kw_only=True)
class EdgeRule:
    """One edge of a record: the `names` of its values by column, a label if it is constant, and a condition."""

    number: int
    names: Mapping[str, str]
    label: str | None = None
    cuts: Mapping[str, str] = field(default_factory=dict)
    """Texts by end: a vertex is the part of the value before the first such text."""
    conditions: Mapping[str, Where] = field(default_factory=dict)
    """Those of `when` and `delete_when`."""
    properties: Mapping[str, str] = field(default_factory=dict)
    is_required: bool = False
    """True if each record has this edge, so that a missing end is an error."""

    def __str__(self) -> str:
        return f"edge {self.number}" + (f" ({self.label!r})" if self.label is not None else "")

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns that an edge cannot lack."""
        return (*_ENDS, "label_from") if self.label is None else _ENDS


@dataclass(frozen=True, kw_only=True)
class NodeRule:
    """A record of a node: the `names` of its values by column, constant labels, properties, and a condition."""

    number: int
    names: Mapping[str, str]
    labels: tuple[str, ...] = ()
    conditions: Mapping[str, Where] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    is_required: bool = False
    """True if each record is one of a node, so that a missing vertex is an error."""

    def __str__(self) -> str:
        return f"node {self.number}"


@dataclass(frozen=True, kw_only=True)
class EdgeRules:
    """The rules of a file, in its order, of edges and of `nodes`; `digest` identifies their text.

    With `changes` records are changes of rows of a table, in one of the forms of `rpq.readers.text.changes`, and the
    rules make edges of the rows.

    >>> rules = EdgeRules.parse('''
    ... timestamp = "ts"
    ... [[edge]]
    ... label = "spawned"
    ... source = "parent.id"
    ... target = "id"
    ... ''', file="edges.toml")
    >>> [(str(rule), dict(rule.names)) for rule in rules.rules]
    [("edge 1 ('spawned')", {'source': 'parent.id', 'target': 'id', 'timestamp': 'ts'})]
    """

    rules: tuple[EdgeRule, ...]
    file: str
    digest: str
    changes: str | None = None
    nodes: tuple[NodeRule, ...] = ()

    @classmethod
    def of_columns(cls, names: ColumnNames, *, changes: str, timestamp: str) -> EdgeRules:
        """Return a single rule, by which each row is an edge with the columns that `names` maps.

        If no column has timestamps, they are the times of the changes, under the name `timestamp`.

        >>> names = ColumnNames.parse("source=payer,target=payee", label="paid")
        >>> dict(EdgeRules.of_columns(names, changes="debezium", timestamp="__source_ts_ms").rules[0].names)
        {'source': 'payer', 'target': 'payee', 'timestamp': '__source_ts_ms'}
        """
        renamed = dict(names.renamed)
        for column in ("op", DELETE):
            if column in renamed:
                raise InputError(f"{column}={renamed[column]}: --changes {changes} says which changes are deletes")
        of_rule = {end: names[end] for end in _ENDS} | {"timestamp": renamed.get("timestamp", timestamp)}
        if names.constant_label is None:
            of_rule["label_from"] = names["label"]
        if STREAM in renamed:
            of_rule[STREAM] = renamed[STREAM]
        if names.has_ids:
            of_rule["id"] = names[EDGE]
        properties = {name: names[name] for name in names.properties if name != EDGE}
        rule = EdgeRule(
            number=1, names=of_rule, label=names.constant_label, properties=properties, is_required=True
        )
        return cls(rules=(rule,), file="--columns", digest="", changes=changes)

    @classmethod
    def read(cls, path: str) -> EdgeRules:
        """Read a file of rules.  Raises `InputError`, which names the edge and the key.

        >>> EdgeRules.read("nothing.toml")
        Traceback (most recent call last):
        rpq.errors.InputError: nothing.toml: cannot be read: No such file or directory
        """
        try:
            with open(path, encoding="utf-8") as opened:
                text = opened.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
            raise InputError(f"{path}: cannot be read: {reason}") from error
        return cls.parse(text, file=path)

    @classmethod
    def parse(cls, text: str, *, file: str) -> EdgeRules:
        """Parse the text of a file of rules.

        >>> EdgeRules.parse("[[edge]]\\nlabel='l'\\nsource='from'", file="e.toml")
        Traceback (most recent call last):
        rpq.errors.InputError: e.toml: edge 1 ('l'), key 'target': is missing; expected the key of a record that has it
        """
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{file}: is not TOML: {error}") from error
        tables, node_tables = found.pop("edge", []), found.pop("node", [])
        for kind, of_kind in (("edge", tables), ("node", node_tables)):
            if not isinstance(of_kind, list) or not all(isinstance(one, dict) for one in of_kind):
                raise InputError(f"{file}: {kind} is no list of tables; expected [[{kind}]]")
        if not tables and not node_tables:
            raise InputError(f"{file}: has no edges; expected a table [[edge]] for each edge of a record, or [[node]]")
        _check_keys(found, f"{file}: the defaults")
        rules = tuple(_rule(number, {**found, **table}, found, table, file) for number, table in enumerate(tables, 1))
        nodes = tuple(_node_rule(number, found, table, file) for number, table in enumerate(node_tables, 1))
        return cls(rules=rules, nodes=nodes, file=file, digest=hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def identity(self) -> str:
        """A text that is the same for the same rules.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='from'\\ntarget='to'\\ntimestamp='ts'"
        >>> EdgeRules.parse(text, file="e.toml").identity == EdgeRules.parse(text + " ", file="e.toml").identity
        False
        """
        changes = f" of changes {self.changes}" if self.changes is not None else ""
        return (f"{os.path.abspath(self.file)} ({self.digest})" if self.digest else self.file) + changes

    @property
    def all_rules(self) -> tuple[EdgeRule | NodeRule, ...]:
        """The rules of edges and those of nodes."""
        return (*self.rules, *self.nodes)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The names of timestamps, each once.

        >>> text = "timestamp='ts'\\n[[edge]]\\nlabel='l'\\nsource='from.id'\\ntarget='to'\\n[[node]]\\nnode='to'"
        >>> EdgeRules.parse(text, file="e.toml").times
        ('ts',)
        """
        return tuple(dict.fromkeys(rule.names["timestamp"] for rule in self.all_rules if "timestamp" in rule.names))

    @cached_property
    def optional_names(self) -> frozenset[str]:
        """The names of properties of nodes, which a record without the key does not name."""
        return frozenset(name for rule in self.nodes for name in rule.properties.values())

    @cached_property
    def ends(self) -> frozenset[str]:
        """The names of values that must be neither objects nor lists.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='from.id'\\ntarget='to'\\ntimestamp='ts'"
        >>> sorted(EdgeRules.parse(text, file="e.toml").ends)
        ['from.id', 'to', 'ts']
        """
        names = {name for rule in self.rules for name in rule.names.values()}
        return frozenset(names | {name for rule in self.nodes for key, name in rule.names.items() if key != "labels_from"})

    def check_no_events(self) -> None:
        """Raise `InputError` for a rule that names an event.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='from'\\ntarget='to'\\ntimestamp='ts'\\nevent='batch'"
        >>> EdgeRules.parse(text, file="e.toml").check_no_events()
        Traceback (most recent call last):
        rpq.errors.InputError: e.toml: edge 1 ('l'), key 'event': is set, but events are not enabled; expected --events, \
or no such key
        """
        for rule in self.rules:
            if EVENT in rule.names:
                message = "is set, but events are not enabled; expected --events, or no such key"
                raise InputError(f"{self.file}: {rule}, key 'event': {message}")

    def all_names(self, properties: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all values that are read, for edges with these properties.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='from.id'\\ntarget='to'\\ntimestamp='ts'\\nproperties={sum='amount'}"
        >>> EdgeRules.parse(text, file="e.toml").all_names(["sum"])
        ('amount', 'from.id', 'to', 'ts')
        """
        names = self.ends | self.optional_names
        for one in self.all_rules:
            names = names.union(one.names.values(), *(condition.names for condition in one.conditions.values()))
        for rule in self.rules:
            names |= {of for name in properties if name != EDGE and (of := self.of_property(rule, name)) is not None}
        return tuple(sorted(names))

    def misspelt(self, names: Sequence[str]) -> list[str]:
        """Return a warning for each name that no record at the beginning of a file has, if records have a similar name.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='process.parnt'\\ntarget='to'\\ntimestamp='ts'"
        >>> EdgeRules.parse(text, file="e.toml").misspelt(["process.parent", "ts"])[0].partition(", ")[2]
        "the source of edge 1 ('l') in e.toml; did you mean 'process.parent'?"
        """
        return [
            f"no record at the beginning has {name!r}, the {key} of {rule} in {self.file}; did you mean {near[0]!r}?"
            for rule in self.all_rules
            for key, name in rule.names.items()
            if name not in names and (near := difflib.get_close_matches(name, names, n=1, cutoff=0.9))
        ]

    def of_property(self, rule: EdgeRule, name: str) -> str | None:
        """Return the name of the values of a property, or None if the edges of the rule do not have it.

        The rule may name them; otherwise the property has its own name, unless another rule names its values.

        >>> text = "[[edge]]\\nlabel='l'\\nsource='from.id'\\ntarget='to'\\ntimestamp='ts'\\nproperties={sum='amount'}"
        >>> rules = EdgeRules.parse(text, file="e.toml")
        >>> rules.of_property(rules.rules[0], "sum"), rules.of_property(rules.rules[0], "currency")
        ('amount', 'currency')
        """
        is_mapped = any(name in one.properties for one in self.rules)
        return rule.properties.get(name) if is_mapped else name


def _check_keys(table: Mapping[str, Any], place: str) -> None:
    for key in table:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS)
            raise InputError(f"{place}, key {key!r}: is not a key of an edge; expected {', '.join(_KEYS)}{hint}")


def _rule(
    number: int, table: dict[str, Any], defaults: Mapping[str, Any], own: Mapping[str, Any], file: str
) -> EdgeRule:
    for alternatives in (("label", "label_from"), _DELETES):
        if any(key in own for key in alternatives):
            # The others are defaults, which this edge overrides.
            table = {key: value for key, value in table.items() if key in own or key not in alternatives}
    label = table.get("label")
    place = f"{file}: edge {number}" + (f" ({label!r})" if isinstance(label, str) else "")
    _check_keys(table, place)
    for key, value in table.items():
        if key == "properties":
            continue
        if not isinstance(value, str) or not value:
            raise InputError(f"{place}, key {key!r}: is {value!r}; expected text")
    for key in (*_ENDS, "timestamp"):
        if key not in table:
            raise InputError(f"{place}, key {key!r}: is missing; expected the key of a record that has it")
    if ("label" in table) == ("label_from" in table):
        of_both = "occurs together with label_from; expected one of the two"
        problem = of_both if label else "is missing; expected it, or label_from"
        raise InputError(f"{place}, key 'label': {problem}")
    _check_deletes(table, place)
    properties = {**defaults.get("properties", {}), **own.get("properties", {})} if _are_tables(defaults, own) else None
    if properties is None or not all(isinstance(value, str) and value for value in properties.values()):
        raise InputError(f"{place}, key 'properties': expected a table of keys of a record, as in user = \"user.name\"")
    return EdgeRule(
        number=number,
        label=label,
        names={key: table[key] for key in _NAMES if key in table},
        cuts={end: table[key] for end, key in zip(_ENDS, _CUTS, strict=True) if key in table},
        conditions=_conditions(table, place),
        properties=properties,
    )


def _node_rule(number: int, defaults: Mapping[str, Any], own: Mapping[str, Any], file: str) -> NodeRule:
    """Return a rule of nodes, for which the defaults `timestamp` and `when` and those of deletes apply."""
    place = f"{file}: node {number}"
    inherited = ("timestamp", "when", *(() if any(key in own for key in _DELETES) else _DELETES))
    table = {key: value for key, value in defaults.items() if key in inherited} | dict(own)
    for key, value in table.items():
        if key not in _NODE_KEYS:
            hint = did_you_mean(key, _NODE_KEYS)
            raise InputError(f"{place}, key {key!r}: is not a key of a node; expected {', '.join(_NODE_KEYS)}{hint}")
        if key not in ("labels", "properties") and (not isinstance(value, str) or not value):
            raise InputError(f"{place}, key {key!r}: is {value!r}; expected text")
    if "node" not in table:
        raise InputError(f"{place}, key 'node': is missing; expected the key of a record that has the name of the vertex")
    _check_deletes(table, place)
    labels = table.get("labels", [])
    labels = [labels] if isinstance(labels, str) else labels
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise InputError(f"{place}, key 'labels': is {labels!r}; expected a list of texts, or labels_from = KEY")
    properties = table.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(name, str) and name for name in properties.values()):
        raise InputError(f"{place}, key 'properties': expected a table of keys of a record, as in risk = \"account.risk\"")
    for name in OWN_COLUMNS:
        if name in properties:
            raise InputError(f"{place}, key 'properties': {name} is no name of a property of nodes")
    return NodeRule(
        number=number,
        names={key: table[key] for key in _NODE_NAMES if key in table},
        labels=tuple(labels),
        conditions=_conditions(table, place),
        properties=properties,
    )


def _check_deletes(table: Mapping[str, Any], place: str) -> None:
    first, *others = [key for key in _DELETES if key in table] or [""]
    if others:
        raise InputError(f"{place}, key {first!r}: occurs together with {others[0]}; expected one of the two")


def _conditions(table: Mapping[str, Any], place: str) -> dict[str, Where]:
    found = {}
    for key in _CONDITIONS:
        try:
            if key in table:
                found[key] = parse_where(table[key])
        except WhereError as error:
            raise InputError(f"{place}, key {key!r}: {str(error).removeprefix('--where: ')}") from error
    return found


def _are_tables(*tables: Mapping[str, Any]) -> bool:
    return all(isinstance(table.get("properties", {}), dict) for table in tables)


@dataclass(frozen=True, kw_only=True)
class RecordEdges:
    """The edges of some records: columns, the position of the record of each edge, and the first error of bad records.

    A bad record has no edges.
    """

    columns: dict[str, pa.Array]
    records: np.ndarray
    errors: dict[int, FieldError]


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """The facts about changes of rows besides the rows: one value for each record.

    `deletes` marks records whose edges are deleted, at the time in `times` or, where it is null, at the time of the row.
    `replaced` marks records that are followed by the new version of the same row; if edges have ids, an edge of the new
    version replaces the edge with the same id.
    """

    deletes: np.ndarray
    replaced: np.ndarray
    times: pa.Array


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Values from outside of records, such as the keys of messages: by name, one for each record of a batch.

    `timestamps` are such values for rules that name them as the timestamp: Arrow's timestamps in the unit of the stream.

    >>> metadata = Metadata(values={"@key": pa.array(["x", "y"])})
    >>> metadata.take(np.array([1])).values["@key"].to_pylist()
    ['y']
    """

    values: Mapping[str, pa.Array] = field(default_factory=dict)
    timestamps: Mapping[str, pa.Array] = field(default_factory=dict)

    def take(self, records: np.ndarray) -> Metadata:
        """Return the metadata of some records."""
        places = pa.array(records)
        values, timestamps = ({name: one.take(places) for name, one in of.items()} for of in (self.values, self.timestamps))
        return Metadata(values=values, timestamps=timestamps)

    def skip(self, count: int) -> Metadata:
        """Return the metadata without that of the first `count` records."""
        values, timestamps = ({name: one.slice(count) for name, one in of.items()} for of in (self.values, self.timestamps))
        return Metadata(values=values, timestamps=timestamps)


class EdgeReader:
    """A reader that turns records into edges, a batch at a time, with the properties and ids that `columns` names.

    `kinds` are the kinds of the values of typed columns, by name; other columns have no type.  `times` is the kind of
    timestamps in text, or "integers"; it is None until the first timestamp, which decides.  Times become integers in
    `unit`.  `further` are names of values that the caller reads too.  `metadata` are names of values in `Metadata`.
    """

    def __init__(
        self,
        rules: EdgeRules,
        columns: ColumnNames,
        *,
        unit: str,
        kinds: Mapping[str, ColumnKind] | None = None,
        times: str | None = None,
        further: Iterable[str] = (),
        metadata: Iterable[str] = (),
    ) -> None:
        self.rules = rules
        self._further = tuple(further)
        self.names = tuple(sorted({*rules.all_names(columns.properties), *self._further}))
        self.metadata = frozenset(metadata)
        self.times = columns.time_format or times
        self._unit = unit
        self._has_ids = columns.has_ids
        self._has_events = columns.has_events
        self._properties = tuple(name for name in columns.properties if name != EDGE)
        kinds = kinds or {name: ColumnKind(key=FURTHER + name, kind="untyped") for name in self.names}
        self._predicates: dict[tuple[str, str], Predicate] = {}
        for rule in rules.all_rules:
            for key, condition in rule.conditions.items():
                try:
                    self._predicates[str(rule), key] = Predicate(condition, kinds)
                except WhereError as error:
                    reason = str(error).removeprefix("--where: ")
                    raise InputError(f"{rules.file}: {rule}, key {key!r}: {reason}") from error
        for rule in rules.rules if self._has_ids else ():
            if "id" not in rule.names:
                message = "is missing; where edges have ids (--edges id), each has one"
                raise InputError(f"{rules.file}: {rule}, key 'id': {message}")
        if not self._has_events:
            rules.check_no_events()
        if self._has_events and rules.nodes:
            raise InputError(f"{rules.file}: has rules of nodes, which are no part of an event; leave out --events")
        self._are_events = self._has_events and not any(EVENT in rule.names for rule in rules.rules)
        """True if each record is an event."""

    def read(
        self,
        records: Mapping[str, pa.Array],
        count: int,
        *,
        timestamps: Mapping[str, pa.Array] | None = None,
        changes: RowChanges | None = None,
    ) -> RecordEdges:
        """Return the edges of `count` records, whose values are in columns by name.  O(records · rules).

        `timestamps` are the columns of timestamps that are in the unit of the stream.  Where `records` has a column
        `NODE + name`, it says which records have a key of this name at all.
        """
        errors: dict[int, FieldError] = {}
        times = {**records, **(timestamps or {})}
        if self.times is None:
            self.times = self._kind_of_times(times)
        parts = [self._nodes(rule, records, times, count, errors, changes) for rule in range(len(self.rules.nodes))]
        parts += [self._edges(rule, records, times, count, errors, changes) for rule in range(len(self.rules.rules))]
        of_records = np.concatenate([part.pop("record") for part in parts])
        order = np.argsort(of_records, kind="stable")
        if errors:
            order = order[~np.isin(of_records[order], list(errors))]
        columns = {}
        properties = [FURTHER + name for name in (*self._properties, *((EDGE,) if self._has_ids else ()))]
        for name in dict.fromkeys((*(name for part in parts for name in part), *properties)):
            type_ = next((part[name].type for part in parts if name in part), pa.string())
            arrays = [part[name] if name in part else pa.nulls(len(part["source"]), type_) for part in parts]
            columns[name] = concatenate_mixed(arrays).take(pa.array(order))
        if RECORD in columns and not pc.any(columns[RECORD]).as_py():
            columns = {name: column for name, column in columns.items() if not name.startswith(NODE)}
        for name in ("label", STREAM, EVENT):
            if name in columns:
                columns[name] = columns[name].dictionary_encode()
        if not pc.any(columns[DELETE]).as_py():
            del columns[DELETE]
        if self._are_events:
            columns[EVENT] = pa.array((next(_BATCHES) << 32) + of_records[order])
        places = pa.array(of_records[order])
        further = {FURTHER + name: records[name].take(places) for name in self._further}
        return RecordEdges(columns={**further, **columns}, records=of_records[order], errors=errors)

    def _edges(
        self,
        number: int,
        records: Mapping[str, pa.Array],
        times: Mapping[str, pa.Array],
        count: int,
        errors: dict[int, FieldError],
        changes: RowChanges | None,
    ) -> dict[str, Any]:
        """Return the edges of a rule, with the positions of their records; add the first errors of records."""
        rule = self.rules.rules[number]
        applies = np.ones(count, np.bool_) if rule.is_required else self._applies(rule, records, count)
        if changes is not None and self._has_ids:
            applies = _leaving_by_id(texts_of_column(records[rule.names["id"]]), np.asarray(applies), changes)
        place = np.flatnonzero(applies)
        chosen = pa.array(place)
        own = {
            column: (times if column == "timestamp" else records)[name].take(chosen) for column, name in rule.names.items()
        }
        texts = {column: texts_of_column(own[column]) for column in own if column != "timestamp"}
        for end, text in rule.cuts.items():
            texts[end] = texts_of_column(pc.list_element(pc.split_pattern(texts[end], text, max_splits=1), 0))
        bad = _Problems(rule, place, errors)
        if changes is None:
            deletes, at = self._deletes(rule, records, place, bad), None
        else:
            deletes = changes.deletes[place]
            at = pc.if_else(pa.array(deletes), changes.times.take(chosen), pa.scalar(None, pa.int64()))
            if self._has_ids and len(self.rules.rules) > 1:
                # The edges of a row have its id, and would replace each other.
                texts["id"] = pc.binary_join_element_wise(texts["id"], str(rule.number), "#")
        by_id = np.zeros(len(place), np.bool_)
        if self._has_ids:
            has_id = numpy_array(texts["id"].is_valid())
            by_id = has_id & deletes
            bad.add("id", ~has_id & ~deletes, NO_ID)
        for column in rule.needed_columns:
            reason = "is missing or null; expected a value"
            reason += _WITHOUT_EDGE if rule.is_required else ", as the condition for this edge holds"
            bad.add(column, ~numpy_array(texts[column].is_valid()) & ~by_id, reason)
        constant = pa.array([rule.label], pa.string()).take(pa.array(np.zeros(len(place), np.int64)))
        label = constant if rule.label is not None else texts["label_from"]
        names = {
            "source": texts["source"],
            "target": texts["target"],
            "label": label,
            "timestamp": self._timestamps(own["timestamp"], bad, at),
            DELETE: pa.array(deletes),
            STREAM: texts.get(STREAM, pa.nulls(len(place), pa.string())),
        }
        if self._has_events and not self._are_events:
            names[EVENT] = texts.get(EVENT, pa.nulls(len(place), pa.string()))
        sources = {name: self.rules.of_property(rule, name) for name in self._properties}
        absent = pa.nulls(len(place), pa.string())
        properties = {
            FURTHER + name: absent if of is None else records[of].take(chosen) for name, of in sources.items()
        }
        ids = {FURTHER + EDGE: texts["id"]} if self._has_ids else {}
        return {**names, **properties, **ids, "record": place}

    def _nodes(
        self,
        number: int,
        records: Mapping[str, pa.Array],
        times: Mapping[str, pa.Array],
        count: int,
        errors: dict[int, FieldError],
        changes: RowChanges | None,
    ) -> dict[str, Any]:
        """Return the records of nodes of a rule, as `_edges` returns edges."""
        rule = self.rules.nodes[number]
        place = np.flatnonzero(self._has_node(number, records, count, changes))
        chosen = pa.array(place)
        own = {
            column: (times if column == "timestamp" else records)[name].take(chosen) for column, name in rule.names.items()
        }
        bad = _Problems(rule, place, errors)
        vertices = texts_of_column(own["node"])
        reason = "is missing or null; expected the name of a vertex"
        bad.add("node", numpy_array(vertices.is_null()), reason + ("" if rule.is_required else ", as the condition holds"))
        at = np.full(len(place), NO_TIME)
        if changes is not None:
            deletes = numpy_array(pa.array(changes.deletes[place]))
            ops: pa.Array | None = pa.array(np.where(deletes, "-", "=").tolist(), pa.string())
            of_changes = changes.times.take(chosen)
            rows = np.flatnonzero(deletes & numpy_array(of_changes.is_valid()))
            at[rows] = numpy_array(of_changes.take(pa.array(rows)))
        elif DELETE in own or "delete_when" in rule.conditions:
            ops = pc.if_else(pa.array(self._deletes(rule, records, place, bad)), "-", "+")
        elif "op" in own:
            ops = texts_of_column(own["op"]).fill_null("+")
            bad.add("op", ~numpy_array(pc.is_in(ops, pa.array(["+", "=", "-"]))), _NO_NODE_OP, ops)
        else:
            ops = None
        if "timestamp" in rule.names:
            column = own["timestamp"]
            is_text = pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)
            has_time = (texts_of_column(column) if is_text else column).is_valid()
            rows = np.flatnonzero(numpy_array(has_time) & (at == NO_TIME))
            at[rows] = numpy_array(self._timestamps(column.take(pa.array(rows)), bad.of_rows(rows)))
        values = {name: records[of].take(chosen) for name, of in rule.properties.items()}
        names = (NODE + of for of in rule.properties.values())
        named = {
            name: records[of].take(chosen) for name, of in zip(values, names, strict=True) if of in records
        }
        if "id" in values:
            ids = texts_of_column(values.pop("id"))
            wrong = numpy_array(pc.not_equal(ids, vertices).fill_null(False))
            reasons = {
                row: f"{quote_value(ids[row].as_py())} is not the name of the node {quote_value(vertices[row].as_py())}; "
                "the id of a node is its name"
                for row in np.flatnonzero(wrong).tolist()
            }
            bad.add_each(rule.properties["id"], reasons)
        labels = self._labels(rule, own.get("labels_from"), len(place), bad)
        rows_of_nodes = record_rows(vertices, pa.array(at), labels=labels, ops=ops, values=values, named=named)
        return {**rows_of_nodes, "record": place}

    def _has_node(
        self, number: int, records: Mapping[str, pa.Array], count: int, changes: RowChanges | None
    ) -> np.ndarray:
        """Return which records are records of nodes by a rule."""
        rule = self.rules.nodes[number]
        if rule.is_required:
            return np.ones(count, np.bool_)
        vertices = texts_of_column(records[rule.names["node"]])
        is_there = numpy_array(vertices.is_valid())
        applies = self._mask(rule, "when", records, count) if "when" in rule.conditions else is_there
        if changes is not None:
            # The row before an update is a node of its own only if the update renames it.
            is_same = numpy_array(pc.equal(vertices[:-1], vertices[1:]).fill_null(False)) & np.asarray(applies[1:])
            is_old = changes.replaced.copy()
            is_old[:-1] &= is_same
            applies = applies & ~is_old & (is_there | ~changes.deletes)
        return np.asarray(applies)

    def are_nodes(self, records: Mapping[str, pa.Array], count: int) -> np.ndarray:
        """Return which records are records of nodes, and give no edge."""
        found = np.zeros(count, np.bool_)
        for number in range(len(self.rules.nodes)):
            found |= self._has_node(number, records, count, None)
        for rule in self.rules.rules:
            found &= ~self._applies(rule, records, count)
        return found

    def _labels(self, rule: NodeRule, column: pa.Array | None, count: int, bad: _Problems) -> pa.Array | None:
        """Return the labels of records as lists, or None if there are none."""
        if column is None:
            return pa.array([list(rule.labels)] * count, LABELS_TYPE) if rule.labels else None
        is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        texts = column if is_list else texts_of_column(column).dictionary_encode()
        lists: list[list[str] | None] = []
        wrong: dict[int, str] = {}
        for place, value in enumerate((texts if is_list else texts.dictionary).to_pylist()):
            names = label_names(value)
            lists.append(None if names is None else [*rule.labels, *names])
            if names is None:
                wrong[place] = f"{quote_value(str(value))} is no list of labels; expected texts, or a text with semicolons"
        if is_list:
            bad.add_each("labels_from", wrong)
            return pa.array(lists, LABELS_TYPE)
        for place, reason in wrong.items():
            rows = np.flatnonzero(numpy_array(texts.indices.fill_null(-1)) == place).tolist()
            bad.add_each("labels_from", dict.fromkeys(rows, reason))
        found = pa.array(lists, LABELS_TYPE).take(texts.indices)
        return pc.coalesce(found, pa.scalar(list(rule.labels), LABELS_TYPE)) if rule.labels else found

    def _mask(self, rule: EdgeRule | NodeRule, key: str, records: Mapping[str, pa.Array], count: int) -> np.ndarray:
        """Return for which records a condition of a rule holds."""
        columns = {FURTHER + name: column for name, column in records.items()}
        return self._predicates[str(rule), key].mask(columns, count)[0]

    def _applies(self, rule: EdgeRule, records: Mapping[str, pa.Array], count: int) -> np.ndarray:
        """Return which records a rule applies to: by its condition, or those with the ends of an edge and deletes by id."""
        if "when" in rule.conditions:
            return self._mask(rule, "when", records, count)
        found = np.ones(count, np.bool_)
        for column in rule.needed_columns:
            found &= numpy_array(texts_of_column(records[rule.names[column]]).is_valid())
        if self._has_ids:
            rows = np.arange(count)
            has_id = numpy_array(texts_of_column(records[rule.names["id"]]).is_valid())
            found |= has_id & self._deletes(rule, records, rows, _Problems(rule, rows, {}))
        return found

    def _deletes(
        self, rule: EdgeRule | NodeRule, records: Mapping[str, pa.Array], rows: np.ndarray, bad: _Problems
    ) -> np.ndarray:
        """Return which of some rows are deletes."""
        if "delete_when" in rule.conditions:
            deletes: np.ndarray = self._mask(rule, "delete_when", records, len(next(iter(records.values()))))[rows]
            return deletes
        if "op" in rule.names:
            texts = texts_of_column(records[rule.names["op"]].take(pa.array(rows)))
            ops = texts.fill_null("+")
            wrong = ~numpy_array(pc.is_in(ops, pa.array(["+", "-"])))
            bad.add("op", wrong, "is not an operation; expected + or -", ops)
            return numpy_array(pc.equal(ops, "-"))
        if DELETE in rule.names:
            texts = texts_of_column(records[rule.names[DELETE]].take(pa.array(rows)))
            found = booleans_of_text(texts)
            wrong = numpy_array(found.is_null()) & numpy_array(texts.is_valid())
            bad.add(DELETE, wrong, "is not true or false", texts)
            return numpy_array(found.fill_null(False))
        return np.zeros(len(rows), np.bool_)

    def _kind_of_times(self, records: Mapping[str, pa.Array]) -> str | None:
        """Return the kind of the first timestamp in these records, whether or not it belongs to an edge, or None."""
        for name in self.rules.times:
            column = records[name].drop_null()
            if pa.types.is_temporal(column.type):
                continue
            texts = texts_of_column(column).drop_null()
            if len(texts):
                first = texts[0].as_py().strip(" \t")
                return "integers" if INTEGER.fullmatch(first) else time_kind(first) or "integers"
        return None

    def _timestamps(self, column: pa.Array, bad: _Problems, at: pa.Array | None = None) -> pa.Array:
        """Return timestamps in the unit of the stream, from `at` where it is not null, otherwise from the column."""
        if at is not None and at.null_count < len(at):
            is_own = pa.array(numpy_array(at.is_null()))
            rows = pa.array(np.flatnonzero(numpy_array(is_own)))
            own = self._timestamps(column.take(rows), bad.of_rows(numpy_array(rows)))
            return pc.replace_with_mask(at, is_own, own)
        is_text = pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)
        texts = texts_of_column(column) if is_text else column  # an empty one is null
        bad.add("timestamp", numpy_array(texts.is_null()), "is missing or null; expected a time")
        if pa.types.is_temporal(column.type) or pa.types.is_integer(column.type):
            if pa.types.is_date(column.type):
                column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
            if pa.types.is_temporal(column.type) or self.times in (None, "integers"):
                try:
                    return column.cast(pa.int64()).fill_null(0)
                except pa.ArrowInvalid:  # unsigned integers beyond 63 bits make their records bad, not the file
                    pass
        texts = texts_of_column(column)
        if texts.null_count == len(texts):
            return pa.array(np.zeros(len(texts), np.int64))
        texts = pc.utf8_trim(texts, " \t")
        there = texts if not texts.null_count else texts.fill_null(texts.drop_null()[0])
        if self.times in (None, "integers"):
            found = _integers(there)
        else:
            found = times_of(there, kind=str(self.times), unit=self._unit)
        return found if found is not None else self._times_one_by_one(texts, bad)

    def _times_one_by_one(self, texts: pa.Array, bad: _Problems) -> pa.Array:
        values, times = np.zeros(len(texts), np.int64), self.times or "integers"
        wrong: dict[int, str] = {}
        for row, text in enumerate(texts.to_pylist()):
            try:
                if text is not None and times == "integers":
                    values[row] = check_integer(text, "")
                elif text is not None:
                    values[row] = check_time(text, "", kind=times, unit=self._unit)
            except FieldError as error:
                wrong[row] = error.message + (format_hint(text or "") if times == "integers" else "")
        bad.add_each("timestamp", wrong)
        return pa.array(values)


class _Problems:
    """A collector of the first error of each record."""

    def __init__(self, rule: EdgeRule | NodeRule, places: np.ndarray, errors: dict[int, FieldError]) -> None:
        self._rule = rule
        self._places = places
        self._errors = errors

    def of_rows(self, rows: np.ndarray) -> _Problems:
        """Return the collector for some of the rows."""
        return _Problems(self._rule, self._places[rows], self._errors)

    def add(self, column: str, wrong: np.ndarray, reason: str, texts: pa.Array | None = None) -> None:
        """Add an error for each wrong row, with its value if `texts` has it."""
        if wrong.any():
            rows = np.flatnonzero(wrong).tolist()
            values = {row: "" if texts is None else quote_value(texts[row].as_py()) + " " for row in rows}
            self.add_each(column, {row: value + reason for row, value in values.items()})

    def add_each(self, column: str, reasons: Mapping[int, str]) -> None:
        """Add errors by row."""
        of_rule = "" if self._rule.is_required else f" ({self._rule})"
        for row, reason in reasons.items():
            record = int(self._places[row])
            self._errors.setdefault(record, FieldError(f"{reason}{of_rule}", self._rule.names.get(column, column)))


_NO_NODE_OP = "is not an operation of a node; expected +, = or -"


def label_names(value: Any) -> list[str] | None:
    """Return labels from a list, from a list in JSON, or from text with semicolons; None if they are no texts.

    >>> label_names("Person; Admin"), label_names('["a;b"]'), label_names(None), label_names("[1]"), label_names(5)
    (['Person', 'Admin'], ['a;b'], [], None, None)
    """
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, list):
        return value if all(isinstance(name, str) and name for name in value) else None
    if not isinstance(value, str | None):
        return None
    return [name for one in (value or "").split(";") if (name := one.strip())]


def _leaving_by_id(ids: pa.Array, applies: np.ndarray, changes: RowChanges) -> np.ndarray:
    """Return which records insert an edge of a rule, or delete it by its id."""
    # The edge of the next record replaces an edge, unless the next record has no edge, or one with another id.
    is_same = numpy_array(pc.equal(ids[:-1], ids[1:]).fill_null(False))
    is_replaced = changes.replaced.copy()
    is_replaced[:-1] &= is_same & applies[1:]
    found: np.ndarray = np.where(changes.deletes, ~is_replaced, applies)
    return found


def concatenate_mixed(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate columns of values; if the types of columns with values differ, all values become texts."""
    types = {array.type for array in arrays if array.null_count < len(array)}
    if len(types) == 1:
        arrays = [array if array.type in types else pa.nulls(len(array), *types) for array in arrays]
    elif len({array.type for array in arrays}) > 1:
        arrays = [texts_of_column(array) for array in arrays]
    return pa.concat_arrays(arrays)


def _integers(texts: pa.Array) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(texts, f"^(?:{INTEGER.pattern})$")).as_py():
        return None
    try:
        return pc.utf8_ltrim(texts, "+").cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def texts_of_column(column: pa.Array) -> pa.Array:
    """Return values as text, with null for empty text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_floating(column.type)):
        column = column.cast(pa.string())
    return UntypedColumn(column).texts()


class _NoColumns(ColumnNames):
    """The columns of records, which have none of a tuple's columns."""

    columns = accepted_columns = ()


@dataclass(frozen=True, kw_only=True)
class RecordLayout(JsonLayout):
    """The layout of objects that become edges; objects and lists in the values of `ends` are read as null."""

    names: ColumnNames = field(default_factory=_NoColumns)
    ends: frozenset[str]

    def read(self, line: bytes) -> dict[str, Any]:
        """Return the values of one line, under `=NAME`; raise `FieldError`."""
        values = super().read(line)
        return values | {FURTHER + name: None for name in self.ends if isinstance(values[FURTHER + name], (dict, list))}


class RecordReader(Protocol):
    """A reader that turns records into edges: an `EdgeReader`, or a reader of other records that uses one.

    `names` are the names of the values that are read, `metadata` those among them that come from `Metadata`, and `times` is
    the kind of the timestamps in text.
    """

    names: tuple[str, ...]
    metadata: frozenset[str]

    @property
    def times(self) -> str | None: ...

    def read(
        self, records: Mapping[str, pa.Array], count: int, *, timestamps: Mapping[str, pa.Array] | None = None
    ) -> RecordEdges: ...


def record_layout(reader: RecordReader, ends: frozenset[str]) -> RecordLayout:
    """Return the layout of the objects that a reader turns into edges; values of `ends` are neither objects nor lists."""
    names = tuple(name for name in reader.names if name not in reader.metadata)
    optional = reader.rules.optional_names if isinstance(reader, EdgeReader) else frozenset()
    return RecordLayout(further=names, ends=ends - reader.metadata, optional=optional - reader.metadata)


def json_records(reader: EdgeReader) -> JsonLines:
    """Return a parser of JSON lines whose records a reader turns into edges."""
    return JsonLines(record_layout(reader, reader.rules.ends))


class RecordParser:
    """A parser of blocks whose records become edges.  `inner` reads the values of records, under `=NAME`."""

    def __init__(self, inner: BlockParser, reader: RecordReader) -> None:
        self.inner = inner
        self.reader = reader

    def parse(self, block: LineBlock, *, stop: bool, metadata: Metadata | None = None) -> Iterator[Rows]:
        """Read a block in pieces; with `stop`, no further than its first bad record.

        `metadata` are values from outside of the records of the block.
        """
        start, numbers = 0, list[int]()
        for piece in self.inner.parse(block, stop=stop):
            edges, rows = self._rows(piece, None if metadata is None else metadata.skip(start))
            errors = list(piece.errors)
            if edges.errors:
                numbers = numbers or [number for number, _ in self._lines(block)]
                of_pieces = range(piece.data_lines) if piece.ordinals is None else piece.ordinals.tolist()
                errors += [
                    LineError(line=numbers[start + of_pieces[record]], error=error) for record, error in edges.errors.items()
                ]
                errors.sort(key=lambda one: one.line)
                if stop:
                    is_before = edges.records < min(edges.errors)
                    assert rows.ordinals is not None
                    columns = {name: column.filter(pa.array(is_before)) for name, column in rows.columns.items()}
                    rows, errors = replace(rows, columns=columns, ordinals=rows.ordinals[is_before]), errors[:1]
            start += piece.data_lines
            yield replace(rows, errors=errors)
            if stop and errors:
                return

    def _lines(self, block: LineBlock) -> Iterator[tuple[int, bytes]]:
        layout = self.inner.layout if isinstance(self.inner, LineParser) else None
        return data_lines(block) if layout is None else data_records(block, layout)

    def _rows(self, piece: Rows, metadata: Metadata | None) -> tuple[RecordEdges, Rows]:
        ordinals = np.arange(piece.data_lines) if piece.ordinals is None else piece.ordinals
        beside = Metadata() if metadata is None else metadata.take(ordinals)
        records = {
            name: beside.values[name] if name in self.reader.metadata else piece.columns[FURTHER + name]
            for name in self.reader.names
        }
        records |= {name: column for name, column in piece.columns.items() if name.startswith(NODE)}
        edges = self.reader.read(records, len(ordinals), timestamps=beside.timestamps)
        rows = Rows(columns=edges.columns, data_lines=piece.data_lines, ordinals=ordinals[edges.records])
        return edges, rows
