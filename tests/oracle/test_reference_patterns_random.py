"""The oracle's solutions against two SPARQL engines: bags on random graphs, for patterns of every shape.

An edge atom is a triple pattern over the edges; a path atom, which SPARQL sees otherwise, a triple pattern over its
pairs, found by brute force, under a predicate of its own. Windows are named graphs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from urllib.parse import quote, unquote

import pyoxigraph
import pytest
import rdflib
from hypothesis import given

from tests.reference import evaluate
from tests.reference_patterns import Blank, Constant, Graphs, Pattern, Term
from tests.strategies.pattern_strategies import EDGE_EXPRESSIONS, graphs, patterns
from tests.twins import examples

pytestmark = pytest.mark.filterwarnings("ignore:Dataset.default_context:DeprecationWarning")  # within rdflib

Quad = tuple[str, str, str, str | None]  # IRIs of subject, predicate, object; the graph


def vertex(text: str) -> str:
    return f"v:{quote(text, safe='')}"


def predicate(at: Pattern, place: int) -> str:
    """The predicate of an atom: its label, or one of its own for pairs."""
    expression = at.atoms[place].expression
    return f"l:{expression[-1]}" if at.paths == "walk" and expression in EDGE_EXPRESSIONS else f"p:{place}"


def quads(question: Pattern, given_graphs: Graphs) -> set[Quad]:
    """The edges of every graph, and the pairs of path atoms; under simple paths those of all atoms."""
    found = {
        (vertex(source), f"l:{label}", vertex(target), name)
        for name, edges in given_graphs.items()
        for source, label, target in edges
    }
    for place, atom in enumerate(question.atoms):
        if predicate(question, place).startswith("p:"):
            pairs = evaluate(atom.expression, given_graphs[atom.window], question.paths)
            found |= {(vertex(x), predicate(question, place), vertex(y), atom.window) for x, y in pairs}
    return found


def sparql(question: Pattern) -> str:
    """The pattern as SPARQL: a union over what the literal constants mean, each time one stands in an atom."""
    places = [(i, side) for i, atom in enumerate(question.atoms) for side in (0, 2) if isinstance(atom[side], Constant)]
    choices = itertools.product(*(sorted(question.atoms[i][side].meanings) for i, side in places))
    # A blank node may stand in one group only, and in no filter.
    blanks = question.matching == "homomorphism" and question.windows == {None}
    bodies = []
    for branch, chosen in enumerate(choices):
        constants = dict(zip(places, chosen, strict=True))
        used: set[tuple[Term, str]] = set()

        def written(i: int, side: int, constants=constants, used=used, branch=branch) -> str:
            term = question.atoms[i][side]
            if isinstance(term, Constant):
                text = f"<{vertex(constants[i, side])}>"
            elif isinstance(term, Blank):
                text = f"_:b{branch}{term.label}" if blanks else f"?blank_{term.label}"
            else:
                text = f"?{term.name}"
            used.add((term, text))
            return text

        triples = []
        for i, atom in enumerate(question.atoms):
            ends = written(i, 0), written(i, 2)
            subject, target = reversed(ends) if predicate(question, i)[0] == "l" and atom.expression[0] == "^" else ends
            triple = f"{subject} <{predicate(question, i)}> {target} ."
            named = f"GRAPH <g:{atom.window}> {{ {triple} }}"
            triples.append((atom.window is not None, triple if atom.window is None else named))
        filters = [
            f"FILTER({first} != {second})"
            for (term, first), (other, second) in itertools.combinations(sorted(used, key=repr), 2)
            if question.matching == "isomorphism" and term != other
        ]
        bodies.append("{ " + " ".join([text for _, text in sorted(triples)] + filters) + " }")
    columns = " ".join(f"?{name}" for name in question.columns)
    return f"SELECT {'DISTINCT ' if question.distinct else ''}{columns} WHERE {{ {' UNION '.join(bodies)} }}"


def by_rdflib(question: Pattern, given_graphs: Graphs) -> Counter:
    dataset = rdflib.Dataset(default_union=False)
    for subject, label, target, name in quads(question, given_graphs):
        into = dataset.default_graph if name is None else dataset.graph(rdflib.URIRef(f"g:{name}"))
        into.add((rdflib.URIRef(subject), rdflib.URIRef(label), rdflib.URIRef(target)))
    rows = dataset.query(sparql(question))
    return Counter(tuple(unquote(str(row[name])[2:]) for name in question.columns) for row in rows)


def by_pyoxigraph(question: Pattern, given_graphs: Graphs) -> Counter:
    store = pyoxigraph.Store()
    node = pyoxigraph.NamedNode
    for subject, label, target, name in quads(question, given_graphs):
        into = pyoxigraph.DefaultGraph() if name is None else node(f"g:{name}")
        store.add(pyoxigraph.Quad(node(subject), node(label), node(target), into))
    return Counter(tuple(unquote(row[name].value[2:]) for name in question.columns) for row in store.query(sparql(question)))


ENGINES = {"rdflib": by_rdflib, "pyoxigraph": by_pyoxigraph}


@pytest.mark.parametrize("other", ENGINES.values(), ids=ENGINES)
@given(question=patterns(), edges=graphs)
@examples(100)
def test_solutions_are_those_of_sparql(other, question, edges):
    assert question.solutions({None: edges}) == other(question, {None: edges})


@pytest.mark.parametrize("other", ENGINES.values(), ids=ENGINES)
@given(question=patterns(windows=(None, "w", "v")), edges=graphs, inner=graphs)
@examples(60)
def test_solutions_across_graphs_are_those_of_sparql(other, question, edges, inner):
    given_graphs = {None: edges, "w": inner, "v": edges[::2]}
    assert question.solutions(given_graphs) == other(question, given_graphs)
