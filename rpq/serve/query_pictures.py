"""What a query means, as text and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq import automata
from rpq.cli.explain import describe
from rpq.queries.query import PatternQuery, Query
from rpq.serve.drawn_graphs import Arrow, Node, drawn
from rpq.serve.models import Explained
from rpq.sparql.query import SparqlQuery

if TYPE_CHECKING:
    from rpq.patterns.explanation import Explanation

MOST_ARROWS = 200
"""Arrows of a picture, at most: it takes the square of their number, and shows nothing."""


def explained(query: Query, running: object | None = None) -> Explained:
    """What a query means; `running` is what an engine explains of it, if one runs it and it is no path query."""
    if isinstance(query, SparqlQuery):
        if running is None:
            from rpq.sparql.explanation import explain_query as of_sparql

            running = of_sparql(query, "")
        return Explained(str(running), None)
    if isinstance(query, PatternQuery):
        from rpq.patterns.explanation import explain

        explanation = explain(query)
        return Explained(str(explanation if running is None else running), pattern_picture(explanation))
    return Explained(describe(automata.parse(query.expression), query.dfa), automaton_picture(query.dfa))


def automaton_picture(dfa: automata.DFA) -> str | None:
    """The states of an automaton, from the first to the right, and its steps; None where nobody could read it."""
    from rpq.cli.explain import edge_labels, state_positions

    arrows = [Arrow(start, end, label) for (start, end), label in edge_labels(dfa).items()]
    if len(arrows) > MOST_ARROWS:
        return None
    places = state_positions(dfa)
    nodes = [
        Node(str(state), 1.5 * x, 1.2 * y, "double" if dfa.accepting[state] else "circle", is_start=state == 0)
        for state, (x, y) in enumerate(places)
    ]
    return drawn(nodes, arrows, title="automaton")


def pattern_picture(explanation: Explanation) -> str | None:
    """The terms of a pattern on a circle, in the order of the text, and its atoms, dashed for paths; None for too many."""
    from rpq.cli.explain import circle_positions

    if len(explanation.atoms) > MOST_ARROWS:
        return None
    places = circle_positions(explanation.nodes)
    numbers = {name: number for number, name in enumerate(explanation.nodes)}
    nodes = [
        Node(name, x * 1.3, y * 1.1, "round" if name.startswith(("?", "_:")) else "box") for name, (x, y) in places.items()
    ]
    arrows = [
        Arrow(numbers[atom.subject], numbers[atom.object], atom.reads, is_dashed=atom.kind == "path")
        for atom in explanation.atoms
    ]
    return drawn(nodes, arrows, title="pattern")
