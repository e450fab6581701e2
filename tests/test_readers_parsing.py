"""The quick way through a block gives what the exact way gives, or gives up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpq.readers.layout import Layout
from rpq.readers.parsing import LineParser, Rows, parse_exact, parse_plain
from rpq.readers.source import Block, ByteSource

EDGES = ("source", "target", "label", "timestamp", "op")
LAYOUTS = [
    Layout(separator="\t", fields=EDGES, optional=1),
    Layout(separator=",", fields=EDGES, optional=1),
    Layout(separator=" ", fields=EDGES, optional=1),
    Layout(separator=" ", fields=("source", "", "target", "label", "timestamp", "")),
    Layout(separator=" ", fields=("source", "target", "timestamp")),
    Layout(separator=" ", fields=("source", "label", "target"), integers=True),
    Layout(separator="\t", fields=("", "source", "label", "target", ""), optional=1, brackets=True),
]

# Pieces that lines of any of the layouts are made of, each of which is a trap somewhere.
pieces = st.sampled_from(
    ["a", "b", "7", "-3", "+5", "007", "0x1F", "1 ", "", "#", "# ", "é", '"', '"a"', '""', '"a,b"', '"a""b"', "\\N",
     "<x>", "<>", "<", "<x", "\ufeff", "\r", "\0", "+", "-", " -", "9223372036854775808", "1e3"]
)  # fmt: skip
separators = st.sampled_from(["\t", ",", " ", "  ", "\t "])


@st.composite
def texts(draw) -> bytes:
    lines = []
    usual = draw(separators)
    for _ in range(draw(st.integers(1, 5))):
        fields = draw(st.lists(pieces, min_size=2, max_size=6))
        separator = usual if draw(st.integers(0, 5)) else draw(separators)
        lines.append(separator.join(fields))
    text = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines) + draw(st.sampled_from(["", "\n", "\r\n"]))
    data = text.encode()
    return data.replace(b"b", b"\xff", 1) if draw(st.integers(0, 9)) == 0 else data


def as_lists(rows: Rows) -> dict[str, list]:
    values = {name: column.to_pylist() for name, column in rows.columns.items()}
    ordinals = np.arange(len(rows)) if rows.ordinals is None else rows.ordinals
    return {**values, "ordinals": ordinals.tolist(), "data_lines": rows.data_lines}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@settings(max_examples=250, deadline=None)
@given(data=texts())
@example(data=b'a,b,l,1\n"a\nb",c,l,2\n')
@example(data=b"a b l 3 \n")
@example(data=b"a x b l 3  \n")
@example(data=b"a\tb c l 3\n")
@example(data=b"\xef\xbb\xbfa\tb\tl\t3\n")
def test_what_the_plain_way_accepts_the_exact_way_reads_the_same(layout, data):
    plain = parse_plain(data, layout)
    if plain is not None:
        exact = parse_exact(Block(data, 1), layout, stop=False)
        assert exact.errors == []
        assert as_lists(plain) == as_lists(exact)


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (LAYOUTS[0], b"a\tb\tl\t1\nc\td\tl\t2\n"),
        (LAYOUTS[0], b"0xa\tb\tl\t1\t-\r\n\r\nc\td\tl\t2\t+\r\n"),
        (LAYOUTS[1], b'"a, ""x""",b,l,1\n'),
        (LAYOUTS[2], b"a  b\tl 1 \n a b l 2\n"),
        (LAYOUTS[3], b"a 0.5 b l 1 zz\n"),
        (LAYOUTS[5], b"1 2 3\n"),
        (LAYOUTS[6], b"<id>\t<a>\tl\t<b>\t\n<id>\t<a>\t<l>\tb\t\n"),
    ],
)
def test_ordinary_blocks_take_the_plain_way(layout, data):
    assert parse_plain(data, layout) is not None


@settings(max_examples=60, deadline=None)
@given(data=texts(), size=st.integers(1, 40))
def test_where_blocks_are_cut_does_not_matter(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("blocks") / "text"
    path.write_bytes(data)
    parser = LineParser(LAYOUTS[0])

    def read(size: int) -> list:
        found = []
        for block in ByteSource(str(path)).blocks(size):
            rows = parser.parse(block, stop=False)
            values = {name: column.to_pylist() for name, column in rows.columns.items()}
            found += [(values["source"][i], values["timestamp"][i]) for i in range(len(rows))]
            found += [(bad.line, bad.error.column) for bad in rows.errors]
        return sorted(map(str, found))

    assert read(size) == read(1 << 20)


def test_labels_that_become_one_without_brackets_are_one_entry():
    rows = parse_plain(b"i\t<a>\t<l>\t<b>\ni\t<a>\tl\t<b>\n", LAYOUTS[6])
    assert rows is not None
    assert rows.columns["label"].dictionary.to_pylist() == ["l"]
