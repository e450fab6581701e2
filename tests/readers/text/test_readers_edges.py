"""The format `edges` as text: every way to write it down gives the same columns, and every mistake has a place.

semantics.md S8, S13
"""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.readers import ColumnNames, open_reader
from rpq.readers.edges import open_edges
from tests.twins import examples

Row = tuple[str, str, str, int, bool]


def read(paths, **options) -> list[Row]:
    return rows_of(open_edges([str(path) for path in paths], **options))


def rows_of(reader) -> list[Row]:
    rows: list[Row] = []
    for batch in reader:
        assert len(batch) > 0
        columns = batch.columns.to_pydict()
        deletes = columns.get("delete", [False] * len(batch))
        rows += zip(*(columns[name] for name in ("source", "target", "label", "timestamp")), deletes, strict=True)
    return rows


def write(folder, text: str | bytes, name: str = "edges.txt"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def edges(tmp_path):
    """Read a text as a file in the format `edges`."""
    return lambda text, **options: read([write(tmp_path, text)], **options)


@pytest.mark.parametrize("separator", ["\t", ",", " ", "   "])
@pytest.mark.parametrize("header", [False, True])
def test_separators_are_found_in_the_first_line(edges, separator, header):
    lines = [["1", "2", "knows", "17"], ["2", "007", "likes", "-3"]]
    if header:
        lines.insert(0, ["source", "target", "label", "timestamp"])
    text = "".join(separator.join(line) + "\n" for line in lines)
    assert edges(text) == [("1", "2", "knows", 17, False), ("2", "007", "likes", -3, False)]


def test_a_header_names_the_columns_in_any_order_and_more_columns_are_not_read(edges):
    text = "weight,timestamp,OP,Label,target,source\n0.5,3,-,x,b,a\n,4,+,x,,c\n"
    with pytest.raises(InputError, match="'target': is empty"):
        edges(text)
    assert edges(text, on_error="skip") == [("a", "b", "x", 3, True)]


def test_op_may_be_left_out_line_by_line(edges):
    assert edges("a b x 1\na b x 2 -\na b x 3 +\n") == [
        ("a", "b", "x", 1, False),
        ("a", "b", "x", 2, True),
        ("a", "b", "x", 3, False),
    ]


def test_blank_lines_and_comments_are_ignored_but_names_may_begin_with_a_number_sign(edges):
    text = "# a comment\n\n#\n#tag b x 1\n  \n# another\na b x 2\n"
    assert edges(text) == [("#tag", "b", "x", 1, False), ("a", "b", "x", 2, False)]


def test_names_are_plain_text(edges):
    text = "007\t7\tNULL\t1\n\\N\tnan\t0x1f\t2\n a b\t'q\"\té\u2028\t3\n"
    assert edges(text) == [
        ("007", "7", "NULL", 1, False),
        ("\\N", "nan", "0x1f", 2, False),
        (" a b", "'q\"", "é\u2028", 3, False),
    ]


def test_commas_come_with_the_quotes_of_csv(edges):
    assert edges('"a,1","say ""x""",l,5\nb"c,d,l,6\n') == [
        ("a,1", 'say "x"', "l", 5, False),
        ('b"c', "d", "l", 6, False),
    ]


def test_line_ends_of_windows_a_byte_order_mark_and_a_last_line_without_end(edges):
    assert edges(b"\xef\xbb\xbfa\tb\tx\t1\r\n\r\nc\td\tx\t2") == [("a", "b", "x", 1, False), ("c", "d", "x", 2, False)]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "source,target,label,timestamp\n", "source\ttarget\tlabel\ttimestamp"]
)
def test_a_file_without_tuples_is_an_empty_stream(edges, text):
    assert edges(text) == []


@pytest.mark.parametrize(
    ("bad", "column", "message"),
    [
        ("a\tb\tx\tabc", "timestamp", r"'abc' is not an integer"),
        ("a\tb\tx\t0x10", "timestamp", r"'0x10' is not an integer"),
        ("a\tb\tx\t1.0", "timestamp", r"not an integer"),
        ("a\tb\tx\t1_000", "timestamp", r"not an integer"),
        ("a\tb\tx\t١", "timestamp", r"not an integer"),
        ("a\tb\tx\t", "timestamp", r"is empty"),
        ("a\tb\tx\t9223372036854775808", "timestamp", r"does not fit 64 bits"),
        ("a\tb\tx\t-9223372036854775809", "timestamp", r"does not fit 64 bits"),
        ("a\tb\tx\t" + "9" * 5000, "timestamp", r"does not fit 64 bits"),
        ("\tb\tx\t1", "source", r"is empty; expected a name"),
        ("a\t\tx\t1", "target", r"is empty"),
        ("a\tb\t\t1", "label", r"is empty"),
        ("a\tb\tx\t1\tinsert", "op", r"'insert' is not an operation; expected \+ or -"),
        ("a\tb\tx\t1\t", "op", r"not an operation"),
        ("a\tb\tx", None, r"found 3 fields, expected 4 or 5: source, target, label, timestamp, op; separated by tabs"),
        ("a\tb\tx\t1\t+\t2", None, r"found 6 fields"),
        ("a b x 1", None, r"found 1 field,"),
        (b"a\t\xff\xfe\tx\t1", "target", r"is not UTF-8"),
    ],
)
def test_a_bad_line_is_placed_and_everything_before_it_is_delivered(tmp_path, bad, column, message):
    bad = bad.encode() if isinstance(bad, str) else bad
    path = write(tmp_path, b"# first\na\tb\tx\t1\n\n" + bad + b"\nc\td\tx\t9\n")
    delivered = []
    with pytest.raises(InputError, match=message) as caught:
        for batch in open_edges([str(path)]):
            delivered += batch.columns.to_pylist()
    assert [row["timestamp"] for row in delivered] == [1]
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), 4, column)
    assert str(caught.value).startswith(f"{path}:4: ")
    reader = open_edges([str(path)], on_error="skip")
    assert [row[3] for row in rows_of(reader)] == [1, 9]
    assert reader.rejected == 1


@pytest.mark.parametrize("line", ['"a,b,x,1', '"a"b,c,x,1', '"a, x,b,c,1'])
def test_wrong_quotes_are_errors_of_their_line(tmp_path, line):
    path = write(tmp_path, f"a,b,x,1\n{line}\nc,d,x,2\n")
    with pytest.raises(InputError, match=":2: ") as caught:
        read([path])
    assert caught.value.line == 2
    assert [row[3] for row in read([path], on_error="skip")] == [1, 2]


def test_the_first_line_must_tell_the_columns(tmp_path):
    path = write(tmp_path, "one two\n1 2 x 3\n")
    with pytest.raises(InputError, match="does not determine the columns: expected source, target, label") as caught:
        read([path])
    assert caught.value.line == 1
    reader = open_edges([str(path)], on_error="skip")
    assert rows_of(reader) == [("1", "2", "x", 3, False)]
    assert reader.rejected == 1


def test_a_header_must_not_name_a_column_twice(edges):
    with pytest.raises(InputError, match="column 'source': occurs twice in the header"):
        edges("source,target,label,timestamp,source\n")


def test_the_line_number_counts_on_from_block_to_block(tmp_path):
    path = write(tmp_path, "".join(f"a b x {number}\n" for number in range(1000)) + "a b x y\n")
    with pytest.raises(InputError) as caught:
        read([path], batch_rows=7)
    assert caught.value.line == 1001


# Names without what separates, ends or comments a line; the exact rules for those have tests of their own.
names = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\n\r\t ,\ufeff"), min_size=1, max_size=6
).filter(lambda name: name != "#" and not name.startswith('"'))
tuples = st.tuples(names, names, names, st.integers(-(2**63), 2**63 - 1), st.booleans())
orders = st.permutations(["source", "target", "label", "timestamp", "op"])


@examples(600)
@given(
    rows=st.lists(tuples, max_size=12),
    separator=st.sampled_from(["\t", ",", " ", "  "]),
    order=st.none() | orders,
    with_op=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    compressed=st.booleans(),
    batch_rows=st.sampled_from([1, 3, 1 << 17]),
)
def test_what_is_written_is_read(tmp_path_factory, rows, separator, order, with_op, end, compressed, batch_rows):
    columns = [name for name in order or ("source", "target", "label", "timestamp", "op") if with_op or name != "op"]
    rows = [(*row[:4], row[4] and with_op) for row in rows]
    text = "" if order is None else separator.join(columns) + end
    for source, target, label, timestamp, delete in rows:
        values = {"source": source, "target": target, "label": label, "timestamp": str(timestamp), "op": "+-"[delete]}
        line = [values[name] for name in columns]
        if separator == ",":
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator=end).writerow(line)
            text += buffer.getvalue()
        else:
            text += separator.join(line) + end
    data = text.encode()
    path = write(tmp_path_factory.mktemp("edges"), gzip.compress(data) if compressed else data, "edges")
    assert read([path], batch_rows=batch_rows) == rows


def test_a_first_line_with_a_time_before_the_epoch_is_no_header(tmp_path):
    path = write(tmp_path, ":\tO\tS\t-1\n")
    assert read([path]) == [(":", "O", "S", -1, False)]


def test_no_batch_has_more_rows_than_asked_for(tmp_path):
    path = write(tmp_path, "".join(f"a b x {number}\n" for number in range(100)))
    batches = list(open_edges([str(path)], batch_rows=9))
    assert max(map(len, batches)) <= 9
    assert sum(map(len, batches)) == 100
    assert batches[-1].bytes_read == path.stat().st_size


def test_labels_are_dictionaries_and_names_strings(tmp_path):
    (batch,) = open_reader("edges", write(tmp_path, "a b x 1\na b x 2 -\n"))
    assert [str(type_) for type_ in batch.columns.schema.types] == [
        "string",
        "string",
        "dictionary<values=string, indices=int32, ordered=0>",
        "int64",
        "bool",
    ]


def test_blanks_around_fields_are_counted_and_dropped_on_demand(tmp_path):
    text = 'source, target, label, timestamp\nann, bob, knows, 1\n"bob ",carl,knows,2\n'
    path = str(write(tmp_path, text, "edges.csv"))
    reader = open_reader("edges", path)
    assert [row[:3] for row in rows_of(reader)] == [("ann", " bob", " knows"), ("bob ", "carl", "knows")]
    assert [one for one in reader.warnings if "3 values begin or end with a blank" in one and "--trim" in one]
    trimming = open_reader("edges", path, columns=ColumnNames(trim=True))
    assert [row[:3] for row in rows_of(trimming)] == [("ann", "bob", "knows"), ("bob", "carl", "knows")]
    assert trimming.warnings == []
    with_blanks = open_reader("edges", str(write(tmp_path, "ann bob  knows 1\n")))
    json = open_reader("edges", str(write(tmp_path, '{"source": "a ", "target": "b", "label": "l", "timestamp": 1}\n', "j")))
    assert len(rows_of(with_blanks)) == len(rows_of(json)) == 1
    assert with_blanks.warnings == json.warnings == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,target,label,timestamp\ra,b,x,1\rb,c,x,2\r", "carriage returns alone: convert them"),
        ("sep=,\nsource,target,label,timestamp\na,b,x,1\n", ":1: .*tells Excel the separator: leave it out"),
    ],
)
def test_a_first_line_of_other_programs_is_named(edges, text, message):
    with pytest.raises(InputError, match=message):
        edges(text)
