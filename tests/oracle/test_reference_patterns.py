"""The oracle's solutions of patterns on examples worked by hand, each derived from the drawing above it."""

import pytest

from tests.reference import Rejected
from tests.reference_patterns import Constant, Labels, Step, lexical_form, witness_fault
from tests.strategies.drawn import graph
from tests.strategies.drawn_patterns import pattern, solved

# --- shapes: 2.14, homomorphism --------------------------------------------------------------------------------------

#   x --a--> y --a--> z --b--> x          y --b--> y
TRIANGLE = ("x a y", "y a z", "z b x", "y b y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?p a ?q", "x y, y z"),  # one atom is a path query
        ("?p a ?q . ?q a ?r", "x y z"),  # a chain, and a self-join of one label
        ("?q a ?r . ?p a ?q", "y z x"),  # columns in order of appearance
        ("?p a ?q . ?q a ?r . ?r b ?p", "x y z"),  # a cycle
        ("?p a ?q . ?p a ?r", "x y y, y z z"),  # a star; two variables may share a vertex
        ("?p a ?q . ?q b ?r . ?q a ?s", "x y y z"),  # a tree
        ("?p b ?p", "y"),  # a variable twice in an atom
        ("?p b ?p . ?p a ?q", "y z"),
        ("x a ?q", "y"),  # constants on either side
        ("?p b x", "z"),
        ("x a ?q . ?q a z", "y"),
        ("x ^b ?p", "z"),  # an edge against its direction
        ("?p a/a ?q", "x z"),  # path atoms
        ("?p a+ ?q . ?q b ?p", "x z"),
        ("?p (a|b)+ ?p . ?p a ?q", "x y, y z"),
        ("?p a/b* y", "x"),
        ("?p !b ?q . ?q !a ?q", "x y"),
        ("?p a{2} ?q . ?q b ?r", "x z x"),
        ("?p c ?q", ""),
        ("?p a ?q . ?q c ?r", ""),
    ],
)
def test_patterns_on_a_triangle(text, expected):
    assert solved(text, *TRIANGLE) == dict.fromkeys(filter(None, expected.split(", ")), 1)


def test_parts_without_a_common_variable_multiply():
    #   x --a--> y     u --b--> v
    #   w --a--> y     u --b--> t
    edges = "x a y", "w a y", "u b v", "u b t"
    assert solved("?p a y . u b ?q", *edges) == {"x v": 1, "x t": 1, "w v": 1, "w t": 1}
    assert solved("?p a y . u b ?q", *edges, select=("p",)) == {"x": 2, "w": 2}
    assert solved("?p a y . u c ?q", *edges) == {}  # an empty part empties the whole


def test_a_ground_atom_is_a_condition():
    #   x --a--> y --b--> z
    edges = "x a y", "y b z"
    assert solved("?p a ?q . y b z", *edges) == {"x y": 1}
    assert solved("?p a ?q . z b y", *edges) == {}
    assert solved("?p a ?q . x a/b z", *edges) == {"x y": 1}
    #   two paths from x to z satisfy it once
    assert solved("?p a ?q . x (a/b)|c z", *edges, "x c z", select=("p",)) == {"x": 1}


def test_a_clique_of_four():
    #   every one of u v w x has an edge to all that follow it
    edges = "u a v", "u a w", "u a x", "v a w", "v a x", "w a x"
    text = "?p a ?q . ?p a ?r . ?p a ?s . ?q a ?r . ?q a ?s . ?r a ?s"
    assert solved(text, *edges) == {"u v w x": 1}
    assert solved(text, *edges[:-1]) == {}


# --- paths: 2.1 ------------------------------------------------------------------------------------------------------


def test_path_atoms_are_sets_of_pairs_joined_by_a_non_empty_path():
    #   x --a--> y --b--> z       and x --a--> w --b--> z: two ways, one pair
    edges = "x a y", "y b z", "x a w", "w b z"
    assert solved("?p a/b ?q", *edges) == {"x z": 1}
    assert solved("?p a ?m . ?m b ?q", *edges, select=("p", "q")) == {"x z": 2}  # edges, in contrast
    #   no path of length zero: y has no b to itself, so a/b* from x is y, w and z; b* joins nobody to itself
    assert solved("?p a ?q . ?q b* ?r", *edges) == {"x y z": 1, "x w z": 1}
    assert solved("?p a{0,2} ?p", *edges) == {}


def test_simple_paths_join_no_vertex_with_itself_not_even_by_an_edge():
    #   x --a--> y --a--> x       z --a--> z
    edges = "x a y", "y a x", "z a z"
    assert solved("?p a+ ?q", *edges, paths="simple") == {"x y": 1, "y x": 1}
    assert solved("?p a ?p", *edges, paths="simple") == {}
    assert solved("?p a ?p", *edges) == {"z": 1}
    #   each atom has a path of its own: together they may come back
    assert solved("?p a ?q . ?q a ?p", *edges, paths="simple") == {"x y": 1, "y x": 1}


# --- bags, select, distinct: 2.2 -------------------------------------------------------------------------------------


def test_a_solution_comes_as_often_as_there_are_bindings():
    #   x --a--> y1, y2, y3       y1, y2 --b--> z
    edges = "x a y1", "x a y2", "x a y3", "y1 b z", "y2 b z"
    assert solved("?p a ?m . ?m b ?q", *edges, select=("p", "q")) == {"x z": 2}
    assert solved("?p a ?m . ?m b ?q", *edges, select=("q",)) == {"z": 2}
    assert solved("?p a ?m . ?m b ?q", *edges, select=("q", "p"), distinct=True) == {"z x": 1}
    assert solved("?p a ?m . ?p a ?n", *edges, select=("p",)) == {"x": 9}
    assert solved("?p a ?m . ?p a ?m", *edges, select=("p",)) == {"x": 3}  # an atom twice is one condition


def test_blank_nodes_are_variables_that_cannot_be_selected():
    #   x --a--> y1, y2 --b--> z
    edges = "x a y1", "x a y2", "y1 b z", "y2 b z"
    assert solved("?p a _:m . _:m b ?q", *edges) == {"x z": 2}
    assert solved("?p a _:m . _:n b ?q", *edges) == {"x z": 4}
    assert solved("?p a _:p", *edges) == {"x": 2}  # no kin of ?p
    with pytest.raises(Rejected):
        pattern("?p a _:m", select=("m",))


def test_what_has_no_columns_is_refused():
    for text in ("x a y", "_:x a y"):
        with pytest.raises(Rejected, match="ASK"):
            pattern(text)
    for select in (("z",), ("x", "x")):
        with pytest.raises(Rejected):
            pattern("?x a ?y", select=select)
    with pytest.raises(Rejected):
        pattern("?timestamp a ?y")
    assert pattern("?timestamp a ?y", select=("y",)).columns == ("y",)


# --- matching: 2.12 --------------------------------------------------------------------------------------------------


def test_isomorphism_keeps_variables_blank_nodes_and_constants_apart():
    #   x <--a--> y --a--> z
    edges = "x a y", "y a x", "y a z"
    chain = "?p a ?q . ?q a ?r"
    assert solved(chain, *edges) == {"x y x": 1, "x y z": 1, "y x y": 1}
    assert solved(chain, *edges, matching="isomorphism") == {"x y z": 1}
    assert solved("?p a _:q . _:q a ?r", *edges, matching="isomorphism") == {"x z": 1}
    assert solved("?p a _:q . ?p a ?r", *edges, matching="isomorphism") == {"y x": 1, "y z": 1}
    #   the constant x: ?p and ?q are others; twice the same constant is one
    assert solved("x a ?p . ?p a ?q", *edges) == {"y x": 1, "y z": 1}
    assert solved("x a ?p . ?p a ?q", *edges, matching="isomorphism") == {"y z": 1}
    assert solved("x a ?p . ?p a x", *edges, matching="isomorphism") == {"y": 1}
    #   a ground atom's constants count: z is taken
    assert solved("x a ?p . ?p a ?q . y a z", *edges, matching="isomorphism") == {}
    #   a variable twice in an atom is one variable
    assert solved("?p a ?p", "x a x", matching="isomorphism") == {"x": 1}


def test_isomorphism_leaves_the_inner_vertices_of_paths_free():
    #   x --a--> y --a--> z --b--> y: the path from x to z runs through ?q = y
    edges = "x a y", "y a z", "z b y"
    assert solved("?p a/a ?r . ?r b ?q", *edges, matching="isomorphism") == {"x z y": 1}


def test_isomorphism_comes_before_distinct_and_select():
    #   x --a--> y, x: the binding ?q = x is none
    assert solved("?p a ?q", "x a y", "x a x", select=("p",), matching="isomorphism") == {"x": 1}


# --- terms: 2.13 -----------------------------------------------------------------------------------------------------


def test_a_literal_constant_matches_its_text_and_its_lexical_form():
    #   u --age--> 30      v --age--> "30"      w --age--> both      t --age--> 030
    edges = "u age 30", 'v age "30"', "w age 30", 'w age "30"', "t age 030"
    assert solved('?p age "30"', *edges) == {"u": 1, "v": 1, "w": 2}  # a union: w twice
    assert solved('?p age "30"', *edges, distinct=True) == {"u": 1, "v": 1, "w": 1}
    assert solved("?p age 30", *edges) == {"u": 1, "w": 1}
    assert solved('?p age "30"^^<xsd:integer>', *edges) == {"u": 1, "w": 1}
    assert solved('?p age "030"', *edges) == {"t": 1}  # terms match by text
    #   each occurrence chooses for itself: v and u are as old as "30"
    assert solved('?p age "30" . ?q age "30"', *edges)["u v"] == 1
    assert solved('?p age "30" . ?q age "30"', *edges)["w w"] == 4


def test_a_literal_does_not_mean_another_constant_under_isomorphism():
    #   u --age--> 30 --is--> old          u --age--> "30"
    edges = "u age 30", 'u age "30"', "30 is old"
    assert solved('?p age "30" . 30 is ?q', *edges) == {"u old": 2}
    assert solved('?p age "30" . 30 is ?q', *edges, matching="isomorphism") == {"u old": 1}


@pytest.mark.parametrize(
    ("literal", "form"),
    [
        ('"x"', "x"),
        ('""', ""),
        ('"chat"@fr', "chat"),
        ('"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>', "1.0"),
        (r'"a \"b\" \\ \n"', 'a "b" \\ \n'),
        (r'"\u00e9\U0001F600"', "é😀"),
        ('"half', '"half'),  # no literal: its text is all it has
    ],
)
def test_lexical_forms(literal, form):
    assert lexical_form(literal) == form
    assert Constant(literal).meanings == {literal, form}


# --- graphs and labels: 2.3, 2.15 ------------------------------------------------------------------------------------


def test_an_atom_reads_the_graph_of_its_window():
    #   default: x --a--> y       w: y --a--> z
    graphs = {None: graph("x a y"), "w": graph("y a z"), "v": []}
    assert set(pattern("?p a ?q . ?q a ?r in w").solutions(graphs)) == {("x", "y", "z")}
    assert set(pattern("?p a+ ?q in w").solutions(graphs)) == {("y", "z")}
    assert set(pattern("?p a ?q . ?q a ?r").solutions(graphs)) == set()
    assert set(pattern("?p a ?q . ?q a ?r in v").solutions(graphs)) == set()


@pytest.mark.parametrize(
    ("text", "named", "others"),
    [
        ("?p a ?q", "a", False),
        ("?p a/^b* ?q . ?q c x", "a b c", False),
        ("?p a{0}/b ?q", "b", False),
        ("?p !a ?q", "a", True),  # all but a
        ("?p !a ?q . ?q a|b ?r", "", True),  # all
        ("?p !(a|^b) ?q", "", True),  # a against its direction, b along it
        ("?p !(a|b) ?q . ?q b ?r", "a", True),
    ],
)
def test_the_labels_that_a_pattern_reads(text, named, others):
    labels = pattern(text).labels_read(None)
    assert labels == Labels(frozenset(named.split()), others)
    assert pattern(text).labels_read("w") == Labels(frozenset(), False)
    assert ("never seen" in labels) == others


# --- witness: 2.16 ---------------------------------------------------------------------------------------------------

#   x --a@1--> y --b@2--> z --b@3--> y        static: y --c--> x
TIMES = {None: {("x", "a", "y"): 1, ("y", "b", "z"): 2, ("z", "b", "y"): 3, ("y", "c", "x"): None}}
XY, YZ, ZY, YX = Step("x", "a", "y", 1), Step("y", "b", "z", 2), Step("z", "b", "y", 3), Step("y", "c", "x", None)


def fault(text, binding, *paths, **options):
    return witness_fault(pattern(text, **options), TIMES, binding, paths)


def test_a_witness_that_holds():
    chain = "?p a ?q . ?q b+ ?r"
    assert fault(chain, {"p": "x", "q": "y", "r": "z"}, [XY], [YZ]) is None
    assert fault(chain, {"p": "x", "q": "y", "r": "z"}, [XY], [YZ, ZY, YZ]) is None  # a walk, longer than need be
    assert fault(chain, {"p": "x"}, [XY], [YZ, ZY]) is None
    assert fault("?p a ?q . ?q c ?p", {"p": "x", "q": "y"}, [XY], [YX]) is None
    against = [ZY._replace(against=True), XY._replace(against=True)]
    assert fault("?p ^b ?q . x a ?p", {"p": "y", "q": "z"}, against[:1], [XY]) is None
    assert fault("?p ^b/!(b|^b) ?q", {"p": "y"}, [against[0], YZ]) is not None
    assert fault("?p ^b/b ?q", {"p": "y", "q": "y"}, [against[0], ZY]) is None


@pytest.mark.parametrize(
    ("message", "text", "binding", "paths", "options"),
    [
        ("1 paths for 2", "?p a ?q . ?q b ?r", {}, [[XY]], {}),
        ("empty path", "?p a ?q", {}, [[]], {}),
        ("not in its graph", "?p a ?q", {}, [[XY._replace(timestamp=2)]], {}),  # the wrong time
        ("not in its graph", "?p c ?q", {}, [[YX._replace(timestamp=0)]], {}),  # a static edge has none
        ("not in its graph", "?p a ?q", {}, [[Step("x", "a", "z", 1)]], {}),
        ("do not meet", "?p a/b ?q", {}, [[XY, ZY]], {}),
        ("comes twice", "?p b* ?q", {}, [[YZ, ZY]], {"paths": "simple"}),
        ("no word", "?p b/b ?q", {}, [[XY, YZ]], {}),
        ("no word", "?p a ?q", {}, [[XY._replace(against=True)]], {}),
        ("other vertices", "?p a ?q", {"p": "x", "q": "z"}, [[XY]], {}),
        ("other vertices", "?p a z", {}, [[XY]], {}),
        ("other vertices", "?p a ?q . ?q b _:m . _:m b _:m", {}, [[XY], [YZ], [ZY]], {}),
        ("share a vertex", "?p b/b ?q", {}, [[YZ, ZY]], {"matching": "isomorphism"}),
    ],
)
def test_a_witness_with_a_fault(message, text, binding, paths, options):
    assert message in fault(text, binding, *paths, **options)
