"""`--where`: conditions on the columns of an input, from text to the rows that are kept."""

from __future__ import annotations

import itertools
import json
import operator
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from rpq.language.predicate import ColumnKind, Predicate
from rpq.readers import ColumnNames, WhereError, open_reader, parse_where
from tests.twins import examples

CSV = """source,target,label,timestamp,amount,first name
a,b,x,1,5,ann
b,c,y,2,1500,
c,d,x,3,n/a,bob's
d,e,x,4,,ann
e,f,z,5,-0.5e3,cho
"""


@pytest.fixture
def passing_rows(tmp_path):
    """The timestamps of the rows of `CSV` that a condition keeps."""
    path = tmp_path / "edges.csv"
    path.write_text(CSV)

    def read(condition: str, **options) -> list[int]:
        reader = open_reader("edges", path, where=parse_where(condition), **options)
        return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]

    return read


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("amount > 1000", [2]),
        ("amount = 5.0", [1]),
        ("amount <> 5", [2, 5]),
        ("amount == '5'", [1]),
        ("amount is null", [4]),
        ("not amount > 1000", [1, 5]),
        ("amount > 1000 or amount is null", [2, 4]),
        ("amount > 1000 OR label = 'z' AND timestamp >= 5", [2, 5]),
        ("amount not in (5, 1500)", [5]),
        ("label in ('x', 'q')", [1, 3, 4]),
        ("`first name` = 'bob''s'", [3]),
        ("starts_with(source, 'a') or ends_with(target, 'f')", [1, 5]),
        ("contains(upper(`first name`), 'NN')", [1, 4]),
        ("matches(`first name`, '^.{3}$') and length(label) = 1", [1, 4, 5]),
        ("amount * 2 - 1 = 9", [1]),
        ("abs(amount) = 500", [5]),
        ("amount / (timestamp - 1) > 1", [2]),
        ("(0 - timestamp) % 3 = 2", [1, 4]),
        ("number(source) = 1", []),
        ("lower('X') = label", [1, 3, 4]),
        ("source < target and op = '+'", [1, 2, 3, 4, 5]),
        ("1 > 2", []),
    ],
)
@pytest.mark.parametrize("batch_rows", [2, 1000])
def test_rows_for_which_a_condition_holds_are_kept(passing_rows, condition, expected, batch_rows):
    assert passing_rows(condition, batch_rows=batch_rows) == expected


@pytest.mark.parametrize(
    ("condition", "column", "message"),
    [
        ("amount >", 9, r"unexpected the end; expected a column, a value or '\('"),
        ("amount > 'x", 10, "the quote is not closed"),
        ("1 < amount < 5", 12, "comparisons are joined"),
        ("(amount > 1", 12, r"unexpected the end; expected '\)'"),
        ("amount > 5 extra", 12, "expected an operator or the end"),
        ("low(label) = 'x'", 1, "unknown function 'low'.* did you mean 'lower'"),
        ("starts_with(label)", 1, "starts_with has 2 arguments, not 1"),
        (
            "label = 'x' and amuont > 3",
            17,
            "unknown column 'amuont'; did you mean 'amount'.* the columns are source, .*first name",
        ),
        ("label > 3", 7, r"text is compared with a number; number\(…\) and text\(…\)"),
        ("label = 'x' and timestamp", 17, "is a time; expected a condition"),
        ("label + 1 > 2", 7, "text is not a number, so arithmetic does not apply"),
        ("matches(label, '(')", 1, "is not a regular expression"),
        ("starts_with(label, label)", 1, "must be a text in quotes"),
        ("timestamp > '2024-05-01'", 11, "the times of this input are plain numbers"),
    ],
)
def test_what_is_wrong_with_a_condition_is_pointed_at_before_anything_is_read(passing_rows, condition, column, message):
    with pytest.raises(WhereError, match=message) as caught:
        passing_rows(condition)
    assert caught.value.column == column
    assert str(caught.value).splitlines()[1:] == [f"  {condition}", "  " + " " * (column - 1) + "^"]


def test_rows_left_out_are_counted_and_those_among_them_for_which_nothing_can_be_told(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text(CSV)
    reader = open_reader("edges", path, where=parse_where("amount > 1000"))
    assert sum(map(len, reader)) == 1
    assert (reader.filtered, reader.undecided) == (4, 2)


def test_a_tuple_that_is_left_out_is_not_there_for_limit_and_merge(tmp_path):
    # Without its second line, the first file's third comes before the second file's.
    (tmp_path / "one.csv").write_text("source,target,label,timestamp,w\na,b,x,1,1\na,b,x,9,0\na,b,x,3,1\n")
    (tmp_path / "two.csv").write_text("source,target,label,timestamp,w\na,b,x,4,1\n")
    reader = open_reader("edges", [tmp_path / "one.csv", tmp_path / "two.csv"], where=parse_where("w = 1"), limit=2)
    assert [time for batch in reader for time in batch.columns["timestamp"].to_pylist()] == [1, 3]


def test_times_are_compared_with_times(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("user,item,ts\na,b,2024-05-01T10:00:00+02:00\na,b,2024-05-01T09:00:00Z\n")
    columns = ColumnNames.parse("source=user,target=item,timestamp=ts", label="x")
    for name in ("ts", "timestamp"):
        where = parse_where(f"{name} >= '2024-05-01T08:30:00Z'")
        reader = open_reader("edges", path, where=where, columns=columns, time_unit="s")
        assert [batch.columns["timestamp"].to_pylist() for batch in reader] == [[1714554000]]
    with pytest.raises(WhereError, match="'soon' is not a time"):
        open_reader("edges", path, where=parse_where("ts > 'soon'"), columns=columns)


def test_an_input_may_have_a_column_that_is_called_like_one_of_a_tuple(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,user,target,label,timestamp\nweb,a,b,x,1\napp,b,c,x,2\n")
    columns = ColumnNames.parse("source=user")
    reader = open_reader("edges", path, where=parse_where("source = 'app'"), columns=columns)
    assert [batch.columns["source"].to_pylist() for batch in reader] == [["b"]]


def test_other_formats_have_the_columns_of_a_tuple(tmp_path):
    path = tmp_path / "sx-a2q.txt"
    path.write_text("1 2 10\n2 3 20\n3 4 30\n")
    reader = open_reader("stackoverflow", path, where=parse_where("timestamp > '1970-01-01T00:00:15Z' and source != '3'"))
    assert [batch.columns["timestamp"].to_pylist() for batch in reader] == [[20]]
    assert reader.filtered == 2
    with pytest.raises(WhereError, match="unknown column 'amount'"):
        open_reader("stackoverflow", path, where=parse_where("amount > 3"))


def test_columns_of_parquet_have_types(tmp_path):
    path = tmp_path / "edges.parquet"
    table = {
        "source": [1, 2, 3, 4],
        "target": [2, 3, 4, 5],
        "label": ["x", "y", "x", "x"],
        "timestamp": [1, 2, 3, 4],
        "amount": pa.array([1.5, None, 2.5, 3.5], pa.float32()),
        "big": [2**53, 2**53 + 1, 2**63 - 1, 0],
        "day": pa.array([0, 86_400_000, None, 0], pa.timestamp("ms")),
        "good": [True, True, False, None],
        "tags": [["a"], [], None, []],
    }
    pq.write_table(pa.table(table), path, row_group_size=2)

    def passing_rows(condition: str) -> list[int]:
        reader = open_reader("edges", path, where=parse_where(condition))
        return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]

    assert passing_rows("amount > 1.5") == [3, 4]
    assert passing_rows("big = 9007199254740993") == [2]
    assert passing_rows("big + 1 > 0") == [1, 2, 4]  # one more does not fit 64 bits
    assert passing_rows("day >= '1970-01-02'") == [2]
    assert passing_rows("good and source > 1") == [2]
    assert passing_rows("target = source + 1") == [1, 2, 3, 4]
    for condition in ("amount = 'a'", "tags = 'a'", "nothing = 1"):
        with pytest.raises(WhereError):
            passing_rows(condition)


def test_json_values_are_of_any_kind_and_may_be_missing(tmp_path):
    path = tmp_path / "edges.jsonl"
    values = [5, "5", 5.0, 7.5, "n/a", None, True, "true", {"b": 1}, "", 2**62 + 1, 2**62]
    lines = [
        {"source": "a", "target": "b", "label": "x", "timestamp": time, "w": value} for time, value in enumerate(values)
    ]
    del lines[5]["w"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def passing_rows(condition: str, batch_rows: int) -> list[int]:
        reader = open_reader("edges", path, where=parse_where(condition), batch_rows=batch_rows)
        return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]

    for batch_rows in (1, 3, 1000):
        assert passing_rows("w = 5", batch_rows) == [0, 1, 2]
        assert passing_rows("w = '5'", batch_rows) == [0, 1, 2]
        assert passing_rows("w > 6 and w < 8", batch_rows) == [3]
        assert passing_rows("w is null", batch_rows) == [5, 9]
        assert passing_rows("w", batch_rows) == [6, 7]
        assert passing_rows("contains(w, 'b')", batch_rows) == [8]
        assert passing_rows(f"w = {2**62 + 1}", batch_rows) == [10]
    known = "source, target, label, timestamp, op, delete, stream, w"
    with pytest.raises(WhereError, match=f"unknown column 'v'.*the columns are {known}"):
        passing_rows("v = 1", 10)


VALUES = ["", "0", "1", "-1", "2.5", "1e2", "+3", "007", "x", "true", "false", "nan", "inf", "0x1F", " 4 ", "9" * 18,
          str(2**62), str(2**63), str(2**53 + 1), "1.", ".5", "1e999"]  # fmt: skip
CONDITIONS = ["v = w", "v < w", "v > 1", "v = 1", "v != 2.5", "v = 'x'", "v", "not v", "v + w > 3", "v is null", "v % 2 = 1",
              "v in (1, 100)", "v / w > 0", "number(v) = w", "text(v) = w", f"v >= {2**53 + 1}", f"v = {2**62}"]  # fmt: skip


@examples(750)
@given(
    rows=st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)), min_size=1, max_size=8),
    text=st.sampled_from(CONDITIONS),
)
def test_a_verdict_depends_on_its_row_alone(rows, text):
    loose = {name: ColumnKind(key=name, kind="untyped") for name in "vw"}
    predicate = Predicate(parse_where(text), loose)

    def verdicts(part) -> list[bool]:
        columns = {"v": pa.array([v for v, _ in part]), "w": pa.array([w for _, w in part])}
        return predicate.mask(columns, len(part))[0].tolist()

    assert verdicts(rows) == list(itertools.chain.from_iterable(verdicts([row]) for row in rows))


def number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return (
        None
        if value != value or "inf" in text or "_" in text
        else int(text)
        if text.strip().lstrip("+-").isdecimal()
        else value
    )


@examples(750)
@given(
    value=st.sampled_from(VALUES),
    other=st.sampled_from([0, 1, 2.5, 4, 100, -1, 2**53 + 1, 2**62]),
    sign=st.sampled_from(["<", "=", ">="]),
)
def test_numbers_are_compared_as_python_does(value, other, sign):
    predicate = Predicate(parse_where(f"v {sign} {other}"), {"v": ColumnKind(key="v", kind="untyped")})
    verdicts, undecided = predicate.mask({"v": pa.array([value])}, 1)
    expected = number(value)
    compare = {"<": operator.lt, "=": operator.eq, ">=": operator.ge}[sign]
    assert verdicts.tolist() == [expected is not None and compare(expected, other)]
    assert undecided == (expected is None)


SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBERS = {
    "decimal": pa.array([Decimal("0.9"), Decimal("1.00"), Decimal("-3.14159"), None, Decimal(100)], pa.decimal128(20, 5)),
    "wide": pa.array([Decimal("0.9") * 10**40, None, Decimal(0), Decimal(1), Decimal(2**53 + 1)], pa.decimal256(70, 9)),
    "integer": pa.array([1, -4, None, 2**63 - 1, 100]),
    "float": pa.array([0.9, 1.0, float("nan"), float("inf"), None]),
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pair
        for pair in itertools.permutations([*NUMBERS, "0.9", "1", "1e-300", "9007199254740992.0"], 2)
        if {*pair} & {*NUMBERS}
    ],
)
def test_decimals_integers_and_floats_are_compared_by_their_exact_values(one, other, sign):
    kinds = {name: ColumnKind(key=name, kind="number") for name in NUMBERS}
    keep, _ = Predicate(parse_where(f"{one} {sign} {other}"), kinds).mask(NUMBERS, 5)
    columns = {name: column.to_pylist() for name, column in NUMBERS.items()}
    number = float if "float" in (one, other) else Decimal  # a constant beside floats is the nearest float
    values = [columns.get(name) or [number(name)] * 5 for name in (one, other)]

    def holds(left, right):
        if left is None or right is None:
            return False
        return sign == "!=" if left != left or right != right else SIGNS[sign](left, right)

    assert keep.tolist() == [holds(*row) for row in zip(*values, strict=True)]


def test_deep_parentheses_are_an_error_of_their_own():
    with pytest.raises(WhereError, match="too deep"):
        parse_where("(" * 100_000 + "a" + ")" * 100_000)
