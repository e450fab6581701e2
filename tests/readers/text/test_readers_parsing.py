"""The quick way through a block gives what the exact way gives, or gives up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.readers.source import ByteSource, LineBlock
from rpq.readers.text import parsing
from rpq.readers.text.line_layout import LineLayout
from rpq.readers.text.parsing import LineParser, Rows, parse_exact, parse_plain
from tests.twins import examples

EDGES = ("source", "target", "label", "timestamp", "op")
LAYOUTS = [
    LineLayout(separator="\t", fields=EDGES, optional=1),
    LineLayout(separator=",", fields=EDGES, optional=1),
    LineLayout(separator=" ", fields=EDGES, optional=1),
    LineLayout(separator=" ", fields=("source", "", "target", "label", "timestamp", "")),
    LineLayout(separator=" ", fields=("source", "target", "timestamp")),
    LineLayout(separator=" ", fields=("source", "label", "target"), integers=True),
    LineLayout(separator="\t", fields=("", "source", "label", "target", ""), optional=1, brackets=True),
    LineLayout(separator=",", fields=("delete", "source", "target", "label", "timestamp")),
    LineLayout(separator=",", fields=("delete", "source", "target", "label", "timestamp", "=x"), trim=True),
]

# Most fields are as they should be, some are a trap somewhere.
TRAPS = ["", " ", "#", "# ", '"', '"a', '"a"b', '""', '"a\nb"', "<>", "<", "\ufeff", "\r", "\t", "x\ry", "0x1F", "+5",
         "1e3", "9223372036854775808", " a", "a ", "a  b", "\0", "\ud800"]  # fmt: skip
NAMES = ["a", "007", "é", "0xab", "\\N", "NULL", "a#", "#a", "<x>", "x", "'", 'a"b', '"q"', '"q,r"', '"q""r"', "\u2028"]
INTEGERS = ["0", "-3", "17", "0042", "9223372036854775807"]


@st.composite
def texts(draw, layout: LineLayout) -> bytes:
    sane = draw(st.integers(0, 3)) > 0  # no trap in the whole block: the plain way should often be taken
    clean = [name for name in NAMES if (sane and layout.separator == ",") or "," not in name]
    deletes = ["true", "False", "0", "1"] if sane else ["true", " 1", "0\t", "t", "+", "TRUE", "False"]
    pools = {"timestamp": INTEGERS, "op": ["+", "-"], "delete": deletes}
    pools[""] = ["", "z"] if layout.separator == "\t" else ["z"]
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        width = draw(st.sampled_from(list(layout.widths)))
        fields = []
        for field in layout.fields[:width]:
            pool = pools.get(field, INTEGERS if layout.integers else clean)
            trap = not sane and draw(st.integers(0, 9)) == 0
            fields.append(draw(st.sampled_from(TRAPS if trap else pool)))
        if not sane and draw(st.integers(0, 9)) == 0:
            fields.append("a")
        others = ["  ", "\t "] if layout.separator == " " else [] if sane else [" "]
        separator = draw(st.sampled_from([layout.separator] * 5 + others))
        lines.append(separator.join(fields))
    text = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines) + draw(st.sampled_from(["", "\n", "\r\n", " \n"]))
    return text.encode("utf-8", "surrogatepass")  # a surrogate is not UTF-8


def as_lists(rows: Rows) -> dict[str, list]:
    values = {name: column.to_pylist() for name, column in rows.columns.items()}
    ordinals = np.arange(len(rows)) if rows.ordinals is None else rows.ordinals
    return {**values, "ordinals": ordinals.tolist(), "data_lines": rows.data_lines}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@examples(200)
@given(data=st.data())
def test_what_the_plain_way_accepts_the_exact_way_reads_the_same(layout, data):
    check_same(layout, data.draw(texts(layout)))


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (LAYOUTS[1], b'a,b,l,1\n"a\nb",c,l,2\n'),
        (LAYOUTS[2], b"a b l 3 \n"),
        (LAYOUTS[2], b"a\tb c l 3\n"),
        (LAYOUTS[3], b"a x b l 3  \n"),
        (LAYOUTS[0], b"\xef\xbb\xbfa\tb\tl\t3\n"),
    ],
)
def test_known_traps(layout, data):
    check_same(layout, data)


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (LAYOUTS[0], b"0xa\tb\tl\t1\t-\r\n\r\nc\td\tl\t2\t+\r\n"),
        (LAYOUTS[1], b'"a, ""x""",b,l,1\n'),
        (LAYOUTS[2], b"a  b\tl 1 \n a b l 2\n"),
        (LAYOUTS[3], b"a 0.5 b l 1 zz\n"),
        (LAYOUTS[6], b"<id>\t<a>\tl\t<b>\t\n<id>\t<a>\t<l>\tb\t\n"),
        (LAYOUTS[7], b"true,a,b,l,1\n 0,a,b,l,2\n"),
    ],
)
def test_ordinary_blocks_take_the_plain_way(layout, data):
    assert parse_plain(data, layout) is not None


def check_same(layout, data):
    plain = parse_plain(data, layout)
    if plain is not None:
        exact = parse_exact(LineBlock(data, 1), layout, stop=False)
        assert exact.errors == []
        assert as_lists(plain) == as_lists(exact)


@examples(300)
@given(data=texts(LAYOUTS[0]), size=st.integers(1, 40))
def test_where_blocks_are_cut_does_not_matter(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("blocks") / "text"
    path.write_bytes(data)
    parser = LineParser(LAYOUTS[0])

    def read(size: int) -> list:
        found = []
        for block in ByteSource(str(path)).blocks(size):
            for rows in parser.parse(block, stop=False):
                values = {name: column.to_pylist() for name, column in rows.columns.items()}
                found += [(values["source"][i], values["timestamp"][i]) for i in range(len(rows))]
                found += [(bad.line, bad.error.column) for bad in rows.errors]
        return sorted(map(str, found))

    assert read(size) == read(1 << 20)


@examples(300)
@given(data=texts(LAYOUTS[0]), stop=st.booleans(), copies=st.integers(1, 3))
def test_a_block_that_is_cut_in_halves_gives_what_it_gives_whole(data, stop, copies):
    block = LineBlock((b"a\tb\tl\t1\n" * 3 + data + b"\n") * copies, 5)
    whole = parse_exact(block, LAYOUTS[0], stop=stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "EXACT_BYTES", 1)
        pieces = list(LineParser(LAYOUTS[0]).parse(block, stop=stop))
    assert [name for rows in pieces for name in rows.columns["source"].to_pylist()] == whole.columns[
        "source"
    ].to_pylist()
    assert [(bad.line, str(bad.error)) for rows in pieces for bad in rows.errors] == [
        (bad.line, str(bad.error)) for bad in whole.errors
    ]
    assert sum(rows.data_lines for rows in pieces) == whole.data_lines


def test_labels_that_become_one_without_brackets_are_one_entry():
    rows = parse_plain(b"i\t<a>\t<l>\t<b>\ni\t<a>\tl\t<b>\n", LAYOUTS[6])
    assert rows is not None
    assert rows.columns["label"].dictionary.to_pylist() == ["l"]
