"""Random queries in SPARQL over random streams: the answers of the engine are those of pyoxigraph on the snapshots.

Queries are those of the random tests, and those with variables as predicates over many labels. Brute force finds the edges
that windows hold (`tests.reference_sparql_stream`), nothing else. Where the contract's rules of values give another answer
than the standard (a literal that is a vertex, too; numbers that are names) there is nothing to compare.

    python -m tests.strategies.sparql_streams 3000 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import time as clock
from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

from tests.language.sparql_libraries import by_pyoxigraph
from tests.operators.relational import test_all_labels as all_labels
from tests.operators.relational.sparql_twins import Tuple, query_of, questions, streams
from tests.reference_sparql import Evaluation
from tests.reference_sparql_stream import SparqlQuestion, SparqlReference
from tests.reference_sparql_syntax import write
from tests.reference_sparql_values import STANDARD
from tests.strategies.sparql_strategies import edges
from tests.twins import tiny

UNLIKE = ("GROUP_CONCAT", "LIMIT", "OFFSET")
"""Operators over an order that the standard leaves open."""


def is_comparable(question: SparqlQuestion) -> bool:
    """Return whether pyoxigraph reads the query, and means one answer by it."""
    query, text = question.query, write(question.query)
    head = text.partition("}")[0] if query.form == "CONSTRUCT" else ""
    is_triples = not any(graph is not None for graph in query.template_graphs)
    return is_triples and "_:" not in head and not any(word in text for word in UNLIKE)


drawn = (
    st.tuples(questions().filter(is_comparable), streams(longest=30))
    | st.tuples(questions().filter(is_comparable), streams(longest=30))
    | st.tuples(all_labels.questions().filter(is_comparable), all_labels.streams())
)
"""Questions, each with the tuples of a stream."""
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4)
static_edges = st.lists(edges, max_size=3, unique=True)


def compare(question: SparqlQuestion, tuples: Sequence[Tuple], static: Sequence[tuple[str, str, str]], by: list[int]) -> int:
    """Push tuples in batches of sizes that recur, and compare behind each; return the number of comparisons."""
    note(f"{write(question.query)} over {question.window}")
    engine = tiny(4)(query_of(question), time_unit="s")
    if static:
        engine.load_static([(source, target, label) for source, label, target in static])
    windows = SparqlReference(question, static=static)
    names = ("source", "target", "label", "timestamp", "op", "stream")
    done = compared = 0
    while done < len(tuples):
        batch = tuples[done : done + by[0]]
        done, by = done + by[0], [*by[1:], by[0]]
        engine.push(dict(zip(names, map(list, zip(*batch, strict=True)), strict=True)))
        for one in batch:
            windows.push(*one)
        graphs = windows.graphs()
        if Evaluation(question.query, graphs, STANDARD).answer() == windows.answer():
            theirs = Counter(map(question.pattern.shown, by_pyoxigraph(question.query, graphs).elements()))
            ours = Counter(engine.answers(question.name))
            assert _plain(ours) == _plain(theirs), (ours, theirs)
            compared += 1
    return compared


def _plain(bag: Counter) -> Counter:
    """Return rows with numbers as one way of writing them has it, but for their last digits."""
    found: Counter = Counter()
    for row, number in bag.items():
        found[tuple(map(_number, row))] += number
    return found


def _number(value: object) -> object:
    try:
        return f"{float(str(value)):.6g}"
    except ValueError:
        return value


def main(arguments: list[str]) -> None:
    """Compare random queries, each behind some batches of a random stream."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("queries", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    begin, queries, compared = clock.perf_counter(), 0, 0

    @seed(options.seed)
    @settings(
        max_examples=options.queries,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
        deadline=None,
        database=None,
    )
    @given(drawn, static_edges, sizes)
    def run(one: tuple[SparqlQuestion, list[Tuple]], static: list[tuple[str, str, str]], by: list[int]) -> None:
        nonlocal queries, compared
        compared += compare(*one, static, by)
        queries += 1
        if queries % 100 == 0:
            print(f"{queries:,} queries, {compared:,} answers, {clock.perf_counter() - begin:.0f} s", flush=True)

    run()
    print(f"{queries:,} queries, {compared:,} answers: no difference")


if __name__ == "__main__":
    main(sys.argv[1:])
