"""MIN, MAX, SAMPLE, COUNT(DISTINCT …) and COLLECT by kernels, against accumulators of what is there."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from rpq import Engine, Query, Window
from rpq.language.pattern import Constant, Variable
from rpq.language.sparql.algebra import Aggregate, FunctionCall
from rpq.language.sparql.values.aggregates import accumulator, list_term
from rpq.language.sparql.values.formula_values import evaluator, value_or_unbound
from rpq.language.sparql.values.operators import order_key
from rpq.language.sparql.values.typed_values import NoValue
from rpq.operators.relational.groups import GroupNode
from rpq.operators.relational.nodes import LeafNode
from rpq.operators.relational.values import group_lists, text_order, value_order
from rpq.operators.relational.values.term_ids import TermIds
from rpq.operators.relational.values.text_order import key_of, read_names
from rpq.operators.relational.values.value_order import ValueOrder
from rpq.rows.weighted_rows import WeightedRows
from rpq.stream.names.terms import XSD, lexical_form, literal_text
from rpq.stream.names.vertices import VertexDictionary
from tests.twins import scaled

VALUE = Variable("v")


def literal(text, name):
    return f'"{text}"^^<{XSD}{name}>'


SPECIAL = [
    "7", "07", "007", "7.0", "7e0", "0", "-0", literal("7", "integer"), literal("7.00", "decimal"),
    literal("0.1", "decimal"), literal("0.1", "double"), literal("0.1", "float"), literal("-0.0", "double"),
    literal("0.1000000000000000055", "decimal"), literal("NaN", "double"), literal("INF", "double"),
    literal("-INF", "float"), literal("1e308", "double"), "5e-324", "9007199254740993", "9007199254740992",
    "9007199254740992.5", "-9223372036854775808", "-9007199254740993", "_:b", "_:a", "bob", "alice", '"alice"',
    '"alice"@en', "http://example.org/1", "http://example.org/10", "zoë", "\U0001f600", literal("true", "boolean"),
    literal("false", "boolean"), literal("2020-01-01", "date"), literal("2019-12-31", "date"),
    literal("2020-01-01T00:00:00Z", "dateTime"), '"z"^^<http://u>', '"y"^^<http://u>', literal("x", "integer"), '""',
]  # fmt: skip


def draw_moment(chance):
    """Return a dateTime of a few seconds, or a literal that is nearly one."""
    date = f"{chance.choice([1, 1999, 2000, 2024]):04d}-{chance.choice([1, 2, 13]):02d}-{chance.choice([1, 28, 29, 31]):02d}"
    time = f"{chance.choice([0, 23, 23, 24]):02d}:{chance.choice([0, 0, 59, 60]):02d}:{chance.choice([0, 0, 1, 60]):02d}"
    fraction = chance.choice(["", "", ".", ".0", ".5", ".50", ".125"])
    zone = chance.choice(["", "Z", "+00:00", "-14:00", "+13:59", "+14:30"])
    return literal(f"{date}T{time}{fraction}{zone}", "dateTime")


def draw(chance):
    """Return a term: special ones often, and many that begin alike or are equal as doubles."""
    match chance.randrange(7):
        case 0 | 1:
            return chance.choice(SPECIAL)
        case 6:
            return draw_moment(chance)
        case 2:
            return f"http://example.org/{chance.randrange(40)}"
        case 3:
            return str(2**60 + chance.randrange(300))
        case 4:
            return literal(f"{chance.uniform(-9, 9):.1f}", chance.choice(["decimal", "double", "float"]))
    return f"{chance.randrange(-99, 99)}"


def collected(*keys):
    """Return the formula of values of COLLECT with these keys, and with the first character as the item."""
    texts = [*keys, FunctionCall("SUBSTR", (FunctionCall("STR", (VALUE,)), Constant("1"), Constant("1")))]
    zero = Constant(literal_text("\0"))
    return FunctionCall("CONCAT", tuple(chain.from_iterable((zero, text) for text in texts))[1:])


STR = FunctionCall("STR", (VALUE,))
LENGTH = FunctionCall("STR", (FunctionCall("STRLEN", (STR,)),))
AGGREGATES = {
    "least": Aggregate("MIN", VALUE, is_distinct=False),
    "greatest": Aggregate("MAX", VALUE, is_distinct=False),
    "one": Aggregate("SAMPLE", VALUE, is_distinct=False),
    "different": Aggregate("COUNT", VALUE, is_distinct=True),
    "rows": Aggregate("COUNT", None, is_distinct=False),
    "sum": Aggregate("SUM", VALUE, is_distinct=False),
    "solutions": Aggregate("COUNT", None, is_distinct=True),
    "doubled": Aggregate("MAX", FunctionCall("+", (VALUE, VALUE)), is_distinct=True),
    "list": Aggregate("COLLECT", collected(STR), is_distinct=False),
    "items": Aggregate("COLLECT", collected(LENGTH, STR), is_distinct=True),
}
CHOICES = [
    ["least"],
    ["greatest", "different"],
    ["different"],
    ["solutions", "one"],
    ["doubled"],
    ["rows", "least", "sum", "greatest"],
    ["list"],
    ["sum", "items", "list"],
    [*AGGREGATES],
]


def expected_of(names, rows):
    """Return the row of a group of rows (key, value)."""
    found = []
    for name in names:
        one = accumulator(AGGREGATES[name])
        argument = AGGREGATES[name].argument
        for row in rows:
            if argument is None:
                one.insert(row)
            else:
                one.insert(value_or_unbound(evaluator(argument), {} if row[1] is None else {"v": row[1]}))
        try:
            found.append(one.result())
        except NoValue:
            found.append(None)
    return tuple(found)


def shown(row):
    """Return a row with the lexical forms of literals."""
    return tuple(None if term is None else lexical_form(str(term)) for term in row)


@pytest.mark.parametrize("seed", range(scaled(6)))
@pytest.mark.parametrize("names", CHOICES, ids=" ".join)
def test_groups_are_those_of_accumulators_after_every_event(names, seed, monkeypatch):
    for name in ("_TOGETHER", "_LEAST", "_LEAST_UNUSED"):
        monkeypatch.setattr(group_lists, name, 1)
    chance = random.Random(f"{names}{seed}")
    keys = () if seed % 2 else ("g",)
    terms = TermIds()
    leaf = LeafNode(("g", "v"), "edges")
    leaf.sure = frozenset("g")
    node = GroupNode(leaf, keys, [(name, AGGREGATES[name]) for name in names], terms)
    present: Counter = Counter()
    answer: Counter = Counter()

    def take(changes):
        for _, row, weight in changes:
            answer[tuple(map(terms.text, row))] += weight
        assert all(count in (0, 1) for count in answer.values())

    def expected():
        groups = {} if keys else {(): []}
        for row, count in present.items():
            groups.setdefault(row[:1] if keys else (), []).extend([row] * count)
        return {(*key, *expected_of(names, rows)) for key, rows in groups.items()}

    take(node.begin().changes())
    assert set(+answer) == expected()
    for _ in range(12):
        changes, after = [], []
        for event in range(chance.randrange(1, 5)):
            of_event = []
            for _ in range(chance.randrange(1, 8)):
                rows = [row for row in present if present[row]]
                if rows and chance.random() < 0.5:
                    row = chance.choice(rows)
                    weight = -chance.randrange(1, present[row] + 1)
                else:
                    row = (chance.choice("ABC"), None if chance.random() < 0.05 else draw(chance))
                    weight = chance.randrange(1, 3)
                present[row] += weight
                of_event.append((event, tuple(map(terms.intern, row)), weight))
            chance.shuffle(of_event)  # what goes may be before what comes
            present = +present
            changes += of_event
            after.append(expected())
        result = [*node.change(WeightedRows.from_changes(changes, 2)).changes()]
        for event, rows in enumerate(after):
            take(one for one in result if one[0] == event)
            assert set(+answer) == rows
        node._check()
        ids = [terms.intern(term) for row in present for term in row]
        node.discard_ids(terms.retain(np.concatenate([np.fromiter(node.ids(), np.int64), np.array(ids, np.int64)])))
    assert node.nbytes > 0 and node.entries >= len(+answer) - (not keys)


@pytest.mark.parametrize("seed", range(4))
def test_labels_have_the_order_of_terms(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr("rpq.operators.relational.values.value_order.GAP", 2)  # so that gaps are exhausted
    chance = random.Random(seed)
    terms = TermIds()
    order = ValueOrder(terms)
    live: set[int] = set()
    for _ in range(60):
        some = np.array([terms.intern(draw(chance)) for _ in range(chance.randrange(1, 12))], np.int32)
        order.include(some)
        live |= {*some.tolist()}
        order.check(np.array([*live]))
        if chance.random() < 0.3:
            live = {*chance.sample(sorted(live), len(live) // 2)}
            order.discard_ids(terms.retain(np.array([*live])))
    texts = {terms.text(one): order.label(one) for one in live}
    assert sorted(texts, key=texts.__getitem__) == sorted(texts, key=order_key)
    assert order.nbytes > 0
    order.discard_ids(terms.retain(np.zeros(0, np.int64)))
    assert not order._ids_by_high and not order._ties and not order._keys
    assert not len(order._texts)


def test_kernels_read_texts_and_moments_as_python_does():
    chance = random.Random(1)
    letters = 'ab"!\0z_:.7-\u07ff\ud7ff\ue000\U0001f600'
    names = [draw_moment(chance) for _ in range(1500)]
    names += ["".join(chance.choices(letters, k=chance.randrange(9))) for _ in range(1500)]
    texts = pa.array(["", *names]).slice(1)
    kinds, highs, keys = read_names(texts, value_order._STRINGS, value_order._FIRST_DATE_TIME)
    found = {text_order.OTHER: 0, text_order.TEXT: 0, text_order.MOMENT: 0}
    for place, name in enumerate(names):
        found[int(kinds[place])] += 1
        if kinds[place] != text_order.OTHER:
            key = order_key(name)
            assert value_order._high(key) == highs[place], name
            start = keys.start[place]
            assert bytes(keys.data[start : start + keys.length[place]]) == key_of(key), name
    assert min(found.values()) > 150


@pytest.mark.parametrize("seed", range(scaled(3)))
@pytest.mark.parametrize("report", ["change", "slide"])
def test_rows_of_the_engine_are_those_of_the_window(seed, report, tmp_path):
    """Names come and go, so that ids denote other terms; edges expire and are deleted; there are batches and a restart."""
    chance = random.Random(seed)
    names = ["least", "greatest", "different"] if seed % 2 else ["one", "sum", "different", "greatest"]
    wanted = {"least": "MIN(?v)", "greatest": "MAX(?v)", "one": "SAMPLE(?v)", "sum": "SUM(?v)"}
    wanted["different"] = "COUNT(DISTINCT ?v)"
    heads = " ".join(f"({wanted[name]} AS ?{name})" for name in names)
    by = "?g" if seed % 3 else ""
    text = f"SELECT {by} {heads} {{ ?x <of> ?g . ?x <has> ?v }} {'GROUP BY ?g' if by else ''}"
    query = Query(text, window=Window(size=8, slide=1), name="q", report=report, semantics="explicit")
    engine = Engine(query, _capacity=1)
    edges, answer, time = {}, Counter(), 0
    for step in range(25):
        batch = []
        for _ in range(chance.randrange(1, 6)):
            time += chance.randrange(3)
            subject, label = f"s{chance.randrange(4)}", chance.choice(["of", "has", "has"])
            edge = subject, f"g{chance.randrange(2)}" if label == "of" else draw(chance), label
            goes = chance.random() < 0.2 and bool(edges)
            if goes:
                edge = chance.choice([*edges])
                edges.pop(edge)
            else:
                edges[edge] = time
            batch.append((*edge, time, "-" if goes else "+"))
        changes = [engine.push_rows(batch)]
        if step == 12:
            engine.save(tmp_path / "state")
            engine = Engine.restore(tmp_path / "state")
        if report == "slide":
            time += 1
            changes.append(engine.advance(time))
        for change in changes:
            for row in change.rows():
                answer[shown(getattr(row, name) for name in [*by[1:], *names])] += 1 if row.op == "+" else -1
        engine._check()
        if report == "slide":
            edges = {edge: at for edge, at in edges.items() if at > time - 1 - 8}
        else:
            edges = {edge: at for edge, at in edges.items() if at > time - 8}
        groups = {} if by else {(): []}
        for subject, group, label in edges:
            if label == "of":
                for other, value, has in edges:
                    if has == "has" and other == subject:
                        groups.setdefault((group,) if by else (), []).append((group, value))
        assert set(+answer) == {shown((*key, *expected_of(names, rows))) for key, rows in groups.items()}, step


def test_sums_of_more_rows_than_64_bits_hold_are_exact():
    terms = TermIds()
    node = GroupNode(LeafNode(("v",), "edges"), (), [("sum", AGGREGATES["sum"])], terms)
    node.begin()
    largest, one = terms.intern(str(2**31 - 1)), terms.intern("1")
    sums = []
    for weight in (2**31, 2**32, -(2**31), -(2**32)):
        changes = node.change(WeightedRows.from_changes([(0, (largest,), weight), (0, (one,), weight)], 1))
        sums += [terms.text(row[0]) for _, row, sign in changes.changes() if sign > 0]
        node._check()
    assert sums == [literal(2**62, "integer"), None, literal(0, "integer")]  # 3 · 2⁶² is no integer of 64 bits


def test_a_list_has_one_id_even_if_a_vertex_has_its_text():
    earlier, later, alone = (list_term([item]) for item in "123")
    terms, vertices = TermIds(), VertexDictionary()
    ids, new = vertices.intern(pa.array([earlier]), np.ones(1, np.uint8))
    terms.add_vertices(vertices, new)
    found = terms.intern_lists(pa.array([earlier, later, alone, later]))
    assert found[0] == ids[0] == terms.intern(earlier) and terms.pinned_vertices().tolist() == [ids[0]]
    assert found[1] == found[3] == terms.intern(later) != found[2]
    ids, new = vertices.intern(pa.array([later]), np.ones(1, np.uint8))
    terms.add_vertices(vertices, new)
    assert terms.replace_aliases(ids).tolist() == [found[1]] == [terms.intern(later)]
    assert terms.intern_lists(pa.array([later])).tolist() == [found[1]]
    assert terms.texts(found) == [earlier, later, alone, later]
    assert terms.retain(found[:2]).tolist() == [found[2]]
    assert terms.retain(found[:1]).tolist() == [found[1]] and terms.replace_aliases(ids).tolist() == ids.tolist()
    assert len(terms) == 0 < terms.nbytes
