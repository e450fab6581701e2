"""The content of a saved state besides the edges of the window: JSON with checks of every type and range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from rpq.language import kinds
from rpq.language.hypercube import Share
from rpq.stream.arrays.properties import decimal_type
from rpq.stream.durations import TIME_UNITS
from rpq.stream.edges.edge_ends import Ends
from rpq.stream.edges.outcomes import OUTCOMES
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.names.stream_labels import EDGE_ENDS, ConditionLabel, EdgeEnd, LabelName, StepTests, StreamLabel, text_of
from rpq.stream.stream_time import windows_of
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, UnboundedWindow, Window

_LONGEST = INT64_MAX * 10**9  # nanoseconds in the most seconds that fit into 64 bits
_LARGEST_COUNT = 2**56
"""The bound of counts, low enough that sums of counts fit 64 bits."""


@dataclass(frozen=True, kw_only=True)
class StateLabels:
    """The labels by number, each with the largest timestamp of a lost insert, or `rpq.stream.names.labels.NEVER_LOST`.

    `passed_by` has the same timestamps of inserts that were passed by, `accepted` the edges that queries accept, each
    with the timestamp of the last insert that was passed by before (`rpq.stream.edges.edge_filter`). `forgotten` is the
    timestamp of a lost insert for all other labels, `forgotten_of_streams` for all other labels of named streams.
    """

    names: list[LabelName]
    lost: list[int]
    passed_by: list[int]
    accepted: list[Mapping[Ends, int]]
    forgotten: int
    forgotten_of_streams: int

    def to_json(self) -> dict[str, Any]:
        """Return the labels as JSON values."""
        names = [*enumerate(self.names)]
        return {
            "labels": list(map(text_of, self.names)),
            "label_streams": [[place, name.stream] for place, name in names if isinstance(name, StreamLabel)],
            "label_conditions": [[place, name.condition] for place, name in names if isinstance(name, ConditionLabel)],
            "lost": self.lost,
            "passed_by": self.passed_by,
            "accepted": [[[*ends, before] for ends, before in of_label.items()] for of_label in self.accepted],
            "forgotten": self.forgotten,
            "forgotten_of_streams": self.forgotten_of_streams,
        }

    @classmethod
    def read(cls, content: JsonValue) -> StateLabels:
        """Read the output of `to_json`. Raises `Damage`."""
        names: list[LabelName] = [label.unicode() for label in content["labels"]]
        for place, stream in (pair.tuple_of(2) for pair in content["label_streams"]):
            number = place.integer(0, len(names) - 1)
            names[number] = StreamLabel(text_of(names[number]), stream.unicode())
        for place, condition in (pair.tuple_of(2) for pair in content["label_conditions"]):
            number = place.integer(0, len(names) - 1)
            text = condition.unicode()
            kind = EdgeEnd if StepTests.of(text).edge in EDGE_ENDS else ConditionLabel
            names[number] = kind(text_of(names[number]), text)
        if len(set(names)) < len(names):
            raise Damage("a label occurs twice")
        accepted = content["accepted"].tuple_of(len(names))
        return cls(
            names=names,
            lost=[timestamp.integer() for timestamp in content["lost"].tuple_of(len(names))],
            passed_by=[timestamp.integer() for timestamp in content["passed_by"].tuple_of(len(names))],
            accepted=[dict(_read_accepted_ends(one) for one in of_label) for of_label in accepted],
            forgotten=content["forgotten"].integer(),
            forgotten_of_streams=content["forgotten_of_streams"].integer(),
        )


def _read_accepted_ends(content: JsonValue) -> tuple[Ends, int]:
    *ends, is_loop, before = content.tuple_of(4)
    source, target = (None if end.is_none else end.unicode() for end in ends)
    if is_loop.flag() and (source, target) != (None, None):
        raise Damage("a loop is accepted by its ends")
    return Ends(source, target, is_loop=is_loop.flag()), before.integer()


@dataclass(frozen=True, kw_only=True)
class QueryState:
    """A query, whose window is in the integers of the stream, and its state in JSON values, `content`.

    `contents` has for each window the number of its content among those of the file, None where that follows from the
    timestamps of the edges; `is_late` is true if it started with an empty window in mid-stream.
    """

    question: Any
    content: JsonValue
    contents: list[int | None]
    is_late: bool

    def to_json(self) -> dict[str, Any]:
        """Return the query and its state as JSON values."""
        windows = {"contents": self.contents, "late": self.is_late}
        described: dict[str, Any] = kinds.query_json(self.question) | self.content.value | windows
        return described

    @classmethod
    def read(cls, content: JsonValue) -> QueryState:
        """Read the output of `to_json`. Raises `Damage`."""
        question = kinds.read_query(content)
        contents = [None if number.is_none else number.integer(0) for number in content["contents"]]
        return cls(question=question, content=content, contents=contents, is_late=content["late"].flag())


class EventsState(NamedTuple):
    """The mode of events of several tuples; in the mode "alone" also the time of the last event."""

    mode: Literal["window", "alone"]
    time: int | None

    @classmethod
    def read(cls, content: JsonValue) -> EventsState:
        """Read the mode from JSON values. Raises `Damage`."""
        mode, time = content.tuple_of(2)
        return cls(mode.one_of("window", "alone"), None if time.is_none else time.integer())


@dataclass(frozen=True, kw_only=True)
class KeepWindow:
    """The window whose edges are all kept, in the integers of the stream, and its `original` form."""

    window: Window | UnboundedWindow
    original: Window | UnboundedWindow

    def to_json(self) -> dict[str, Any]:
        """Return the window as JSON values."""
        if not (isinstance(self.window, Window) and isinstance(self.original, Window)):
            return {"window": None, "duration": None}
        duration = None if self.original.unit is None else [self.original.size, self.original.slide]
        return {"window": [self.window.size, self.window.slide], "duration": duration}

    @classmethod
    def read(cls, content: JsonValue) -> KeepWindow:
        """Read the output of `to_json`. Raises `Damage`."""
        if content["window"].is_none:
            return cls(window=UnboundedWindow(), original=UnboundedWindow())
        size, slide = (length.integer(1, INT64_MAX) for length in content["window"].tuple_of(2))
        window = original = Window(size=size, slide=slide)
        if not content["duration"].is_none:
            size, slide = (length.integer(1, _LONGEST) for length in content["duration"].tuple_of(2))
            original = Window(size=size, slide=slide, unit="ns")
        return cls(window=window, original=original)


@dataclass(frozen=True, kw_only=True)
class EdgesByIdState:
    """The state of edges with ids besides their versions.

    `kind` is that of the ids, `sets` the numbers of the derived labels of each set that a version has, and `lost` the
    largest timestamp of an edge that came too late or has left all windows.
    """

    kind: str | None
    sets: list[list[int]]
    lost: int

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"kind": self.kind, "sets": self.sets, "lost": self.lost}

    @classmethod
    def read(cls, content: JsonValue) -> EdgesByIdState:
        """Read the output of `to_json`. Raises `Damage`."""
        kind = content["kind"]
        return cls(
            kind=None if kind.is_none else kind.one_of("int64", "string"),
            sets=[[label.integer(0) for label in one] for one in content["sets"]],
            lost=content["lost"].integer(),
        )


@dataclass(frozen=True, kw_only=True)
class CountedState:
    """The window of edges with an identity, the number of its last insert, and the sets of labels that edges have.

    `hides` says whether edges of the window hide static edges; otherwise it is a count window.
    """

    window: AnyWindow
    number: int
    sets: list[list[int]]
    hides: bool

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"window": kinds.window_json(self.window), "number": self.number, "sets": self.sets, "hides": self.hides}

    @classmethod
    def read(cls, content: JsonValue) -> CountedState:
        """Read the output of `to_json`. Raises `Damage`."""
        window = kinds.read_window(content["window"])
        hides = content["hides"].flag()
        if not hides and not isinstance(window, CountWindow):
            raise Damage("the window of edges with an identity does not count")
        sets = [[label.integer(0) for label in one] for one in content["sets"]]
        return cls(window=window, number=_count(content["number"]), sets=sets, hides=hides)


@dataclass(frozen=True, kw_only=True)
class MultigraphState:
    """The identity of edges, the types of properties, and the counts of tuples for each query in the order of `Outcome`.

    `unit` is the unit of timestamps in conditions, None for plain numbers; `is_timed` whether tuples have come. `inserts` is
    the number of well-formed inserts. Where edges have ids, `by_id` is what is known of them. `unread` are properties of
    static edges that were not kept, and `kept` those of edges that are kept in any case. `counted` is the count window that
    all queries have, whose edges are the versions, if there is one.
    """

    identity: Literal["triple", "parallel", "id"]
    types: dict[str, pa.DataType]
    loose: list[str]
    unit: str | None
    is_timed: bool
    counts: list[list[int]]
    inserts: int
    unread: list[str]
    kept: tuple[str, ...] = ()
    by_id: EdgesByIdState | None = None
    counted: CountedState | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "identity": self.identity,
            "types": {name: _type_json(kind) for name, kind in self.types.items()},
            "loose": self.loose,
            "unit": self.unit,
            "timed": self.is_timed,
            "counts": self.counts,
            "inserts": self.inserts,
            **({} if self.by_id is None else {"ids": self.by_id.to_json()}),
            "unread": self.unread,
            **({"kept": [*self.kept]} if self.kept else {}),
            **({} if self.counted is None else {"counted": self.counted.to_json()}),
        }

    @classmethod
    def read(cls, content: JsonValue, queries: int) -> MultigraphState:
        """Read the output of `to_json`. Raises `Damage`."""
        unit = content["unit"]
        identity: Literal["triple", "parallel", "id"] = content["identity"].one_of("triple", "parallel", "id")
        return cls(
            identity=identity,
            types={name: _type(kind) for name, kind in content["types"].items()},
            loose=[name.unicode() for name in content["loose"]],
            unit=None if unit.is_none else unit.one_of(*TIME_UNITS),
            is_timed=content["timed"].flag(),
            counts=[list(map(_count, of_query.tuple_of(len(OUTCOMES)))) for of_query in content["counts"].tuple_of(queries)],
            inserts=_count(content["inserts"]),
            by_id=EdgesByIdState.read(content["ids"]) if identity == "id" else None,
            unread=[name.unicode() for name in content["unread"]],
            kept=tuple(name.unicode() for name in content["kept"]) if "kept" in content else (),
            counted=CountedState.read(content["counted"]) if "counted" in content else None,
        )


@dataclass(frozen=True, kw_only=True)
class NodesState:
    """The types of properties of nodes, those that are kept (None: all), and the counts of records."""

    types: dict[str, pa.DataType]
    loose: list[str]
    kept: list[str] | None
    counts: list[int]

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        types = {name: _type_json(kind) for name, kind in self.types.items()}
        return {"types": types, "loose": self.loose, "kept": self.kept, "counts": self.counts}

    @classmethod
    def read(cls, content: JsonValue) -> NodesState:
        """Read the output of `to_json`. Raises `Damage`."""
        kept = content["kept"]
        return cls(
            types={name: _type(kind) for name, kind in content["types"].items()},
            loose=[name.unicode() for name in content["loose"]],
            kept=None if kept.is_none else [name.unicode() for name in kept],
            counts=[_count(count) for count in content["counts"].tuple_of(3)],
        )


_PLAIN_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.string()}


def _type_json(kind: pa.DataType) -> list[Any]:
    if pa.types.is_timestamp(kind):
        return ["timestamp", kind.unit, kind.tz]
    if pa.types.is_decimal(kind):
        return ["decimal", kind.precision, kind.scale]
    return [next(name for name, plain in _PLAIN_TYPES.items() if plain == kind), None, None]


def _type(content: JsonValue) -> pa.DataType:
    name, first, second = content.tuple_of(3)
    kind = name.one_of("timestamp", "decimal", *_PLAIN_TYPES)
    if kind == "timestamp":
        return pa.timestamp(first.one_of("s", "ms", "us", "ns"), None if second.is_none else second.unicode())
    if kind == "decimal":
        return decimal_type(first.integer(1, 76), second.integer(-76, 76))
    return _PLAIN_TYPES[kind]


@dataclass(frozen=True, kw_only=True)
class StateContent:
    """Everything except the edges. `time_unit`, `times`, `seconds`, `left` and `extra` belong to the engine itself.

    `numbers` has for each content of a window the number of inserts that it has counted, 0 where it counts none.
    """

    time: int | None
    kind: str | None
    share: Share
    labels: StateLabels
    outcomes: dict[str, int]
    queries: list[QueryState]
    numbers: list[int]
    time_unit: str
    times: dict[str, Any]
    seconds: float
    left: list[int]
    extra: dict[str, str]
    events: EventsState | None = None
    keep: KeepWindow | None = None
    multigraph: MultigraphState | None = None
    nodes: NodesState | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the content as JSON values."""
        return {
            "time": self.time,
            "kind": self.kind,
            "share": self.share[:2],
            "sizes": dict(self.share.sizes),
            **self.labels.to_json(),
            "outcomes": [self.outcomes[name] for name in OUTCOMES],
            "queries": [query.to_json() for query in self.queries],
            "numbers": self.numbers,
            "time_unit": self.time_unit,
            "times": self.times,
            "seconds": self.seconds,
            "left": self.left,
            "extra": self.extra,
            **({} if self.events is None else {"events": [*self.events]}),
            **({} if self.keep is None else {"keep": self.keep.to_json()}),
            **({} if self.multigraph is None else {"multigraph": self.multigraph.to_json()}),
            **({} if self.nodes is None else {"nodes": self.nodes.to_json()}),
        }

    @classmethod
    def read(cls, content: JsonValue) -> StateContent:
        """Read the output of `to_json`. Raises `Damage`."""
        queries = [QueryState.read(query) for query in content["queries"]]
        if len({state.question.name for state in queries}) < len(queries):
            raise Damage("two queries have the same name")
        keep = KeepWindow.read(content["keep"]) if "keep" in content else None
        reaches = [window.reach for state in queries for window in windows_of(state.question)]
        latest = INT64_MAX - max(reaches + ([] if keep is None else [keep.window.reach]), default=0)
        time, kind = content["time"], content["kind"]
        share, shares = content["share"].tuple_of(2)
        sizes = {label: size.integer(0) for label, size in content["sizes"].items()}
        return cls(
            time=None if time.is_none else time.integer(-INT64_MAX, latest),
            kind=None if kind.is_none else kind.one_of("int64", "string"),
            share=Share.of(share.integer(0, shares.integer(1) - 1), shares.integer(), sizes),
            labels=StateLabels.read(content),
            outcomes=dict(zip(OUTCOMES, map(_count, content["outcomes"].tuple_of(len(OUTCOMES))), strict=True)),
            queries=queries,
            numbers=list(map(_count, content["numbers"])),
            time_unit=content["time_unit"].one_of(*TIME_UNITS),
            times=_times(content["times"]),
            seconds=content["seconds"].number(),
            left=[_count(count) for count in content["left"].tuple_of(2)],
            extra={name: text.text() for name, text in content["extra"].items()},
            events=EventsState.read(content["events"]) if "events" in content else None,
            keep=keep,
            multigraph=MultigraphState.read(content["multigraph"], len(queries)) if "multigraph" in content else None,
            nodes=NodesState.read(content["nodes"]) if "nodes" in content else None,
        )


def _times(content: JsonValue) -> dict[str, Any]:
    """Read the output of `StreamTime.to_json`, with checks of its types."""
    unit, kind, step, zone, zoned = (content[name] for name in ("unit", "kind", "step", "zone", "zoned"))
    durations = {
        name: [length.integer(1, _LONGEST) for length in pair.tuple_of(2)] for name, pair in content["durations"].items()
    }
    lengths = {
        query: {name: length.integer(0, _LONGEST) for name, length in by_name.items()}
        for query, by_name in content["lengths"].items()
    }
    return {
        "unit": None if unit.is_none else unit.one_of(*TIME_UNITS),
        "kind": None if kind.is_none else kind.one_of("number", "date", "time"),
        "step": None if step.is_none else step.one_of(*TIME_UNITS),
        "zone": None if zone.is_none else zone.unicode(),
        "zoned": None if zoned.is_none else zoned.flag(),
        "durations": durations,
        "lengths": lengths,
    }


def _count(value: JsonValue) -> int:
    return value.integer(0, _LARGEST_COUNT)
