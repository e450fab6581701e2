"""Random queries: the algebra that is read gives pyoxigraph's answers, and what is rewritten gives the same ones.

The data have IRIs and numbers, and conditions look at what both see alike: an IRI has a value here, and in the standard
none.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rpq.errors import SparqlError
from rpq.language.sparql.algebra import certain_variables, is_monotone, possible_variables
from rpq.language.sparql.algebra_text import algebra_text, formula_text
from rpq.language.sparql.rewriting import rewrite
from rpq.language.sparql.syntax.reading import read
from rpq.language.sparql.values.typed_values import integer_term
from rpq.stream.names.terms import XSD
from tests.strategies.sparql_brute_force import rows, solutions
from tests.twins import scaled

pyoxigraph = pytest.importorskip("pyoxigraph")
pytest.importorskip("rdflib")

LABELS = "pqr"
VARIABLES = ("?a", "?b", "?c", "?d")


class Drawing:
    """Random groups, of at most so many levels."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fresh = 0

    def triples(self):
        vertices = [f"http://e/{letter}" for letter in "uvw"]
        objects = [*vertices, *(integer_term(number) for number in range(4))]
        pick = self.random.choice
        return frozenset(
            (pick(vertices), f"http://e/{pick(LABELS)}", pick(objects)) for _ in range(self.random.randint(8, 16))
        )

    def variable(self) -> str:
        return self.random.choice(VARIABLES)

    def path(self) -> str:
        one, two = (f":{self.random.choice(LABELS)}" for _ in range(2))
        # pyoxigraph has its own multiplicities for alternatives and for negated sets.
        paths = [
            f"{one}/{two}",
            f"^{one}",
            f"{one}+",
            f"({one}|^{two})+",
            f"^({one}/^{two})",
            f"{one}/{two}+",
            f"{one}/^{two}/:p",
            f"{one}/{two}*",
            f"({one}/{two}?)*",
            "?d",
        ]
        return self.random.choice([one] * 6 + paths)

    def triple(self) -> str:
        object_ = self.random.choice([self.variable(), self.variable(), self.variable(), "2", ":u", "[]"])
        return f"{self.random.choice([self.variable()] * 5 + [':v'])} {self.path()} {object_} ."

    def block(self) -> str:
        return " ".join(self.triple() for _ in range(self.random.randint(1, 2)))

    def condition(self, depth: int) -> str:
        one, two = self.variable(), self.variable()
        simple = [
            f"{one} = {two}", f"{one} != {two}", f"{one} < 2", f"{one} + 1 = {two}", f"BOUND({one})", f"!BOUND({one})",
            f"isIRI({one})", f"{one} IN (1, :u)", f"COALESCE({one}, 1) = 1", f"IF(BOUND({one}), {one}, 2) >= 2",
        ]  # fmt: skip
        if depth:
            simple += [
                f"({self.condition(0)} || {self.condition(0)})", f"({self.condition(0)} && {self.condition(0)})",
                f"({self.condition(0)} || EXISTS {{ {self.block()} }})",
                f"EXISTS {{ {self.block()} FILTER({self.condition(0)}) }}",
                f"NOT EXISTS {{ {self.block()} }}",
            ]  # fmt: skip
        return self.random.choice(simple)

    def group(self, depth: int) -> str:
        parts = [self.block()] if self.random.random() < 0.9 else []
        parts += [self.part(depth) for _ in range(self.random.randint(0, 2))]
        return f"{{ {' '.join(parts)} }}"

    def part(self, depth: int) -> str:
        inner = depth - 1
        self.fresh += 1
        kind = self.random.randrange(10 if depth else 5)
        match kind:
            case 0 | 1:
                return f"FILTER({self.condition(1)})"
            case 2:
                return f"BIND({self.variable()} + 1 AS ?f{self.fresh})"
            case 3:
                return f"VALUES ({self.variable()} ?v{self.fresh}) {{ (1 2) (:u UNDEF) (UNDEF 3) }}"
            case 4:
                return self.block()
            case 5:
                return f"OPTIONAL {self.group(inner)}"
            case 6:
                return f"{self.group(inner)} UNION {self.group(inner)}"
            case 7:
                return f"MINUS {self.group(inner)}"
            case 8:
                return self.group(inner)
        keys = self.random.sample(VARIABLES, self.random.randint(1, 2))
        function = self.random.choice(["COUNT(*)", "COUNT(DISTINCT ?a)", "SUM(?b)", "AVG(?c)", "COUNT(?d)"])
        if self.random.random() < 0.4:
            return f"{{ SELECT {'DISTINCT ' * self.random.randint(0, 1)}{' '.join(keys)} {self.group(inner)} }}"
        having = f"HAVING (COUNT(*) > {self.random.randint(0, 2)})" if self.random.random() < 0.5 else ""
        select = f"{' '.join(keys)} ({function} AS ?n{self.fresh})"
        return f"{{ SELECT {select} {self.group(inner)} GROUP BY {' '.join(keys)} {having} }}"

    def query(self) -> str:
        return f"PREFIX : <http://e/> SELECT * {self.group(2)}"


def given_by_pyoxigraph(query: str, columns: tuple[str, ...], triples) -> Counter:
    store = pyoxigraph.Store()
    for subject, label, object_ in triples:
        node = pyoxigraph.NamedNode
        target = pyoxigraph.Literal(int(object_[1])) if object_.startswith('"') else node(object_)
        store.add(pyoxigraph.Quad(node(subject), node(label), target))

    def term(found) -> str | None:
        return None if found is None else found.value if isinstance(found, pyoxigraph.NamedNode) else str(found)

    return Counter(tuple(term(found[name]) for name in columns) for found in store.query(query))


def compare(seed: int) -> str:
    """Assert that a random query has pyoxigraph's answers before and after it is rewritten; what became of it."""
    drawing = Drawing(seed)
    query, triples = drawing.query(), drawing.triples()
    try:
        question = read(query)
    except SparqlError as refused:
        return refused.message
    ours = rows(question.body, question.columns, triples)
    assert ours == given_by_pyoxigraph(query, question.columns, triples), f"{seed}: {query}\n{algebra_text(question.body)}"
    other = rewrite(question.body)
    assert rows(other, question.columns, triples) == ours, (
        f"{seed}: {query}\n{algebra_text(question.body)}\n{algebra_text(other)}"
    )
    for operator in (question.body.inner, other):
        for one in solutions(operator, triples, {}):
            is_right = certain_variables(operator) <= one.keys() <= possible_variables(operator)
            assert is_right, f"{seed}: {query}\n{algebra_text(operator)}"
    if is_monotone(question.body):
        fewer = frozenset(sorted(triples)[::2])
        assert rows(question.body, question.columns, fewer) <= ours, f"{seed}: {query}"
    return "many" if len(ours) > 1 else "few"


@pytest.mark.ci
def test_random_queries_have_the_answers_of_pyoxigraph():
    outcomes = Counter(compare(seed) for seed in range(scaled(200)))
    assert outcomes["many"] > scaled(25), outcomes


@pytest.mark.parametrize(
    ("where", "expected"),
    {
        "?x <a> ?y . { ?y <b> ?z FILTER(?z > 3) }": "filter ?z > 3",
        "{ ?x <a> ?y } UNION { ?x <b> ?y } FILTER(?y > 3)": "union",
        "?x <a> ?y OPTIONAL { ?y <b> ?z } FILTER(?y > 3)": "optional",
        "?x <a> ?y MINUS { ?y <b> ?z } FILTER(?y > 3)": "minus",
        "?x <a> ?y BIND(?y + 1 AS ?z) FILTER(?y > 3)": "bind ?z = ?y + 1",
        "{ SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x } FILTER(?n > 3)": "project ?x ?n",
        "OPTIONAL { ?x <a> ?y } { ?y <b> ?z OPTIONAL { ?z <a> ?x } FILTER(?x > 3) }": "join",
    }.items(),
)
def test_filters_go_down_where_they_may(where, expected):
    assert algebra_text(rewrite(read(f"SELECT * {{ {where} }}").body).inner).splitlines()[0].split("  ")[0] == expected


def test_filters_do_not_part_conjunctions():
    found = rewrite(read("SELECT * { { ?x <a> ?y FILTER(?x < ?y) } { ?y <b> ?z FILTER(?z > 3) } }").body).inner
    lines = [line.partition(" binds ")[0].strip() for line in algebra_text(found).splitlines()]
    assert lines == ["filter ?z > 3", "filter ?x < ?y", "conjunction", "?x a ?y", "?y b ?z"]


def test_formulas_are_written_as_sparql_writes_them():
    text = (
        "(?x + 1) * -2 - ?y / (3 - 1) > 007 && (?x = 1 || !(?y IN (1.5, <a>))) || NOT EXISTS { ?x <p> ?y } "
        f"|| <{XSD}integer>(?x) = STRLEN('a'@en) && true && 'a' NOT IN () && '2020-01-01'^^<{XSD}date> != ?x"
    )
    (condition,) = [one.condition for one in [read(f"SELECT * {{ ?x <p> ?y FILTER({text}) }}").body.inner]]
    assert formula_text(condition) == (
        "(?x + 1) * -2 - ?y / (3 - 1) > 007 && (?x = 1 || !(?y IN (1.5, <a>))) || NOT EXISTS {…} "
        '|| xsd:integer(?x) = STRLEN("a"@en) && true && "a" NOT IN () && "2020-01-01"^^xsd:date != ?x'
    )
