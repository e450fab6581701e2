"""Values, functions and operators of SPARQL 1.1, on the examples of the standard and on decisions of the contract."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from rpq.language.sparql.algebra import Project, children
from rpq.language.sparql.syntax.reading import read
from rpq.language.sparql.values.formula_values import evaluator, value_or_unbound
from rpq.language.sparql.values.regular_expressions import UnsupportedPattern, compile_pattern, replace_matches
from rpq.language.sparql.values.typed_values import NoValue
from rpq.stream.names.terms import XSD, literal_text, read_literal, resolve_iri

pytest.importorskip("rdflib")


def value(expression: str, **binding: str) -> str | None:
    """The term that an expression of SPARQL has as its value over a binding; None for an error."""
    question = read(f"PREFIX xsd: <{XSD}> SELECT ({expression} AS ?result) {{}}")
    assert isinstance(question.body, Project)
    (extend,) = children(question.body)
    return value_or_unbound(evaluator(extend.formula), binding)


def short(term: str | None) -> str | None:
    """A term as it is written in these tables: datatypes of XML Schema by their name."""
    return None if term is None else term.replace(f"<{XSD}", "").removesuffix(">") if f"^^<{XSD}" in term else term


TRUE, FALSE = '"true"^^boolean', '"false"^^boolean'

EXAMPLES = {
    # --- 17.4.1, functional forms
    'IF(1 = 1, "yes", "no")': '"yes"',
    'IF(bound(?none), "yes", "no")': '"no"',
    'IF(?none = 3, "yes", "no")': None,
    'IF("2" > 1, "yes", "no")': None,
    "COALESCE(?none, 1/0)": None,
    "COALESCE(?none, 3)": '"3"^^integer',
    "2 IN ()": FALSE,
    '2 IN (<http://example/iri>, "str", 2.0)': TRUE,
    "2 IN (2, 1/0)": TRUE,
    "2 IN (3, 1/0)": None,
    "2 NOT IN (2, 1/0)": FALSE,
    "?none IN ()": None,
    "1/0 || true": TRUE,
    "1/0 || false": None,
    "1/0 && false": FALSE,
    "false || 1/0 || true": TRUE,
    # --- 17.4.2, on terms
    'isNumeric("12")': FALSE,
    'isNumeric("12"^^xsd:nonNegativeInteger)': TRUE,
    'isNumeric("abc"^^xsd:byte)': FALSE,
    "STR(007)": '"007"',
    'LANG("Robert"@EN)': '"en"',
    'LANG("Roberto")': '""',
    'DATATYPE("a"@en)': "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString",
    'DATATYPE("a")': XSD + "string",
    'IRI("http://example/")': "http://example/",
    'IRI("_:x")': None,
    'STRDT("123", xsd:integer)': '"123"^^integer',
    'STRDT("a"@en, xsd:string)': None,
    'STRLANG("chat", "")': None,
    "sameTerm(1, 01)": FALSE,
    'sameTerm("a", "a"^^xsd:string)': TRUE,
    # --- 17.4.3, on strings
    'STRLEN("chat"@en)': '"4"^^integer',
    "STRLEN(4)": None,
    'SUBSTR("foobar"@en, 4)': '"bar"@en',
    'SUBSTR("foobar", 0, 3)': '"fo"',
    'SUBSTR("foobar", -1)': '"foobar"',
    'SUBSTR("foobar", 3, -1)': '""',
    'SUBSTR("foobar", 1.5)': None,
    'STRSTARTS("foobar", "foo"@en)': None,
    'REGEX("Alice", "^ali", "i")': TRUE,
    'REGEX("Alice"@en, "^ali")': FALSE,
    'REGEX("a\\nb", "a.b")': FALSE,
    'REGEX("a\\nb", "a.b", "s")': TRUE,
    'REGEX("a\\nb", "^b$", "m")': TRUE,
    'REGEX("b\\n", "b$")': FALSE,
    'REGEX("a+b", "a+b", "q")': TRUE,
    'REGEX("a", "[")': None,
    'REGEX("a", "(")': None,
    'REGEX("a", "a++")': None,
    'REGEX("a", "[z-a]")': None,
    'REGEX("a", "a", "z")': None,
    'REGEX("a", "\\\\ba")': None,
    'REGEX("a", "(?i)a")': None,
    'REGEX("a", CONCAT("(?=", "a)"))': None,
    'REGEX("aa", CONCAT("(a)", "\\\\1"))': None,
    'REGEX("a", CONCAT("a{1001}", ""))': None,
    f'REGEX("{"a" * 64}!", "^(a+)+$")': FALSE,
    f'REGEX("{"a" * 64}", "^(a|aa)+$")': TRUE,
    f'REGEX("{"a" * 64}!", CONCAT("^(a|a", "?)+$"))': FALSE,
    f'REPLACE("{"a" * 64}!", "^(a+)+!", "b")': '"b"',
    f'REPLACE("{"ab" * 32}", "(a+)+(b|c)", "$2")': f'"{"b" * 32}"',
    'REGEX("٣", "^\\\\d$")': TRUE,
    'REGEX("٣", "^[\\\\D]$")': FALSE,
    'REGEX("\\f", "\\\\s")': FALSE,
    'REGEX("A", "^[^a]$", "i")': FALSE,
    'REGEX("e", "^[^a-z-[E]]|e$", "i")': TRUE,
    'REGEX("é", "^\\\\p{Lu}$", "i")': FALSE,
    'REGEX("É", "^[à-é]$", "i")': TRUE,
    'REGEX("a", "^[\\\\I:]$")': FALSE,
    'REGEX("-", "^[\\\\d-z]$")': None,
    'REGEX("a", "[a-[a]]")': FALSE,
    'REGEX("[[a]]", "[[A]]", "qi")': TRUE,
    'REGEX("xya", "^[a-z-[aeiou]]+$")': FALSE,
    'REGEX("É", "^\\\\p{Lu}$")': TRUE,
    'REGEX("a:b", "^\\\\i\\\\c*$")': TRUE,
    'REPLACE("abab", "B.", "Z", "i")': '"aZb"',
    'REPLACE("abracadabra", "a.*?a", "*")': '"*c*bra"',
    'REPLACE("abracadabra", "a(.)", "a$1$1")': '"abbraccaddabbra"',
    'REPLACE("abracadabra", ".*?", "$1")': None,
    'REPLACE("ab"@en, "(a)(x)?", "[$2$12]")': '"[a2]b"@en',
    'REPLACE("a", "a", "$")': None,
    'REPLACE("a", "a", "\\\\$\\\\\\\\")': '"$\\\\"',
    # --- 17.4.4, on numbers
    "ROUND(2.4999)": '"2"^^decimal',
    "ROUND(2.5)": '"3"^^decimal',
    "ROUND(-2.5)": '"-2"^^decimal',
    "ROUND(-0.4e0)": '"-0"^^double',
    # --- 17.4.5, dates and times
    **{
        f'{name}("2011-01-10T14:45:13.815-05:00"^^xsd:dateTime)': result
        for name, result in {
            "YEAR": '"2011"^^integer', "MONTH": '"1"^^integer', "DAY": '"10"^^integer', "HOURS": '"14"^^integer',
            "MINUTES": '"45"^^integer', "SECONDS": '"13.815"^^decimal', "TIMEZONE": '"-PT5H"^^dayTimeDuration',
            "TZ": '"-05:00"',
        }.items()
    },
    'TIMEZONE("2011-01-10T14:45:13.815Z"^^xsd:dateTime)': '"PT0S"^^dayTimeDuration',
    'TIMEZONE("2011-01-10T14:45:13.815"^^xsd:dateTime)': None,
    'TZ("2011-01-10T14:45:13.815Z"^^xsd:dateTime)': '"Z"',
    'TZ("2011-01-10T14:45:13.815"^^xsd:dateTime)': '""',
    'TZ("2011-01-10"^^xsd:date)': '""',
    'YEAR("2011-13-10T14:45:13Z"^^xsd:dateTime)': None,
    'HOURS("2011-01-10"^^xsd:date)': None,
    'DAY("2011-12-31T24:00:00"^^xsd:dateTime)': '"1"^^integer',
    # --- 17.4.6, hashes
    # --- 17.3, operators
    "1 + 1": '"2"^^integer',
    "1 + 1.5e0": '"2.5"^^double',
    "0.1 + 0.2e0": '"0.30000000000000004"^^double',
    '0.1 + "0.2"^^xsd:float': '"0.3"^^float',
    "7 / 2": '"3.5"^^decimal',
    "2 / 3": '"0.666666666666666667"^^decimal',
    "1 / 0": None,
    "1e0 / 0": '"INF"^^double',
    "0e0 / 0": '"NaN"^^double',
    "9223372036854775807 + 1": None,
    "-9223372036854775808 - 1": None,
    "0.000000000000000001 * 1": '"0.000000000000000001"^^decimal',
    "0.000000000000000001 * 0.1": None,
    "170141183460469231731.0 + 0": '"170141183460469231731"^^decimal',
    "170141183460469231731.0 + 1": None,
    "1e308 * 10": '"INF"^^double',
    "1e-7 * 1": '"1.0E-7"^^double',
    '1 + "1"': None,
    '+"3"^^xsd:byte': '"3"^^integer',
    '-"a"': None,
    '"a"^^xsd:int * 2': None,
    "2 + 3 * 4 - 1": '"13"^^integer',
    "5 -3": '"2"^^integer',
    "1 = 1e0": TRUE,
    "0.1 = 0.1e0": TRUE,
    "9007199254740993 = 9007199254740992": FALSE,
    'xsd:double("NaN") = xsd:double("NaN")': FALSE,
    'xsd:double("NaN") < 1': FALSE,
    '1 = "1"': FALSE,
    '1 < "1"': None,
    '"a" = "a"@en': FALSE,
    '"a"@en = "a"@EN': TRUE,
    '"a"@en < "b"': None,
    '"a"^^<http://u> = "a"^^<http://u>': TRUE,
    '"a"^^<http://u> = "b"^^<http://u>': None,
    '"abc"^^xsd:integer = 1': None,
    '"x"@en = "x"^^xsd:integer': FALSE,
    '"x"@en != "x"^^<urn:unknown>': TRUE,
    '<urn:x> = "x"^^<urn:unknown>': FALSE,
    '"x" = "x"^^<urn:unknown>': None,
    '<99999999999999999999> = "x"^^<urn:unknown>': None,
    '"2020-01-01T00:00:00Z"^^xsd:dateTime = "2020-01-01T01:00:00+01:00"^^xsd:dateTime': TRUE,
    '"2020-01-01T00:00:00"^^xsd:dateTime = "2020-01-01T00:00:00Z"^^xsd:dateTime': FALSE,
    '"2020-01-01T00:00:00"^^xsd:dateTime < "2020-01-01T14:00:00Z"^^xsd:dateTime': None,
    '"2020-01-01T00:00:00"^^xsd:dateTime < "2020-01-01T14:00:01Z"^^xsd:dateTime': TRUE,
    '"2020-01-01"^^xsd:date <= "2020-01-02"^^xsd:date': TRUE,
    '"2020-01-01"^^xsd:date = "2020-01-01Z"^^xsd:date': None,
    '"2020-01-01"^^xsd:date = "2020-01-03Z"^^xsd:date': FALSE,
    '"2020-01-01"^^xsd:date < "2020-01-02T00:00:00"^^xsd:dateTime': None,
    '"PT60M"^^xsd:dayTimeDuration = "PT1H"^^xsd:dayTimeDuration': TRUE,
    '"P1M"^^xsd:duration < "P30D"^^xsd:duration': None,
    # --- 17.2.2, effective boolean values
    '!"a"': FALSE,
    '!xsd:double("NaN")': TRUE,
    '!"abc"^^xsd:integer': TRUE,
    '!"abc"^^xsd:boolean': TRUE,
    '!"9223372036854775808"^^xsd:integer': None,
    "!<http://example/>": None,
    '!"2020-01-01"^^xsd:date': None,
    '!"a"^^<http://u>': None,
    # --- 17.5, casts
    "xsd:string(5e0)": '"5"',
    "xsd:string(<http://example/>)": '"http://example/"',
    'xsd:string("a"@en)': '"a"',
    'xsd:integer("12")': '"12"^^integer',
    'xsd:integer(" 12 ")': '"12"^^integer',
    "xsd:integer(-12.9)": '"-12"^^integer',
    "xsd:integer(1e30)": None,
    'xsd:integer("12"@en)': None,
    'xsd:integer("9223372036854775808")': None,
    'xsd:decimal("1e2")': None,
    "xsd:decimal(0.5e0)": '"0.5"^^decimal',
    'xsd:decimal("INF"^^xsd:double)': None,
    'xsd:double("1e400")': '"INF"^^double',
    "xsd:float(0.1)": '"0.1"^^float',
    "xsd:float(16777217)": '"1.6777216E7"^^float',
    'xsd:boolean("1")': TRUE,
    'xsd:boolean("TRUE")': None,
    'xsd:boolean("2020-01-01"^^xsd:date)': None,
    'xsd:dateTime("2020-01-01T00:00:00")': '"2020-01-01T00:00:00"^^dateTime',
    'xsd:dateTime("2020-01-01")': None,
    'xsd:dateTime(xsd:date("2020-01-01+01:00"))': '"2020-01-01T00:00:00+01:00"^^dateTime',
    'xsd:date("2020-02-29-05:00")': '"2020-02-29-05:00"^^date',
    'xsd:date("2021-02-29")': None,
    'xsd:date("2020-02-29T10:00:00"^^xsd:dateTime)': '"2020-02-29"^^date',
    'xsd:date("2020-02-28T24:00:00-00:00"^^xsd:dateTime)': '"2020-02-29Z"^^date',
    'xsd:time("2020-02-28T07:08:09.500-05:30"^^xsd:dateTime)': '"07:08:09.5-05:30"^^time',
    'xsd:time("2020-02-28T24:00:00.000Z"^^xsd:dateTime)': '"00:00:00Z"^^time',
    'xsd:time(xsd:date("2020-01-01"))': None,
    'xsd:dateTime(xsd:time("07:08:09"))': None,
    "xsd:date(1)": None,
}  # fmt: skip


@pytest.mark.parametrize("expression", EXAMPLES)
def test_an_expression_has_its_value(expression):
    assert short(value(expression)) == EXAMPLES[expression]


VERTICES = {
    "?x + 1": ("30", '"31"^^integer'),
    "?x + 0.5": ("1e1", '"10.5"^^double'),
    "?x + 3": ("INF", None),
    "?x = 7": ("007", TRUE),
    '?x = "bob"': ("bob", TRUE),
    "?x = <http://example/a>": ("http://example/a", TRUE),
    "?x = <7>": ("+7.0", TRUE),
    "?x = 5": ("bob", FALSE),
    '?x < "c"': ("bob", TRUE),
    "?x = 1": ("_:b", FALSE),
    "?x = ?x": ("_:b", TRUE),
    "STR(?x)": ("007", '"007"'),
    'CONTAINS(?x, "o")': ("bob", TRUE),
    "STRLEN(STR(?x))": ("007", '"3"^^integer'),
    "isIRI(?x)": ("007", TRUE),
    "isBlank(?x)": ("_:b", TRUE),
    "STR(?x) = ?x": ("_:b", None),
    "sameTerm(?x, 7)": ("7", FALSE),
    "!?x": ("0", None),
    "DATATYPE(?x)": ("7", None),
    "xsd:integer(?x)": ("7.9", '"7"^^integer'),
    "xsd:dateTime(?x)": ("2020-01-01T00:00:00Z", '"2020-01-01T00:00:00Z"^^dateTime'),
    "?x IN (8, 7)": ("07", TRUE),
}


def patterns(random: Random, depth: int) -> str:
    """A pattern that XPath and Python understand alike, but for `$`."""
    if depth == 0 or random.random() < 0.3:
        return random.choice(["a", "b", "É", "\n", ".", "^", "$", r"\d", r"\w", r"\.", "[ab]", "[^a]", "[a-c1]", r"[^\d_]"])
    inner, other = patterns(random, depth - 1), patterns(random, depth - 1)
    groups = f"({inner})", f"(?:{inner}|{other})", f"{inner}|{other}", f"{inner}{other}", f"{inner}{other}"
    return random.choice([*groups, *(f"({inner}){sign}" for sign in ("*", "+", "?", "{2}", "{1,2}", "*?", "+?"))])


def test_patterns_match_what_they_match_in_python():
    random = Random(5)
    flags_of = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE}
    found: Counter[object] = Counter()
    for _ in range(300):
        pattern, flags = patterns(random, 4), "".join(flag for flag in flags_of if random.random() < 0.3)
        text = "".join(random.choices("aabcBéÉ1_-.\n", k=random.randrange(9)))
        python = re.compile(pattern if "m" in flags else pattern.replace("$", r"\Z"), sum(map(flags_of.get, flags)))
        match = python.search(text) is not None
        assert compile_pattern(pattern, flags).matches(text) == match, (pattern, flags, text)
        found[match] += 1
        if not python.search(""):
            assert replace_matches(text, pattern, "<$0>", flags) == python.sub(r"<\g<0>>", text), (pattern, flags, text)
            found["replaced"] += 1
    assert min(found.values()) > 25


@pytest.mark.parametrize(
    ("pattern", "text", "replacement"),
    [
        ("(x+x+){1000}y", "x" * 100_000, ""),  # many instructions over a long text
        ("a+b|a", "a" * 1_000_000, "c"),  # every match looks at all that follows
        ("(a)", "a" * 4_000, "$1$1$1$1" * 2_000),
    ],
    ids=["instructions", "alternatives", "groups"],
)
def test_what_would_take_minutes_or_gigabytes_is_an_error_value(pattern, text, replacement):
    with pytest.raises(NoValue, match="too long"):
        replace_matches(text, pattern, replacement, "")


def test_that_a_pattern_is_none_is_remembered(monkeypatch):
    refused = "(\\p{L}{400}){2}"
    for _ in range(2):
        with pytest.raises(UnsupportedPattern, match="too large"):
            compile_pattern(refused, "")
        name = "rpq.language.sparql.values.regular_expressions.require_engine"
        monkeypatch.setattr(name, lambda: pytest.fail("compiled again"))


@pytest.mark.parametrize("expression", VERTICES)
def test_a_vertex_has_the_value_of_its_text(expression):
    vertex, result = VERTICES[expression]
    assert short(value(expression, x=vertex)) == result


def test_bound_looks_at_the_binding():
    assert short(value("BOUND(?x)", x="a")) == TRUE and short(value("BOUND(?x)")) == FALSE


def test_an_iri_is_relative_to_the_base():
    question = read('BASE <http://example/a/b> SELECT (IRI("../c") AS ?x) (<d> AS ?y) {}')
    (second,) = children(question.body)
    (first,) = children(second)
    assert evaluator(first.formula)({}) == "http://example/c" and evaluator(second.formula)({}) == "http://example/a/d"


@pytest.mark.parametrize(
    ("reference", "iri"),
    {  # RFC 3986, section 5.4
        "g:h": "g:h", "./g": "http://a/b/c/g", "/g": "http://a/g", "//g": "http://g", "?y": "http://a/b/c/d;p?y",
        "#s": "http://a/b/c/d;p?q#s", "g?y#s": "http://a/b/c/g?y#s", "": "http://a/b/c/d;p?q", ".": "http://a/b/c/",
        "..": "http://a/b/", "../../../g": "http://a/g", "/../g": "http://a/g", "..g": "http://a/b/c/..g",
        "./g/.": "http://a/b/c/g/", "g;x=1/../y": "http://a/b/c/y", "g#s/../x": "http://a/b/c/g#s/../x",
    }.items(),
)  # fmt: skip
def test_references_are_resolved_as_the_rfc_has_it(reference, iri):
    assert resolve_iri("http://a/b/c/d;p?q", reference) == iri


@pytest.mark.parametrize("text", ['say "a\\b"', "tab\tline\nreturn\r", "\x00\x08\x0c\x1f\x7f", "é😀", ""])
def test_literals_are_written_as_pyoxigraph_writes_them_and_read_again(text):
    pyoxigraph = pytest.importorskip("pyoxigraph")
    for literal, written in (
        (pyoxigraph.Literal(text), literal_text(text)),
        (pyoxigraph.Literal(text, language="en-gb"), literal_text(text, language="en-gb")),
        (pyoxigraph.Literal(text, datatype=pyoxigraph.NamedNode("http://u/t")), literal_text(text, "http://u/t")),
    ):
        assert str(literal) == written
        found = read_literal(written)
        assert found is not None and found.text == text and str(found) == written
