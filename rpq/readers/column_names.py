"""The mapping of the columns of an input to those of tuples: `source=user,target=item,timestamp=ts`."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rpq.errors import InputError, did_you_mean
from rpq.stream.arrays.fields import DELETE, EDGE, STREAM, FieldError
from rpq.stream.arrays.values import EMPTY

TUPLE_COLUMNS = ("source", "target", "label", "timestamp", "op")
"""The columns of a tuple; op is optional."""

EVENT = "event"
"""An optional column of readers with events: the event of a tuple, or null."""

NAMED_COLUMNS = (*TUPLE_COLUMNS, DELETE, STREAM)

OP_AND_DELETE = "duplicates column 'op': use one of the two (--columns op=op, or --columns delete=delete)"
"""The message for tuples that have both op and delete."""

DELETED, _OPERATION = "__deleted", "__op"
"""Columns that Debezium adds to records without envelopes."""

_IS_DELETED = "says which records are deletes of Debezium, each of which would be read as an insert; "
_OF_DELETES = "--changes debezium-rows reads deletes and updates of rows, and --columns delete=__deleted deletes alone"
_OF_OPERATIONS = "--changes debezium-rows reads them as deletes and updates"

_OPTIONAL = ("op", DELETE, STREAM)

_COMMON_NAMES = {
    "timestamp": "timestamp ts time datetime date when epoch created at t",
    "source": "source src from subject user sender payer buyer customer caller follower start head u s",
    "target": "target dst dest destination to object item receiver recipient payee product callee followee end tail v o",
    "label": "label predicate relation relationship relationshiptype type action kind verb event p",
}
"""Common names of columns, likelier names first; columns with more distinctive names come first."""

_IDENTIFIERS = frozenset({"id", "uid", "uuid", "guid", "key", "ip"})
"""Last words of nested names that identify a vertex rather than describe it."""

_PARENT = re.compile(r"\bparent\.")

MAX_NAMES = 40
"""The number of names of an input that a message lists."""

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


class MissingColumns(FieldError):
    """An input lacks columns with the expected names; the message suggests options for the existing columns."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The mapping of tuple columns to the columns of an input; a column that is not in the mapping keeps its own name.

    With `constant_label` all edges have that label, and the input needs no column for it.  Unless `timed`, edges have no
    time, and a column with timestamps is ignored.  With `has_events` an event column is required.  `properties` are
    further columns that queries read, among them `edge` if edges have ids.  With `fixed` the user cannot set other names,
    and messages advise renaming the columns.  Timestamps have the `time_format` (`rpq.stream.arrays.fields`), unless it is
    None.  With `text_vertices` vertices are text, numbers too.  With `trim`, blanks around fields of text are dropped.

    >>> names = ColumnNames(renamed=(("source", "user"),))
    >>> names["source"], names["target"], names.required_columns
    ('user', 'target', ('source', 'target', 'label', 'timestamp'))
    """

    renamed: tuple[tuple[str, str], ...] = ()
    constant_label: str | None = None
    timed: bool = True
    has_events: bool = False
    fixed: bool = False
    properties: tuple[str, ...] = ()
    time_format: str | None = None
    text_vertices: bool = False
    trim: bool = False

    @classmethod
    def parse(
        cls,
        text: str | None,
        *,
        label: str | None = None,
        has_events: bool = False,
        properties: Sequence[str] = (),
        time_format: str | None = None,
        text_vertices: bool = False,
        trim: bool = False,
    ) -> ColumnNames:
        """Parse `COLUMN=NAME,…`; a pair whose name contains a comma is in double quotes.  Raises `InputError`.

        >>> ColumnNames.parse('source=user,"label=a, b"').renamed
        (('source', 'user'), ('label', 'a, b'))
        """
        if label == "":
            raise InputError(f"the label {EMPTY}")
        names = (*NAMED_COLUMNS, *((EVENT,) if has_events else ()), *properties)
        renamed: dict[str, str] = {}
        for pair in next(csv.reader([text])) if text else ():
            column, equals, name = pair.partition("=")
            column = column.strip()
            if not equals or not name:
                raise InputError(f"{pair!r} is not COLUMN=NAME; expected, for example, source=user,target=item,timestamp=ts")
            if column == EVENT and not has_events:
                raise InputError(f"{column!r} is a column of tuples in events, but events are not enabled")
            if column not in names:
                hint = "; edges have ids with --edges id" if column == EDGE else did_you_mean(column, names)
                raise InputError(f"{column!r} is not a column of a tuple: expected {', '.join(names)}{hint}")
            if column in renamed:
                raise InputError(f"column {column!r} is mapped twice: to {renamed[column]!r} and to {name!r}")
            if column == "label" and label is not None:
                raise InputError(
                    f"the label is set both to {label!r} for all edges and to the column {name!r}; use one of the two"
                )
            renamed[column] = name
        if "op" in renamed and DELETE in renamed:
            raise InputError(f"op={renamed['op']} and delete={renamed[DELETE]} have the same meaning: use one of the two")
        return cls(
            renamed=tuple(renamed.items()),
            constant_label=label,
            has_events=has_events,
            properties=tuple(properties),
            time_format=time_format,
            text_vertices=text_vertices,
            trim=trim,
        )

    def __bool__(self) -> bool:
        has_values = self.time_format is not None or self.text_vertices or self.trim
        has_others = self.has_events or bool(self.properties) or has_values
        return bool(self.renamed) or self.constant_label is not None or not self.timed or has_others

    def __getitem__(self, column: str) -> str:
        return dict(self.renamed).get(column, column)

    @property
    def has_ids(self) -> bool:
        """True if each edge needs an id, in a column that is read as a property; static edges may lack the column.

        >>> ColumnNames(properties=("amount", "edge")).has_ids
        True
        """
        return EDGE in self.properties and self.timed

    def use_of(self, name: str) -> str:
        """Return why the input needs a column with this name besides those of a tuple.

        >>> ColumnNames(properties=("amount",)).use_of("amount")
        'a query reads it as a property of edges'
        """
        if self.has_ids and name == self[EDGE]:
            return "it has the ids of edges (--columns edge=NAME, if it has another name)"
        return "a query reads it as a property of edges"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a tuple that are read, in their order in lines without a header.

        >>> ColumnNames(constant_label="follows").columns
        ('source', 'target', 'timestamp', 'op')
        """
        unused = {"label": self.constant_label is not None, "timestamp": not self.timed}
        return tuple(column for column in TUPLE_COLUMNS if not unused.get(column) and not self._is_replaced(column))

    def _is_replaced(self, column: str) -> bool:
        """Return whether an optional column is not read, because its name or its alternative (op or delete) is in use."""
        renamed = dict(self.renamed)
        if column in renamed or column not in _OPTIONAL:
            return False
        other = {"op": DELETE, DELETE: "op"}.get(column)
        return other in renamed or column in renamed.values()

    @property
    def accepted_columns(self) -> tuple[str, ...]:
        """The columns that are read from inputs with named columns.

        >>> ColumnNames().accepted_columns
        ('source', 'target', 'label', 'timestamp', 'op', 'delete', 'stream')
        """
        further = (DELETE, STREAM, EVENT) if self.has_events else (DELETE, STREAM)
        return (*self.columns, *(column for column in further if not self._is_replaced(column)))

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that an input must have. op, delete and stream are required only if the mapping contains them.

        >>> ColumnNames().required_columns
        ('source', 'target', 'label', 'timestamp')
        """
        renamed = dict(self.renamed)
        return tuple(column for column in self.accepted_columns if column not in _OPTIONAL or column in renamed)

    def places(
        self, names: Sequence[str], *, any_case: bool = False, nested: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Return the position of each column of a tuple among the names of an input's columns.

        With `any_case`, columns that are not renamed match in upper and lower case.  Raises `FieldError` for a duplicate
        column, or for both op and delete, and `MissingColumns`, whose message lists the names, or the `nested` names that
        `--columns` could use.

        >>> ColumnNames.parse("source=user,target=item", label="likes").places(["when", "user", "item", "timestamp"])
        {'source': 1, 'target': 2, 'timestamp': 3}
        """
        folded = [name.lower() for name in names] if any_case else list(names)
        places: dict[str, int] = {}
        for column in self.accepted_columns:
            name = self[column]
            among = folded if column == name else list(names)
            if among.count(name) > 1:
                raise FieldError("occurs twice in the header; expected each column once", name)
            if name in among:
                places[column] = among.index(name)
        self.check_present(names if nested is None else nested, present=places)
        if "op" in places and DELETE in places:
            raise FieldError(OP_AND_DELETE, DELETE)
        return places

    def check_present(self, names: Sequence[str], *, present: Mapping[str, int] | Sequence[str]) -> None:
        """Raise `MissingColumns` with all columns that an input with these names lacks; it has those in `present`.

        >>> try:
        ...     ColumnNames.parse("source=user").check_present(["user", "product", "ts"], present=["source"])
        ... except MissingColumns as error:
        ...     print(error.message.partition("; give ")[2])
        --columns source=user,target=product,timestamp=ts --label LABEL
        """
        missing = [column for column in self.required_columns if column not in present]
        if not missing:
            return
        needed = [self[one] for one in self.required_columns if one not in _OPTIONAL]
        if "op" in names and any(name.partition(".")[0] in ("after", "payload") for name in names):
            raise MissingColumns("this is an envelope of Debezium; --changes debezium reads it as a change of a row")
        if {"schema", "payload"} <= {name.partition(".")[0].partition("[")[0] for name in names}:
            raise MissingColumns("this has a schema and a payload, as changes of Debezium; --changes debezium reads them")
        either = " or ".join(self[one] for one in ("op", DELETE) if one in self.accepted_columns)
        expected = f"expected {', '.join(needed)} and optionally {either}, found {_enumeration(names)}"
        if len(missing) == 1:
            name = self[missing[0]]
            near = did_you_mean(name, names) if missing[0] in dict(self.renamed) else ""
            raise MissingColumns(f"is missing; {expected}{near or self._remedy(names, missing)}", name)
        *first, last = (self[column] for column in missing)
        remedy = self._remedy(names, missing)
        raise MissingColumns(f"the columns {', '.join(first)} and {last} are missing; {expected}{remedy}")

    def is_header(self, texts: Sequence[str]) -> bool:
        """Return whether the first line of an input looks like a header with other column names, rather than a tuple.

        >>> [ColumnNames().is_header(line.split()) for line in ("user item ts", "from to label time", "a b x 1", "a b c d")]
        [True, True, False, False]
        >>> ColumnNames().is_header(["x", "o", "s", "-1"])
        False
        """
        is_plain = all(text and not text.lstrip("+-")[:1].isdigit() for text in texts) and len(set(texts)) == len(texts)
        return is_plain and len(_infer_columns(texts, tuple(_COMMON_NAMES))) >= 2

    def _remedy(self, names: Sequence[str], missing: Sequence[str]) -> str:
        """Return advice for missing columns: options with the likely names."""
        renamed = {column: name for column, name in self.renamed if column not in missing}
        used = {*renamed.values(), *(self[column] for column in self.accepted_columns if column not in missing)}
        free = [name for name in names if name and name not in used]
        found = {
            column: near[0]
            for column, name in self.renamed
            if column in missing and (near := difflib.get_close_matches(name, free, n=1))
        }
        free = [name for name in free if name not in found.values()]
        found |= _infer_columns(free, [column for column in missing if column not in found])
        free = [name for name in free if name not in found.values()]
        ends = [column for column in ("source", "target") if column in missing and column not in found]
        if len(ends) == len(free):
            found |= dict(zip(ends, free, strict=True))
        if self.fixed:
            return _rename_hint(found, missing)
        options = []
        with_label = "label" in missing and "label" not in found and "label" not in dict(self.renamed)
        named = [column for column in missing if column != "label" or not with_label]
        if named:
            pairs = {**renamed, **{column: found.get(column, "NAME") for column in named}}
            options = [
                "--columns",
                _columns_option({column: pairs[column] for column in (*NAMED_COLUMNS, EVENT) if column in pairs}),
            ]
        return f"; give {' '.join([*options, *(['--label LABEL'] if with_label else [])])}"

    def deletes_not_read(self, names: Sequence[str], condition: Collection[str] = ()) -> list[str]:
        """Return a warning if the names include Debezium's column of operations, and no deletes are read.

        Raises `FieldError` for Debezium's column of deletes.  Columns that a `condition` or a property uses are allowed.

        >>> ColumnNames().deletes_not_read(["source", "target", "__op"])[0].partition(";")[0]
        "column '__op' looks like the deletes of Debezium, which are read as inserts"
        >>> ColumnNames.parse("delete=__deleted").deletes_not_read(["source", "target", "__deleted"])
        []
        """
        renamed = dict(self.renamed)
        read = [column for column in ("op", DELETE) if column in self.accepted_columns]
        used = {*renamed.values(), *self.properties, *condition}
        found = {name.lower(): name for name in names if name not in used}
        if not read or not found.keys().isdisjoint(read) or not renamed.keys().isdisjoint(read):
            return []
        if (deleted := found.get(DELETED)) is not None:
            raise FieldError(_IS_DELETED + (f"rename it to {DELETE}" if self.fixed else _OF_DELETES), deleted)
        if (operation := found.get(_OPERATION)) is not None:
            what = "looks like the deletes of Debezium, which are read as inserts"
            return [f"column {operation!r} {what}; {_OF_OPERATIONS}"]
        return []


def check_delete_columns(names: Collection[str], read: Collection[str], file: str) -> None:
    """Raise `FieldError` if records with these names have Debezium's column of deletes, and rules of a file do not read it.

    >>> check_delete_columns(["from", "__deleted"], ["from", "__deleted"], "e.toml")
    """
    if DELETED in names and DELETED not in read:
        both = "--changes debezium-rows reads deletes and updates of rows"
        raise FieldError(f'{_IS_DELETED}{both}, and delete = "{DELETED}" in {file} deletes alone', DELETED)


def _enumeration(names: Sequence[str]) -> str:
    """Return the first names of an input, as an enumeration."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more if names else "none"


def _infer_columns(names: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Infer which of the names correspond to columns of a tuple.

    >>> _infer_columns(["id", "userId", "to_account", "created_at", "amount"], ["source", "target", "timestamp", "label"])
    {'timestamp': 'created_at', 'source': 'userId', 'target': 'to_account'}
    >>> _infer_columns(["process.pid", "process.id", "process.parent.pid", "process.parent.id"], ["source", "target"])
    {'source': 'process.parent.id', 'target': 'process.id'}
    """
    words = {name: [word.lower() for word in _WORD.findall(name)] for name in names if "[" not in name}
    children = {name: _PARENT.sub("", name, count=1) for name, own in words.items() if own and own[-1] in _IDENTIFIERS}
    found: dict[str, str] = {}
    if {"source", "target"} <= {*columns}:
        pairs = ((name, child) for name, child in children.items() if child != name and child in words)
        found |= dict(zip(("source", "target"), next(pairs, ()), strict=False))
    for column in (one for one in _COMMON_NAMES if one in columns and one not in found):
        usual = _COMMON_NAMES[column].split()
        ranked = [
            # A whole name is preferred to one of several words, and among nested names one that identifies a vertex.
            ("".join(own) != word, usual.index(word), "." in name and own[-1] not in _IDENTIFIERS, name)
            for name, own in words.items()
            for word in usual
            if name not in found.values() and ("".join(own) == word or (len(word) > 1 and word in own))
        ]
        if ranked:
            found[column] = min(ranked, key=lambda one: one[:3])[3]
    return found


def _columns_option(pairs: Mapping[str, str]) -> str:
    """Return pairs as the shell argument of `--columns`.

    >>> print(_columns_option({"source": "user", "label": "a, b"}))
    'source=user,"label=a, b"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([f"{column}={name}" for column, name in pairs.items()])
    return shlex.quote(text.getvalue())


def _rename_hint(column_names: Mapping[str, str], missing: Sequence[str]) -> str:
    """Return advice for an input with fixed column names: which columns to rename and which to add."""
    renamed = ", ".join(f"{column_names[column]} to {column}" for column in missing if column in column_names)
    added = " and ".join(column for column in missing if column not in column_names)
    return "; " + ", ".join([*([f"rename {renamed}"] if renamed else []), *([f"add {added}"] if added else [])])
