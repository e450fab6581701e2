"""States, checkpoints and journals of the release before are read, and continued with the rows that it would have given.

`earlier_release/write_files.py` wrote the files with that release.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rpq
from rpq.cli import main
from rpq.engine.state.sealed import HEADER_BYTES, header_of, seal, verify
from rpq.engine.state.state_layout import STATE
from rpq.stream.json_values import JsonValue
from tests.run.earlier_release.write_files import RUN, RUN_QUERIES, engines, rows_of, tuples

FILES = Path(__file__).with_name("earlier_release")
WRITTEN_IN = "/tmp/earlier_release"


def move_files(checkpoint: Path, old: str, new: str) -> None:
    """Change the folder of the files that a checkpoint names in its description, which is JSON behind its length."""
    data = checkpoint.read_bytes()
    header = header_of(STATE, data[:HEADER_BYTES], len(data), name=checkpoint.name)
    content = data[HEADER_BYTES:]
    verify(STATE, header, [content], name=checkpoint.name)
    (length,) = struct.unpack_from("<Q", content)
    text = content[8 : 8 + length].replace(old.encode(), new.encode())
    arrays = content[8 + length + -length % 8 :]
    content = struct.pack("<Q", len(text)) + text + bytes(-len(text) % 8) + arrays
    checkpoint.write_bytes(seal(replace(STATE, version=header.version), [content]) + content)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, in which commands are run; a checkpoint names the files of its run by absolute paths."""
    copy = tmp_path / "files"
    shutil.copytree(FILES, copy)
    for checkpoint in copy.glob("*.checkpoint"):
        move_files(checkpoint, WRITTEN_IN, str(copy))
    monkeypatch.chdir(copy)
    return copy


@pytest.mark.parametrize("name", ["paths", "patterns", "sparql"])
def test_a_state_continues_with_the_rows_of_the_release_that_wrote_it(folder: Path, name: str) -> None:
    engine = rpq.Engine.restore(folder / f"{name}.state")
    engine._check()
    fresh = dict(engines())[name]
    fresh.push_rows(tuples(1, 120))
    assert engine.queries == fresh.queries
    for query in engine.queries:
        assert Counter(engine.answers(query.name)) == Counter(fresh.answers(query.name))
    found = rows_of(engine)
    assert found == json.loads((folder / "rows.json").read_text())[name]
    assert sum(map(len, found)) > 50
    engine._check()


@pytest.mark.parametrize(
    ("arguments", "outputs"), [(RUN, ["rows.csv", "late.csv"]), (RUN_QUERIES, ["pattern.jsonl", "counts.csv"])]
)
def test_a_run_continues_from_a_checkpoint_to_the_files_of_a_run_that_was_not_interrupted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], outputs: list[str]
) -> None:
    before = [(folder / name).read_bytes() for name in outputs]
    with (folder / "edges.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"{' '.join(map(str, one))}\n" for one in tuples(6, 120, start=40))
    assert main(arguments, standalone_mode=False) in (0, None)
    anew = tmp_path / "anew"
    anew.mkdir()
    for name in ("edges.txt", "queries.toml"):
        shutil.copy(folder / name, anew)
    monkeypatch.chdir(anew)
    assert main(arguments, standalone_mode=False) in (0, None)
    for name, content in zip(outputs, before, strict=True):
        # The order of rows at one moment depends on the index, which a restored engine has built anew.
        assert sorted((folder / name).read_bytes().splitlines()) == sorted((anew / name).read_bytes().splitlines())
        assert (folder / name).read_bytes().startswith(content)
        assert (folder / name).stat().st_size > len(content)


def test_a_server_continues_from_a_checkpoint_and_a_journal(folder: Path) -> None:
    from tests.services.served import Served

    window = rpq.Window(size=20, slide=3)
    engine = rpq.Engine(rpq.Query("a+", window=window, semantics="explicit"))
    engine.push_rows(tuples(4, 60))
    engine.register(rpq.Query("?x a ?y . ?y b ?z", window=window, name="pattern"), start="empty")
    engine.push_rows(tuples(5, 60, start=20))
    with Served(checkpoint=folder / "serve.checkpoint") as served:
        for name in ("a+", "pattern"):
            assert served.answers(name) == {*map(tuple, engine.answers(name))} != set()
        assert served.post(("v0", "v1", "a", 60)).json()["tuples"] == 1


def test_the_position_of_a_run_over_topics_is_read() -> None:
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    from rpq.kafka.topic_run import POSITION

    # The text that the release before wrote beside the state of the engine, without the identity of the run.
    content: dict[str, Any] = {
        "run": "1f",
        "round": 7,
        "partitions": [["edges", 0, 120, 39], ["edges", 1, 80, 41]],
        "layouts": {"edges": ["json", None]},
        "output": {"rows.csv": 812},
        "counts": {"rejected": 2, "tuples": 198},
        "total_seconds": 1.5,
    }
    position = POSITION.decode(JsonValue(content))
    assert (position.tuples, position.rejected, position.source.run, position.source.round) == (198, 2, "1f", 7)
    assert POSITION.encode(position) == content
