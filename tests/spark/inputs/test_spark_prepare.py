"""Splits and what tasks make of them, without a JVM: together they are what a reader makes of the whole file.

semantics.md S8
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from unittest import mock

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from rpq import InputError  # noqa: E402
from rpq.readers import open_reader  # noqa: E402
from rpq.readers.column_names import ColumnNames  # noqa: E402
from rpq.readers.source import LineBlock  # noqa: E402
from rpq.spark.batch import spark_inputs  # noqa: E402
from rpq.spark.batch.splits import (  # noqa: E402
    BAD,
    COUNTS,
    EDGE,
    LineOptions,
    check_rows,
    file_number,
    find_head,
)
from rpq.spark.errors import PipelineError  # noqa: E402
from rpq.spark.jvm import hadoop_files  # noqa: E402
from rpq.spark.jvm.session import check_java, java_version, local_settings  # noqa: E402


def spark_lines(path: str, block_bytes: int) -> list[pa.RecordBatch]:
    """The lines of a file as Spark reads them: without their ends, with the file and the first byte of their block."""
    content, size = Path(path).read_bytes(), block_bytes
    if path.endswith(".gz"):
        content, size = gzip.decompress(content), 1 << 30
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    ends = list(accumulate(len(line) + 1 for line in lines))
    starts = [(end - len(line) - 1) // size * size for line, end in zip(lines, ends)]
    columns = {"value": pa.array(lines, pa.binary()).cast(pa.string()), "file_path": [f"file://{path}"] * len(lines)}
    is_last = [start + size >= len(content) for start in starts]
    return pa.table({**columns, "file_block_start": starts, "is_last": is_last}).to_batches(max_chunksize=5)


def parsed(paths: list[str], format: str, block_bytes: int = 1 << 26) -> tuple[list, list, list]:
    """Edges, bad lines and counts of all files in order, as dicts."""
    lines = LineOptions(format=format)

    def first_bytes(session: None, uri: str, count: int) -> bytes:
        content = Path(uri).read_bytes()
        return (gzip.decompress(content) if uri.endswith(".gz") else content)[:count]

    with mock.patch.object(hadoop_files, "first_bytes", first_bytes):
        beginnings = {
            path: (number, spark_inputs.read_beginning(None, path, lines)) for number, path in enumerate(paths)
        }
    batches = [batch for path in paths for batch in spark_lines(path, block_bytes)]
    rows = [row for batch in spark_inputs.LineReader(lines, beginnings)(iter(batches)) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["split"], row["row"] or 0))
    return tuple([row for row in rows if row["kind"] == kind] for kind in (EDGE, BAD, COUNTS))


def read(paths: list[str], format: str) -> list[tuple]:
    """Return the tuples that the reader gives, without bad lines."""
    found = []
    for batch in open_reader(format, paths, on_error="skip"):
        for row in batch.columns.to_pylist():
            op = "-" if row.get("delete") else "+"
            found.append((row["source"], row["target"], row["label"], row["timestamp"], op))
    return found


def of_edges(edges: list[dict]) -> list[tuple]:
    return [tuple(row[name] for name in ("source", "target", "label", "timestamp", "op")) for row in edges]


def write(path: Path, text: str, compressed: bool = False) -> str:
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    return str(path)


TEXTS = {
    "plain": "x\ty\ta\t1\ny\tz\tb\t2\t-\n" * 5,
    "header": "label,timestamp,source,target\n" + "a,1,x,y\nb,2,y,z\n" * 5,
    "no end": "x\ty\ta\t1\n" * 9 + "x\ty\tlast\t7",
    "bad lines": "x\ty\ta\t1\nnonsense\nx\ty\ta\tsoon\n\n# a comment\nx\ty\ta\t2\t?\nx\ty\ta\t3\n" * 2,
    "bad first": "what\nis this\nsource\ttarget\tlabel\ttimestamp\nx\ty\ta\t1\nx\tz\ta\t2\n",
    "mark": "\ufeffx\ty\ta\t1\n" + "x\ty\ta\t2\n" * 9,
    "line ends": "x\ty\ta\t1\r\n" * 9,
    "long lines": "x" * 90 + "\ty\ta\t1\nu\tv\ta\t2\n",
    "nothing but bad": "no\nno\n",
    "empty": "",
    "times": "x,y,a,2024-05-01T12:00:00Z\ny,z,b,2024-05-01T14:00:00.5+02:00,-\n" * 3,
    "times behind a bad line": "source,target,label,timestamp\nx,y,a,soon\n" + "x,y,a,2024-05-01 12:00\n" * 3,
    "a number first": "x,y,a,7\nx,y,a,2024-05-01\nx,y,a,8\n",
}


@pytest.mark.parametrize("block_bytes", [7, 40, 1 << 20])
@pytest.mark.parametrize("name", TEXTS)
def test_lines_that_spark_has_cut_are_the_whole(tmp_path, name: str, block_bytes: int):
    if block_bytes < 40 and name == "bad first":
        return  # a head is in the first block
    path = write(tmp_path / "edges.txt", TEXTS[name])
    edges, bad, counts = parsed([path], "edges", block_bytes)
    assert of_edges(edges) == read([path], "edges")
    reader = open_reader("edges", [path], on_error="skip")
    list(reader)
    assert len(bad) == reader.rejected
    before, lines = 0, TEXTS[name].removeprefix("\ufeff").split("\n")
    for one in counts:  # where a bad line stands follows from the lines of the splits before
        assert file_number(one["split"]) == 0
        for row in bad:
            if row["split"] == one["split"]:
                assert lines[before + row["line"] - 1].removesuffix("\r") == row["text"].removesuffix("\r")
        before += one["lines"]
    assert before == len(TEXTS[name].removeprefix("\ufeff").splitlines())


def test_records_of_several_lines_may_lie_in_two_batches_of_spark(tmp_path):
    header, records = "source,target,label,timestamp\n", [f'"x\n\n{n}",y,a,{n}\n' for n in range(9)]
    path = write(tmp_path / "edges.csv", header + "".join(records))
    lines = pa.array((header + "".join(records)).splitlines())
    columns = {"value": lines, "file_path": [f"file://{path}"] * len(lines), "file_block_start": [0] * len(lines)}
    columns["is_last"] = [True] * len(lines)
    reader = spark_inputs.LineReader(LineOptions(format="edges"), {path: (0, header.encode())})
    rows = [row for batch in reader(iter(pa.table(columns).to_batches(max_chunksize=5))) for row in batch.to_pylist()]
    assert of_edges([row for row in rows if row["kind"] == EDGE]) == read([path], "edges")
    assert [row["lines"] for row in rows if row["kind"] != EDGE] == [28]


def test_a_file_is_not_divided_in_a_record(tmp_path):
    """A split that begins in a record would read its lines as others: such a file is refused, wherever it is cut."""
    inner = "p,q,a,7"
    lines = [["source", "target", "label", "timestamp"], ["x", "y", "a", "1"], [f'"x\n{inner}\n"', "y", "b", "2"]]
    lines += [['"u ""v"""', "w", "a", "3"], [f'"{inner}\n"', f'"\n{inner}"', "c", "4"], ["x", "z", "a", "5"]]
    text = "".join(",".join(fields) + "\n" for fields in lines)
    path = write(tmp_path / "edges.csv", text)
    expected = read([path], "edges")
    assert [row[3] for row in expected] == [1, 2, 3, 4, 5]
    found = text.encode().removesuffix(b"\n").split(b"\n")
    columns = {"value": pa.array(found).cast(pa.string()), "file_path": [f"file://{path}"] * len(found)}
    outcomes = set()
    for cut in range(1, len(found)):
        start = sum(len(line) + 1 for line in found[:cut])
        starts = [0 if place < cut else start for place in range(len(found))]
        batch = pa.table({**columns, "file_block_start": starts, "is_last": [start > 0 for start in starts]})
        reader = spark_inputs.LineReader(LineOptions(format="edges"), {path: (0, found[0] + b"\n")})
        try:
            rows = [row for one in reader(iter(batch.to_batches())) for row in one.to_pylist()]
        except InputError as error:
            outcomes.add("refused")
            assert "a field in quotes has several lines" in str(error)
        else:
            outcomes.add("read")
            assert of_edges([row for row in rows if row["kind"] == EDGE]) == expected
    assert outcomes == {"refused", "read"}


def test_a_quote_that_is_not_closed_before_a_cut_of_spark_is_named(tmp_path):
    """A task does not know what follows: the quote may be closed there."""
    header = "source,target,label,timestamp\n"
    columns = {"value": [*header.split(), 'x,"y,a,1'], "file_path": ["file:///in/edges.csv"] * 2}
    columns["file_block_start"] = [0] * 2
    reader = spark_inputs.LineReader(LineOptions(format="edges"), {"/in/edges.csv": (0, header.encode())})
    whole = reader(iter(pa.table({**columns, "is_last": [True] * 2}).to_batches()))
    assert [row["line"] for batch in whole for row in batch.to_pylist() if row["kind"] == BAD] == [2]
    with pytest.raises(InputError, match="several lines, or a quote is not closed, and the file is divided there; compress"):
        list(reader(iter(pa.table({**columns, "is_last": [False] * 2}).to_batches())))


def test_deletes_of_debezium_are_not_read_as_inserts(tmp_path):
    path = write(tmp_path / "edges.csv", "source,target,label,timestamp,__deleted\nx,y,a,1,true\n")
    with pytest.raises(InputError, match="column '__deleted': says which records are deletes of Debezium") as of_run:
        open_reader("edges", [path])
    edges, bad, _ = parsed([path], "edges")
    assert edges == read([path], "edges") == []
    assert bad[0]["message"] in str(of_run.value)
    lines = LineOptions(format="edges", names=ColumnNames.parse("delete=__deleted"))
    assert find_head([LineBlock(Path(path).read_bytes(), 1)], lines).detected is not None


def test_compressed_and_named_by_label(tmp_path):
    files = [write(tmp_path / f"sx-math-{label}.txt.gz", "1 2 5\nbad\n3 4 6\n", True) for label in ("a2q", "c2q")]
    edges, bad, _ = parsed(files, "stackoverflow")
    assert sorted(of_edges(edges), key=lambda row: row[3]) == read(files, "stackoverflow")
    assert [row["text"] for row in bad] == ["bad", "bad"]


@pytest.mark.parametrize(("format", "line"), [("gmark", "{} 0 7\n"), ("yago", "<id>\t<{}>\t<knows>\t<b>\n")])
def test_by_position(tmp_path, format: str, line: str):
    texts = ["".join(line.format(n) + ("rubbish\n" if n % 3 == 0 else "\n") for n in range(m)) for m in (9, 5)]
    files = [write(tmp_path / f"{n}.txt", text) for n, text in enumerate(texts)]
    expected = read(files, format)
    for block_bytes in (8, 50, 1 << 20):
        edges, _, counts = parsed(files, format, block_bytes)
        before = {one["split"]: sum(other["data_lines"] for other in counts[:n]) for n, one in enumerate(counts)}
        numbered = [{**row, "timestamp": before[row["split"]] + row["ordinal"]} for row in edges]
        assert of_edges(numbered) == expected


def test_raw_ldbc_events(tmp_path):
    path = write(tmp_path / "updates.csv", "5|1|8|1|2|5\nbad|event\n7|1|3|55|34|7\n")
    edges, bad, _ = parsed([path], "ldbc", 10)
    assert of_edges(edges) == read([path], "ldbc")
    assert len(bad) == 1 and bad[0]["text"] == "bad|event"


def test_rows_without_a_value_are_bad():
    numbers = pa.array([1, 2**63, 3, 4, None], pa.uint64())
    columns = {"source": numbers, "target": [2, 2, 2, 2, 2], "label": pa.array(["a", "a", "", "b", "b"]).dictionary_encode()}
    rows = pa.record_batch({**columns, "timestamp": [1, 2, 3, 4, 5], "op": ["+", "+", "+", "-", "+"]})
    (_, edges), (_, bad) = check_rows(rows, 100)
    found = pa.table(edges).select(["source", "target", "label", "timestamp", "op"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 2, "a", 1, "+"), (4, 2, "b", 4, "-")]
    assert (bad["line"].to_pylist(), bad["field"].to_pylist()) == ([101, 102, 104], ["source", "label", "source"])
    assert json.loads(bad["text"][1].as_py())["source"] == 3


@pytest.mark.parametrize(
    ("says", "version"), [('openjdk version "21.0.1" 2023', 21), ('java version "1.8.0_1"', 8), ("", None)]
)
def test_java_versions(tmp_path, monkeypatch, says: str, version: int | None):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    assert java_version(str(program)) == version
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version == 21:
        check_java()
    else:
        with pytest.raises(PipelineError, match="needs Java 17 or newer; JAVA_HOME is .* Install one"):
            check_java()


def test_a_jvm_on_this_machine_is_given_what_nobody_chose(tmp_path, monkeypatch):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options, memory = "spark.driver.defaultJavaOptions", "spark.driver.memory"
    chosen = local_settings({"spark.driver.extraJavaOptions": "-Dsome=thing -Xss4m"})
    assert chosen.keys() == {options, memory}
    assert 1024 <= int(chosen[memory].removesuffix("m")) <= 3072
    assert local_settings({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}).keys() == {memory}
    assert local_settings({memory: "2g"}).keys() == {options}
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseZGC")
    assert local_settings({}).keys() == {memory}
    monkeypatch.delenv("JDK_JAVA_OPTIONS")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 5g pyspark-shell")
    assert local_settings({}).keys() == {options}
    (tmp_path / "spark-defaults.conf").write_text(f"{options} -Dsome=thing\n")
    assert local_settings({}) == {}


@pytest.mark.ci
def test_a_command_says_why_spark_does_not_start(tmp_path):
    (tmp_path / "in.tsv").write_text("x\ty\ta\t1\n")
    command = [sys.executable, "-m", "rpq.cli", "spark", "prepare", "--input", "in.tsv", "--output", "data"]
    command += ["--master=local[0]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "Spark does not start: Asked to run locally with 0 threads" in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["prepare", "replay", "stream"])
def test_without_java_there_is_a_sentence(tmp_path, monkeypatch, capfd, command: str):
    from rpq.cli import main

    pq.write_table(pa.table({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}), tmp_path / "in.txt")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    query = [] if command == "prepare" else ["a", "--window", "1", "--slide", "1"]
    checkpoint = ["--checkpoint", str(tmp_path / "state")] if command == "stream" else []
    args = ["spark", command, *query, "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out"), *checkpoint]
    with pytest.raises(SystemExit) as ended:
        main(args, prog_name="rpq")
    err = capfd.readouterr().err
    assert ended.value.code == 2
    assert "Spark needs Java 17 or newer" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["prepare", "--input", "in.txt", "--output", "out", "--stats", "./in.txt"],
            "--stats ./in.txt and --input in.txt are the same file",
        ),
        (["prepare", "--input", "data", "--output", "data/out"], "--output data/out is --input data, or inside it"),
        (["prepare", "--input", "in.txt", "--output", "in.txt/out"], "--output in.txt/out is --input in.txt, or inside it"),
        (["replay", "a", "--input", "data", "--output", "in.txt/out"], "--output in.txt/out: cannot be created: "),
        (["replay", "a", "--input", "data", "--output", "out", "--stats", "nowhere/s"], "there is no folder"),
        (
            ["stream", "a", "--input", "data", "--output", "out", "--checkpoint", "./out"],
            "--output out is --checkpoint ./out",
        ),
        (
            ["stream", "a", "--input", "data", "--output", "data/../data/x", "--checkpoint", "c"],
            "is --input data, or inside it",
        ),
    ],
)
def test_files_and_folders_that_cannot_be_written_are_refused_before_spark_starts(
    tmp_path, monkeypatch, capfd, args: list[str], message: str
):
    from rpq.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("x\ty\ta\t1\n")
    (tmp_path / "data").mkdir()
    window = [] if args[0] == "prepare" else ["--window", "1", "--slide", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["spark", *args, *window], prog_name="rpq")
    assert ended.value.code == 2 and message in capfd.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "in.txt"]
    assert (tmp_path / "in.txt").read_text() == "x\ty\ta\t1\n"


EXPLAIN = """
from rpq.spark.cli import spark
spark(["explain", "?x a ?y . ?y b ?z", "--partitions", "4"], standalone_mode=False)"""


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import rpq.spark.cli", ("pyspark", "pandas", "numba", "pyarrow")),
        ("import rpq.readers, rpq.spark.jvm.data_sets, rpq.spark.batch.prepare", ("pyspark", "pandas", "numba")),
        (EXPLAIN, ("pyspark", "numba")),
    ],
    ids=["the command", "files are read", "a division is explained"],
)
def test_nothing_heavy_is_imported_until_it_is_needed(code: str, heavy: tuple[str, ...]):
    code += f"\nimport sys; print([one for one in {heavy} if one in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
