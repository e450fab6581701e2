"""The combinations of options that an identity of edges, properties and edge variables allow; others are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from rpq.engine.running.outcome_counts import lower_bound
from rpq.engine.running.retention import count_key, latest_lost_insert
from rpq.errors import QueryError, RegistrationError
from rpq.language.hypercube import Share
from rpq.language.protocol import Question, RunningQuery
from rpq.language.readings import (
    Identity,
    LabelSet,
    Reading,
    has_conditions,
    has_counted_window,
    is_ordered,
    node_properties_of,
    properties_of,
    readings_of,
    selected_values,
    values_read_by,
)
from rpq.stream.edges.edge_table import ABSENT_VERSION
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import ConditionLabel
from rpq.stream.stream_time import EARLIEST
from rpq.stream.window import CountWindow, Window

if TYPE_CHECKING:  # most engines have no use for it
    from rpq.engine.running.multigraph import Multigraph


class EdgeEvaluation(Protocol):
    """The part of an engine that matters to edges with properties."""

    identity: Identity
    share: Share
    graph: SnapshotGraph
    labels: LabelDictionary
    multigraph: Multigraph | None
    events: Literal["window", "alone"] | None


def readings_in(question: Question, evaluation: EdgeEvaluation) -> tuple[Reading, ...]:
    """Return what a query reads over its windows in an engine whose edges have an identity or properties.

    Raises `QueryError` where the query or the engine has what does not go with them.
    """
    readings = tuple(reading for reading in readings_of(question) if not reading.is_of_facts)
    readings = readings or (Reading(question.window, LabelSet(frozenset(), others=False)),)  # it reads facts alone
    is_triple = evaluation.identity == "triple"
    what = "a query with conditions on edges" if is_triple else f'an engine with edges="{evaluation.identity}"'
    reason = None
    selected = selected_values(question)
    edge = next((one for one in selected if one.kind == "number"), None)
    if evaluation.identity == "triple" and edge is not None:
        raise QueryError(
            f"query {question.name!r} selects the edge ?{edge.variable}, which has no number where inserts replace edges: "
            f'select its properties, as ?{edge.variable}.amount, or use rpq.Engine(…, edges="parallel") or edges="id"'
        )
    if _has_streams(readings) and evaluation.identity == "id":
        reason = "in named streams (ON, windows in SPARQL) edges have no ids: write a pattern over the merged stream"
    else:
        reason = _reason_against_count(question, readings, evaluation)
    if reason is None:
        _refuse_unkept_statics(question, evaluation)
        _refuse_beside_hidden(question, readings, evaluation)
    if reason is not None:
        raise QueryError(f"query {question.name!r} in {what}: {reason}")
    return readings


def _has_streams(readings: Iterable[Reading]) -> bool:
    return any(reading.stream is not None for reading in readings)


def _refuse_beside_hidden(question: Question, readings: Sequence[Reading], evaluation: EdgeEvaluation) -> None:
    """Raise `QueryError` for a query that running ones exclude because edges of the window hide static edges."""
    multigraph = evaluation.multigraph
    if multigraph is None or not multigraph.hides:
        return
    what = "edges of the window hide static edges"
    reading = readings[0]
    if any(other.window != one.window for other in multigraph.readings.all for one in readings):
        raise QueryError(f"query {question.name!r}: {what}; {_OTHER_HIDING.format(reading.window)}")
    _refuse_hiding(question, evaluation, what)


def _reason_against_count(question: Question, readings: Sequence[Reading], evaluation: EdgeEvaluation) -> str | None:
    """Return the reason why a query cannot have a count window, or its windows beside those of others; None if it can."""
    counted = (one for one in readings if has_counted_window(question, one, evaluation.identity))
    reading = next(counted, readings[0])
    multigraph, is_counted = evaluation.multigraph, has_counted_window(question, reading, evaluation.identity)
    if is_counted and _has_streams(readings):
        return (
            f"its window is {reading.window!r} and it reads a named stream (ON); with conditions on edges, or edges with an "
            "identity, named streams need windows of time"
        )
    others = [] if multigraph is None else multigraph.readings.all
    is_beside_counted = multigraph is not None and multigraph.window_edges is not None and multigraph.window_edges.counts
    is_beside_order = multigraph is not None and multigraph.has_ordered_counts
    is_own = reading.window.kind == "count" and not is_counted
    if (is_own and is_beside_counted) or (is_counted and is_beside_order):
        return _BESIDE_ORDER.format(reading.window)
    if not is_counted and not is_beside_counted:
        return None
    if not _have_one_window([*readings, *others]):
        return _OTHER_WINDOW.format(reading.window)
    is_implicit = getattr(question, "semantics", None) == "implicit"
    if is_implicit and evaluation.events is not None:
        return (
            f"its window is {reading.window!r}, and in an engine whose events have several tuples, rows that leave such a "
            'window are always reported: give semantics="explicit"'
        )
    return None


def refuse_counted_before(running: Iterable[RunningQuery], question: Question) -> None:
    """Raise `QueryError` if a query with conditions is added to one over a count window that began without conditions."""
    for one in running:
        if any(window.kind == "count" for window in one.windows):
            raise QueryError(
                f"query {question.name!r} has conditions on edges, and query {one.question.name!r} already counts inserts "
                f"in {one.question.window!r}: register the two together"
            )


_OTHER_WINDOW = (
    "its window is {!r}, and another query has another window or reads other labels: which insert replaces which depends on "
    "the count window, so give it an engine of its own"
)

_BESIDE_ORDER = (
    "its window is {!r}, and only one of two queries over count windows is about paths in time order, which number inserts "
    "by themselves: give each an engine of its own"
)


def _have_one_window(readings: Iterable[Reading]) -> bool:
    """Return whether all read the same plain labels over the same window of the merged stream."""
    found = {(reading.window, reading.labels.plain, reading.stream) for reading in readings}
    return len(found) < 2 and not any(stream is not None for _, _, stream in found)


def refuse_other_windows(
    questions: Iterable[Question], readings: Mapping[str, tuple[Reading, ...]], identity: Identity
) -> None:
    """Raise `QueryError` for queries that are added together if one has a count window and not all have the same.

    `readings` are what they read, by name. Count windows of paths in time order are their own, but none is beside others.
    """
    by_count = [one for one in questions if any(reading.window.kind == "count" for reading in readings[one.name])]
    counted = [one for one in by_count if any(has_counted_window(one, each, identity) for each in readings[one.name])]
    if not counted or (len(counted) == len(by_count) and _have_one_window(chain.from_iterable(readings.values()))):
        return
    name = counted[0].name
    reason = (_OTHER_WINDOW if len(counted) == len(by_count) else _BESIDE_ORDER).format(readings[name][0].window)
    what = "a query with conditions on edges" if identity == "triple" else f'an engine with edges="{identity}"'
    raise QueryError(f"query {name!r} in {what}: {reason}")


def refuse_late_counts(
    questions: Iterable[Question], readings: Mapping[str, tuple[Reading, ...]], identity: Identity, *, is_decided: bool
) -> None:
    """Raise `RegistrationError` for a count window that is to begin empty in mid-stream, unless paths are in time order.

    The same holds for any query where the window of all `is_decided` before the graph.
    """
    late = (one for one in questions if is_decided or has_counted_window(one, readings[one.name][0], identity))
    if (question := next(late, None)) is not None:
        what = "the window of all queries" if readings[question.name][0].window.kind != "count" else "a count window"
        raise RegistrationError(
            f"query {question.name!r}: in mid-stream {what} over edges with an identity begins with its edges; "
            'leave out start="empty"',
            available_from=None,
        )


def refuse_order(question: Question, identity: Identity) -> None:
    """Raise `QueryError` for a query about paths in time order where edges do not keep timestamps of their own."""
    if not is_ordered(question):
        return
    if identity == "triple":
        raise QueryError(
            f"query {question.name!r}: paths in time order need edges with timestamps of their own, and here an insert "
            'replaces the edge with its source, label and target, which an earlier step may need: use rpq.Engine(…, '
            'edges="parallel"), where each insert is an edge, or edges="id"'
        )


def refuse_hidden_statics(questions: Iterable[Question], evaluation: EdgeEvaluation) -> None:
    """Raise `QueryError` where edges of the window would hide static edges and a query, or the engine, does not allow it.

    A static edge then returns when an edge leaves the window, so that one window is decided for all queries.
    """
    questions = [*questions]
    if not questions:
        return
    what = (
        "an edge of the window hides the static edge with its id"
        if evaluation.identity == "id"
        else "an edge of the window hides the static edge with its source, target and label, which has other values"
    )
    if evaluation.graph.time is not None:
        raise RegistrationError(
            f"query {questions[-1].name!r}: {what}, and after the first tuple it is not known which edges do; register the "
            "query before the first tuple",
            available_from=None,
        )
    windows = {reading.window for question in questions for reading in readings_of(question)}
    if (named := next((one for one in questions if _has_streams(readings_of(one))), None)) is not None:
        raise QueryError(f"query {named.name!r} with static edges: {what}; this cannot be combined with named streams (ON)")
    if len(windows) > 1:
        window = readings_of(questions[-1])[0].window
        raise QueryError(f"query {questions[-1].name!r} with static edges: {what}; {_OTHER_HIDING.format(window)}")
    for question in questions:
        _refuse_hiding(question, evaluation, what)


_OTHER_HIDING = (
    "its window is {!r}, and another query has another window: which edge hides which depends on the window, so give it an "
    "engine of its own"
)


def _refuse_hiding(question: Question, evaluation: EdgeEvaluation, what: str) -> None:
    reason = None
    if is_ordered(question):
        reason = "paths in time order, which contain no static edges, need static edges without ids"
    elif evaluation.events is not None:
        reason = "this cannot be combined with events of several tuples"
    elif evaluation.multigraph is not None and evaluation.multigraph.keep_window is not None:
        reason = "this cannot be combined with keep, which is another window"
    if reason is not None:
        raise QueryError(f"query {question.name!r} with static edges: {what}; {reason}")


def _refuse_unkept_statics(question: Question, evaluation: EdgeEvaluation) -> None:
    """Raise `RegistrationError` for a query on properties of static edges that no query read when they were loaded."""
    if evaluation.multigraph is None:
        return
    if lost := evaluation.multigraph.statics.lost_properties(properties_of(question)):
        raise RegistrationError(
            f"query {question.name!r}: the values of {', '.join(lost)} of static edges were not stored, as no query read "
            "them when the edges were loaded; register the query before load_static, or start the server with it",
            available_from=None,
        )


def refuse_late_conditions(questions: Iterable[Question], evaluation: EdgeEvaluation) -> None:
    """Raise `RegistrationError` if queries with conditions are added in mid-stream to an engine that began without any."""
    if evaluation.graph.time is None:
        return
    name = next(question.name for question in questions if has_conditions(question))
    raise RegistrationError(
        f"query {name!r}: properties of edges were not stored, as no query read any when the stream began; begin with a "
        'query that reads them, or with rpq.Engine(…, edges="parallel")',
        available_from=None,
    )


def refuse_unkept_facts(question: Question, kept: frozenset[str] | None) -> None:
    """Raise `RegistrationError` if a query reads a property of nodes that is not among those that are kept (None: all)."""
    unkept = sorted(node_properties_of(question) - kept) if kept is not None else []
    if unkept:
        raise RegistrationError(
            f"query {question.name!r} reads the property {unkept[0]!r} of nodes, which is not among node_properties",
            available_from=None,
        )


def refuse_tested_statics(tests_nodes: bool) -> None:
    """Raise `QueryError` if paths with tests of nodes would run across static edges."""
    if tests_nodes:
        raise QueryError(
            "a path expression with tests of nodes (@[…]) does not run across static edges: test the variables of a pattern "
            "instead, or push the edges with a timestamp"
        )


def begins_empty(question: Question, evaluation: EdgeEvaluation) -> bool:
    """Return whether a query may begin with an empty window in mid-stream, as no insert replaces an edge unknown to it."""
    identity, multigraph = evaluation.identity, evaluation.multigraph
    counts = any(has_counted_window(question, reading, identity) for reading in readings_of(question))
    if multigraph is not None and (counts or multigraph.window_edges is not None):
        return False
    return identity == "parallel" or (identity == "triple" and not has_conditions(question))


def refuse_unread_conditions(
    question: Question, evaluation: EdgeEvaluation, *, empty: bool, to_timestamp: Callable[[int], Any]
) -> None:
    """Raise `RegistrationError` where a query in mid-stream has conditions, or reads values, that no query reads now.

    It is then not known which edges in its window satisfy the conditions, or which values they have. If the window has no
    edges with the labels, the query is accepted. The query may begin `empty` where each insert is an edge of its own.
    `to_timestamp` turns integers into times of the stream.
    """
    multigraph, time = evaluation.multigraph, evaluation.graph.time
    if time is not None and is_ordered(question):
        _refuse_unkept_edges(question, evaluation, empty=empty, to_timestamp=to_timestamp)
    if time is None or multigraph is None or (empty and evaluation.identity == "parallel"):
        return
    if empty and evaluation.identity == "id":
        raise RegistrationError(
            f"query {question.name!r}: in mid-stream a query in an engine with edges=\"id\" begins with the edges of its "
            'window, since inserts replace them; leave out start="empty"',
            available_from=None,
        )
    for reading in readings_of(question):
        unkept = sorted(multigraph.underived_labels(reading.labels), key=str)
        lost = (values_read_by(question) or frozenset()) - multigraph.readings.values
        if unkept:
            why = f"which edges satisfy {unkept[0]} was not stored"
        elif lost:
            why = f"the values of {', '.join(sorted(lost))} were not stored"
        else:
            continue
        _refuse_if_edges_came(question, reading, evaluation, why=why, to_timestamp=to_timestamp)
    if empty and has_conditions(question):
        raise RegistrationError(
            f"query {question.name!r}: in mid-stream a query with conditions begins with the edges of its window, since "
            'inserts replace them; leave out start="empty"',
            available_from=None,
        )


def _refuse_if_edges_came(
    question: Question, reading: Reading, evaluation: EdgeEvaluation, *, why: str, to_timestamp: Callable[[int], Any]
) -> None:
    """Raise `RegistrationError` where the window of a reading has, or may have had, edges with labels that it reads."""
    multigraph, time = evaluation.multigraph, evaluation.graph.time
    assert multigraph is not None and time is not None
    of_labels = reading._replace(labels=reading.labels.plain)
    latest = max(
        latest_lost_insert(question, of_labels, evaluation.labels, evaluation.graph),
        multigraph.latest_timestamp(of_labels.labels),
        _latest_in_graph(reading, evaluation),
    )
    window = reading.window
    if latest <= max(EARLIEST - 1, lower_bound(window, time)):
        return
    why = f"query {question.name!r}: {why}, as no registered query reads them"
    hint = ', or at once with start="empty"' if begins_empty(question, evaluation) else ""
    if not isinstance(window, Window):
        raise RegistrationError(f"{why}; register it before the first tuple{hint}", available_from=None)
    available = to_timestamp(window.expiry_slide(latest) * window.slide)
    raise RegistrationError(
        f"{why}; it can be registered from {available} on, if no more edges with these labels come until then{hint}",
        available_from=available,
    )


def _latest_in_graph(reading: Reading, evaluation: EdgeEvaluation) -> int:
    """Return the largest timestamp of edges in the graph with labels of a reading, plain or derived, or one before all.

    Under `keep` the graph has edges that no query evaluates, and those derived for a removed query, which no tuple
    removes any more. O(edges).
    """
    edges, live = evaluation.graph.edges, evaluation.graph.live_edges()
    sets = reading.labels, reading.labels.plain
    names = (name if isinstance(name, (str, ConditionLabel)) else None for name in evaluation.labels.names)
    is_mine = np.array([name is not None and name != "" and any(one.has(name) for one in sets) for name in names], bool)
    mine = live[is_mine[edges.label[live]]]
    return int(edges.timestamp[mine].max(initial=EARLIEST - 1))


def _refuse_unkept_edges(
    question: Question, evaluation: EdgeEvaluation, *, empty: bool, to_timestamp: Callable[[int], Any]
) -> None:
    """Raise `RegistrationError` for paths in time order where the window has edges that were not stored one by one."""
    multigraph = evaluation.multigraph
    if multigraph is None or empty or evaluation.identity != "parallel" or multigraph.window_edges is not None:
        return  # versions are all edges, or `refuse_order` or `readings_in` says why not
    for reading in readings_of(question):
        if reading.is_of_facts:
            continue
        if isinstance(reading.window, CountWindow) and not has_counted_window(question, reading, evaluation.identity):
            if not multigraph.tracks(count_key(reading, None)):
                raise RegistrationError(
                    f"query {question.name!r}: the parallel edges in its window of the last {reading.window.size:,} are not "
                    "known, as no query about paths in time order counts the same labels in a window of that size and "
                    'step; it can be registered with start="empty", which numbers inserts from now on',
                    available_from=None,
                )
        elif not multigraph.keeps_parallel(reading.labels):
            why = "the timestamps of parallel edges were not stored"
            _refuse_if_edges_came(question, reading, evaluation, why=why, to_timestamp=to_timestamp)


def refuse_forgotten_edges(question: Question, evaluation: EdgeEvaluation, *, to_timestamp: Callable[[int], Any]) -> None:
    """Raise `RegistrationError` where a query would need the versions of edges that have left all windows so far.

    Whatever label a version has, an older insert with its id changes nothing. `to_timestamp` turns integers into times of
    the stream.
    """
    multigraph, time = evaluation.multigraph, evaluation.graph.time
    if multigraph is None or multigraph.edge_names is None or time is None:
        return
    lost = multigraph.table.latest_departure(multigraph.lower_bound(time))
    for window in (reading.window for reading in readings_of(question) if not reading.is_of_facts):
        if lost == ABSENT_VERSION or lost <= lower_bound(window, time):
            continue
        why = f"query {question.name!r}: its window would contain edges that were removed, as they had left all windows"
        if not isinstance(window, Window):
            raise RegistrationError(f"{why}, such as one with timestamp {to_timestamp(lost)}", available_from=None)
        available = to_timestamp(window.expiry_slide(lost) * window.slide)
        raise RegistrationError(f"{why}; it can be registered from {available} on", available_from=available)
