"""Static edges of named graphs: what GRAPH, FROM and FROM NAMED read of them, by hand and beside pyoxigraph."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import examples

ox = pytest.importorskip("pyoxigraph")
pytest.importorskip("rdflib")

PASSES = "FROM NAMED WINDOW <w> [RANGE 10 STEP 1]"
DOORS = {
    "g": [("d1", "hall", "leadsTo"), ("hall", "yard", "leadsTo")],
    "h": [("d2", "yard", "leadsTo")],
    None: [("d1", "cellar", "leadsTo")],
}
STREAM = [("ann", "d1", "passes", 1), ("bob", "d2", "passes", 2)]


def rows(text: str, static=None, stream=STREAM, **options) -> list[tuple]:
    """Return the rows of a query over static edges and a stream, without its name."""
    engine = rpq.Engine(rpq.Query(text, name="q", **options), static=DOORS if static is None else static)
    found = []
    for one in stream:
        found += [tuple(row)[1:] for row in engine.push_rows([one]).rows()]
        engine._check()
    return found


def read(where: str, clauses: str = "") -> str:
    return f"SELECT ?x ?r {clauses} {PASSES} {{ {where} WINDOW <w> {{ ?x <passes> ?d }} }}"


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_graph_has_its_own_edges_alone():
    assert rows(read("GRAPH <g> { ?d <leadsTo> ?r }")) == [("ann", "hall", 1, "+")]
    assert rows(read("GRAPH <h> { ?d <leadsTo> ?r }")) == [("bob", "yard", 2, "+")]
    assert rows(read("GRAPH <k> { ?d <leadsTo> ?r }")) == []
    assert rows(read("GRAPH <g> { ?d <leadsTo>+ ?r }")) == [("ann", "hall", 1, "+"), ("ann", "yard", 1, "+")]


def test_without_from_the_default_graph_has_the_edges_without_a_name():
    assert rows(read("?d <leadsTo> ?r")) == [("ann", "cellar", 1, "+")]
    pattern = rpq.Query("?x passes ?d . ?d leadsTo ?r", window=rpq.Window(size=10, slide=1))
    engine = rpq.Engine(pattern, rpq.Query("passes/leadsTo", window=rpq.Window(size=10, slide=1)), static=DOORS)
    found = {tuple(row)[1:] for row in engine.push_rows(STREAM).rows()}
    assert found == {("ann", "d1", "cellar", 1, "+"), ("ann", "cellar", 1, "+")}


def test_from_makes_graphs_the_default_graph():
    assert rows(read("?d <leadsTo> ?r", "FROM <g>")) == [("ann", "hall", 1, "+")]
    both = rows(read("?d <leadsTo>+ ?r", "FROM <g> FROM <h>"))
    assert sorted(both) == [("ann", "hall", 1, "+"), ("ann", "yard", 1, "+"), ("bob", "yard", 2, "+")]
    window = rpq.Window(size=10, slide=1)
    more = [*STREAM, ("yard", "sea", "leadsTo", 3), ("d1", "hall", "leadsTo", 4), ("d1", "hall", "leadsTo", 5, "-")]
    found = rows("SELECT ?x ?r FROM <g> { ?x <passes> ?d . ?d <leadsTo>+ ?r }", stream=more, window=window)
    assert sorted(found[:2]) == [("ann", "hall", 1, "+"), ("ann", "yard", 1, "+")]
    assert found[2:] == [("ann", "sea", 3, "+")], "an edge of the graph stays, whatever comes and goes in the window"


def test_a_graph_that_was_not_loaded_has_the_edges_without_a_name():
    assert rows(read("?d <leadsTo> ?r", "FROM <k>")) == [("ann", "cellar", 1, "+")]
    assert sorted(rows(read("?d <leadsTo> ?r", "FROM <k> FROM <g>"))) == [("ann", "cellar", 1, "+"), ("ann", "hall", 1, "+")]
    assert rows(read("?d <leadsTo> ?r", "FROM <k>"), {**DOORS, "k": []}) == [], "a graph may be empty"


def test_a_variable_has_the_graphs_of_from_named():
    text = read("GRAPH ?g { ?d <leadsTo> ?r }", "FROM NAMED <g> FROM NAMED <h>").replace("?x ?r", "?x ?g ?r", 1)
    assert rows(text) == [("ann", "g", "hall", 1, "+"), ("bob", "h", "yard", 2, "+")]
    assert rows(text.replace("FROM NAMED <g>", "")) == [("bob", "h", "yard", 2, "+")]


def test_a_variable_has_all_graphs_where_no_clause_names_some():
    text = read("GRAPH ?g { ?d <leadsTo> ?r }").replace("?x ?r", "?x ?g ?r", 1)
    assert rows(text) == [("ann", "g", "hall", 1, "+"), ("bob", "h", "yard", 2, "+")]
    assert rows(text, {None: DOORS[None]}) == [], "there is no named graph"
    query = rpq.Query(text, name="q")
    engine = rpq.Engine(rpq.Query("passes", window=rpq.Window(size=10, slide=1)), query)
    for name, edges in DOORS.items():
        engine.load_static(edges, graph=name)  # one after the other, behind the queries
    assert [one.name for one in engine.queries] == ["passes", "q"]
    found = [tuple(row) for row in engine.push_rows(STREAM).rows()]
    assert [row for row in found if row[0] == "q"] == [("q", "ann", "g", "hall", 1, "+"), ("q", "bob", "h", "yard", 2, "+")]
    late = rpq.Query(text, name="late", semantics="explicit")
    engine.register(late)
    assert sorted(map(tuple, engine.answers("late"))) == [("ann", "g", "hall"), ("bob", "h", "yard")]


def test_with_from_alone_there_is_no_named_graph():
    text = read("GRAPH ?g { ?d <leadsTo> ?r }", "FROM <g>")
    assert rows(text) == []
    assert "GRAPH with a variable has no solution" in " ".join(rpq.Query(text).warnings)


def test_a_graph_without_edges_has_a_name():
    named = rows("SELECT ?g { GRAPH ?g { } }", {"g": [], "h": [("x", "y", "a")]}, stream=[("x", "y", "b", 1)])
    assert named == [("g", 1, "+"), ("h", 1, "+")]
    columns = rpq.Query("SELECT * { ?x <a> ?y GRAPH ?g { ?y <b> ?z } }", window=rpq.Window(size=9, slide=9)).columns
    assert tuple(columns) == ("x", "y", "g", "z"), "before any graph is known"


def test_from_named_alone_leaves_the_default_window_alone():
    text = "SELECT ?x FROM NAMED <g> { ?x <leadsTo> ?y }"
    window = rpq.Window(size=10, slide=1)
    assert rows(text, window=window, stream=[("d9", "d1", "leadsTo", 1)]) == [("d9", 1, "+")]
    assert "default window alone" in rpq.Query(text, window=window).warnings[0]


def test_queries_of_one_engine_have_graphs_of_their_own():
    texts = [read("?d <leadsTo> ?r", clauses) for clauses in ("", "FROM <g>", "FROM <h>", "FROM <g> FROM <h>")]
    engine = rpq.Engine(*(rpq.Query(text, name=str(number)) for number, text in enumerate(texts)), static=DOORS)
    found = sorted(tuple(row)[:3] for row in engine.push_rows(STREAM).rows())
    assert found == [
        ("0", "ann", "cellar"), ("1", "ann", "hall"), ("2", "bob", "yard"), ("3", "ann", "hall"), ("3", "bob", "yard")
    ]  # fmt: skip
    late = rpq.Query(read("?d <leadsTo> ?r", "FROM <h>"), name="late", semantics="explicit")
    engine.register(late)
    assert [tuple(row) for row in engine.answers("late")] == [("bob", "yard")]


def test_edges_without_a_name_stand_for_one_list_of_graphs():
    ask = "ASK FROM <{}> {{ ?x <a> ?y }}"
    engine = rpq.Engine(rpq.Query(ask.format("g"), name="g"), rpq.Query(ask.format("h"), name="h"))
    with pytest.raises(rpq.QueryError, match="FROM <h>, and 'g' FROM <g>.*name those of each"):
        engine.load_static([("x", "y", "a")])
    engine.load_static([("x", "y", "a")], graph="h")
    engine.load_static([("p", "q", "a")])
    assert len(engine.push_rows([("k", "k", "none", 1)]).rows()) == 2


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ASK FROM NAMED <h> { GRAPH <g> { ?x <a> ?y } }", "column 28: .*<g> is not among those of FROM NAMED"),
        ("ASK FROM <g> { GRAPH <g> { ?x <a> ?y } }", "column 22: .*expected FROM NAMED <g>"),
        ("ASK FROM NAMED WINDOW <w> [COUNT 2] { GRAPH <w> { ?x <a> ?y } }", "<w> is a window, not a graph.*WINDOW <w>"),
        ("ASK FROM NAMED WINDOW <w> [COUNT 2] FROM NAMED <w> { }", "<w> is a window and a graph"),
        ("ASK { WINDOW <g> { ?x <a> ?y } }", "there is no window <g>"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text, message):
    with pytest.raises(rpq.QueryError, match=message):
        rpq.Query(text)


def test_named_graphs_do_not_go_with_properties_of_edges():
    window = rpq.Window(size=10, slide=1)
    with pytest.raises(rpq.QueryError, match="of the graph <g> cannot be combined with .* edges with an identity"):
        rpq.Engine(rpq.Query("a", window=window), edges="parallel").load_static([("x", "y", "a")], graph="g")
    engine = rpq.Engine(rpq.Query("a", window=window), static={"g": [("x", "y", "a")]})
    with pytest.raises(rpq.QueryError, match="of the graph <g> cannot be combined with conditions"):
        engine.register(rpq.Query("a[n > 1]", window=window, name="of values"))
    with pytest.raises(rpq.InputError, match="the name of a graph is an IRI, not ''"):
        engine.load_static([("x", "y", "a")], graph="")


def test_edges_of_a_graph_come_before_the_first_tuple():
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=10, slide=1)))
    engine.push_rows([("x", "y", "a", 1)])
    with pytest.raises(rpq.InputError, match="before the first tuple"):
        engine.load_static([("x", "y", "a")], graph="g")


def test_on_spark_there_are_no_graphs():
    pytest.importorskip("pyspark")
    from rpq.spark.columns import queries_in_unit
    from rpq.spark.errors import PipelineError

    query = rpq.Query("ASK { ?x <a> ?y GRAPH <g> { ?y <b> ?z } }", window=rpq.Window(size=10, slide=1))
    with pytest.raises(PipelineError, match="reads GRAPH <g>, and on Spark there are no edges without time"):
        queries_in_unit([query], None)


# --- beside pyoxigraph -----------------------------------------------------------------------------------------------

NODES = st.sampled_from(["n:1", "n:2", "n:3"])
LABELS = st.sampled_from(["l:a", "l:b"])
EDGES = st.lists(st.tuples(NODES, NODES, LABELS), max_size=5)
ATOMS = [
    "?x <l:a> ?y", "?y <l:b> ?z", "?z <l:b> <n:1>", "?x <l:a>+ ?y", "?y !<l:a> ?z", "?x (<l:a>|<l:b>)+ ?z", "?z ^<l:a> ?x"
]  # fmt: skip


@st.composite
def queries(draw) -> str:
    """A query over the default graph and the graphs <g:1>, <g:2>, with some dataset clauses."""
    default = draw(st.lists(st.sampled_from(["g:1", "g:2"]), unique=True))
    named = draw(st.lists(st.sampled_from(["g:1", "g:2"]), unique=True))
    may_read = named if default or named else ["g:1", "g:2"]
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        atom = draw(st.sampled_from(ATOMS))
        kinds = ["default"] + ["graph"] * bool(may_read) + ["variable"] * bool(named)
        match draw(st.sampled_from(kinds)):
            case "graph":
                atom = f"GRAPH <{draw(st.sampled_from(may_read))}> {{ {atom} }}"
            case "variable":
                atom = f"GRAPH ?g {{ {atom} }}"
        parts.append(draw(st.sampled_from(["{}", "{}", "OPTIONAL {{ {} }}", "MINUS {{ {} }}"])).format(atom))
    clauses = [f"FROM <{graph}>" for graph in default] + [f"FROM NAMED <{graph}>" for graph in named]
    return f"SELECT ?x ?y ?z ?g {' '.join(clauses)} {{ {' . '.join(parts)} }}"


def answer(text: str, graphs: dict[str | None, list[tuple[str, str, str]]]) -> Counter:
    """Return pyoxigraph's answers over these graphs; None is the default graph.

    GRAPH with a variable is written as a union over the graphs: pyoxigraph finds pairs of a closure in it several times.
    """
    store = ox.Store()
    for graph, edges in graphs.items():
        name = ox.DefaultGraph() if graph is None else ox.NamedNode(graph)
        for source, target, label in edges:
            store.add(ox.Quad(ox.NamedNode(source), ox.NamedNode(label), ox.NamedNode(target), name))
    one_each = (f"{{ GRAPH <{graph}> {{ \\1 }} VALUES ?g {{ <{graph}> }} }}" for graph in graphs if graph is not None)
    union = "{ " + " UNION ".join(one_each) + " }"
    found = store.query(re.sub(r"GRAPH \?g \{([^{}]*)\}", union, re.sub(r"FROM (NAMED )?<[^>]*>", "", text)))
    return Counter(tuple(None if value is None else value.value for value in solution) for solution in found)


@examples(80)
@given(queries(), EDGES, EDGES, EDGES, st.lists(st.tuples(NODES, NODES, LABELS, st.booleans()), min_size=1, max_size=8))
def test_answers_are_those_of_pyoxigraph(tmp_path_factory, text, unnamed, first, second, stream):
    """Compare with pyoxigraph over the dataset that the clauses make, after each tuple, and in a restored engine."""
    static = {None: unnamed, "g:1": first, "g:2": second}
    default = re.findall(r"FROM <([^>]*)>", text)
    named = re.findall(r"FROM NAMED <([^>]*)>", text)
    fixed = [edge for graph in default for edge in static[graph]] if default or named else unnamed
    query = rpq.Query(text, window=rpq.UnboundedWindow(), name="q", semantics="explicit")
    engine = rpq.Engine(query, static=static)
    present: dict[tuple[str, str, str], None] = {}
    total: Counter = Counter()
    for time, (source, target, label, deletes) in enumerate(stream, 1):
        edge = source, target, label
        for row in engine.push_rows([(*edge, time, "-" if deletes else "+")]).rows():
            total[tuple(row)[1:-2]] += 1 if row.op == "+" else -1
        engine._check()
        present.pop(edge, None)
        if not deletes:
            present[edge] = None
        datasets = {graph: static[graph] for graph in (named if default or named else ("g:1", "g:2"))}
        assert +total == answer(text, {None: [*fixed, *present], **datasets}) and not -total, text
        if time == len(stream) // 2:
            path = str(tmp_path_factory.mktemp("state") / "engine")
            engine.save(path)
            engine = rpq.Engine.restore(path)
            engine._check()
