"""The format `ldbc`: update streams of the LDBC Social Network Benchmark, raw or as edges.

A file is **raw** if its first line has a `|` and no tab. Raw files are the update streams of SNB Interactive v1, whose
events are converted to edges. Otherwise the file is a **list of edges**, with tabs between `source`, `target`, `label`,
`timestamp` and optionally `op` (`+` or `-`), with a header or in this order.

Timestamps are milliseconds.  All inputs together are sorted stably by time: ties keep the order of the files, then of
the lines, then of the edges of an event.

A raw line is `time|dependency time|event type|fields…`; lists inside a field are separated by `;`.  Vertices get a type
letter before their id: p person, m message (post or comment), f forum, t tag, l place, o organisation.

| type | event | edges |
|---|---|---|
| 1 | person | person → place `isLocatedIn`, → tags `hasInterest`, → organisations `studyAt`, `workAt` |
| 2, 3 | like of a post, of a comment | person → message `likes` |
| 4 | forum | forum → person `hasModerator`, → tags `hasTag` |
| 5 | membership | forum → person `hasMember` |
| 6 | post | post → person `hasCreator`, forum → post `containerOf`, post → place `isLocatedIn`, → tags `hasTag` |
| 7 | comment | comment → person `hasCreator`, → place `isLocatedIn`, → message `replyOf`, → tags `hasTag` |
| 8 | friendship | person → person `knows`, one edge per event |

All edges of an event have its time, the first field, and are in the order of this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rpq.readers import FieldError, Format, TextFormat, quote_value
from rpq.readers.edges import detect
from rpq.readers.inputs import BATCH_ROWS, InputsReader
from rpq.readers.source import LineBlock
from rpq.readers.text.line_layout import check_integer, split_line
from rpq.readers.text.parsing import Rows, column_of, data_lines, read_exactly
from rpq.readers.text.textfile import DetectedFormat, TextFile
from rpq.workloads.formats.ordering import sort_files

_HEAD = ("time", "dependency time", "event type")
NO_MESSAGE = "-1"
"""The value of the field of a comment for a post or a comment to which it does not reply."""

Edge = tuple[str, str, str]
"""Source, target, label."""


@dataclass(frozen=True, kw_only=True)
class _Edges:
    """The edges of one field of an event: from the subject of the event to the ids in `field`.

    `holds` is the content of the field: one id ("id"), ids separated by `;` ("ids"), or `id,year` pairs separated by `;`
    ("dated ids").  With `reverse` the edges point to the subject.
    """

    label: str
    field: str
    letter: str
    holds: str = "id"
    reverse: bool = False


@dataclass(frozen=True, kw_only=True)
class _Event:
    """An event type: the names of its fields after the three common fields, its subject, and its edges."""

    fields: tuple[str, ...]
    subject: str
    letter: str
    edges: tuple[_Edges, ...]


def _fields(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _like() -> _Event:
    return _Event(
        fields=_fields("personId messageId creationDate"),
        subject="personId",
        letter="p",
        edges=(_Edges(label="likes", field="messageId", letter="m"),),
    )


EVENTS: dict[str, _Event] = {
    "1": _Event(
        fields=_fields(
            "personId firstName lastName gender birthday creationDate locationIP browserUsed cityId languages emails "
            "tagIds studyAt workAt"
        ),
        subject="personId",
        letter="p",
        edges=(
            _Edges(label="isLocatedIn", field="cityId", letter="l"),
            _Edges(label="hasInterest", field="tagIds", letter="t", holds="ids"),
            _Edges(label="studyAt", field="studyAt", letter="o", holds="dated ids"),
            _Edges(label="workAt", field="workAt", letter="o", holds="dated ids"),
        ),
    ),
    "2": _like(),
    "3": _like(),
    "4": _Event(
        fields=_fields("forumId title creationDate moderatorPersonId tagIds"),
        subject="forumId",
        letter="f",
        edges=(
            _Edges(label="hasModerator", field="moderatorPersonId", letter="p"),
            _Edges(label="hasTag", field="tagIds", letter="t", holds="ids"),
        ),
    ),
    "5": _Event(
        fields=_fields("forumId personId joinDate"),
        subject="forumId",
        letter="f",
        edges=(_Edges(label="hasMember", field="personId", letter="p"),),
    ),
    "6": _Event(
        fields=_fields(
            "postId imageFile creationDate locationIP browserUsed language content length authorPersonId forumId "
            "countryId tagIds"
        ),
        subject="postId",
        letter="m",
        edges=(
            _Edges(label="hasCreator", field="authorPersonId", letter="p"),
            _Edges(label="containerOf", field="forumId", letter="f", reverse=True),
            _Edges(label="isLocatedIn", field="countryId", letter="l"),
            _Edges(label="hasTag", field="tagIds", letter="t", holds="ids"),
        ),
    ),
    "7": _Event(
        fields=_fields(
            "commentId creationDate locationIP browserUsed content length authorPersonId countryId replyToPostId "
            "replyToCommentId tagIds"
        ),
        subject="commentId",
        letter="m",
        edges=(
            _Edges(label="hasCreator", field="authorPersonId", letter="p"),
            _Edges(label="isLocatedIn", field="countryId", letter="l"),
            _Edges(label="replyOf", field="replyTo", letter="m"),
            _Edges(label="hasTag", field="tagIds", letter="t", holds="ids"),
        ),
    ),
    "8": _Event(
        fields=_fields("person1Id person2Id creationDate"),
        subject="person1Id",
        letter="p",
        edges=(_Edges(label="knows", field="person2Id", letter="p"),),
    ),
}


def read_event(line: bytes) -> tuple[int, list[Edge]]:
    """Return the time and the edges of an event.  Raises `FieldError` if it is malformed.

    >>> read_event(b"1293869553780|1292909307462|3|55|34|1293869553780")
    (1293869553780, [('p55', 'm34', 'likes')])
    """
    texts = split_line(line, "|")
    if len(texts) < len(_HEAD):
        raise FieldError(f"found {len(texts)} fields, expected at least 3: {'|'.join(_HEAD)}")
    time = check_integer(texts[0], "time")
    event = EVENTS.get(texts[2])
    if event is None:
        raise FieldError(f"{quote_value(texts[2])} is not an event type; expected 1 to 8", "event type")
    if len(texts) != len(_HEAD) + len(event.fields):
        raise FieldError(
            f"found {len(texts)} fields, expected {len(_HEAD) + len(event.fields)} in an event of type {texts[2]}: "
            f"{'|'.join((*_HEAD, *event.fields))}"
        )
    values = dict(zip(event.fields, texts[len(_HEAD) :], strict=True))
    if "replyToPostId" in values:
        values["replyTo"] = _reply_target(values)
    subject = event.letter + _identifier(values[event.subject], event.subject)
    edges: list[Edge] = []
    for kind in event.edges:
        for identifier in _identifiers(values[kind.field], kind):
            other = kind.letter + identifier
            edges.append((other, subject, kind.label) if kind.reverse else (subject, other, kind.label))
    return time, edges


def _reply_target(values: dict[str, str]) -> str:
    post, comment = values["replyToPostId"], values["replyToCommentId"]
    if (post == NO_MESSAGE) == (comment == NO_MESSAGE):
        raise FieldError(
            f"one of replyToPostId and replyToCommentId must be {NO_MESSAGE}, the other an id; found {quote_value(post)} "
            f"and {quote_value(comment)}",
            "replyToPostId",
        )
    name = "replyToCommentId" if post == NO_MESSAGE else "replyToPostId"
    return _identifier(values[name], name)


def _identifiers(text: str, kind: _Edges) -> Iterator[str]:
    if kind.holds == "id":
        yield _identifier(text, kind.field)
        return
    for item in text.split(";") if text else ():
        if kind.holds == "dated ids":
            item, comma, year = item.partition(",")
            if not comma or not year.lstrip("-").isdecimal():
                raise FieldError(f"{quote_value(text)} is not a list of id,year pairs separated by ;", kind.field)
        yield _identifier(item, kind.field)


def _identifier(text: str, field: str) -> str:
    if not (text.isascii() and text.isdecimal()):
        raise FieldError(f"{quote_value(text)} is not an id; expected a whole number", field)
    return text


class EventParser:
    """A parser of blocks of raw events; none of the edges of a malformed event are returned."""

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        read = read_exactly(data_lines(block), read_event, stop=stop)
        edges = [edge for _, event_edges in read.values for edge in event_edges]
        times = np.array([time for time, _ in read.values], np.int64)
        counts = [len(event_edges) for _, event_edges in read.values]
        columns = {
            name: column_of([edge[place] for edge in edges], name)
            for place, name in enumerate(("source", "target", "label"))
        }
        columns["timestamp"] = pa.array(np.repeat(times, counts))
        yield Rows(columns=columns, data_lines=len(read.values) + len(read.errors), errors=read.errors)


def detect_ldbc(line: bytes) -> DetectedFormat:
    """Determine from its first line whether a file is raw or a list of edges.  Raises `FieldError` if it is neither."""
    if b"|" in line and b"\t" not in line:
        return DetectedFormat(parser=EventParser())
    try:
        return detect(line, separators=("\t",))
    except FieldError as error:
        if error.column:
            raise
        raise FieldError(
            "is neither an event (time|dependency time|event type|...) nor an edge or a header "
            "(source, target, label, timestamp and optionally op, separated by tabs)"
        ) from error


TEXT = TextFormat(detect=detect_ldbc, time_unit="ms")


def open_ldbc(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open update streams, raw files and lists of edges in any mixture, as one stream in time order."""
    return TEXT.open(paths, combine=sort_files, on_error=on_error, batch_rows=batch_rows)


LDBC = Format(name="ldbc", open=open_ldbc, text=TEXT)
