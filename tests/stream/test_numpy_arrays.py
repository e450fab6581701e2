"""Arrow arrays from and to NumPy arrays and lists: they are those of Arrow itself."""

from __future__ import annotations

import rpq
from rpq.stream.arrays.numpy_arrays import text_array


class Text(str):
    """A text of a class of its own, with a length that misleads."""

    __slots__ = ()

    def __len__(self) -> int:
        return 3


def test_a_text_with_a_length_of_its_own_is_taken_as_it_is():
    assert text_array([Text("xy"), "z", Text("é")]).to_pylist() == ["xy", "z", "é"]
    window = rpq.Window(size=10, slide=1)
    rows = rpq.Engine(rpq.Query("a", window=window)).push_rows([(Text("xy"), Text("z"), Text("a"), 1)]).rows()
    assert [(row.source, row.target) for row in rows] == [("xy", "z")]
