"""Exact sums by kernels against sums of fractions, and numbers read by a kernel against those read by Python."""

from __future__ import annotations

import random
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from rpq.language.sparql.values.aggregates import Count, Sum
from rpq.language.sparql.values.operators import number_of
from rpq.language.sparql.values.typed_values import NoValue, Number, number_term, rounded_number
from rpq.operators.relational.values import formula_columns
from rpq.operators.relational.values.exact_sums import (
    LIMB,
    NO_AMOUNT,
    NO_RESULT,
    ONE,
    Amounts,
    ExactSums,
)
from rpq.operators.relational.values.formula_columns import amount_of, read_amounts
from rpq.operators.relational.values.group_sums import AVERAGED, COUNTED, NO_NUMBER, SUMMED, SummedGroups
from rpq.operators.relational.values.number_ids import FLOAT, computed_text
from rpq.stream.names.terms import XSD
from tests.twins import scaled

FUNCTIONS = (COUNTED, SUMMED, AVERAGED)
INTEGERS = ("0", "1", "-5", "9223372036854775807", "-9223372036854775808", "300000000000")
DECIMALS = (
    "0.1", "-2.50", "170141183460469231731.687303715884105727", "-170141183460469231731.687303715884105728",
    "0.000000000000000001", "-12345678.000001",
)  # fmt: skip
FLOATS = ("0.1", "1e308", "-1e308", "5e-324", "-5e-324", "1e-310", "-2.5", "3.4e38", "1e-45", "-0.0")


def literal(text, name):
    return f'"{text}"^^<{XSD}{name}>'


def draw(chance):
    """Return a term: most often a number, with values at the ends of its type more often than chance would have it."""
    match chance.randrange(12):
        case 0 | 1:
            return chance.choice([*INTEGERS, str(chance.randrange(-(10**6), 10**6))])
        case 2 | 3 | 4:
            return literal(chance.choice([*DECIMALS, f"{chance.randrange(-(10**9), 10**9)}.5"]), "decimal")
        case 5 | 6 | 7:
            (any_,) = struct.unpack("d", struct.pack("Q", chance.getrandbits(63) % 0x7FE0000000000000))
            return literal(chance.choice([*FLOATS, repr(any_)]), chance.choice(["float", "double"]))
        case 8:
            return literal(chance.choice(["INF", "-INF", "NaN", "3", "3", "3", "3"]), "double")
        case 9:
            return chance.choice(["bob", "1e0", "1e0"])
    return literal(chance.uniform(-100, 100), "double")


def amount(term):
    try:
        return amount_of(number_of(term))
    except NoValue:
        return NO_AMOUNT, 0, 0


def result(aggregate):
    try:
        return aggregate.result()
    except NoValue:
        return None


def text_of(type_, high, low):
    if type_ == NO_RESULT:
        return None
    return computed_text(type_, high, low)


def apply(sums, changes):
    """Apply changes (group, term, weight) as one event; return the results of the changed groups."""
    rows = [amount(term) for _, term, _ in changes]
    columns = [np.array([column] * len(FUNCTIONS)) for column in zip(*rows, strict=True)]
    amounts = Amounts(columns[0].astype(np.int8), *(column.astype(np.int64) for column in columns[1:]))
    keys, weights = ([change[place] for change in changes] for place in (0, 2))
    keys = np.array(keys, np.int32).reshape(-1, 1)
    changed = sums.change(keys, np.array(weights), np.zeros(len(changes), np.int64), amounts)
    sums.check()
    found = {}
    for number, place in enumerate(changed.places):
        parts = (array[:, number].tolist() for array in (changed.types, changed.high, changed.low))
        found[changes[place][0]] = [text_of(*one) for one in zip(*parts, strict=True)]
    return found


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_sums_are_those_of_fractions_rounded_once(seed):
    chance = random.Random(seed)
    sums, expected, live = ExactSums(1, FUNCTIONS), {}, []
    for _ in range(40):
        changes = []
        for _ in range(chance.randrange(1, 5)):
            if live and chance.random() < 0.45:
                changes.append((*live.pop(chance.randrange(len(live))), -1))
            else:
                live.append((chance.randrange(3), draw(chance)))
                changes.append((*live[-1], 1))
        for group, term, weight in changes:
            aggregates = expected.setdefault(group, (Count(), Sum(), Sum(is_average=True)))
            for one, value in zip(aggregates, (None if amount(term)[0] == NO_AMOUNT else term, term, term), strict=True):
                (one.insert if weight > 0 else one.delete)(value)
        found = apply(sums, changes)
        assert found == {group: [result(one) for one in expected[group]] for group in {change[0] for change in changes}}


@pytest.mark.parametrize("total", [0, 5, -5, 2**31 - 1, 1 - 2**31])
def test_sums_of_small_integers_are_continued(total):
    groups = SummedGroups(1, FUNCTIONS)
    numbers = np.array([[total, NO_NUMBER]] * len(FUNCTIONS))
    groups.change(np.array([[7], [8]], np.int32), np.array([3, 1]), np.zeros(2, np.int64), numbers)
    sums = ExactSums.of_integers(1, FUNCTIONS, *groups.state)
    sums.check()
    one, average = Sum(), Sum(is_average=True)
    for each in (one, average):
        for term in (*[str(total)] * 3, "0.5"):
            each.insert(term)
    assert apply(sums, [(7, "0.5", 1)]) == {7: [literal(4, "integer"), one.result(), average.result()]}
    assert apply(sums, [(8, "1", 1)]) == {8: [literal(1, "integer"), None, None]}


def test_a_count_beyond_32_bits_divides():
    sums = ExactSums(1, FUNCTIONS)
    for _ in range(5):
        found = apply(sums, [(1, "7", 2**30)])
    assert found[1][2] == literal(7, "decimal")
    assert apply(sums, [(1, "1e300", 1)])[1][2].startswith('"1.862645148')


def test_a_kernel_reads_numbers_as_python_does():
    chance = random.Random(5)
    terms = ["", "-", '"', '""', '"1"@en', "NaN", "INF", literal(".5", "decimal"), literal("5.", "decimal"), "5.", "_:x"]
    for _ in range(2_000):
        whole = "".join(chance.choices("0123456789", k=chance.choice([0, 1, 2, 5, 9, 17, 18, 19])))
        fraction = "".join(chance.choices("0123456789", k=chance.choice([1, 2, 6, 18])))
        exponent = chance.choice(["", "", "", "e5", "E-7", "e+22", "e-22", "e23", "e-300", "e400", "E", "e+"])
        text = chance.choice(["", "-", "+"]) + whole + chance.choice(["", ".", "." + fraction]) + exponent
        name = chance.choice(["integer", "decimal", "float", "double", "int", "string"])
        terms.append(chance.choice([text, literal(text, name)]))
    names = pa.array(terms)
    _, offsets, data = names.buffers()
    unread = NO_AMOUNT + 1
    kinds, high, low = np.full(len(terms), unread, np.int8), *np.zeros((2, len(terms)), np.int64)
    ends, tens = formula_columns._TYPE_ENDS, formula_columns._TENS
    of_names = np.frombuffer(offsets, np.int32)[: len(terms) + 1], np.frombuffer(data, np.uint8)
    read_amounts(*of_names, ends, tens, kinds, high, low, low.view(np.float64))

    def value(kind, high, low):  # a mantissa may have zeros at its end
        return (kind, high, low) if kind < FLOAT else (kind, low * 2.0 ** (high - LIMB * ONE) if low else 0)

    read = 0
    for term, *found in zip(terms, kinds.tolist(), high.tolist(), low.tolist(), strict=True):
        if found[0] != unread:
            assert value(*found) == value(*amount_of(number_of(term))), term
            read += 1
    assert read > len(terms) / 10


@pytest.mark.parametrize("term", ["-0.1", literal("1e-3", "float")])
@pytest.mark.parametrize("weights", [[2**29] * 20, [2**40, 5], [2**62 - 1], [2**31, -(2**31 - 1)], [1, 2**61, -(2**61)]])
def test_an_event_may_have_any_number_of_rows(term, weights):
    sums = ExactSums(1, FUNCTIONS)
    changes = [(1, "3", 7), *((0, term, weight) for weight in weights), (1, "4", 7)]
    found = apply(sums, changes)
    total, number = sum(weights), number_of(term)
    exact = Fraction(number.amount) * total
    texts = []
    for type_, amount in ((number.type, exact), (number.type, exact / total)):
        type_ = "decimal" if type_ == "integer" and texts else type_
        try:
            texts.append(number_term(rounded_number(type_, amount)))
        except NoValue:
            texts.append(None)
    assert found[0] == [number_term(Number("integer", total)), *texts]
    assert found[1][1] == number_term(Number("integer", 49))
    found = apply(sums, [(0, term, -weight) for weight in weights])
    assert found[0] == [number_term(Number("integer", 0))] * 3
    sums.check()
