"""The formats of the data sets, on a few lines each.

semantics.md S8
"""

from __future__ import annotations

import gzip

import pytest

from rpq.errors import InputError
from rpq.workloads.formats.edge_lists import label_of, open_gmark, open_stackoverflow, open_yago


def rows(reader) -> list[tuple]:
    return [
        (row["source"], row["label"], row["target"], row["timestamp"])
        for batch in reader
        for row in batch.columns.to_pylist()
    ]


def test_stackoverflow_labels_come_from_names_and_lines_are_sorted_by_time(tmp_path):
    # a2q:  5  3  5        c2a:  3  4
    (tmp_path / "sx-site-a2q.txt.gz").write_bytes(gzip.compress(b"1 2 5\n3 4 3\n1 2 5\n"))
    (tmp_path / "sx-site-c2a.txt").write_bytes(b"# c2a\n7   8 3\n7 8 4\n")
    reader = open_stackoverflow([str(tmp_path / "sx-site-a2q.txt.gz"), str(tmp_path / "sx-site-c2a.txt")])
    assert reader.time_unit == "s"
    assert rows(reader) == [
        ("3", "a2q", "4", 3),
        ("7", "c2a", "8", 3),
        ("7", "c2a", "8", 4),
        ("1", "a2q", "2", 5),
        ("1", "a2q", "2", 5),
    ]


def test_stackoverflow_needs_a_name_that_tells_the_label():
    assert label_of("/data/sx-mathoverflow-a2q.txt.gz") == "a2q"
    assert label_of("c2q.txt") == "c2q"
    for path in ("-", "sx-.txt", ".txt"):
        with pytest.raises(InputError, match="the name does not contain the label"):
            label_of(path)


@pytest.mark.parametrize("line", ["1 2", "1 2 3 4", "1 2 x"])
def test_stackoverflow_lines_have_three_fields(tmp_path, line):
    path = tmp_path / "sx-site-a2q.txt"
    path.write_text(f"1 2 3\n{line}\n1 2 1\n")
    with pytest.raises(InputError, match=":2: "):
        rows(open_stackoverflow([str(path)]))
    reader = open_stackoverflow([str(path)], on_error="skip")
    assert [row[3] for row in rows(reader)] == [1, 3]
    assert reader.rejected == 1


def test_yago_lines_are_numbered_over_all_files_and_lose_their_brackets(tmp_path):
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    first.write_text('<id_1>\t<Żubr_(beer)>\t<owns>\t<B<c>>\t1786\n<id_2>\tx\trdf:type\t"1"^^xsd:int\n')
    second.write_text("\t<a>\t<b>\t<c>\t\n")
    reader = open_yago([str(first), str(second)])
    assert reader.time_unit is None
    assert rows(reader) == [
        ("Żubr_(beer)", "owns", "B<c>", 0),
        ("x", "rdf:type", '"1"^^xsd:int', 1),
        ("a", "b", "c", 2),
    ]


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
def test_a_rejected_line_takes_its_number_a_comment_has_none(tmp_path, batch_rows):
    path = tmp_path / "graph.txt"
    path.write_text("# graph\n0 15 1\n\n1 x 2\n" + "2 15 3\n" * 9)
    reader = open_gmark([str(path), str(path)], on_error="skip", batch_rows=batch_rows)
    assert [row[3] for row in rows(reader)] == [0, *range(2, 12), *range(13, 22)]
    assert reader.rejected == 2
    with pytest.raises(InputError, match=":4: column 'label': 'x' is not an integer"):
        rows(open_gmark([str(path)], batch_rows=batch_rows))


@pytest.mark.parametrize(
    ("line", "column"), [("<i>\t<>\t<l>\t<b>\t", "source"), ("<i>\t<a>\t\t<b>\t", "label"), ("<i>\t<a>\t<l>", None)]
)
def test_yago_names_must_not_be_empty(tmp_path, line, column):
    path = tmp_path / "facts.tsv"
    path.write_text(line + "\n")
    with pytest.raises(InputError) as caught:
        rows(open_yago([str(path)]))
    assert (caught.value.line, caught.value.column) == (1, column)
