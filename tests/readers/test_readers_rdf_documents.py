"""Documents of RDF that come one by one: JSON-LD one document a line, posts and messages."""

from __future__ import annotations

import json

import pytest

from rpq.errors import InputError
from rpq.readers import RdfReading, open_reader

pytest.importorskip("pyoxigraph")

from rpq.readers.rdf.rdf_format import RdfDocuments

PROV = "http://www.w3.org/ns/prov#generatedAtTime"


def document(graph: str, time: object, *edges: tuple[str, str, str]) -> str:
    """Return a document of one graph, with its time, as one line of JSON-LD."""
    nodes = [{"@id": source, label: {"@id": target}} for source, target, label in edges]
    return json.dumps({"@id": graph, PROV: time, "@graph": nodes})


def read(path, *, on_error: str = "stop", **options) -> tuple[list[tuple], list[str]]:
    """Return the tuples (source, target, label, timestamp[, stream]) of a file, and what was rejected."""
    reader = open_reader("rdf", str(path), rdf=RdfReading(**options), on_error=on_error)
    return [tuple(row.values()) for batch in reader for row in batch.columns.to_pylist()], reader.rejections


# --- a document a line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.ndjsonld", "a.jsonldl", "a.ndjson", "a.jsonl", "a.jsonl.gz"])
def test_a_line_is_a_document_with_the_time_of_its_graph(tmp_path, name):
    lines = [document("g:1", 5, ("x:a", "x:b", "l:p")), "", document("g:2", 7, ("x:b", "x:c", "l:p"), ("x:c", "x:d", "l:q"))]
    path = tmp_path / name
    data = "\n".join(lines).encode()
    if name.endswith(".gz"):
        import gzip

        data = gzip.compress(data)
    path.write_bytes(data)
    expected = [("x:a", "x:b", "l:p", 5), ("x:b", "x:c", "l:p", 7), ("x:c", "x:d", "l:q", 7)]
    assert read(path, time=PROV)[0] == expected
    assert [one[:3] for one in read(path, syntax="ndjsonld", time=PROV, graph="stream")[0]] == [one[:3] for one in expected]


def test_blank_nodes_and_graphs_of_two_lines_are_two(tmp_path):
    path = tmp_path / "a.ndjsonld"
    same = '{"@id": "_:n", "l:p": {"l:q": {"@id": "x:a"}}}\n'
    path.write_text(2 * same)
    found = read(path, time="graph-position")[0]
    first = {("_:f1.1.n", "_:f1.1-1", "l:p", 1), ("_:f1.1-1", "x:a", "l:q", 1)}
    assert set(found) == first | {("_:f1.2.n", "_:f1.2-1", "l:p", 2), ("_:f1.2-1", "x:a", "l:q", 2)}
    assert [row[-1] for row in read(path)[0]] == [1, 2, 3, 4]


def test_a_bad_line_is_told_with_its_number_and_none_of_it_is_read(tmp_path):
    path = tmp_path / "a.ndjsonld"
    good = document("g:1", 5, ("x:a", "x:b", "l:p"))
    untimed = document("g:3", "soon", ("x:a", "x:c", "l:p"))
    path.write_text(f'{good}\n{{"@id": "x:a", "l:p": {{"@id": "x:b"}},\n{good}\n{untimed}\n')
    with pytest.raises(InputError, match=r"a.ndjsonld:2: .*expected a document of JSON-LD in each line") as error:
        read(path, time=PROV)
    assert error.value.line == 2
    found, rejected = read(path, time=PROV, on_error="skip")
    assert found == [("x:a", "x:b", "l:p", 5)] * 2
    assert len(rejected) == 2 and "a.ndjsonld:2:" in rejected[0] and "a.ndjsonld:4: the time of the graph" in rejected[1]


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("time", ["graph-name", PROV])
def test_a_line_with_one_triple_without_a_time_is_not_read(tmp_path, time, rows):
    def line(number: int, *nodes: object) -> str:
        graph = json.loads(document(f"g:{number}", number, ("x:a", f"x:{number}", "l:p")))
        return json.dumps([{name: value for name, value in graph.items() if name in ("@id", "@graph", time)}, *nodes])

    untimed = {"@id": "x:graph", "@graph": [{"@id": "x:a", "l:p": [{"@id": "x:b"}, {"@id": "x:c"}]}]}
    later = {"@id": "g:8", "@graph": {"@id": "x:a", "l:p": {"@id": "x:late"}}}  # the time of the graph is in another line
    path = tmp_path / "a.ndjsonld"
    lines = [line(1), line(2, untimed), line(3, later), line(8), line(9, untimed), line(10)]
    if time == PROV:
        lines.append(document("g:1", 11, ("x:a", "x:again", "l:p")))  # it has another time
    path.write_text("\n".join(lines) + "\n")

    def tuples(on_error: str) -> tuple[list[tuple], list[str]]:
        reader = open_reader("rdf", str(path), rdf=RdfReading(time=time), on_error=on_error, batch_rows=rows)
        found: list[tuple] = []
        try:
            for batch in reader:
                found += [tuple(row.values()) for row in batch.columns.to_pylist()]
        except InputError as error:
            return found, [str(error)]
        return found, reader.rejections

    found, rejected = tuples("skip")
    assert sorted(row[1::2] for row in found) == [("x:1", 1), ("x:10", 10), ("x:3", 3), ("x:8", 8), ("x:late", 8)]
    bad = {int(one.split("a.ndjsonld:")[1].split(":")[0]) for one in rejected}
    assert len(rejected) == len(bad) and bad == ({2, 5, 7} if time == PROV else {2, 5})
    found, (message,) = tuples("stop")
    assert "a.ndjsonld:2: " in message or "a.ndjsonld:7: " in message
    assert {"x:2", "x:9", "x:b"}.isdisjoint(target for _, target, *_ in found)


# --- one by one ------------------------------------------------------------------------------------------------------

DOCUMENTS = {
    "nq": b"<x:a> <l:p> <x:b> <urn:rpq:insert:5> .\n<x:a> <l:p> _:n <urn:rpq:delete:5> .\n",
    "trig": b"<urn:rpq:insert:5> { <x:a> <l:p> <x:b> } <urn:rpq:delete:5> { <x:a> <l:p> _:n }",
    "jsonld": b'[{"@id": "urn:rpq:insert:5", "@graph": {"@id": "x:a", "l:p": {"@id": "x:b"}}}, '
    b'{"@id": "urn:rpq:delete:5", "@graph": {"@id": "x:a", "l:p": {"@id": "_:n"}}}]',
}


@pytest.mark.parametrize("syntax", DOCUMENTS)
def test_a_document_in_each_syntax_of_graphs(syntax):
    found = RdfDocuments(RdfReading(time="graph-name")).read(DOCUMENTS[syntax], syntax=syntax, name="it", scope="d7")
    rows = sorted((row["target"], row["timestamp"], row["delete"]) for row in found.to_pylist())
    assert rows == [("_:d7.n", 5, True), ("x:b", 5, False)]


def test_a_document_may_come_with_its_time():
    documents = RdfDocuments(RdfReading())
    found = documents.read(b"<x:a> <l:p> <x:b> , [] .", syntax="ttl", name="it", scope="d", timestamp=9)
    assert [(row["target"], row["timestamp"]) for row in found.to_pylist()] == [("x:b", 9), ("_:d-1", 9)]
    assert documents.read(b"# nothing\n", syntax="ttl", name="it", scope="d", timestamp=9) is None
    with pytest.raises(InputError, match="it: the triples have no time: --rdf-time says where it is"):
        documents.read(b"<x:a> <l:p> <x:b> .", syntax="ttl", name="it", scope="d")


def test_entities_do_not_make_a_document_many_times_as_large():
    def read_with(entities: str, text: str) -> str:
        namespaces = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:l="l:"'
        description = f'<rdf:Description rdf:about="x:a"><l:p>{text}</l:p></rdf:Description>'
        data = f"<!DOCTYPE rdf:RDF [{entities}]><rdf:RDF {namespaces}>{description}</rdf:RDF>".encode()
        found = RdfDocuments(RdfReading()).read(data, syntax="rdf", name="it", scope="d", timestamp=1)
        return found.column("target")[0].as_py()

    entities = '<!ENTITY e "http://e.org/" >\n<!ENTITY f "&e;f#"><!ENTITY g "">'
    assert "<http://e.org/x> http://e.org/f#y" in read_with(entities, "&lt;&e;x&gt; &f;y&g;")
    grown = "".join(f'<!ENTITY e{level + 1} "{10 * f"&e{level};"}">' for level in range(9))
    for entities, text, message in (
        (f'<!ENTITY e0 "0123456789">{grown}', "&e9;", "its entities stand for over 16 times as many bytes"),
        ("<!ENTITY e 'x'>", "&e;", "declares an entity that is not a plain text"),
        ('<!ENTITY % e "x">', "", "declares an entity that is not a plain text"),
        (f'<!ENTITY e "{10_000 * "x"}">', 10_000 * "&e;", "its entities stand for over 16 times as many bytes"),
    ):
        with pytest.raises(InputError, match=f"it: {message}"):
            read_with(entities, text)


LONG = "http://x.org/" + 50_000 * "a" + "/"
NUMBERS = range(1_000)
GROWING = {
    "prefix.ttl": f"@prefix p: <{LONG}> .\n" + "\n".join(f"p:{n} p:q {n} ." for n in NUMBERS),
    "base.ttl": "@base <http://x.org/> .\n" + "\n".join(f"@base <{200 * 'b'}/> . <s> <p> {n} ." for n in NUMBERS),
    "subject.trig": f"<{LONG}> <x:p> " + ", ".join(map(str, NUMBERS)) + " .",
    "namespace.rdf": f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:p="{LONG}">'
    + "".join(f'<rdf:Description rdf:about="x:{n}"><p:q>{n}</p:q></rdf:Description>' for n in NUMBERS)
    + "</rdf:RDF>",
    "id.jsonld": json.dumps({"@id": LONG, "x:p": [*NUMBERS]}),
    "alias.jsonld": json.dumps({"@context": {"id": "@id", "name": "id"}, "name": LONG, "x:p": [*NUMBERS]}),
    "prefix.jsonld": json.dumps({"@context": {"p": LONG}, "@graph": [{"@id": f"p:{n}", "p:q": n} for n in NUMBERS]}),
    "prefixes.jsonld": json.dumps(
        {
            "@context": {"p0": "http://x.org/", **{f"p{n + 1}": f"p{n}:{500 * 'a'}" for n in range(100)}},
            "@graph": [{"@id": f"p100:{n}", "x:p": n} for n in NUMBERS],
        }
    ),
    "bases.jsonld": json.dumps(
        {
            "@context": [{"@base": "http://x.org/"}, *[{"@base": f"{500 * 'b'}/"} for _ in range(100)]],
            "@graph": [{"@id": f"{n}", "x:p": n} for n in NUMBERS],
        }
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_long_prefixes_and_subjects_do_not_make_a_document_many_times_as_large(tmp_path, name):
    syntax, text = name.rpartition(".")[2], GROWING[name]
    documents = RdfDocuments(RdfReading())
    with pytest.raises(InputError, match="in full, its statements have over 250 times as many bytes"):
        documents.read(text.encode(), syntax=syntax, name="it", scope="d", timestamp=1)
    short = text.replace(LONG, "http://x.org/").replace(500 * "a", "a").replace(500 * "b", "b").replace(200 * "b", "b")
    found = documents.read(short.encode(), syntax=syntax, name="it", scope="d", timestamp=1)
    assert {*map(str, NUMBERS)} <= {value.split('"')[1] for value in found.column("target").to_pylist() if '"' in value}
    if syntax == "jsonld":  # as a line of a file, it is a bad one, and the next is read
        path = tmp_path / "lines.ndjsonld"
        path.write_text(f"{text}\n" + '{"@id": "x:a", "x:p": 1}\n')
        rows, messages = read(path, on_error="skip")
        assert len(rows) == 1 and [message.split(": ")[0] for message in messages] == [f"{path}:1"]
    else:  # what comes before is read
        path = tmp_path / name
        path.write_text(text)
        reader = open_reader("rdf", str(path), rdf=RdfReading(), batch_rows=50)
        batches = iter(reader)
        assert 0 < len(next(batches).columns) <= 50
        with pytest.raises(InputError, match=f"{name}:[0-9]+: written out in full"):
            list(batches)


DIGITS = [number % 10 for number in range(20_000)]
DAY = "https://example.org/buildings/7/floors/2/rooms/215/devices/thermometer-1/observations/2024-05-01"
ORDINARY = {
    "list.trig": f"PREFIX : <http://example.org/> <{DAY}> {{ :sensor :counts ( {' '.join(map(str, DIGITS))} ) }}",
    "list.jsonld": json.dumps(
        {
            "@context": {"@vocab": "https://example.org/ontologies/measurements/core/", "counts": {"@container": "@list"}},
            "@id": DAY,
            "counts": DIGITS,
        },
        separators=(",", ":"),
    ),
    "image.jsonld": json.dumps(
        {
            "@context": {"@vocab": "https://schema.org/", "image": {"@type": "@id"}},
            "@id": "https://example.org/shop",
            "image": f"data:image/png;base64,{50_000 * 'a'}",
            "offers": [{"@id": f"https://example.org/{number}", "price": number} for number in range(5_000)],
        }
    ),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_lists_of_digits_and_long_values_are_no_growth(name):
    syntax = name.rpartition(".")[2]
    found = RdfDocuments(RdfReading()).read(ORDINARY[name].encode(), syntax=syntax, name="it", scope="d", timestamp=1)
    assert len(found) == (10_001 if name.startswith("image") else 2 * len(DIGITS) + 1)


def test_a_large_document_of_json_may_have_a_byte_order_mark():
    data = json.dumps({"@id": "http://x.org/" + 300 * "a", "x:p": [*NUMBERS]}).encode()
    for text in (data, b"\xef\xbb\xbf" + data):
        found = RdfDocuments(RdfReading()).read(text, syntax="jsonld", name="it", scope="d", timestamp=1)
        assert len(found) == len(NUMBERS)


def test_a_large_document_that_is_no_json_is_an_error_at_its_line():
    text = '{"@id": "x:\\u0061",\n"x:p": [' + ", ".join(map(str, range(2_000))) + "],\n}"
    with pytest.raises(InputError, match="it:3: is no JSON") as found:
        RdfDocuments(RdfReading()).read(text.encode(), syntax="jsonld", name="it", scope="d", timestamp=1)
    assert found.value.line == 3


def test_an_error_has_the_line_and_leaves_the_next_document_alone():
    documents = RdfDocuments(RdfReading(time=PROV), time_unit="s")
    date = '"2024-05-01T12:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    good = f"<g:1> <{PROV}> {date} .\n<x:a> <l:p> <x:b> <g:1> .\n"
    for data, message in (
        (b"<x:a> <l:p> <x:b> <g:1> .\n<x:a> <l:p .\n", "it:2: at character"),
        (b"<x:a> <l:p> <x:b> <g:1> .\n", "it:1: the graph 'g:1' has no time"),
        (f'{good}<g:2> <{PROV}> "5" .\n'.encode(), "it:3: the time of the graph 'g:2'"),
    ):
        with pytest.raises(InputError, match=message):
            documents.read(data, syntax="nq", name="it", scope="d")
        assert documents.kind is None
    assert documents.read(good.encode(), syntax="nq", name="it", scope="d").column("timestamp").to_pylist() == [1714564800]
    assert documents.kind == "aware"
    with pytest.raises(InputError, match="it:1: the time of the graph"):
        documents.read(f'<g:2> <{PROV}> "5" .'.encode(), syntax="nq", name="it", scope="d")


# --- relative IRIs ---------------------------------------------------------------------------------------------------

RELATIVE = [
    ('{"@id": "a", "x:p": {"@id": "x:b"}}', "a", ("http://e.org/a", "x:b")),
    ('{"@id": "x:a", "x:p": {"@id": "../b"}}', "b", ("x:a", "http://e.org/b")),
    ('{"@id": "x:a", "@type": "T"}', "T", ("x:a", "http://e.org/T")),
    ('{"@id": "g", "@graph": [{"@id": "x:a", "x:p": {"@id": "x:b"}}]}', "g", ("x:a", "x:b")),
    ('{"@id": "x:a", "x:p": {"@value": "1", "@type": "t"}}', "t", ("x:a", '"1"^^<http://e.org/t>')),
    ('{"@context": {"@vocab": ""}, "@id": "x:a", "p": {"@id": "x:b"}}', "p", ("x:a", "x:b")),
]


@pytest.mark.parametrize(("text", "iri", "edge"), RELATIVE)
def test_a_relative_iri_needs_a_base(tmp_path, text, iri, edge):
    path, good = tmp_path / "a.jsonld", '{"@id": "x:c", "x:p": {"@id": "x:d"}}'
    path.write_text(f"[{good},\n{text},\n{good}]")
    with pytest.raises(InputError, match=rf"a.jsonld:2: the IRI '{iri}' is relative.*--rdf-base"):
        read(path)
    found, rejections = read(path, on_error="skip")
    assert [row[:2] for row in found] == 2 * [("x:c", "x:d")]
    assert len(rejections) == 1
    found, _ = read(path, base="http://e.org/")
    assert [row[:2] for row in found] == [("x:c", "x:d"), edge, ("x:c", "x:d")]
    with pytest.raises(InputError, match="it:1: the IRI"):
        RdfDocuments(RdfReading()).read(text.encode(), syntax="jsonld", name="it", scope="d", timestamp=1)
    lines = tmp_path / "a.ndjsonld"
    lines.write_text(f"{good}\n{text}\n")
    found, rejections = read(lines, on_error="skip")
    assert ([row[:2] for row in found], len(rejections)) == ([("x:c", "x:d")], 1)


def test_a_base_applies_to_each_syntax_and_not_to_an_input_that_has_its_own(tmp_path):
    for name, text in {
        "a.ttl": "<a> <p> <b> .",
        "b.trig": "<a> <p> <b> .",
        "c.rdf": '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://e.org/">'
        '<r:Description r:about="a"><p r:resource="b"/></r:Description></r:RDF>',
    }.items():
        (tmp_path / name).write_text(text)
        assert [row[:3] for row in read(tmp_path / name, base="http://e.org/")[0]] == [
            ("http://e.org/a", "http://e.org/b", "http://e.org/p")
        ]
        with pytest.raises(InputError, match="--rdf-base"):
            read(tmp_path / name)
    (tmp_path / "d.ttl").write_text("@base <http://f.org/> . <a> <p> <b> .")
    assert read(tmp_path / "d.ttl", base="http://e.org/")[0][0][0] == "http://f.org/a"
    with pytest.raises(InputError, match="expected an absolute IRI"):
        RdfReading(base="e.org")


@pytest.mark.parametrize("context", ['"http://x.org/c"', '{"@import": "http://x.org/c"}', '"c.json"'])
def test_a_remote_context_is_refused_by_name(context):
    text = f'{{"@context": {context}, "@id": "x:a", "p": "b"}}'
    with pytest.raises(InputError, match="it:1: .*remote context"):
        RdfDocuments(RdfReading()).read(text.encode(), syntax="jsonld", name="it", scope="d", timestamp=1)
