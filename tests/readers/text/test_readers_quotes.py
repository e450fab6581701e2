"""Fields in quotes: over several lines, between tabs, wrong ones; and none of it depends on where blocks are cut."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.readers import open_reader
from rpq.readers.source import LineBlock
from rpq.readers.text import quotes
from rpq.readers.text.line_layout import LineLayout
from rpq.readers.text.parsing import parse_exact, parse_plain
from rpq.readers.text.quotes import quotes_of, records
from tests.twins import examples

EDGES = ("source", "target", "label", "timestamp", "op")
COMMAS = LineLayout(separator=",", fields=EDGES, optional=1)
TABS = LineLayout(separator="\t", fields=EDGES, optional=1, quotes=True)


@pytest.fixture
def rows(tmp_path):
    """The tuples of a text without their op, and the reader that gave them."""

    def read_text(text: str, **options):
        path = tmp_path / "edges.csv"
        path.write_bytes(text.encode())
        reader = open_reader("edges", path, **options)
        return [tuple(row.values())[:4] for batch in reader for row in batch.columns.to_pylist()], reader

    return read_text


SIZES = pytest.mark.parametrize("batch_rows", [1, 2, 1000])


@SIZES
@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quoted_field_may_go_over_several_lines(rows, separator, end, batch_rows):
    lines = ["source,target,label,timestamp", '"ann', "", '# b"",c",bob,x,1', 'd,"e', 'f",x,2', "g,h,x,3", 'i,j,x,"', '4"']
    text = end.join(lines).replace(",", separator) + end
    found, reader = rows(text, batch_rows=batch_rows, on_error="skip")
    name = f'ann{end}{end}# b"{separator}c'
    assert found == [(name, "bob", "x", 1), ("d", f"e{end}f", "x", 2), ("g", "h", "x", 3)]
    assert reader.rejected == 1
    with pytest.raises(InputError, match="edges.csv:8: column 'timestamp'"):
        rows(text, batch_rows=batch_rows)


@SIZES
def test_errors_behind_a_field_of_several_lines_have_their_line(rows, batch_rows):
    with pytest.raises(InputError, match="edges.csv:6: column 'timestamp': 'y' is not an integer"):
        rows('z,c,x,0\n"a\nb",c,x,1\n"a",c,x,2\nd,e,x,3\nd,e,x,y\n', batch_rows=batch_rows)


@SIZES
def test_a_quote_that_is_not_closed_costs_its_line_alone(rows, batch_rows):
    found, reader = rows('a,b,x,1\n"c,d,x,2\ne,f,x,3\n"g\nh",i,x,4\n', batch_rows=batch_rows, on_error="skip")
    # The quote of line 2 would end at that of line 4, which stands before a letter: it is no end.
    assert found == [("a", "b", "x", 1), ("e", "f", "x", 3), ("g\nh", "i", "x", 4)]
    assert reader.rejected == 1 and ":2: the quotes are wrong" in reader.rejections[0]


@SIZES
def test_a_quote_too_many_does_not_swallow_the_rest(rows, batch_rows, monkeypatch):
    monkeypatch.setattr(quotes, "LONGEST", 50)
    quotes_of.cache_clear()
    lines = [f"a,b,x,{time}\n" for time in range(40)]
    lines[10] = '"a,b,x,10\n'
    found, reader = rows("".join(lines), batch_rows=batch_rows, on_error="skip")
    assert [row[3] for row in found] == [time for time in range(40) if time != 10]
    assert reader.rejected == 1
    # 30 characters in quotes are fewer, 60 more.
    short, long = ("\n".join(["a,b,x,0"] * count) for count in (4, 8))
    assert len(rows(f'a,b,x,0\n"{short}",b,x,1\n', batch_rows=batch_rows)[0]) == 2
    with pytest.raises(InputError, match=":2: the quotes are wrong"):
        rows(f'a,b,x,0\n"{long}",b,x,1\n', batch_rows=batch_rows)
    quotes_of.cache_clear()


@SIZES
def test_between_tabs_what_is_not_in_quotes_as_a_whole_is_text(rows, batch_rows):
    text = '"a\tb"\tc\tx\t1\n"a"@en\t"b\tx\t2\n"say ""a"""\t""\tx\t3\n\'q"\tb"\tx\t4\n'
    found, reader = rows(text, batch_rows=batch_rows, on_error="skip")
    assert found == [("a\tb", "c", "x", 1), ('"a"@en', '"b', "x", 2), ("'q\"", 'b"', "x", 4)]
    assert reader.rejections == [
        "{}:3: column 'target': is empty; expected a name".format(reader.rejections[0].split(":")[0])
    ]


@SIZES
def test_between_tabs_lines_that_have_their_fields_stand_alone(rows, batch_rows):
    header = "source\ttarget\tlabel\ttimestamp\tnote\n"
    text = header + 'a\tb\tx\t1\t"two\nlines"\n"c\td\tx\t2\t\ne\tf"\tx\t3\t\ng\th\tx\t4\t"open\n'
    found, _ = rows(text, batch_rows=batch_rows)
    assert found == [("a", "b", "x", 1), ('"c', "d", "x", 2), ("e", 'f"', "x", 3), ("g", "h", "x", 4)]


def test_blanks_know_no_quotes(rows):
    assert rows('"a b" x 1\n')[0] == [('"a', 'b"', "x", 1)]


def test_yago_keeps_quotes(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text('<i>\t<a>\t<l>\t"1786"\t\n')
    assert [batch.columns["target"].to_pylist() for batch in open_reader("yago", path)] == [['"1786"']]


texts = st.text(st.sampled_from("ab\",\n\t\r#' "), min_size=1, max_size=5).filter(
    lambda text: not text.endswith("\r") and "\r" not in text
)


@pytest.mark.ci
@examples(1000)
@given(
    rows=st.lists(st.tuples(texts, texts), min_size=1, max_size=8),
    batch_rows=st.sampled_from([1, 2, 1000]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_pythons_csv_writes_is_read(tmp_path_factory, rows, batch_rows, end):
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator=end)
    writer.writerow(["source", "target", "label", "timestamp"])
    # A comment begins with a number sign: no field in quotes does.
    rows = [(source, target) for source, target in rows if not source.startswith("#") and source.strip()]
    writer.writerows([source, target, "x", time] for time, (source, target) in enumerate(rows))
    path = tmp_path_factory.mktemp("csv") / "edges.csv"
    path.write_bytes(buffer.getvalue().encode())
    reader = open_reader("edges", path, batch_rows=batch_rows)
    assert [(row["source"], row["target"]) for batch in reader for row in batch.columns.to_pylist()] == rows


PARTS = ["a", "b", '"', '"', '""', ",", "\t", "\n", "\n", "x,1\n", "x\t1\n", "# ", "\r\n", ",c,x,1\n"]


@pytest.mark.parametrize("layout", [COMMAS, TABS], ids=["commas", "tabs"])
@examples(1500)
@given(data=st.lists(st.sampled_from(PARTS), max_size=30).map(lambda parts: "".join(parts).encode()))
def test_the_quick_way_through_quotes_is_that_of_records(layout, data):
    plain = parse_plain(data, layout)
    exact = parse_exact(LineBlock(data, 1), layout, stop=False)
    if plain is not None:
        assert exact.errors == []
        assert {name: column.to_pylist() for name, column in plain.columns.items()} == {
            name: column.to_pylist() for name, column in exact.columns.items()
        }
    found = quotes_of(data, ",")
    if found.regular and b"#" not in data:
        ends = {end for _, end, _ in records(data, COMMAS)}
        assert set(found.inner.tolist()) == {place for place, one in enumerate(data) if one == 10} - ends
