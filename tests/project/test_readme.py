"""The README is true: every block of code in it is run."""

import contextlib
import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import Caller, commands_in

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^(<!-- command: (\w+) -->\n)?```sh\n(.*?)```", README, re.DOTALL | re.MULTILINE)
BY_USERS = [block for marker, _, block in SHELL if not marker]
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
WITHOUT_TOPICS = [block for block in BY_USERS if "kafka://" not in block and "rpq serve" not in block]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `rpq` is a command, with the files that the README names."""
    from rpq.workloads.generate.interactions import Interactions, generate_interactions

    place = tmp_path_factory.mktemp("readme")
    (place / "bin").mkdir()
    command = place / "bin" / "rpq"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rpq.cli "$@"\n')
    command.chmod(0o755)
    edges = generate_interactions(Interactions(edges=2_000, seed=3))
    rows = edges.to_pylist()
    for label in ("a2q", "c2a", "c2q"):
        lines = [f"{row['source']} {row['target']} {row['timestamp']}\n" for row in rows if row["label"] == label]
        (place / f"sx-mathoverflow-{label}.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (place / "incoming").mkdir()
    names = ["source", "target", "label", "timestamp"]
    pq.write_table(pa.table({name: edges[name].cast(pa.string()) if name == "label" else edges[name] for name in names}),
                   place / "incoming" / "first.parquet")  # fmt: skip
    lines = ["\t".join(names), *("\t".join(str(row[name]) for name in names) for row in rows)]
    (place / "edges.tsv").write_text("\n".join(lines) + "\n")
    (place / "edges.jsonl").write_text("".join(json.dumps({name: row[name] for name in names}) + "\n" for row in rows))
    return place


def over_topics(block: str, edges: str, answers: str) -> str:
    """The commands of a block, from topics of a broker of the tests to others, to their end."""
    lines = "\n".join(line for line in block.splitlines() if not line.startswith("pip install "))
    for word, uri in (("edges", edges), ("answers", answers)):
        assert f"kafka://localhost:9092/{word}" in lines
        lines = lines.replace(f"kafka://localhost:9092/{word}", uri)
    return f"{lines} --until-end"


def told_rows(folder: Path, expression: str) -> int:
    """Return the number of rows that an engine returns for the stream."""
    import rpq

    day = 86_400
    engine = rpq.Engine(rpq.Query(expression, window=rpq.Window(size=30 * day, slide=day)))
    edges = [json.loads(line) for line in (folder / "edges.jsonl").read_text().splitlines()]
    return len(engine.push_rows([tuple(edge.values()) for edge in edges]))


def test_topics_go_to_topics_as_the_readme_says(kafka, folder: Path, tmp_path: Path) -> None:
    (block,) = (block for block in BY_USERS if "kafka://" in block)
    edges, answers = kafka.new(), kafka.new()
    kafka.send(edges, (json.loads(line) for line in (folder / "edges.jsonl").read_text().splitlines()))
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-euo", "pipefail", "-c", over_topics(block, kafka.uri(edges), kafka.uri(answers))]
    for _ in range(2):  # the second time it goes on, with nothing more to say
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert len(kafka.rows(answers)) == told_rows(folder, "a2q/c2a")


def without_docker(block: str) -> str:
    """The commands of a block, those in an image as commands of this machine: `test_dockerfile.py` has the image itself."""
    lines = [line for line in block.splitlines() if not line.startswith("docker build ")]
    return "\n".join(re.sub(r"^docker run (--\w+ )+rpq ", "rpq ", line) for line in lines)


def assert_outputs(block: str, folder: Path, printed: str) -> None:
    """Assert that each command of a block has written what it names."""
    outputs = re.findall(r"--output (\S+)", block)
    assert outputs, "a command of the README gives something"
    for output in outputs:
        assert len(printed.splitlines()) > 10 if output == "-" else (folder / output).exists(), output


def test_spark_has_the_rows_of_the_engine_as_the_readme_says(rpq_on_spark: Caller, folder: Path, tmp_path: Path) -> None:
    """The commands of the block, in a session whose JVM knows nothing of this process's folder, hence with whole paths."""
    (block,) = (block for block in WITHOUT_TOPICS if "rpq spark" in block)
    placed = re.sub(r"--input (?=sx-|incoming)", f"--input {folder}/", block)
    commands = commands_in(re.sub(r"--(input|output|checkpoint) (?=\w)", rf"--\1 {tmp_path}/", placed))
    assert commands and len(commands) == 3
    for words in commands:
        status, _, messages = rpq_on_spark(*words)
        assert status == 0 and "Traceback" not in messages, messages
    assert_outputs(block, tmp_path, "")
    rows = told_rows(folder, "a2q/c2a*")
    assert rows == pq.read_table(tmp_path / "replayed").num_rows == pq.read_table(tmp_path / "streamed").num_rows


# Each command of Spark starts a JVM: CI runs them in one, as the test above does.
PASTED = [
    pytest.param(block, marks=[pytest.mark.ci, *[pytest.mark.long] * ("rpq spark" in block)]) for block in WITHOUT_TOPICS
]


@pytest.mark.parametrize("block", PASTED, ids=lambda block: " ".join(block.split()[:3]))
def test_commands_work_as_they_are_pasted(block: str, folder: Path) -> None:
    if "rpq spark" in block:
        pytest.importorskip("pyspark")
        from rpq.spark.errors import PipelineError
        from rpq.spark.jvm.session import check_java

        try:
            check_java()
        except PipelineError as error:
            pytest.skip(str(error))
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", without_docker(block)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert_outputs(block, folder, ran.stdout)


def test_the_commands_with_a_name_are_run_by_ci() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    names = [name for marker, name, _ in SHELL if marker]
    assert f"for name in {' '.join(names)}; do" in script


def test_there_is_no_block_that_nothing_runs() -> None:
    kinds = re.findall(r"^```(\w*)\n.*?^```", README, re.DOTALL | re.MULTILINE)
    assert EXAMPLES
    assert sorted(kinds) == sorted([*["python", ""] * len(EXAMPLES), *["sh"] * len(SHELL)])


@pytest.mark.parametrize(("code", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_python_examples_print_what_the_readme_says(code: str, shown: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_every_link_into_the_repository_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
