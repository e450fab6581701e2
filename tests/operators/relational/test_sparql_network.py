"""The network of operators of a SPARQL query on random changes of its leaves, against the oracle after every event."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from rpq import automata
from rpq.errors import SparqlError
from rpq.language.sparql.syntax.reading import read
from rpq.operators.patterns.meanings import NamedVertex, PathRead
from rpq.operators.relational.evaluation import Network
from rpq.operators.relational.planning import ConjunctionPart, EveryLabel, plan_network
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import WeightedRows, merge
from tests.reference import evaluate
from tests.reference_sparql import Evaluation
from tests.reference_sparql_parser import parse
from tests.reference_sparql_syntax import Window, write
from tests.strategies.sparql_strategies import edges, queries
from tests.twins import examples

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within rdflib
WINDOWS = {"urn:w": Window(size=10), "urn:v": Window(kind="count", size=3)}


def solutions(part: ConjunctionPart, graphs) -> Counter:
    """The rows of a part of a conjunction: terms of its columns, by brute force."""
    found = [{}]
    for source, (window, of), target in part.meaning.edges:
        if isinstance(of, EveryLabel):
            pairs = [(one, other, label) for one, label, other in graphs[window]]
        elif isinstance(of, PathRead):
            pairs = evaluate(automata.parse(of.expression), graphs[window], "walk")
        else:
            pairs = [(one, other) for one, label, other in graphs[window] if label == of]
        more = []
        for binding in found:
            for pair in pairs:
                extended = dict(binding)
                terms = (source, target, of.predicate)[: len(pair)] if isinstance(of, EveryLabel) else (source, target)
                if all(_is_bound(extended, term, value) for term, value in zip(terms, pair, strict=True)):
                    more.append(extended)
        found = more
    columns = part.select if part.label_column is None else [*part.select, part.label_column]
    return Counter(tuple(one[name] for name in columns) for one in found)


def _is_bound(binding, term, value) -> bool:
    return term.name == value if isinstance(term, NamedVertex) else binding.setdefault(term, value) == value


class Twin:
    """A network, the leaves that it was told of, and the sum of what it told."""

    def __init__(self, text: str, graphs) -> None:
        self.terms = TermIds()
        try:
            plan = plan_network(read(text), self.terms)
        except SparqlError as problem:
            assume("outer group" not in str(problem))  # what the language refuses a little more of than the oracle
            raise
        self.network = Network(plan)
        self.parts = plan.leaves
        self.leaves = [solutions(part, graphs) for _, part in self.parts]
        self.answer = Counter()
        self.take(self.network.begin(self.bags([Counter() for _ in self.leaves], self.leaves, 0)))

    def bags(self, before, after, event) -> dict[int, WeightedRows]:
        found = {}
        for (leaf, _), old, new in zip(self.parts, before, after, strict=True):
            changes = [
                (event, tuple(map(self.terms.intern, row)), new[row] - old[row])
                for row in old | new
                if new[row] != old[row]
            ]
            found[id(leaf)] = WeightedRows.of(changes, leaf.width)
        return found

    def take(self, bag: WeightedRows) -> None:
        for _, row, weight in bag.net().changes():
            terms = tuple(map(self.terms.text, row))
            self.answer[terms] += weight
            assert self.answer[terms] >= 0, (terms, self.answer)
        self.answer = +self.answer

    def change(self, events) -> None:
        """Apply events as one chunk, given the graphs after each of them."""
        waiting = [[] for _ in self.parts]
        for event, graphs in enumerate(events):
            after = [solutions(part, graphs) for _, part in self.parts]
            for (leaf, _), mine in zip(self.parts, waiting, strict=True):
                mine.append(self.bags(self.leaves, after, event)[id(leaf)])
            self.leaves = after
        bags = {id(leaf): merge(mine) for (leaf, _), mine in zip(self.parts, waiting, strict=True)}
        self.take(self.network.change(bags))
        self.network._check()


changes = st.lists(st.lists(st.tuples(st.sampled_from([None, *WINDOWS]), edges), min_size=1, max_size=4), max_size=8)


def toggled(graphs, change):
    """Graphs with some edges put in, or taken out where they are."""
    after = {window: set(present) for window, present in graphs.items()}
    for window, edge in change:
        after[window] ^= {edge}
    return {window: sorted(present) for window, present in after.items()}


@examples(80)
@given(queries(WINDOWS), st.lists(edges, max_size=10, unique=True), changes, st.integers(1, 3))
def test_the_answer_is_that_of_the_oracle_after_every_chunk(query, first, rest, chunk):
    text = write(query)
    note(text)
    question = parse(text)
    graphs = {None: sorted(first), "urn:w": sorted(first[::2]), "urn:v": []}
    twin = Twin(text, graphs)
    note(twin.network.describe())
    assert twin.answer == Evaluation(question, graphs).answer()
    for begin in range(0, len(rest), chunk):
        events = []
        for change in rest[begin : begin + chunk]:
            graphs = toggled(graphs, change)
            events.append(graphs)
        twin.change(events)
        assert twin.answer == Evaluation(question, graphs).answer()
        ids = twin.network.ids()
        twin.network.forget(twin.terms.retain(ids))
