"""An input that is not in the format it is said to be in."""

from __future__ import annotations

import gzip

import pytest

from rpq.errors import InputError
from rpq.readers import open_reader

EDGES = "source,target,label,timestamp\na,b,x,1\n"
SAMPLES = {
    "edges": EDGES,
    "jsonl": '{"source":"a","target":"b","label":"x","timestamp":1}\n',
    "stackoverflow": "1 2 3\n2 3 4\n",
    "ldbc": "3|0|8|5|6|1\n",
    "yago": "<i>\t<a>\t<b>\t<c>\t\n",
}


@pytest.mark.parametrize(
    ("format", "holds", "hint"),
    [
        ("stackoverflow", "edges", "edges"),
        ("stackoverflow", "jsonl", "edges"),
        ("jsonl", "edges", "edges"),
        ("jsonl", "ldbc", "ldbc"),
        ("gmark", "edges", "edges"),
        ("ldbc", "stackoverflow", "gmark or stackoverflow"),
        ("edges", "stackoverflow", "gmark or stackoverflow"),
        ("edges", "ldbc", "ldbc"),
        ("edges", "yago", "yago"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_error_says_which_format_it_could_be(tmp_path, format, holds, hint, compressed):
    path = tmp_path / ("sx-a2q.txt.gz" if compressed else "sx-a2q.txt")
    data = SAMPLES[holds].encode()
    path.write_bytes(gzip.compress(data) if compressed else data)
    message = f"the first lines are not of the format {format}, but could be of {hint}$"
    with pytest.raises(InputError, match=message) as caught:
        list(open_reader(format, path))
    assert (caught.value.file, caught.value.line) == (str(path), 1)
    reader = open_reader(format, path, on_error="skip")
    assert list(reader) == []
    assert any(hint in rejection for rejection in reader.rejections)


def test_a_bad_line_among_good_ones_is_no_reason_for_a_hint(tmp_path):
    path = tmp_path / "sx-a2q.txt"
    path.write_text("1 2 x 3\n1 2 3\n")
    with pytest.raises(InputError, match=r":1: found 4 fields, expected 3: [^;]*; separated by blanks$"):
        list(open_reader("stackoverflow", path))
    path.write_text("neither this\nnor that\n")
    with pytest.raises(InputError, match=r"or a header with these names \(delete [^)]*\)$"):
        list(open_reader("edges", path))
