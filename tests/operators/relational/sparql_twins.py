"""An engine and the oracle of SPARQL, driven side by side: rows, answers and counts are compared after every push."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import window_of
from tests.reference import COUNTS
from tests.reference_pattern_stream import RegistrationRefused, Row
from tests.reference_sparql_stream import SparqlQuestion, SparqlReference, question
from tests.reference_sparql_syntax import Call, Column, Constant, Formula, Group, InWindow, Triples, Values, Variable, write
from tests.reference_sparql_values import literal
from tests.strategies.pattern_strategies import any_window
from tests.strategies.sparql_strategies import NUMBERS, TEXTS, acceptable, edges, groups, queries
from tests.twins import tiny

Tuple = tuple[str, str, str, int, str, str | None]


def query_of(question: SparqlQuestion) -> rpq.Query:
    """The same question, put to the engine. Of what is not evaluated yet the example is given up."""
    window = None if question.window is None else window_of(question.window)
    try:
        return rpq.Query(
            write(question.query),
            name=question.name,
            window=window,
            semantics=question.semantics,
            report=question.report if not question.query.operator else "change",
        )
    except rpq.QueryError as problem:
        assume(not any(word in str(problem) for word in ("has no window", "default window", "outer group")))
        raise


class Twins:
    """Both, over some questions."""

    def __init__(
        self,
        *questions: SparqlQuestion,
        static: Sequence[tuple[str, str, str]] = (),
        graphs: Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
        capacity: int = 4,
        threads: int = 1,
        report_empty: bool = False,
    ) -> None:
        self._restoring = {"threads": threads, "report_empty": report_empty}
        self.questions = {one.name: one for one in questions}
        try:
            self.engine = tiny(capacity)(*map(query_of, questions), time_unit="s", **self._restoring)
            for name, own in (graphs or {}).items():
                self.engine.load_static([(source, target, label) for source, label, target in own], graph=name)
            if static:
                self.engine.load_static([(source, target, label) for source, label, target in static])
        except rpq.QueryError as problem:
            assume("does not run across static edges" not in str(problem))
            raise
        self.reference = SparqlReference(*questions, static=static)
        self.reference.report_empty = report_empty
        for name, own in (graphs or {}).items():
            self.reference.load_graph(name, own)

    def shown(self, rows: list[Row]) -> list[tuple]:
        """Rows of the oracle as the engine has them."""
        return [(one.query, *self.questions[one.query].pattern.shown(one.values), one.timestamp, one.op) for one in rows]

    def push(self, tuples: Sequence[Tuple]) -> list[tuple]:
        """Push tuples to both; the rows."""
        expected = self.shown([row for one in tuples for row in self.reference.push(*one)])
        names = ("source", "target", "label", "timestamp", "op", "stream")
        columns = map(list, zip(*tuples, strict=True))
        changes = self.engine.push(dict(zip(names, columns, strict=True)))
        found = [tuple(row) for row in changes.rows()]
        self.compare(found, expected)
        return found

    def compare(self, found: list[tuple], expected: list[tuple]) -> None:
        assert Counter(found) == Counter(expected), (found, expected)
        times = [row[-2] for row in found]
        assert times == sorted(times)
        self.engine._check()
        for name, one in self.questions.items():
            answers = Counter(self.engine.answers(name))
            expected_answers = Counter(one.pattern.shown(values) for values in self.reference.answer(name).elements())
            assert answers == expected_answers, (name, answers, expected_answers)

    def advance(self, time: int) -> list[tuple]:
        """Move the time of both; the rows."""
        found = [tuple(row) for row in self.engine.advance(time).rows()]
        self.compare(found, self.shown(self.reference.advance(time)))
        return found

    def flush(self) -> list[tuple]:
        """Compare what is reported if the stream ends here; the rows. Neither changes, as the steps that follow show."""
        end = deepcopy(self.reference)
        expected: list[Row] = []
        reporting = [one for one in self.questions.values() if one.report != "change" and end.time is not None]
        for boundary, name in sorted((one.reports_at(end.time), one.name) for one in reporting):
            ended = deepcopy(end)
            expected += [row for row in ended.advance(boundary + 1) if row.query == name and row.timestamp <= boundary]
        found = [tuple(row) for row in self.engine.flush().rows()]
        self.compare(found, self.shown(expected))
        return found

    def register(self, question: SparqlQuestion, start: str) -> None:
        """Register a query with both, where neither refuses it."""
        try:
            expected = self.reference.register(question, start)
        except RegistrationRefused:
            with pytest.raises(rpq.RegistrationError):
                self.engine.register(query_of(question), start=start)
            return
        try:
            found = [tuple(row) for row in self.engine.register(query_of(question), start=start).rows()]
        except rpq.QueryError as problem:
            assume("does not run across static edges" not in str(problem))
            raise
        self.questions[question.name] = question
        self.compare(found, self.shown(expected))

    def restore(self, threads: int | None = None) -> None:
        """Go on with an engine that is restored from what this one saved."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "state")
            self.engine.save(path)
            options = self._restoring if threads is None else self._restoring | {"threads": threads}
            self.engine = type(self.engine).restore(path, **options)
        self.engine._check()

    def compare_counts(self) -> None:
        for name in self.questions:
            figures, counts = self.engine.statistics(name), self.reference.counts(name)
            for field in COUNTS[1:]:
                assert getattr(figures, field) == counts[field], (field, figures, counts)


@st.composite
def streams(draw: st.DrawFn, longest: int = 15) -> list[Tuple]:
    """Tuples in order and late, with deletes, some of a stream with a name; few edges, so that they come again."""
    known = draw(st.lists(edges, min_size=3, max_size=9, unique=True))
    steps = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 7]),
        st.sampled_from([0, 0, 0, 2, 9]),
        st.sampled_from(known),
        st.sampled_from("+++-"),
        st.sampled_from([None, None, "s"]),
    )
    time, tuples = 20, []
    for ahead, behind, (source, label, target), op, stream in draw(st.lists(steps, min_size=5, max_size=longest)):
        time += ahead
        tuples.append((source, target, label, time - behind, op, stream))
    return tuples


@st.composite
def questions(draw: st.DrawFn, name: str = "q", report: str = "change") -> SparqlQuestion:
    """A query over windows of every kind, the default one of the merged stream and perhaps left out."""
    windows = {"urn:w": draw(any_window()), "urn:v": draw(any_window())}
    kinds = ("time", "time", "count", "unbounded") if report == "change" else ("time",)
    default = draw(any_window(kinds=kinds).filter(lambda window: window.stream is None))
    query = draw(queries(windows))
    if query.form == "CONSTRUCT" and draw(st.booleans()):
        graph = st.none() | st.sampled_from([Variable("x"), Variable("y"), Variable("n"), Constant("urn:g")])
        graphs = draw(st.lists(graph, min_size=len(query.template), max_size=len(query.template)))
        query = replace(query, template_graphs=tuple(graphs))
    if report == "slide" and any(one.kind == "time" for one in windows.values()) and draw(st.booleans()):
        default = None
    if report == "slide" and (operator := draw(st.sampled_from(["", "", "ISTREAM", "DSTREAM", "RSTREAM"]))):
        query = replace(query, operator=operator, name=name)
    return question(query, default, name=name, report=report)


@st.composite
def graph_questions(draw: st.DrawFn, name: str = "q", report: str = "change") -> SparqlQuestion:
    """A query that reads named graphs of static edges in the place of one of its windows, perhaps with FROM NAMED."""
    drawn = draw(questions(name, report))
    graph = draw(st.sampled_from([Variable("g"), Variable("h"), Variable("x"), "urn:x", "urn:q"]))
    place = draw(st.sampled_from(["urn:w", "urn:v"]))
    query = _in_graphs(drawn.query, {place: graph, "urn:w": "urn:w" if place != "urn:w" else graph})
    if draw(st.booleans()):
        within = InWindow(graph, draw(groups(1)), is_graph=True)
        select = query.select
        query = replace(query, select=replace(select, body=Group((*select.body.elements, within))))
    if draw(st.integers(0, 3)) == 0:
        named = draw(st.lists(st.sampled_from(["urn:x", "urn:y"]), min_size=1, unique=True))
        query = replace(query, from_named=tuple(named))
    assume(acceptable(query))
    return question(query, drawn.window, name=name, report=report)


def _in_graphs(node: Any, graphs: Mapping[str, Any]) -> Any:
    """Return a tree with graphs in place of windows."""
    if isinstance(node, tuple) and not hasattr(node, "_fields"):
        return tuple(_in_graphs(one, graphs) for one in node)
    if isinstance(node, InWindow) and graphs.get(node.name, node.name) != node.name:
        return InWindow(graphs[node.name], _in_graphs(node.group, graphs), is_graph=True)
    if not is_dataclass(node):
        return node
    return replace(node, **{one.name: _in_graphs(getattr(node, one.name), graphs) for one in fields(node)})


@st.composite
def timed_questions(draw: st.DrawFn, name: str = "q") -> SparqlQuestion:
    """A query that reports at slides, with NOW() in the place of some constants of its formulas."""
    drawn = draw(questions(name, report="slide"))
    offset = Constant(literal(str(draw(st.integers(15, 60))), "integer"))
    number = Call("-", (Call("SECONDS", (NOW,)), offset))
    in_place = {NUMBERS[1]: number, TEXTS[1]: Call("SUBSTR", (Call("STR", (NOW,)), Constant(literal("19", "integer"))))}
    query = _with_formulas(drawn.query, in_place)
    select = query.select
    if query.form == "SELECT" and select.columns is not None and draw(st.booleans()):
        query = replace(query, select=replace(select, columns=(*select.columns, Column(Variable("now"), NOW))))
    assume(acceptable(query))
    return question(query, drawn.window, name=name, report="slide")


NOW = Call("NOW", ())


def _with_formulas(node: Any, in_place: Mapping[str, Formula]) -> Any:
    """Return a tree with other formulas in place of constants, except those of triples and tables."""
    if isinstance(node, Constant):
        return in_place.get(node.value, node)
    if isinstance(node, tuple):
        return tuple(_with_formulas(one, in_place) for one in node)
    if isinstance(node, Triples | Values | Variable) or not is_dataclass(node):
        return node
    kept = {"windows", "template", "template_graphs"}
    changed = {one.name: _with_formulas(getattr(node, one.name), in_place) for one in fields(node) if one.name not in kept}
    return replace(node, **changed)


warnings_of_rdflib = pytest.mark.filterwarnings("ignore::DeprecationWarning")
