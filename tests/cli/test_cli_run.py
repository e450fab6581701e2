"""`rpq run` as a user calls it: options, rows, figures, exit statuses.

semantics.md S6
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rpq.cli import main
from tests.reference import ReferenceEngine, ReferenceQuery
from tests.twins import examples

STATS_KEYS = """tuples inserted refreshed deleted absent_deletes late irrelevant rejected rows_added rows_removed
answers_live edges_live index_cells engine_seconds total_seconds tuples_per_second latency_p50_us latency_p99_us
peak_memory_bytes""".split()


@pytest.fixture
def edges(tmp_path):
    """Write lines to a file of the format `edges`."""

    def write(text: str, name: str = "edges.txt") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def rows(text: str) -> list[tuple[str, ...]]:
    header, *lines = csv.reader(io.StringIO(text, newline=""))
    assert header[:4] == ["source", "target", "timestamp", "op"]
    return [tuple(line) for line in lines]


def expected(tuples, expression, size, slide, **options):
    """The rows of the reference, as texts; `tuples` are (source, target, label, timestamp, op)."""
    engine = ReferenceEngine(ReferenceQuery(name="q", expression=expression, size=size, slide=slide, **options))
    found = []
    for item in tuples:
        found += [(row.source, row.target, str(row.timestamp), row.op) for row in engine.push(*item)]
    return found, engine.counts()


def in_time_order(found) -> list:
    """Rows of one time in a fixed order; the order of times is kept as it is."""
    assert [int(row[2]) for row in found] == sorted(int(row[2]) for row in found)
    return sorted(found, key=lambda row: int(row[2]))


def as_multiset(found) -> list:
    return sorted(found, key=repr)


# W = β = 10:   time   0 ──── 10 ────     (semantics.md S6)
#               edge   +       +   / −
@pytest.mark.parametrize(
    ("op", "semantics", "result"),
    [
        ("+", "implicit", ["+0", "+10"]),
        ("+", "explicit", ["+0", "-10", "+10"]),
        ("-", "implicit", ["+0"]),
        ("-", "explicit", ["+0", "-10"]),
    ],
)
def test_rows_of_an_expiry(rpq, edges, op, semantics, result):
    path = edges(f"x y a 0\nx y a 10 {op}\n")
    status, out, _ = rpq(
        "run", "a", "--input", path, "--window", 10, "--slide", 10, "--semantics", semantics, "--output", "-"
    )
    assert status == 0
    assert [row[3] + row[2] for row in rows(out)] == result


vertices = st.sampled_from(["x", "y", "z", 'w,"'])
tuples = st.tuples(vertices, vertices, st.sampled_from("abc"), st.integers(-12, 30), st.sampled_from("+++-"))


def edges_csv(stream) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([("source", "target", "label", "timestamp", "op"), *stream])
    return file.getvalue()


@examples(125, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=st.lists(tuples, max_size=25),
    expression=st.sampled_from(["a/b*", "(a|^b)+", "a*/c", "!(a|^c)"]),
    size=st.integers(1, 15),
    slide=st.integers(1, 6),
    semantics=st.sampled_from(["implicit", "explicit"]),
    witness=st.booleans(),
)
def test_rows_and_counts_are_those_of_the_reference(rpq, tmp_path, stream, expression, size, slide, semantics, witness):
    path, stats, late = tmp_path / "edges.csv", tmp_path / "stats.json", tmp_path / "late.csv"
    path.write_text(edges_csv(stream))
    options = ["--semantics", semantics, "--stats", stats, "--late", late, "--output", "-"] + ["--witness"] * witness
    status, out, err = rpq("run", expression, "--input", path, "--window", size, "--slide", slide, *options)
    assert status == 0, err
    found = rows(out)
    wanted, counts = expected(stream, expression, size, slide, semantics=semantics)
    assert as_multiset(row[:4] for row in in_time_order(found)) == as_multiset(wanted)
    figures = json.loads(stats.read_text())
    assert {name: figures[name] for name in counts} == counts
    assert len(late.read_text().splitlines()) == 1 + counts["late"]
    for source, target, time, op, *witness_texts in found:
        if op == "-":
            assert witness_texts in ([], ["", ""])
        elif witness:
            walk, times = map(json.loads, witness_texts)
            assert (walk[0], walk[-1], len(walk) % 2) == (source, target, 1) and len(walk) > 1
            assert len(times) == len(walk) // 2 and max(times) <= int(time)


def test_the_stats_have_all_keys_and_the_summary_goes_to_stderr(rpq, edges, tmp_path):
    path, stats = edges("x y a 1\ny z a 2\nx y q 2\nx y a 2\n"), tmp_path / "stats.json"
    status, out, err = rpq("run", "a+", "--input", path, "--window", 5, "--slide", 1, "--stats", stats)
    assert (status, out) == (0, "")
    figures = json.loads(stats.read_text())
    assert set(STATS_KEYS) <= set(figures)
    assert (figures["tuples"], figures["rows_added"], figures["rejected"]) == (4, 3, 0)
    assert (figures["expression"], figures["window"], figures["slide"], figures["exit_code"]) == ("a+", 5, 1, 0)
    assert figures["total_seconds"] >= figures["engine_seconds"] > 0
    assert figures["peak_memory_bytes"] > 10**6
    assert "4: 2 inserted, 1 refreshed, 1 irrelevant" in err and "3 added, 0 removed" in err


def test_negative_numbers_are_values(rpq, edges):
    path = edges("-1 -2 a -5\n-1 3 a -5\n-7 -2 a -5\n")
    args = ["--input", path, "--window", 10, "--slide", 1, "--output", "-", "--source", "-1", "--target", "-2", "3"]
    assert sorted(rows(rpq("run", "a", *args)[1])) == [("-1", "-2", "-5", "+"), ("-1", "3", "-5", "+")]


def test_sources_of_typed_parquet_are_integers(rpq, tmp_path):
    path, out_path = tmp_path / "edges.parquet", tmp_path / "rows.parquet"
    table = {"source": [7, 8], "target": [8, 9], "label": ["a", "a"], "timestamp": [1, 2]}
    pq.write_table(pa.table(table), path)
    args = ["--input", path, "--window", 10, "--slide", 1]
    status, _, err = rpq("run", "a+", *args, "--output", out_path, "--source", 7)
    assert status == 0, err
    written = pq.read_table(out_path)
    assert written.schema.field("source").type == pa.int64()
    assert written["target"].to_pylist() == [8, 9]
    status, _, err = rpq("run", "a+", *args, "--source", "x")
    assert status == 2 and "vertices of this input are integers" in err


def test_limit_and_self_loops(rpq, edges, tmp_path):
    path, stats = edges("x x a 1\nx y a 2\ny z a 3\n"), tmp_path / "stats.json"
    args = ["--input", path, "--window", 10, "--slide", 1, "--output", "-", "--stats", stats, "--limit", 2]
    assert rows(rpq("run", "a", *args, "--drop-self-loops")[1]) == [("x", "y", "2", "+")]
    assert json.loads(stats.read_text())["tuples"] == 1


@pytest.mark.parametrize(
    ("window", "unit", "result"), [("10s", "s", 10), ("10s", "ms", 10_000), ("1m", "us", 60_000_000), ("10", None, 10)]
)
def test_durations_need_the_unit_of_the_stream(rpq, edges, tmp_path, window, unit, result):
    path, stats = edges("x y a 1\n"), tmp_path / "stats.json"
    options = ["--time-unit", unit] if unit else []
    assert rpq("run", "a", "--input", path, "--window", window, "--slide", window, "--stats", stats, *options)[0] == 0
    figures = json.loads(stats.read_text())
    assert figures["window"] == figures["slide"] == result


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a//b"], "column 3"),
        (["a", "--window", "10d"], "has a unit, but the timestamps of the stream have none"),
        (["a", "--window", "0"], "must be positive"),
        (["a", "--window", "x"], "is not a duration"),
        (["a", "--output", "rows.txt"], "ends in .csv, .parquet"),
        (["a", "--output", "-", "--checkpoint", "c"], "cannot be taken back"),
        (["a", "--format", "edgse"], "unknown format 'edgse'"),
        (["a", "--witness"], "--witness needs an --output"),
        (["a", "--paths", "simple", "--simple-budget", "0"], "expected a positive number of nodes"),
        (["a", "--memory-limit", "lots"], "expected a number of bytes"),
        (["a", "--max-rows", "0"], "is neither a whole number above 0 nor none"),
        (["a", "--input"], "requires a value"),
        (["a", "b"], "unexpected extra argument"),
        (["a", "--output", "nowhere/rows.csv"], "cannot be written"),
    ],
)
def test_usage_errors_end_with_2(rpq, edges, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    path = edges("x y a 1\n")
    status, out, err = rpq("run", "--slide", 1, "--window", 10, "--input", path, "--quiet", *args)
    assert (status, out) == (2, ""), err
    assert message in err


def test_an_input_error_ends_with_1_after_what_came_before(rpq, edges, tmp_path):
    path, stats, out_path = (
        edges("x y a 1\ny z a 2\nx y a noon\nz w a 4\n"),
        tmp_path / "s.json",
        tmp_path / "rows.parquet",
    )
    args = ["--input", path, "--window", 10, "--slide", 1, "--stats", stats, "--output", out_path]
    status, out, err = rpq("run", "a", *args)
    assert (status, out) == (1, "")
    assert f"{path}:3" in err and "noon" in err and "2 inserted" in err
    assert pq.read_table(out_path)["source"].to_pylist() == ["x", "y"]
    assert json.loads(stats.read_text())["exit_code"] == 1
    status, _, err = rpq("run", "a", *args, "--on-error", "skip")
    assert status == 0 and "1 lines" in err
    assert pq.read_table(out_path)["source"].to_pylist() == ["x", "y", "z"]
    assert json.loads(stats.read_text())["rejected"] == 1


def test_a_timestamp_that_overflows_the_window_is_an_input_error(rpq, edges, tmp_path):
    path = edges(f"x y a 1\ny z a {2**63 - 5}\nz w a 3\n")
    args = ["--input", path, "--window", 10, "--slide", 1, "--output", "-"]
    status, out, err = rpq("run", "a", *args)
    assert status == 1 and str(2**63 - 5) in err
    assert rows(out) == [("x", "y", "1", "+")]
    status, out, err = rpq("run", "a", *args, "--on-error", "skip")
    assert status == 0 and "rejected" in err
    assert rows(out) == [("x", "y", "1", "+"), ("z", "w", "3", "+")]


def test_too_many_rows_of_one_tuple_end_with_1_and_what_came_before_is_written(rpq, edges):
    path = edges("".join(f"x y{n} a {n}\n" for n in range(6)))
    arguments = ["run", "(a|^a)+", "--input", path, "--window", 100, "--slide", 1, "--output", "-"]
    status, out, err = rpq(*arguments, "--max-rows", 8)
    # n vertices are joined in n² ways: the tuples bring 4, 5, 7, 9, … rows.
    assert status == 1 and len(rows(out)) == 4 + 5 + 7
    assert "at the tuple x y3 a 3 +: query '(a|^a)+': tuple 3 of the batch would bring 9 rows" in err
    status, out, _ = rpq(*arguments, "--max-rows", "none")
    assert status == 0 and len(rows(out)) == 4 + 5 + 7 + 9 + 11 + 13


def test_a_memory_limit_ends_with_1_and_says_what_happened(rpq, edges):
    path = edges("".join(f"{i} {j} a {i}\n" for i in range(300) for j in range(300) if (i * j) % 7 == 1))
    status, out, err = rpq(
        "run", "a+", "--input", path, "--window", 10_000, "--slide", 1, "--memory-limit", "1M", "--output", "-"
    )
    assert status == 1 and "a+" in err and "Traceback" not in err
    assert rows(out)


def test_what_is_skipped_is_told_with_its_place(tmp_path: Path) -> None:
    stream = tmp_path / "stream.tsv"
    stream.write_text("a\tb\tx\t1\na\tb\tx\tsoon\na\tc\tx\t3\na\t\tx\t4\n")
    options = ["--input", str(stream), "--window", "5", "--slide", "1", "--on-error", "skip"]
    result = CliRunner().invoke(main, ["run", "x", *options])
    assert result.exit_code == 0
    assert f"{stream}:2: column 'timestamp': 'soon'" in result.output
    assert f"{stream}:4: column 'target'" in result.output


def test_a_query_can_be_asked_by_its_name(tmp_path: Path) -> None:
    stream = tmp_path / "stream.tsv"
    stream.write_text("x\ty\ta2q\t1\ny\tz\tc2a\t2\n")
    options = ["--window", "5", "--slide", "1", "--output", "-", "--quiet", "--input", str(stream), str(stream)]
    named = CliRunner().invoke(main, ["run", "--query", "Q2", "--dataset", "stackoverflow", *options])
    assert named.stdout.splitlines() == ["source,target,timestamp,op", "x,y,1,+", "x,z,2,+"]
    for wrong in (
        ["--query", "Q2"],
        ["--query", "Q99", "--dataset", "ldbc"],
        ["--query", "Q2", "--dataset", "moon"],
        ["a", "--query", "Q2", "--dataset", "ldbc"],
        [],
    ):
        assert CliRunner().invoke(main, ["run", *wrong, *options]).exit_code == 2


def test_roots_over_the_budget_end_the_run_or_are_set_aside_and_named(rpq, edges):
    # x --a--> y --b--> z --c--> y: the only walk of a/b*/c to y visits it twice, and that takes a search.
    path = edges("x y a 1\ny z b 2\nz y c 3\n")
    args = ["run", "a/b*/c", "--paths", "simple", "--input", path, "--window", 10, "--slide", 1, "--simple-budget", 1]
    status, out, err = rpq(*args, "--output", "-")
    assert (status, rows(out)) == (1, []) and "'x'" in err and "x" in err and "3" in err and "Traceback" not in err
    status, out, err = rpq(*args, "--output", "-", "--on-budget", "set_aside")
    assert (status, rows(out)) == (0, [])
    assert "root x set aside at the tuple z y c 3 +, at time 3: its search took 2 nodes" in err


def jobs_stream(tmp_path: Path, *, bad_line: bool) -> Path:
    """A stream of some slices, with late tuples and, if requested, a line in its last quarter that is no tuple."""
    times = [i // 3 if i % 10 else max(0, i // 3 - 90) for i in range(60_000)]
    lines = [f"v{i * 7 % 50},v{i * 11 % 53},{'ab'[i % 2]},{time}" for i, time in enumerate(times)]
    if bad_line:
        lines[50_000] = "v1,v2,a,soon"
    path = tmp_path / "edges.csv"
    path.write_text("\n".join(["source,target,label,timestamp", *lines, ""]))
    return path


@pytest.mark.parametrize(
    ("output", "options"),
    [("rows.csv", ["--on-error", "skip"]), ("rows.parquet", ["--on-error", "skip"]), ("rows.jsonl", [])],
)
def test_several_jobs_write_what_one_does(rpq, tmp_path, output, options):
    path = jobs_stream(tmp_path, bad_line=True)
    found = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        files = ["--output", folder / output, "--late", folder / "late.csv", "--stats", folder / "stats.json"]
        arguments = ["a/b", "--input", path, "--window", "60", "--slide", "10", "--semantics", "explicit", *files, *options]
        status, _, err = rpq("run", *arguments, "--jobs", jobs)
        stats = json.loads((folder / "stats.json").read_text())
        counts = {name: stats[name] for name in ("tuples", "inserted", "late", "rejected", "rows_added", "rows_removed")}
        written = pq.read_table(folder / output).to_pylist() if output.endswith("parquet") else (
            (folder / output).read_text().splitlines()
        )
        messages = [line for line in err.splitlines() if "edges.csv" in line]
        found.append((status, counts, messages, sorted(map(str, written)), (folder / "late.csv").read_text()))
    assert found[0] == found[1]
    assert found[0][1]["late"] > 100 and len(found[0][3]) > 10_000 and found[0][2]


@pytest.mark.parametrize("has_times", [True, False])
def test_several_jobs_take_in_the_facts_of_nodes(rpq, tmp_path, has_times):
    path, nodes = jobs_stream(tmp_path, bad_line=False), tmp_path / "nodes.jsonl"
    records = ({"node": f"v{i * 13 % 53}", "risk": i * 5 % 7, "timestamp": i * 4 - i % 9 * 20} for i in range(5000))
    untimed = ({name: value for name, value in one.items() if name != "timestamp"} for one in records)
    nodes.write_text("".join(json.dumps(one) + "\n" for one in (records if has_times else untimed)))
    found = []
    for jobs in (1, 2):
        output, stats = tmp_path / f"{jobs}.csv", tmp_path / f"{jobs}.json"
        window = ["--window", "60", "--slide", "10", "--semantics", "explicit"]
        status, _, err = rpq(
            "run", "a/@[risk > 3]/b", "--input", path, "--nodes", nodes, *window, "--output", output, "--stats", stats,
            "--jobs", jobs,
        )  # fmt: skip
        counts = json.loads(stats.read_text())
        names = ("tuples", "late", "rows_added", "rows_removed", *(("node_records", "node_stale") if has_times else ()))
        found.append((status, {name: counts[name] for name in names}, sorted(output.read_text().splitlines()), err))
    assert found[0][:3] == found[1][:3]
    assert found[0][0] == 0 and len(found[0][2]) > 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "unbounded"], "does not divide an unbounded window; use threads"),
        (["--window", "9", "--slide", "1", "--checkpoint", "run.state"], "leave out --checkpoint"),
    ],
)
def test_jobs_are_refused_where_time_divides_nothing(rpq, edges, options, message):
    status, _, err = rpq("run", "a", "--input", edges("x y a 1\n"), "--output", "rows.csv", *options, "--jobs", 2)
    assert status == 2 and message in err
