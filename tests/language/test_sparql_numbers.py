"""Numbers that groups sum up: ids for equal ones, and the digits of their terms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.language.sparql.values.operators import number_of
from rpq.language.sparql.values.typed_values import NoValue, Number, number_text
from rpq.operators.relational.values.formula_columns import NO_SMALL_INTEGER, small_integers
from rpq.operators.relational.values.number_ids import DECIMAL, INTEGER, NumberIds, computed_text, quotients
from rpq.stream.names.terms import XSD
from tests.twins import examples

numbers = st.tuples(
    st.one_of(st.integers(-50, 50), st.integers(-(2**62), 2**62)),
    st.one_of(st.integers(0, 40), st.integers(0, 2**32), st.sampled_from([10**9, 2 * 10**9, 2**33])),
)


def number(dividend: int, divisor: int) -> tuple[int, int]:
    """Return the kind and the amount of a quotient, in units, rounded half to even."""
    return (INTEGER, dividend) if divisor == 0 else (DECIMAL, round(Fraction(dividend * 10**18, divisor)))


def text(kind: int, amount: int) -> str:
    return computed_text(kind, 0, amount) if kind == INTEGER else computed_text(kind, amount >> 64, amount & (2**64 - 1))


@examples(100)
@given(st.lists(numbers, max_size=60), st.lists(st.booleans(), min_size=60, max_size=60))
def test_equal_numbers_have_one_id_and_their_exact_text(given_numbers, kept):
    ids_of = NumberIds()
    columns = np.array(given_numbers, np.int64).reshape(-1, 2).T
    ids = ids_of.ids_of_quotients(*columns)
    by_value, texts = {}, [text(*number(*one)) for one in given_numbers]
    for one, identity in zip(given_numbers, ids.tolist(), strict=True):
        assert by_value.setdefault(number(*one), identity) == identity
    assert len(set(by_value.values())) == len(by_value) == len(ids_of)
    assert ids_of.terms(ids).to_pylist() == texts
    assert (ids_of.ids(*quotients(*columns)) == ids).all()
    ids_of.check()
    some = [identity for identity, is_kept in zip(ids.tolist(), kept, strict=False) if is_kept]
    gone = ids_of.retain(np.array(some, np.int64))
    assert sorted({*gone.tolist(), *some}) == sorted({*ids.tolist()}) and len(ids_of) == len({*some})
    ids_of.check()
    again = ids_of.ids_of_quotients(*columns)
    assert ids_of.terms(again).to_pylist() == texts
    assert not some or (again[ids == some[0]] == some[0]).all()


@examples(100)
@given(st.lists(st.integers(-(2**127), 2**127 - 1) | st.integers(-(2**100), 2**100), min_size=16, max_size=40))
def test_decimals_of_128_bits_have_their_exact_text(amounts):
    ids_of = NumberIds()
    halves = [[amount >> 64 for amount in amounts], [(amount + 2**63) % 2**64 - 2**63 for amount in amounts]]
    ids = ids_of.ids(np.full(len(amounts), DECIMAL, np.int8), *np.array(halves, np.int64))
    assert ids_of.terms(ids).to_pylist() == [text(DECIMAL, amount) for amount in amounts]
    ids = ids_of.ids(np.full(16, INTEGER, np.int8), np.zeros(16, np.int64), np.array([-(2**63)] * 16))
    assert ids_of.terms(ids).to_pylist() == [text(INTEGER, -(2**63))] * 16


def test_the_last_digit_is_rounded_to_the_nearest_and_of_two_to_the_even_one():
    ids_of = NumberIds()
    two = 2**33  # 10¹⁸ · 2⁻³³ has fifteen digits behind the point, the last a five
    halves = [(2**14, two), (3 * 2**14, two), (-(2**14), two), (-3 * 2**14, two), (2, 3), (0, 5)] * 3
    found = [one.split('"')[1] for one in ids_of.terms(ids_of.ids_of_quotients(*np.array(halves, np.int64).T)).to_pylist()]
    assert found[:6] == [text(*number(*one)).split('"')[1] for one in halves[:6]]
    assert found[4:6] == ["0.666666666666666667", "0"]
    assert found[0] == "0.000001907348632812" and found[1] == "0.000005722045898438"


def test_floats_have_the_fewest_digits_that_a_rounding_to_them_needs():
    parts = 0, 1, 2, 0x2AAAAA, 0x400000, 0x7FFFFE, 0x7FFFFF
    bits = np.array([exponent << 23 | part for exponent in range(255) for part in parts], np.uint32)
    for single in bits.view(np.float32)[1:].tolist():
        amount = number_text(Number("float", single))
        digits = len(amount.partition("E")[0].replace(".", "").strip("0"))
        assert np.float32(amount) == np.float32(single)
        assert digits == 1 or np.float32(f"{single:.{digits - 1}g}") != np.float32(single)


TEXTS = [
    "0", "-0", "7", "007", "-12", "123456789", "1234567890", "2147483648", "+5", "1.0", "1e3", "-", "", "a", "3x", "--4",
    *(f'"{digits}"^^<{XSD}integer>' for digits in ("0", "-7", "0042", "+3", "999999999", "9999999999", "x", "", "-")),
    f'"5"^^<{XSD}int>', f'"5.5"^^<{XSD}decimal>', '"5"', '"5"@en', f'5"^^<{XSD}integer>', f'"^^<{XSD}integer>', "_:b", "ü",
]  # fmt: skip


@pytest.mark.parametrize("begin", [0, 3])
def test_small_whole_numbers_are_read_all_at_once(begin):
    found = small_integers(pa.array(TEXTS, pa.string())[begin:]).tolist()
    for text, number in zip(TEXTS[begin:], found, strict=True):
        try:
            amount = number_of(text).amount
        except NoValue:
            amount = None
        if number != NO_SMALL_INTEGER:
            assert amount == number, text
        elif isinstance(amount, int):
            assert abs(amount) > 999_999_999 or "+" in text or "XMLSchema#int>" in text, text
    assert len(found) - found.count(NO_SMALL_INTEGER) >= 7
    assert small_integers(pa.array([4, -(2**31), 2**40, 2**31 - 1])).tolist() == [4, NO_SMALL_INTEGER] + [
        NO_SMALL_INTEGER, 2**31 - 1,
    ]  # fmt: skip


@pytest.mark.parametrize("condition", [
    "5 >= ?y", "?y != 7", "?y < 0 || ?y >= 42", "?z > 3 || ?y > 4", "!(?y > 4)", "?y = '5'",
])  # fmt: skip
def test_a_filter_on_one_number_says_what_it_says_term_by_term(condition):
    rows = {}
    for marker in ("", " && BOUND(?y)"):  # with what is no comparison nothing is judged all at once
        text = f"SELECT ?x ?y {{ ?x <a> ?y FILTER(({condition}){marker}) }}"
        engine = rpq.Engine(rpq.Query(text, window=rpq.UnboundedWindow(), semantics="explicit"))
        edges = [(f"x{place}", target or "empty", "a", place) for place, target in enumerate(TEXTS)]
        rows[marker] = engine.push_rows([*edges, *((*edge[:3], 99, "-") for edge in edges)]).rows()
    assert [row[1:] for row in rows[""]] == [row[1:] for row in rows[" && BOUND(?y)"]]
    assert rows[""] or "'5'" in condition
