"""The dictionary of vertex names: names of all lengths told apart, and divided by a hash that never changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.stream.names.vertices import VertexDictionary
from tests.twins import examples

# Names that begin and end alike: words of eight bytes, halves of four and what is left differ in one place at most.
alike = st.integers(0, 40).flatmap(
    lambda length: st.tuples(st.just(length), st.integers(0, max(length - 1, 0)), st.sampled_from("ab"))
).map(lambda one: "a" * one[1] + one[2] * (one[0] > 0) + "a" * max(one[0] - one[1] - 1, 0))  # fmt: skip
names = st.one_of(alike, st.text(max_size=12), st.integers(0, 10**12).map(lambda number: f"http://example.org/{number}"))


@examples(200)
@given(st.lists(st.lists(names, max_size=60), max_size=5), st.data())
def test_it_is_a_dict(batches, data):
    dictionary, twin = VertexDictionary(capacity=8), {}
    for batch in batches:
        wanted = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(batch), max_size=len(batch))), np.uint8)
        ids, fresh = dictionary.intern(pa.array(batch, pa.string()), wanted)
        new = []
        for name, identity, is_wanted in zip(batch, ids.tolist(), wanted.tolist(), strict=True):
            if not is_wanted:
                assert identity == -1
            elif name not in twin:
                assert identity not in twin.values()
                twin[name] = identity
                new.append(identity)
            else:
                assert twin[name] == identity
        assert fresh.tolist() == new
        dictionary._check()
        gone = [name for name in twin if data.draw(st.booleans())]
        dictionary.release(np.array([twin.pop(name) for name in gone], np.int32))
        dictionary._check()
        for name in gone:
            assert dictionary.id_of(name) == -1
    for name, identity in twin.items():
        assert dictionary.id_of(name) == identity == dictionary.intern_one(name)[0] and dictionary.name_of(identity) == name


def mixed(h: int) -> int:
    """The finalizer of SplitMix64."""
    mask = 2**64 - 1
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & mask
    h = (h ^ h >> 27) * 0x94D049BB133111EB & mask
    return h ^ h >> 31


def divided_by(name: str) -> int:
    """FNV-1a, mixed."""
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 % 2**64
    return mixed(h)


@examples(50)
@given(st.lists(names, max_size=20))
def test_vertices_are_divided_by_the_hash_that_states_were_divided_by(some):
    dictionary = VertexDictionary()
    ids, _ = dictionary.intern(pa.array(some, pa.string()), np.ones(len(some), np.uint8))
    assert dictionary.hashes(ids).tolist() == [divided_by(name) for name in some]


@examples(100)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20), max_size=60), max_size=6), st.data())
def test_numbers_are_a_dict_too(batches, data):
    dictionary, twin = VertexDictionary(capacity=2), {}
    for batch in batches:
        ids, _ = dictionary.intern(pa.array(batch, pa.int64()), np.ones(len(batch), np.uint8))
        for number, identity in zip(batch, ids.tolist(), strict=True):
            assert twin.setdefault(number, identity) == identity
        assert len({*twin.values()}) == len(twin)
        assert dictionary.names_of(np.array([*twin.values()], np.int32)).to_pylist() == [*twin]
        dictionary._check()
        gone = [number for number in twin if data.draw(st.booleans())]
        dictionary.release(np.array([twin.pop(number) for number in gone], np.int32))
        dictionary._check()


XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(
    ("pushed", "name"),
    [
        (f'"CHINA"^^<{XSD}string>', '"CHINA"'),
        (f'"CH\\u0049NA"^^<{XSD}string>', '"CHINA"'),
        ('"CH\\u0049NA"', '"CHINA"'),
        ('"a\tb\\u0009\\""', '"a\\tb\\t\\""'),
        ('"x"@en', '"x"@en'),
        (f'"5"^^<{XSD}integer>', f'"5"^^<{XSD}integer>'),
        ('"\\uD800"', '"\\uD800"'),
        ('"x', '"x'),
        ("C\\u0049", "C\\u0049"),
    ],
)
@pytest.mark.parametrize("columns", [dict, pa.table, pa.RecordBatch.from_pydict, None])
def test_literals_have_one_form(pushed, name, columns):
    query = rpq.Query("a", window=rpq.Window(size=10, slide=1), targets=[pushed], name="q")
    engine = rpq.Engine(query, rpq.Query("a|b", window=query.window, name="all"))
    if columns is None:
        rows = [*engine.insert("s", pushed, "a", 1), *engine.insert(pushed, "t", "b", 2), *engine.delete("s", name, "a", 3)]
    else:
        edges = {"source": ["s", pushed, "s"], "target": [pushed, "t", name], "label": [*"aba"], "timestamp": [1, 2, 3]}
        rows = [*engine.push(columns(edges)), *engine.delete("s", pushed, "a", 4)]
    found = [tuple(row)[:3] for row in rows if row.op == "+"]
    assert sorted(found) == sorted([("q", "s", name), ("all", "s", name), ("all", name, "t")])
    assert [tuple(row)[:3] for row in rows if row.op == "-" and row.query == "q"] == [("q", "s", name)]
