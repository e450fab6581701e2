"""An engine and the oracle, driven side by side: everything that can be seen of the one is compared with the other."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import rpq
from rpq.engine.running.evaluation import Evaluation
from tests.reference import COUNTS, Edge, ReferenceEngine, ReferenceQuery, RegistrationRefused, Row
from tests.reference_length import LengthQuery, LengthRow

Tuple = tuple[Any, Any, str, int, str]  # source, target, label, timestamp, op

WEEKLY_EXAMPLES = 20
"""The examples of the profile "moderate", with which CI runs once a week."""


def examples(percent: int, **options: Any) -> settings:
    """That part of the examples of the profile: 150 are twelve by default, thirty once a week, and 3,000 under "long"."""
    return settings(max_examples=math.ceil(settings().max_examples * percent / 100), **options)


def scaled(size: int) -> int:
    """That size, of seeds or of a drawn stream, once a week and under "long"; two fifths by default, less in CI."""
    return min(size, math.ceil(size * settings().max_examples / WEEKLY_EXAMPLES))


def left_to_ci(*values: Any) -> list[Any]:
    """Return values of a parameter of a test that only CI runs, beside those that everybody runs."""
    return [pytest.param(value, marks=pytest.mark.ci) for value in values]


def chunk_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each chunk that an engine applies from now on adds its number of tuples."""
    sizes: list[int] = []
    apply = Evaluation.apply

    def counted(self: Evaluation, tuples: Any, first: int, count: int, **options: Any) -> Any:
        sizes.append(count)
        return apply(self, tuples, first, count, **options)

    monkeypatch.setattr(Evaluation, "apply", counted)
    return sizes


def tiny(capacity: int) -> type[rpq.Engine]:
    """Engines that begin with so little room, restored ones too, that tiny streams reach every growth path."""

    class Tiny(rpq.Engine):
        def __init__(self, *queries: rpq.Query, **options: Any) -> None:
            # Half of them share conditions, which is never seen: which half follows from the queries, in any process.
            shares = sum(map(ord, repr(queries))) % 2 == 0
            super().__init__(*queries, _capacity=capacity, **{"_sharing": "always" if shares else "never"} | options)

    return Tiny


def collect(engine: rpq.Engine) -> None:
    """Collect now what an engine collects by itself only after hundreds of tuples."""
    engine._evaluation.collector.collect()


def parts_of(engine: rpq.Engine, name: str, limit: int, **options: Any) -> Iterator[rpq.Answers]:
    """The answers of a query, of which each part has at most `limit`."""
    part = engine.answers(name, limit=limit, **options)
    yield part
    while part.cursor is not None:
        assert len(part) == limit
        part = engine.answers(name, limit=limit, after=part.cursor, **options)
        yield part


def reference_query(query: rpq.Query) -> ReferenceQuery:
    """The same question, put to the oracle."""
    kind = LengthQuery if query.has_length else ReferenceQuery
    return kind(
        name=query.name,
        expression=query.expression,
        size=query.window.size,
        slide=query.window.slide,
        semantics=query.semantics,
        paths=query.paths,
        sources=query.sources,
        targets=query.targets,
    )


def row(change: rpq.Change) -> Row:
    """A row of the engine as one of the oracle."""
    return Row(*change) if len(change) == len(Row._fields) else LengthRow(*change)


def assert_rows(found: Sequence[Row], groups: Iterable[Sequence[Row]]) -> None:
    """Assert that the rows are those of the groups one after the other, those of one group in any order."""
    begin = 0
    for group in groups:
        part = found[begin : begin + len(group)]
        assert Counter(part) == Counter(group)
        begin += len(group)
    assert begin == len(found), f"more rows than there should be: {found[begin:]}"
    assert [r.timestamp for r in found] == sorted(r.timestamp for r in found), "rows are not in time order"


def assert_path(
    vertices: Sequence[Any], labels: Sequence[str], pair: tuple[Any, Any], query: rpq.Query, edges: Iterable[Edge]
) -> None:
    """Assert that a path joins the pair, walks along (or against) edges that are there, and spells a word."""
    edges = set(edges)
    assert (vertices[0], vertices[-1]) == pair
    assert len(labels) == len(vertices) - 1 > 0
    word = []
    for u, label, v in zip(vertices, labels, vertices[1:], strict=False):
        inverse = label.startswith("^")
        name = label[1:] if inverse else label
        assert ((v, name, u) if inverse else (u, name, v)) in edges, f"{u} {label} {v} is no edge"
        word.append((name, inverse))
    inner = vertices[1:] if query.paths == "simple_cycle" and pair[0] == pair[1] else vertices
    assert query.paths == "walk" or len(set(inner)) == len(inner), f"{vertices} is no simple path"
    assert query.dfa.accepts(word), f"{labels} is no word of {query.expression}"


def search(query: rpq.Query, edges: Iterable[Edge]) -> set[tuple[Any, Any]]:
    """Find the answers over edges by walking the automaton from every vertex, where the oracle would take too long."""
    out: dict[Any, list[tuple[str, bool, Any]]] = {}
    for u, label, v in edges:
        out.setdefault(u, []).append((label, False, v))
        out.setdefault(v, []).append((label, True, u))
    dfa = query.dfa
    columns = {(label, inverse): dfa.column(label, inverse) for steps in out.values() for label, inverse, _ in steps}
    answers = set()
    for root in out:
        if query.sources is not None and root not in query.sources:
            continue
        seen: set[tuple[Any, int]] = set()
        waiting = [(root, 0)]
        while waiting:
            u, state = waiting.pop()
            for label, inverse, v in out[u]:
                column = columns[label, inverse]
                following = int(dfa.transitions[state, column]) if column >= 0 else -1
                if following >= 0 and (v, following) not in seen:
                    seen.add((v, following))
                    waiting.append((v, following))
        answers |= {(root, v) for v, state in seen if dfa.accepting[state]}
    return {(x, y) for x, y in answers if query.targets is None or y in query.targets}


class Twins:
    """An engine and its oracle. Every method does the same to both and compares what they say."""

    def __init__(self, *queries: rpq.Query, capacity: int = 256, threads: int = 1, witness: bool = False) -> None:
        self.witness = witness
        self.kind = tiny(capacity)
        self.engine = self.kind(*queries, threads=threads, witness=witness)
        self.reference = ReferenceEngine(*map(reference_query, queries))
        self.queries = {query.name: query for query in queries}
        self.sums: dict[str, set[tuple[Any, Any]]] = {query.name: set() for query in queries}

    def push(self, tuples: Sequence[Tuple]) -> None:
        """Push a batch."""
        groups: list[list[Row]] = []
        moments: list[dict[str, dict[Edge, int]]] = []
        lower = []
        for source, target, label, timestamp, op in tuples:
            present = {name: self.reference.edges(name) for name in self.queries} if self.witness else {}
            boundaries = self.reference.advance(timestamp)
            for at in sorted({r.timestamp for r in boundaries}):
                groups.append([r for r in boundaries if r.timestamp == at])
                moments.append({name: self._held_at(at, name, edges) for name, edges in present.items()})
            before = self.reference.counts()["late"]
            groups.append(self.reference.push(source, target, label, timestamp, op))
            moments.append({name: self.reference.edges(name) for name in self.queries} if self.witness else {})
            lower.append(self.reference.counts()["late"] - before)
        changes = self.engine.push_rows(tuples)
        self._compare(changes, groups)
        assert changes.late_rows.tolist() == [i for i, late in enumerate(lower) if late]
        if self.witness:
            self._compare_paths(changes, groups, moments)

    def _held_at(self, time: int, name: str, edges: dict[Edge, int]) -> dict[Edge, int]:
        """Return those of some edges that a query's window still holds at a boundary: only lengths have rows + there."""
        bound = reference_query(self.queries[name]).lower_bound(time)
        return {edge: timestamp for edge, timestamp in edges.items() if timestamp > bound}

    def advance(self, time: int) -> None:
        """Move the time."""
        rows = self.reference.advance(time)
        changes = self.engine.advance(time)
        times = sorted({r.timestamp for r in rows})
        self._compare(changes, [[r for r in rows if r.timestamp == at] for at in times])

    def register(self, query: rpq.Query, start: str) -> bool:
        """Register a query; whether it was let in."""
        try:
            rows = self.reference.register(reference_query(query), start)
        except RegistrationRefused as refused:
            try:
                self.engine.register(query, start=start)
            except rpq.RegistrationError as error:
                assert error.available_from == refused.available_from
                return False
            raise AssertionError(f"the engine lets {query} in") from refused
        changes = self.engine.register(query, start=start)
        self.queries[query.name] = query
        self.sums[query.name] = set()
        self._compare(changes, [rows])
        if self.witness:
            self._compare_paths(changes, [rows], [{name: self.reference.edges(name) for name in self.queries}])
        return True

    def unregister(self, name: str) -> None:
        """Take a query away."""
        self.reference.unregister(name)
        self.engine.unregister(name)
        del self.queries[name], self.sums[name]

    def save_and_restore(self, path: Path, threads: int) -> None:
        """Go on with an engine that was read from a file."""
        self.engine.save(path)
        self.engine = self.kind.restore(path, threads=threads, witness=self.witness)

    def check(self) -> None:
        """Compare answers and counts; assert the invariants of the engine."""
        self.engine._check()
        assert self.engine.time == self.reference.time
        self._compare_counts(self.engine.statistics(), self.reference.counts())
        for name, query in self.queries.items():
            answers = self.reference.answers(name)
            found = self.engine.answers(name)
            assert found.pairs() == answers
            assert len(found) == len(answers)
            self._compare_counts(self.engine.statistics(name), self.reference.counts(name))
            if query.semantics == "explicit":
                assert self.sums[name] == answers, "the sum of the rows is not the answer"

    def check_parts(self, name: str, limit: int) -> None:
        """Compare the answers that are read in parts, and those of a source and of a target."""
        answers = self.reference.answers(name)
        found = [row for part in parts_of(self.engine, name, limit) for row in part]
        assert len(found) == len(answers) and set(found) == answers
        for place, end in enumerate(("source", "target")):
            for vertex in {row[place] for row in answers}:
                some = [row for part in parts_of(self.engine, name, limit, **{end: vertex}) for row in part]
                assert Counter(some) == Counter(row for row in answers if row[place] == vertex)

    def check_witnesses(self, name: str, count: int) -> None:
        """Look at the witnesses of some answers, and that there is none of a pair that is no answer."""
        answers = self.reference.answers(name)
        edges = self.reference.edges(name)
        for pair in sorted(answers, key=repr)[:count]:
            path = self.engine.witness(*pair, name)
            assert path is not None
            assert_path(path.vertices, path.labels, pair[:2], self.queries[name], edges)
            assert pair[2:] in ((), (len(path.labels),)), f"the witness of {pair} has {len(path.labels)} edges"
        if self.queries[name].has_length:
            assert not [pair for pair in answers if self.engine.witness(*pair[:2], pair[2] + 1, name) is not None]
            return
        vertices = sorted({end for u, _, v in edges for end in (u, v)}, key=repr)[:count]
        for pair in {(u, v) for u in vertices for v in vertices} - answers:
            assert self.engine.witness(*pair, name) is None

    def _compare(self, changes: rpq.Changes, groups: Sequence[Sequence[Row]]) -> None:
        found = [row(change) for change in changes.rows()]
        assert_rows(found, groups)
        assert len(changes) == len(found)
        assert changes.added == sum(r.op == "+" for r in found)
        for r in found:
            if self.queries[r.query].semantics == "explicit":
                pairs, answer = self.sums[r.query], r[1:-2]
                assert (answer in pairs) == (r.op == "-"), f"{r} does not fit the rows before it"
                pairs.symmetric_difference_update({answer})

    def _compare_paths(self, changes: rpq.Changes, groups: Sequence[Sequence[Row]], moments: Sequence[dict]) -> None:
        table = changes.to_arrow(witness=True).to_pylist()
        at = 0
        for group, moment in zip(groups, moments, strict=True):
            for found in table[at : at + len(group)]:
                if found["op"] == "-":
                    assert found["path"] == "" and found["path_times"] is None
                else:
                    path = json.loads(found["path"])
                    pair = (found["source"], found["target"])
                    query = self.queries[found["query"]]
                    present = moment[query.name]
                    assert_path(path[::2], path[1::2], pair, query, present)
                    steps = zip(path[::2], path[1::2], path[2::2], strict=False)
                    edges = [(v, label[1:], u) if label.startswith("^") else (u, label, v) for u, label, v in steps]
                    assert found["path_times"] == [present[edge] for edge in edges], f"{path} has other times"
                    assert found.get("length", len(path) // 2) == len(path) // 2, f"{path} is no shortest path"
            at += len(group)

    @staticmethod
    def _compare_counts(found: rpq.Statistics, expected: dict[str, int]) -> None:
        names = [*COUNTS, "answers_live", "edges_live"]
        assert {name: getattr(found, name) for name in names} == {name: expected[name] for name in names}
