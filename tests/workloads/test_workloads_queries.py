"""Queries by name, gMark's schemas, and queries of a given size."""

from __future__ import annotations

import re
from importlib.metadata import entry_points

import pytest

from rpq import automata
from rpq.workloads import named_queries
from rpq.workloads.generate.generators import KINDS
from rpq.workloads.gmark.queries import random_queries
from rpq.workloads.gmark.schema import SOCIAL, SchemaError, read_schema
from tests.real import DATA

GMARK = DATA / "gmark"

SCHEMA = """<generator><predicates><alias symbol="0">knows</alias><alias symbol="1">likes</alias></predicates>
<types><alias type="0">Person</alias><alias type="1">Post</alias><proportion type="0">0.25</proportion></types><schema>
<source type="0"><target type="0" symbol="0" multiplicity="*"/><target type="1" symbol="1" multiplicity="1">
<indistribution type="zipfian"><alpha>2.5</alpha></indistribution>
<outdistribution type="uniform"><min>1</min><max>3</max></outdistribution></target></source></schema></generator>"""


@pytest.mark.parametrize("dataset", [*named_queries.BINDINGS, "wikidata"])
def test_every_named_query_is_an_expression_without_letters_left(dataset):
    for name in named_queries.names(dataset):
        expression = named_queries.named_query(name, dataset)
        assert not automata.compile(expression).is_empty
        assert not re.search(r"\b[abc]\b", expression)


def test_the_papers_queries_over_stack_overflow():
    expressions = [named_queries.named_query(name, "stackoverflow") for name in named_queries.TEMPLATES]
    assert expressions[2:5] == ["a2q/c2a*/c2q*", "(a2q|c2a|c2q)*", "a2q/c2a*/c2q"] and len(expressions) == 11


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(named_queries.UnknownQueryError, match="did you mean 'stackoverflow'"):
        named_queries.named_query("Q2", "stackoverflw")
    with pytest.raises(named_queries.UnknownQueryError, match="expected one of Q1"):
        named_queries.named_query("Q12", "ldbc")
    with pytest.raises(named_queries.UnknownQueryError, match="cannot run over"):
        named_queries.named_query("Q4", "ldbc")


def test_the_command_line_can_find_them_without_an_import():
    found = {point.name: point for point in entry_points(group="rpq.queries")}
    assert {"stackoverflow", "ldbc", "yago", "gmark", "wikidata"} <= {*found}
    assert found["ldbc"].load()("Q1", "ldbc") == "replyOf*"


@pytest.mark.parametrize(("dataset", "kind"), [("stackoverflow",) * 2, ("ldbc",) * 2, ("yago",) * 2, ("gmark",) * 2])
def test_generated_streams_have_the_labels_of_their_queries(dataset, kind):
    (labels,) = [{*batch.column("label").to_pylist()} for batch in KINDS[kind](edges=20_000, seed=1)]
    for name in named_queries.names(dataset):
        assert {*named_queries.BINDINGS[dataset].labels_of(name)} <= labels


def test_a_schema_is_read(tmp_path):
    path = tmp_path / "schema.xml"
    path.write_text(SCHEMA)
    schema = read_schema(path)
    assert dict(schema.types) == {"0": 0.5, "1": 0.5} and schema.names["1"] == "likes"
    likes = schema.relations[1]
    assert (likes.source, likes.target, likes.outgoing.mean, likes.incoming.kind) == ("0", "1", 2.0, "zipfian")
    assert likes.count(100, 100) == 200
    path.write_text("<generator></generator>")
    with pytest.raises(SchemaError, match="no sources"):
        read_schema(path)
    path.write_text("no xml")
    with pytest.raises(SchemaError, match="not a gMark schema"):
        read_schema(path)


def test_random_queries_have_their_sizes():
    found = random_queries(SOCIAL, 100, seed=3)
    assert len({expression for _, expression in found}) == 100
    assert [size for size, _ in found][:20] == [*range(2, 21), 2]
    for size, expression in found:
        assert len(re.findall(r"<\d+>|[*+]", expression)) == size
        assert not automata.compile(expression).is_empty
    assert found == random_queries(SOCIAL, 100, seed=3) != random_queries(SOCIAL, 100, seed=4)
    assert sum("*" in expression for _, expression in found) > 30


@pytest.mark.skipif(not GMARK.exists(), reason="no gMark files at hand")
def test_the_schema_file_of_gmark_is_read():
    schema = read_schema(GMARK / "social-network.xml")
    assert schema.names["14"] == "replyOf" and len(schema.relations) == 47
