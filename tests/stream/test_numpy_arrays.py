"""Arrow arrays from and to NumPy arrays and lists: they are those of Arrow itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.stream.arrays.numpy_arrays import arrow_array, integer_array, numpy_array, text_array
from tests.twins import examples

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), max_size=20)
WIDTHS = st.sampled_from([np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])


class Text(str):
    """A text of a class of its own, with a length that misleads."""

    __slots__ = ()

    def __len__(self) -> int:
        return 3


@examples(100)
@given(TEXTS)
def test_texts_are_those_of_arrow(texts):
    array = text_array(texts)
    array.validate(full=True)
    assert array.equals(pa.array(texts, pa.string()))


@examples(50)
@given(NUMBERS, WIDTHS, st.integers(0, 3), st.integers(1, 3))
def test_integers_are_those_of_arrow(numbers, width, start, step):
    array = integer_array(numbers)
    array.validate(full=True)
    assert array.equals(pa.array(numbers, pa.int64()))
    some = np.array(numbers, np.int64).astype(width)[start::step]
    assert arrow_array(some).equals(pa.array(some))
    found = numpy_array(pa.array(some)[1:])
    assert found.dtype == some.dtype and found.tolist() == some[1:].tolist()


@examples(20)
@given(st.lists(st.booleans(), max_size=20))
def test_booleans_are_those_of_arrow(values):
    found = numpy_array(pa.array(values, pa.bool_())[1:])
    assert found.dtype == np.bool_ and found.tolist() == values[1:]


def test_what_is_no_such_array_is_refused():
    for array in (pa.array([1, None]), pa.array([1.5]), pa.array(["x"])):
        with pytest.raises(ValueError, match="expected"):
            numpy_array(array)
    with pytest.raises(OverflowError):
        integer_array([2**63])
    with pytest.raises(UnicodeEncodeError):
        text_array(["\ud800"])
    with pytest.raises(TypeError):
        text_array(["x", None])  # type: ignore[list-item]


def test_a_text_with_a_length_of_its_own_is_taken_as_it_is():
    assert text_array([Text("xy"), "z", Text("é")]).to_pylist() == ["xy", "z", "é"]
    window = rpq.Window(size=10, slide=1)
    rows = rpq.Engine(rpq.Query("a", window=window)).push_rows([(Text("xy"), Text("z"), Text("a"), 1)]).rows()
    assert [(row.source, row.target) for row in rows] == [("xy", "z")]
