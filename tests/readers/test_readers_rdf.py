"""The format `rdf`: what pyoxigraph and rdflib write is read as the same terms, in any syntax; times; what is wrong."""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.readers import RdfReading, open_reader
from rpq.readers.rdf import canonical_lines, statements
from rpq.readers.rdf import times as rdf_times
from rpq.readers.rdf.blank_nodes import BlankNodes
from rpq.readers.rdf.canonical_lines import kinds_of, lines_of, rdf_term, vertex_text
from rpq.readers.rdf.rdf_syntax import syntax_by_name
from rpq.readers.source import ByteSource
from rpq.stream.names.terms import RDF, XSD, literal_text
from tests.twins import scaled

ox = pytest.importorskip("pyoxigraph")
rdflib = pytest.importorskip("rdflib")
isomorphic = pytest.importorskip("rdflib.compare").isomorphic

PROV = "http://www.w3.org/ns/prov#generatedAtTime"
FORMATS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "ttl": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdf": ox.RdfFormat.RDF_XML,
}
OF_RDFLIB = {"nt": "nt", "ttl": "turtle", "jsonld": "json-ld", "rdf": "xml"}


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.columns.to_pylist()]


def read(path: Path, *, on_error: str = "stop", batch_rows: int = 1000, time_unit=None, **options) -> list[dict]:
    reading = RdfReading(**options)
    return rows(open_reader("rdf", path, on_error=on_error, batch_rows=batch_rows, time_unit=time_unit, rdf=reading))


def edges(path: Path, **options) -> list[tuple[str, str, str]]:
    return [(row["source"], row["label"], row["target"]) for row in read(path, **options)]


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- terms -----------------------------------------------------------------------------------------------------------

CHARACTERS = st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00\ufffe\uffff")
TEXTS = st.text(st.sampled_from("ab \"\\\n\r\t\b\f\x01\x7f\x85é\u2028名\U0001f600'<>@^_.") | CHARACTERS, max_size=8)
PATHS = st.text(st.sampled_from("abé/.-~%20+()#?=&:@名\U00020001"), max_size=8)


@st.composite
def iris(draw) -> str:
    iri = draw(st.sampled_from(["http://e.org/", "http://e.org:80/a?", "urn:x:", "mailto:", "http://[::1]/", "a:"])) + draw(
        PATHS
    )
    try:
        ox.NamedNode(iri)
    except ValueError:
        assume(False)
    return iri


LANGUAGES = st.sampled_from(["fr", "en-gb", "de-CH-1996", "EN", "zh-Hant"])
PLAIN = TEXTS.map(ox.Literal)
OF_LANGUAGE = st.builds(lambda text, language: ox.Literal(text, language=language), TEXTS, LANGUAGES)
OF_TYPE = st.builds(lambda text, iri: ox.Literal(text, datatype=ox.NamedNode(iri)), TEXTS, iris())
NUMBERS = st.sampled_from(
    [
        ox.Literal(value, datatype=ox.NamedNode(XSD + kind))
        for value, kind in (
            ("30", "integer"),
            ("007", "integer"),
            ("1.50", "decimal"),
            ("true", "boolean"),
            ("1e3", "double"),
            ("x", "string"),
        )
    ]
)
LITERALS = PLAIN | OF_LANGUAGE | OF_TYPE | NUMBERS
NODES = iris().map(ox.NamedNode)


def text_of(term) -> str:
    """The text of a vertex, by the contract: IRIs bare, literals as N-Triples have them."""
    if isinstance(term, ox.Literal):
        if term.language:
            return literal_text(term.value, RDF + "langString", term.language.lower())
        return literal_text(term.value, term.datatype.value)
    return term.value if isinstance(term, ox.NamedNode) else f"_:f1.{term.value}"


def expected(triples) -> list[tuple[str, str, str]]:
    return [(text_of(one.subject), text_of(one.predicate), text_of(one.object)) for one in triples]


TRIPLES = st.lists(st.builds(ox.Triple, NODES, NODES, NODES | LITERALS), min_size=1, max_size=5)


@given(TRIPLES, st.sampled_from(["nt", "nq", "ttl", "trig", "jsonld"]), st.integers(1, 4))
def test_what_pyoxigraph_writes_is_read_as_the_same_terms(tmp_path_factory, triples, ending, batch_rows):
    quads = [ox.Quad(one.subject, one.predicate, one.object) for one in triples]
    path = written(tmp_path_factory.mktemp("rdf"), f"a.{ending}", ox.serialize(quads, format=FORMATS[ending]))
    found = edges(path, batch_rows=batch_rows)
    if ending == "jsonld":  # an object of JSON says a thing once
        assert set(found) == set(expected(triples))
    else:
        assert found == expected(triples)


@given(
    st.lists(
        st.tuples(st.sampled_from(["http://e/a", "urn:b"]), iris(), TEXTS, LANGUAGES | st.none()), min_size=1, max_size=4
    ),
    st.sampled_from(["nt", "ttl"]),
)
def test_what_rdflib_writes_is_read_as_the_same_terms(tmp_path_factory, given_triples, ending):
    graph = rdflib.Graph()
    for subject, predicate, text, language in given_triples:
        graph.add((rdflib.URIRef(subject), rdflib.URIRef(predicate), rdflib.Literal(text, lang=language)))
    data = graph.serialize(format=OF_RDFLIB[ending])
    try:  # rdflib writes IRIs that it does not read again
        pairs = [(one.subject, one.predicate, one.object) for one in ox.parse(data, format=FORMATS[ending])]
    except SyntaxError:
        assume(False)
    path = written(tmp_path_factory.mktemp("rdf"), f"a.{ending}", data)
    wanted = {(s, p, literal_text(t, language=(g or "").lower())) for s, p, t, g in given_triples}
    assert len(pairs) == len(wanted) and set(edges(path)) == wanted


@given(TRIPLES, st.randoms(use_true_random=False))
@example([ox.Triple(*[ox.NamedNode("http://[::1]/--")] * 3)], random.Random(1))
def test_lines_that_are_not_canonical_are_read_alike(tmp_path_factory, triples, chance):
    """Other blanks, other escapes, comments, blank lines, other ends of lines."""

    def spelt(line: str) -> str:
        # Between terms: a literal may hold what looks like it.
        between = r'"(?:[^"\\]|\\.)*"|(?<=[>\w"])(?= [<"_.])'
        line = re.sub(between, lambda found: found[0] or chance.choice(["", "\t", "  "]), line)
        escaped = re.sub(r"[é名]", lambda found: chance.choice([found[0], f"\\u{ord(found[0]):04x}"]), line)
        return escaped + chance.choice(["", " # said <so>", "\n", "\n# nothing"]) + chance.choice(["\n", "\r\n"])

    lines = [ox.serialize([one], format=ox.RdfFormat.N_TRIPLES).decode().rstrip("\n") for one in triples]
    path = written(tmp_path_factory.mktemp("rdf"), "a.nt", "".join(map(spelt, lines)))
    assert edges(path) == expected(triples)


PIECES = st.sampled_from(
    [
        "<http://e.org/a>",
        "<urn:x>",
        "<a:%20b>",
        "<http://e.org:80>",
        "<http://e.org:x/>",
        "<http://[::1]/>",
        "<a:b#c#d>",
        "<a:b[c]>",
        "<a>",
        "<>",
        "<a://b c>",
        "<a:b\\u0041>",
        "_:b0",
        "_:b.",
        "_:-b",
        "_:B.1",
        '"x"',
        '"x"@en',
        '"x"@EN',
        '"x"@e',
        '"x"@en-gb',
        '"x"@en-ltr',
        '"x"^^<http://www.w3.org/2001/XMLSchema#string>',
        '"x"^^<a:b>',
        '"x"^^<b>',
        '"\\n\\\\"',
        '"\\u0001"',
        '"\t"',
        '"\\x"',
        '"x" ',
        "<a:é>",
        "<a:\ue000>",
        f'"x"^^<{RDF}langString>',
        f'"x"^^<{RDF}HTML>',
        "<//a>",
        "<a:///b>",
        "<a:?>",
        "<http://e.org?x>",
        "<http://u@e.org/>",
        "<a:%2>",
    ]
)


@given(st.lists(PIECES, min_size=3, max_size=4), st.sampled_from([" .\n", ".\n", " .", " .\r\n", "\n"]))
@example(["<a:b>", "<a:c>", '"x" <a:d>'], " .\n")
def test_a_line_that_needs_no_parser_is_what_the_parser_makes_of_it(pieces, end):
    line = " ".join(pieces) + end
    data = line.encode()
    kinds = kinds_of(lines_of(data), data, graphs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical_lines, "ARROW_MINIMUM_LINES", 0)
        by_arrow = kinds_of(lines_of(data), data, graphs=True)
    assert (kinds.canonical[0], kinds.of_graph[0]) == (by_arrow.canonical[0], by_arrow.of_graph[0])
    if kinds.canonical[0]:
        (quad,) = ox.parse(data, format=ox.RdfFormat.N_QUADS)
        assert ox.serialize([quad], format=ox.RdfFormat.N_QUADS).decode() == line.rstrip("\r\n") + "\n"
        assert kinds.of_graph[0] == (not isinstance(quad.graph_name, ox.DefaultGraph))


@given(st.text(CHARACTERS | st.sampled_from('"<>_:%# /abé^@\\'), min_size=1))
@example("urn:rpq:text:a")
@example("urn:rpq:text:")
@example('"bob')
@example("_:")
@example('"x"@en--ltr')
@example('"\\ud800"')
@example('"x"^^<b>')
@example("%41")
def test_every_text_is_a_term_and_comes_back(text):
    term = rdf_term(text)
    line = f"<a:s> <a:p> {term} .\n".encode()
    (quad,) = ox.parse(line, format=ox.RdfFormat.N_TRIPLES)
    assert str(quad.object) == term or isinstance(quad.object, ox.Literal)
    if term.startswith("<"):
        assert vertex_text(term[1:-1]) == text


@given(st.text(st.sampled_from('ab"\\%:/<> é')), st.text(st.sampled_from('ab"\\%:/<> é')))
def test_no_two_texts_are_one_term(one, other):
    assert (rdf_term(one) == rdf_term(other)) == (one == other)


# --- syntaxes --------------------------------------------------------------------------------------------------------

TURTLE = """@prefix : <http://e/> .
:bob :knows :ann ; :name "Bob"@fr , "Robert" ; :age 30 .
:ann :knows _:x . _:x :name "\\u00e9\\n\\"" .
"""


@pytest.mark.parametrize(("ending", "packed"), [*((ending, "") for ending in FORMATS), ("ttl", ".gz")])
def test_every_syntax_by_its_ending(tmp_path, ending, packed):
    quads = list(ox.parse(TURTLE.encode(), format=ox.RdfFormat.TURTLE))
    triples = [one.triple for one in quads] if ending in ("nt", "ttl", "rdf") else quads
    data = ox.serialize(triples, format=FORMATS[ending])
    if packed == ".gz":
        data = gzip.compress(data)
    found = edges(written(tmp_path, f"a.{ending}{packed}", data))
    assert sorted(found) == sorted(
        [
            ("http://e/bob", "http://e/knows", "http://e/ann"),
            ("http://e/bob", "http://e/name", '"Bob"@fr'),
            ("http://e/bob", "http://e/name", '"Robert"'),
            ("http://e/bob", "http://e/age", f'"30"^^<{XSD}integer>'),
            ("http://e/ann", "http://e/knows", "_:f1.x"),
            ("_:f1.x", "http://e/name", '"é\\n\\""'),
        ]
    )
    assert edges(written(tmp_path, "a.data", data), syntax=ending) == found


def drawn_turtle(chance: random.Random, statements: int) -> str:
    """Turtle with nodes in brackets and in lists, one in another, and with subjects of all kinds."""

    def term(depth: int) -> str:
        kind = chance.randrange(6 if depth else 3)
        if kind < 2:
            return chance.choice([":a", ":b", "_:x", "_:y", '"t"', "7"])
        if kind == 2:
            return "[]"
        if kind == 3:
            return f"( {' '.join(term(depth - 1) for _ in range(chance.randrange(4)))} )"
        return f"[ {properties(depth - 1)} ]"

    def properties(depth: int) -> str:
        return " ; ".join(
            f":{chance.choice('pqr')} {' , '.join(term(depth) for _ in range(chance.randint(1, 2)))}"
            for _ in range(chance.randint(1, 3))
        )

    def statement() -> str:
        subject = chance.choice([":a", ":b", "_:x", "_:z", f"[ {properties(2)} ]", "[]", f"( {term(1)} )"])
        return f"{subject} {properties(3)} .\n"

    return "@prefix : <http://e/> .\n" + "".join(statement() for _ in range(statements))


@pytest.mark.parametrize("seed", range(scaled(8)))
def test_nodes_without_a_label_are_told_apart_and_named_the_same_every_time(tmp_path, seed):
    text = drawn_turtle(random.Random(seed), 4)
    path = written(tmp_path, "a.ttl", text)
    found = edges(path, batch_rows=1 + seed % 7)
    assert found == edges(path, batch_rows=1000)
    graph = rdflib.Graph()
    for triple in found:
        graph.add(tuple(_of_rdflib(text) for text in triple))
    wanted = rdflib.Graph()
    wanted.parse(data=text, format="turtle")
    assert isomorphic(graph, wanted)


def test_labels_that_look_generated_are_kept(tmp_path):
    """pyoxigraph writes such files: `_:c8…` far from its other `_:c8…`, and nodes without labels between them."""
    label = "_:c823099a7ad70ae9cf9424f632a1b8be"
    text = f"@prefix : <http://e/> . {label} :p :x .\n" + ":a :p [ :q [] ] .\n" * 3000 + f":b :p {label} .\n"
    found = edges(written(tmp_path, "a.ttl", text), batch_rows=64)
    assert found[0][0] == found[-1][2] == f"_:f1.{label[2:]}" and len({*found}) == 2 + 2 * 3000


def test_no_node_of_turtle_is_remembered_behind_its_statement(tmp_path):
    path = written(tmp_path, "a.ttl", "@prefix : <http://e/> .\n" + ":a :p [ :q [] ] .\n" * 2000)
    blanks = BlankNodes("f1", are_generated=True, are_local=True)
    names = set()
    for batch in statements.Statements(ByteSource(path), syntax_by_name("ttl"), batch_rows=50):
        columns = blanks.rename(batch.columns[:-1])
        names |= {text for text in (*columns[0].to_pylist(), *columns[2].to_pylist()) if text.startswith("_:")}
        assert len(blanks._numbers) <= 3
    assert len(names) == 4000


def test_a_name_without_an_ending_is_of_n_quads(tmp_path):
    path = written(tmp_path, "data", "<a:s> <a:p> <a:o> .\n<a:s> <a:p> <a:o> <a:g> .\n")
    assert edges(path) == [("a:s", "a:p", "a:o")] * 2


def _of_rdflib(text: str):
    if text.startswith("_:"):
        return rdflib.BNode(text[2:])
    return rdflib.util.from_n3(text) if text.startswith('"') else rdflib.URIRef(text)


def test_blank_nodes_of_two_files_are_two_nodes(tmp_path):
    paths = [written(tmp_path, f"{name}.nt", "_:b <a:p> _:b .\n") for name in "xy"]
    found = rows(open_reader("rdf", paths))
    assert [row["source"] for row in found] == ["_:f1.b", "_:f2.b"] == [row["target"] for row in found]
    assert read(paths[0], scope="s")[0]["source"] == "_:s1.b"


# --- times -----------------------------------------------------------------------------------------------------------


def quads(*lines: str) -> str:
    """Lines of N-Quads from `s o` or `s o g`, of IRIs that begin with a:."""
    made = []
    for line in lines:
        subject, target, *graph = line.split(" ")
        made.append(f"<a:{subject}> <a:p> <a:{target}> {''.join(f'<{one}> ' for one in graph)}.\n")
    return "".join(made)


def times(path, **options) -> list[int]:
    return [row["timestamp"] for row in read(path, **options)]


def test_by_position_triples_are_numbered_through_all_inputs(tmp_path):
    paths = [written(tmp_path, f"{name}.nq", quads("x y", "y z")) for name in "ab"]
    reader = open_reader("rdf", paths)
    assert [row["timestamp"] for row in rows(reader)] == [1, 2, 3, 4] and reader.time_unit is None
    bad = written(tmp_path, "bad.nq", "bad\n" + quads("x y") + "bad\n" + quads("y z"))
    assert times(bad, on_error="skip") == [1, 2]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_by_the_position_of_the_graph(tmp_path, batch_rows):
    path = written(tmp_path, "a.nq", quads("x y", "y z", "a b g:1", "b c g:1", "c d g:2", "d e g:1", "e f"))
    assert times(path, time="graph-position", batch_rows=batch_rows) == [1, 1, 2, 2, 3, 4, 5]
    two = rows(open_reader("rdf", [path, path], rdf=RdfReading(time="graph-position")))
    assert [row["timestamp"] for row in two] == [1, 1, 2, 2, 3, 4, 5, 6, 6, 7, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("graph", "time", "unit"),
    [
        ("<urn:rpq:insert:17>", 17, None),
        ("<http://e/t/-5>", -5, None),
        (f'"17"^^<{XSD}integer>', 17, None),
        (f'"2024-05-01T12:00:00Z"^^<{XSD}dateTime>', 1714564800, "s"),
        (f'"2024-05-01T14:00:00.5+02:00"^^<{XSD}dateTime>', 1714564800_500_000, "us"),
        ("<urn:rpq:insert:2024-05-01T12:00:00Z>", 1714564800000, "ms"),
        ("<http://e/t/2024-05-01T12%3A00%3A00Z>", 1714564800, "s"),
        ('"2024-05-01"', 1714521600, "s"),
    ],
)
def test_by_the_name_of_the_graph(tmp_path, graph, time, unit):
    line = f'<a:x> <a:p> "a \\" {graph.replace(chr(34), "")} ."@en {graph} .\n'
    path = written(tmp_path, "a.nq", line + line.replace(" <a:p>", "  <a:p>"))
    reader = open_reader("rdf", path, time_unit=None if unit == "us" else unit, rdf=RdfReading(time="graph-name"))
    assert [row["timestamp"] for row in rows(reader)] == [time, time] and reader.time_unit == unit


def test_inputs_with_times_of_their_own_are_merged(tmp_path):
    first = written(tmp_path, "a.nq", quads("a b t:1", "b c t:5"))
    second = written(tmp_path, "b.nq", quads("d e t:2", "e f t:7"))
    found = rows(open_reader("rdf", [first, second], rdf=RdfReading(time="graph-name", graph="event")))
    assert [(row["timestamp"], row["event"]) for row in found] == [(1, "t:1"), (2, "t:2"), (5, "t:5"), (7, "t:7")]
    dates = written(tmp_path, "c.nq", quads("d e t:2024-05-01T00:00:00Z"))
    with pytest.raises(InputError, match="timestamps are in us, but numbers without a unit"):
        open_reader("rdf", [first, dates], rdf=RdfReading(time="graph-name"))


EVENTS = f"""@prefix : <http://e/> . @prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <{XSD}> .
:g1 prov:generatedAtTime "2024-05-01T12:00:00Z"^^xsd:dateTime ; :from :sensor .
:g1 {{ :bob :knows :ann }}
:g2 {{ :ann :knows :carl . :g2 prov:generatedAtTime "2024-05-01T12:00:05Z"^^xsd:dateTime . :carl :knows :dora }}
:g3 {{ :dora :knows :eve . :x prov:generatedAtTime "2000-01-01T00:00:00Z"^^xsd:dateTime }}
:g3 prov:generatedAtTime "2024-05-01T12:00:07Z"^^xsd:dateTime .
"""


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("ending", ["trig", "nq"])
def test_by_a_property_before_in_and_behind_the_graph(tmp_path, batch_rows, ending):
    data = ox.serialize(ox.parse(EVENTS.encode(), format=ox.RdfFormat.TRIG), format=FORMATS[ending])
    path = written(tmp_path, f"a.{ending}", data if ending == "nq" else EVENTS)
    assert times(path, time=f"<{PROV}>", time_unit="s") == times(path, time=PROV, time_unit="s")
    found = read(path, time=PROV, graph="event", batch_rows=batch_rows, time_unit="s")
    short = [
        (
            row["source"][9:],
            row["label"].rpartition("#")[2].rpartition("/")[2],
            row["timestamp"] - 1714564800,
            row["event"][9:],
        )
        for row in found
    ]
    assert short == [
        ("g1", "from", 0, "g1"),
        ("bob", "knows", 0, "g1"),
        ("ann", "knows", 5, "g2"),
        ("carl", "knows", 5, "g2"),
        ("dora", "knows", 7, "g3"),
        ("x", "generatedAtTime", 7, "g3"),  # it is not about its own graph
    ]


def test_a_graph_without_a_time_is_an_error_at_its_line(tmp_path):
    path = written(
        tmp_path,
        "a.trig",
        EVENTS + ":g4 {\n  :eve :knows :fox }\n:g5 { :a :b :c }\n:g5 prov:generatedAtTime "
        '"2024-05-01T12:00:09Z"^^xsd:dateTime .\n',
    )
    reader = open_reader("rdf", path, rdf=RdfReading(time=PROV))
    found = []
    with pytest.raises(InputError, match=r"a\.trig:8: the graph 'http://e/g4' has no time") as caught:
        for batch in reader:
            found += batch.columns.to_pylist()
    assert len(found) == 6 and caught.value.line == 8
    assert len(read(path, time=PROV, on_error="skip")) == 7


def test_only_so_many_graphs_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(rdf_times, "MAX_GRAPHS", 10)
    stream = "".join(f'<g:{n}> <{PROV}> "{n}" .\n' + quads(f"s o g:{n}", f"s q g:{n}") for n in range(100))
    assert times(written(tmp_path, "a.nq", stream), time=PROV, batch_rows=3) == [n for n in range(100) for _ in range(2)]
    times_of = rdf_times.GraphPropertyTimes(PROV, rdf_times.TimeTerms())
    batch = pa.RecordBatch.from_pylist(
        [{"subject": f"g:{n}", "predicate": PROV, "object": '"1"', "graph": None, "number": n} for n in range(100)],
        schema=statements.SCHEMA,
    )
    assert list(times_of.assign(batch)) == [] and len(times_of._times) + len(times_of._earlier_times) <= 20


def test_triples_do_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(rdf_times, "MAX_WAITING", 10)
    lines = [f"s{n} o g:{n}" for n in range(40)]
    stated = "".join(f'<g:{n}> <{PROV}> "{n}" .\n' for n in range(40) if n != 7)
    path = written(tmp_path, "a.nq", "".join(quads(line) + (stated if n == 39 else "") for n, line in enumerate(lines)))
    with pytest.raises(InputError, match=r"a\.nq:1: .*among the 10 triples after it"):
        read(path, time=PROV, batch_rows=1)
    written(tmp_path, "a.nq", stated + quads(*lines))
    with pytest.raises(InputError, match=r"a\.nq:47: the graph 'g:7' has no time"):
        read(path, time=PROV, batch_rows=1)
    assert times(path, time=PROV, on_error="skip", batch_rows=1) == [n for n in range(40) if n != 7]


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        (quads("x y"), {"time": "graph-name"}, "a.nq:2: is in the default graph, which has no name for the time"),
        (quads("x y a:b"), {"time": "graph-name"}, "a.nq:2: 'a:b' contains no time; expected an integer or a time"),
        (
            quads("x y a:2024-05-01"),
            {"time": "graph-name"},
            "a.nq:2: '2024-05-01' is not an integer, but earlier times are integers",
        ),
        (quads("x y a:99999999999999999999"), {"time": "graph-name"}, "a.nq:2: 99999999999999999999 does not fit 64 bits"),
        (f'<a:g> <{PROV}> "soon" .\n', {"time": PROV}, "a.nq:2: the time of the graph 'a:g': 'soon' is no"),
        (
            f'<a:g> <{PROV}> "7" .\n<a:g> <{PROV}> "8" .',
            {"time": PROV},
            "a.nq:3: the graph 'a:g' already has the time 7; found 8",
        ),
    ],
)
def test_what_says_no_time_is_an_error_at_its_line(tmp_path, line, options, message):
    first = f'<g:0> <{PROV}> "5" .\n' if options["time"] == PROV else quads("s o t:5")
    path = written(tmp_path, "a.nq", first + line)
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert message in str(caught.value)


def test_times_without_a_zone_do_not_mix_with_others(tmp_path):
    path = written(
        tmp_path, "a.nq", quads("x y t:2024-05-01T00:00:00Z", "x y t:2024-05-01T00:00:00", "x y t:2024-13-01T00:00:00Z")
    )
    reader = open_reader("rdf", path, on_error="skip", rdf=RdfReading(time="graph-name"))
    assert len(rows(reader)) == 1
    assert [message.partition(": ")[2][:60] for message in reader.rejections] == [
        "'2024-05-01T00:00:00' has no zone, but the times before have",
        "'2024-13-01T00:00:00Z' is not a time; expected one such as 2",
    ]


# --- deletes, streams -------------------------------------------------------------------------------------------------


def test_what_stands_in_a_graph_of_deletes_is_deleted(tmp_path):
    path = written(
        tmp_path,
        "a.nq",
        quads("x y urn:rpq:insert:1", "x y urn:rpq:delete:2", "x y a:urn:rpq:delete:3", "x z urn:rpq:deletes:4"),
    )
    assert [row["delete"] for row in read(path, time="graph-name")] == [False, True, False, False]
    path = written(tmp_path, "a.trig", "GRAPH <urn:rpq:delete> { <a:x> <a:p> <a:y> } <a:x> <a:p> <a:z> .")
    assert [row["delete"] for row in read(path)] == [True, False]
    assert "delete" not in read(written(tmp_path, "b.nq", quads("x y a:b")))[0]


def test_a_graph_is_a_stream_or_an_event(tmp_path):
    path = written(tmp_path, "a.nq", quads("x y", "y z a:g"))
    assert [row["stream"] for row in read(path, graph="stream")] == [None, "a:g"]
    assert [row["event"] for row in read(path, graph="event")] == [None, "a:g"]
    named = rows(open_reader("rdf", [path, path], streams=["left", None]))
    assert [row.get("stream") for row in named] == ["left", "left", None, None]
    with pytest.raises(InputError, match="both the inputs and the graphs are assigned to streams"):
        open_reader("rdf", path, streams=["left"], rdf=RdfReading(graph="stream"))


# --- what is wrong ----------------------------------------------------------------------------------------------------

DAMAGED = {
    "nt": ("<a:s> <a:p> <a:o> .\n<a:s> <a:p> .\n<a:s> <a:p> <a:q> .\n", 2, 2),
    "nq": ('<a:s> <a:p> <a:o> .\n\n<a:s> <a:p> "x"@- <a:g> .\n<a:s> <a:p> <a:q> .\n', 3, 2),
    "ttl": ("@prefix : <http://e/> .\n:s :p :o .\n:s :p bad x .\n:s :p :q .\n", 3, 2),
    "trig": ("@prefix : <http://e/> .\n:g { :s :p :o }\n:g { :s bad :o }\n:g { :s :p :q }\n", 3, 2),
    "jsonld": ('[{"@id": "a:s", "a:p": {"@id": "a:o"}},\n {"@id": "a:s", bad}]', 2, None),
    "rdf": (
        f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="http://e/">\n<rdf:Description rdf:about="a:s">\n<e:p>x</e:p>\n<e:p></e:q>\n',
        4,
        None,
    ),
}


@pytest.mark.parametrize("ending", DAMAGED)
def test_damage_is_told_with_its_line_behind_what_came_before(tmp_path, ending):
    text, line, kept = DAMAGED[ending]
    path = written(tmp_path, f"a.{ending}", text)
    found = []
    with pytest.raises(InputError, match=rf"a\.{ending}:{line}: ") as caught:
        for batch in open_reader("rdf", path):
            found += batch.columns.to_pylist()
    assert len(found) == 1 and caught.value.line == line
    if kept is None:  # behind it nothing can be read
        with pytest.raises(InputError, match=rf"a\.{ending}:{line}: "):
            read(path, on_error="skip")
        return
    reader = open_reader("rdf", path, on_error="skip")
    assert [row["target"][-1] for row in rows(reader)] == ["o", "q"] and reader.rejected >= 1
    assert re.search(rf"a\.{ending}:{line}: ", reader.rejections[0])


def test_what_is_no_utf_8_is_told_with_its_line(tmp_path):
    path = written(tmp_path, "a.nt", b'<a:s> <a:p> <a:o> .\n<a:s> <a:p> "\xff" .\n<a:s> <a:p> "\xc3\xa9" .\n')
    with pytest.raises(InputError, match=r"a\.nt:2: at byte 14: is not UTF-8"):
        read(path)
    assert [row["target"] for row in read(path, on_error="skip")] == ["a:o", '"é"']


@pytest.mark.parametrize("ending", ["nt", "ttl"])
def test_what_is_of_rdf_1_2_alone_is_refused_at_its_line(tmp_path, ending):
    path = written(
        tmp_path, f"a.{ending}", '<a:s> <a:p> <a:o> .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n<a:s> <a:p> "x"@en--ltr .\n'
    )
    with pytest.raises(InputError, match=rf"a\.{ending}:2: it uses RDF 1\.2"):
        read(path)
    reader = open_reader("rdf", path, on_error="skip")
    assert len(rows(reader)) == 1 and reader.rejected == 2
    assert [message.partition(": ")[0][-1] for message in reader.rejections] == ["2", "3"]


def test_a_truncated_file_is_an_error_behind_what_came_before(tmp_path):
    data = gzip.compress(quads(*(f"s{n} o" for n in range(5000))).encode())
    path = written(tmp_path, "a.nq.gz", data[: len(data) // 2])
    found = []
    with pytest.raises(InputError, match="truncated"):
        for batch in open_reader("rdf", path, on_error="skip"):
            found += batch.columns.to_pylist()
    assert found and [row["timestamp"] for row in found] == [*range(1, len(found) + 1)]


def test_wrong_options_are_told_with_what_is_right(tmp_path):
    path = written(tmp_path, "a.nq", quads("x y"))
    for options, message in (
        ({"syntax": "turtle"}, "unknown syntax of RDF 'turtle': expected one of nt, nq, ttl"),
        ({"time": "graph"}, "expected position, graph-position, graph-name, or the IRI of a property"),
        ({"graph": "name"}, "expected stream or event"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            read(path, **options)
    with pytest.raises(InputError, match="options of the format rdf"):
        open_reader("edges", path, rdf=RdfReading())


def test_without_pyoxigraph_the_extra_is_named(tmp_path):
    path = written(tmp_path, "a.nt", quads("x y"))
    script = (
        "import sys; sys.modules['pyoxigraph'] = None\n"
        "from rpq.cli import main\n"
        f"main(['run', 'a', '--format', 'rdf', '--input', {str(path)!r}, '--window', '5', '--slide', '1'])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "pip install 'pyoxigraph>=" in re.sub(r"\s+", " ", ended.stderr)
