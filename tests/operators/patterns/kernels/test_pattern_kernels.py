"""The kernels of graph patterns against brute force: random patterns, random streams, tiny capacities."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from rpq.operators.patterns.joins.live_patterns import LivePatterns
from rpq.operators.patterns.joins.plan import Atom, Part, Term, plan_pattern
from rpq.operators.patterns.joins.plan_tables import PlanTables
from rpq.operators.patterns.relations.consistency import check
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import Tuples
from tests.operators.patterns.kernels.label_readers import readers_of
from tests.twins import examples

PHASES=[Phase.explicit,Phase.reuse,Phase.generate]
LABELS = 3
VERTICES = 6


class Window(NamedTuple):
    kind: str
    size: int = 1
    slide: int = 1


class Tuple(NamedTuple):
    source: int
    label: int
    target: int
    time: int
    delete: bool = False


# --- brute force ------------------------------------------------------------------------------------------------------


def solutions(atoms, columns, content, isomorphism, constants=()) -> Counter:
    """The bag of rows of a pattern over `content`, relation -> set of (source, target): atom by atom, edge by edge."""
    bindings: list[dict[Term, int]] = [{}]
    for atom in dict.fromkeys(atoms):
        found = []
        for binding in bindings:
            for edge in content[atom.relation]:
                longer = dict(binding)
                for term, vertex in zip((atom.source, atom.target), edge, strict=True):
                    if (longer.setdefault(term, vertex) if isinstance(term, str) else term) != vertex:
                        break
                else:
                    found.append(longer)
        bindings = found
    if isomorphism:
        bindings = [b for b in bindings if len({*b.values(), *constants}) == len(b) + len(constants)]
    return Counter(tuple(binding[name] for name in columns) for binding in bindings)


@dataclass
class Model:
    """A model of each relation's content, by the text of the contract."""

    windows: list[Window]
    readers: list[list[int]]  # label -> relations
    window_of: list[int]  # relation -> window
    time: int | None = None
    stamps: dict[int, dict[tuple[int, int], tuple[int, int]]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stamps = {relation: {} for relation in range(len(self.window_of))}
        self.numbers = [0] * len(self.windows)

    def content(self) -> dict[int, set[tuple[int, int]]]:
        return {relation: set(edges) for relation, edges in self.stamps.items()}

    def boundaries(self, time: int) -> list[int]:
        """The moments up to `time` at which a time window moves."""
        if self.time is None:
            return []
        slides = [w.slide for w in self.windows if w.kind == "time"]
        return sorted({k * s for s in slides for k in range(self.time // s + 1, time // s + 1)})

    def expire(self, moment: int) -> None:
        for relation, edges in self.stamps.items():
            window = self.windows[self.window_of[relation]]
            if window.kind == "time":
                lower = moment // window.slide * window.slide - window.size
                self.stamps[relation] = {e: state for e, state in edges.items() if state[0] > lower}

    def evict(self, tuple_: Tuple) -> None:
        """Count an insert, and take out what that pushes out of count windows."""
        for relation in self.readers[tuple_.label]:
            number = self.window_of[relation]
            window = self.windows[number]
            if window.kind == "count":
                self.numbers[number] += 1
                edge = tuple_.source, tuple_.target
                if edge in self.stamps[relation]:
                    self.stamps[relation][edge] = (tuple_.time, self.numbers[number])
                lower = self.numbers[number] // window.slide * window.slide - window.size
                for other, edges in self.stamps.items():
                    if self.window_of[other] == number:
                        self.stamps[other] = {e: state for e, state in edges.items() if state[1] > lower}

    def change(self, tuple_: Tuple) -> None:
        edge = tuple_.source, tuple_.target
        for relation in self.readers[tuple_.label]:
            number = self.window_of[relation]
            window, edges = self.windows[number], self.stamps[relation]
            if tuple_.delete:
                edges.pop(edge, None)
            elif window.kind == "time" and tuple_.time <= self.time // window.slide * window.slide - window.size:
                pass  # late
            else:
                times = [tuple_.time, edges[edge][0]] if edge in edges else [tuple_.time]
                edges[edge] = (max(times), self.numbers[number])


# --- drawn ------------------------------------------------------------------------------------------------------------


@st.composite
def patterns(draw, relations: int):
    """Atoms over few terms, so that chains, stars, cycles, loops, constants and several parts all come up."""
    many, few = ["?a", "?b", "?c", "?d", "_:e", "?f", 0, 1], ["?a", "?b", "?c"]
    terms = st.sampled_from(many if draw(st.booleans()) else few)
    atom = st.builds(Atom, terms, st.integers(0, relations - 1), terms)
    atoms = draw(st.lists(atom, min_size=1, max_size=6))
    if draw(st.booleans()):
        # Joined on, so that long connected patterns are not rare.
        atoms = [Atom(f"?{i}", relation, f"?{draw(st.integers(0, i))}") for i, (_, relation, _) in enumerate(atoms, 1)][:4]
    named = sorted({t for a in atoms for t in (a.source, a.target) if isinstance(t, str) and not t.startswith("_")})
    select = draw(st.none() | st.lists(st.sampled_from(named), unique=True)) if named else None
    return tuple(atoms), select, draw(st.booleans()), draw(st.booleans())


windows = st.one_of(
    st.builds(Window, st.just("time"), st.integers(1, 40), st.integers(1, 12)),
    st.builds(Window, st.just("count"), st.integers(1, 8), st.integers(1, 3)),
    st.just(Window("unbounded")),
)


@st.composite
def streams(draw):
    vertices = draw(st.integers(2, VERTICES))
    vertex = st.integers(0, vertices - 1)
    late = st.sampled_from([0, 0, 0, 0, 1, 3, 15, 60])
    step = st.sampled_from([0, 0, 1, 1, 2, 7, 40])
    time = draw(st.sampled_from([0, -30, 5, 1_000_000]))
    tuples = []
    for _ in range(draw(st.integers(1, 40))):
        time += draw(step)
        delete = draw(st.sampled_from([False] * 5 + [True]))
        tuples.append(Tuple(draw(vertex), draw(st.integers(0, LABELS - 1)), draw(vertex), time - draw(late), delete))
    return tuples


class Runner:
    """Kernels and model side by side, one tuple after the other."""

    def __init__(self, windows: list[Window], *, capacity: int = 2) -> None:
        self.store = RelationStore(capacity=capacity)
        for window in windows:
            self.store.add_window(window.kind, size=window.size, slide=window.slide)
        # Every window has a relation a label.
        window_of, readers = [], [[] for _ in range(LABELS)]
        for number in range(len(windows)):
            for label in range(LABELS):
                readers[label].append(self.store.add_relation(number))
                window_of.append(number)
        self.store.read_labels([readers_of(self.store, one) for one in readers])
        self.model = Model(windows, readers, window_of)
        self.tables = PlanTables(self.store)
        self.events: dict[tuple[int, int, int], Counter] = {}
        self.live = LivePatterns(self.store, self.tables, self.collect, values=1, runs=1)
        self.queries: dict[int, tuple[Part, bool, bool, tuple[Term, ...]]] = {}

    def add(self, query: int, part: Part, explicit: bool, isomorphism: bool) -> None:
        self.tables.add(query, part, explicit=explicit)
        constants = tuple(term for term in part.slots if not isinstance(term, str))
        self.queries[query] = part, explicit, isomorphism, constants

    def remove(self, query: int) -> None:
        self.tables.remove(query)
        del self.queries[query]

    def collect(self, live: LivePatterns) -> None:
        for run in live.runs():
            bag = self.events.setdefault((run.query, run.order, run.time), Counter())
            for row in run.rows.tolist():
                bag[tuple(row)] += run.sign

    def answers(self) -> dict[int, Counter]:
        content = self.model.content()
        return {
            query: solutions(part.atoms, part.columns, content, isomorphism, constants if isomorphism else ())
            for query, (part, _, isomorphism, constants) in self.queries.items()
        }

    def apply(self, tuples: list[Tuple]) -> None:
        """One chunk; the rows of each event are those of the model."""
        columns = [np.array(column) for column in zip(*tuples, strict=True)]
        source, label, target, time, delete = columns
        self.events = {}
        self.live.apply(
            Tuples(
                source.astype(np.int32),
                target.astype(np.int32),
                label.astype(np.int32),
                time.astype(np.int64),
                delete.astype(np.uint8),
            )
        )
        expected: dict[tuple[int, int, int], Counter] = {}
        model = self.model
        before = self.answers()

        def note(order: int, moment: int, *, expiry: bool) -> None:
            nonlocal before
            after = self.answers()
            for query, (_, explicit, _, _) in self.queries.items():
                if explicit or not expiry:
                    bag = expected.setdefault((query, order, moment), Counter())
                    bag.update(after[query])
                    bag.subtract(before[query])
            before = after

        for number, item in enumerate(tuples):
            for moment in model.boundaries(item.time):
                model.expire(moment)
                note(2 * number, moment, expiry=True)
            model.time = item.time if model.time is None else max(model.time, item.time)
            if not item.delete:
                model.evict(item)
                note(2 * number + 1, model.time, expiry=True)
            model.change(item)
            note(2 * number + 1, model.time, expiry=False)
        assert _net(self.events) == _net(expected)
        check(self.store)


def _net(events):
    kept = {key: {row: count for row, count in bag.items() if count} for key, bag in events.items()}
    return {key: bag for key, bag in kept.items() if bag}


# --- properties -------------------------------------------------------------------------------------------------------


@examples(500, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_rows_are_the_changes_of_the_answer(data):
    windows_read = data.draw(st.lists(windows, min_size=1, max_size=2))
    runner = Runner(windows_read)
    query = 0
    tuples = data.draw(streams())
    while tuples:
        if query < 4 or data.draw(st.integers(0, 3)) == 0:
            atoms, select, isomorphism, explicit = data.draw(patterns(LABELS * len(windows_read)))
            for part in plan_pattern(atoms, select=select, isomorphism=isomorphism).parts:
                runner.add(query, part, explicit, isomorphism)
                query += 1
        if runner.queries and data.draw(st.integers(0, 5)) == 0:
            runner.remove(data.draw(st.sampled_from(sorted(runner.queries))))
        if runner.queries and data.draw(st.booleans()):
            runner.tables.support(data.draw(st.sampled_from(sorted(runner.queries))), data.draw(st.booleans()))
        length = data.draw(st.integers(1, 12))
        runner.apply(tuples[:length])
        tuples = tuples[length:]
