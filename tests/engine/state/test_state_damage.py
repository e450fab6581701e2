"""Saved states that were damaged: a clear error, or, where nothing can tell, an engine that is consistent. Never a crash.

Each campaign runs in a process of its own, so that a segmentation fault is seen and names the damage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import rpq
from rpq.engine.state.sealed import HEADER_BYTES, verify
from tests.calls import counted_calls
from tests.cli.test_cli_checkpoint import call, command, make_stream
from tests.engine.state.damaging import states

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with states."""
    folder = tmp_path_factory.mktemp("states")
    states(folder)
    return folder


def campaign(folder: Path, first: int, count: int) -> Counter[str]:
    """Damage states in another process; what became of them."""
    pytest.importorskip("resource")
    process = subprocess.run(
        [
            *(sys.executable, "-X", "faulthandler", "-m", "tests.engine.state.damaging"),
            *map(str, (folder, first, count)),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    number = folder / "number"
    assert process.returncode == 0, f"damage {number.read_text() if number.exists() else 'none'}\n{process.stderr[-3000:]}"
    return Counter(json.loads(process.stdout))


def assert_found(found: Counter[str], count: int) -> None:
    """Assert that whatever the checksum covers was refused, whichever way it was damaged."""
    assert found.total() == count
    assert not {outcome for outcome in found if outcome in ("damaged: loaded", "damaged: memory limit")}
    assert all(found[f"damaged: {reason}"] for reason in ("damaged", "truncated", "foreign"))
    assert found["resealed: damaged"] > found["resealed: loaded"] > 0


@pytest.mark.ci
def test_damaged_states_are_refused(saved: Path) -> None:
    assert_found(campaign(saved, 0, 1500), 1500)


@pytest.mark.ci
def test_a_million_edges_are_saved_and_read_by_columns(tmp_path: Path) -> None:
    chance, count = np.random.default_rng(1), 1_000_000
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size=10 * count, slide=count), sources=["v1"]))
    names = np.array([f"v{number}" for number in range(200_000)], object)
    engine.push(
        source=names[chance.integers(len(names), size=count)].tolist(),
        target=names[chance.integers(len(names), size=count)].tolist(),
        label=["a"] * count,
        timestamp=np.arange(count),
    )
    engine.save(tmp_path / "state")  # collects
    from rpq.engine.state.engine_state import read_state

    with counted_calls() as calls:
        engine.save(tmp_path / "state")
        assert len(read_state(str(tmp_path / "state")).edges) > 0.99 * count
    assert calls.count < 0.1 * count  # an edge, or a name, is no Python object on the way


def test_a_state_is_read_without_the_memory_of_the_whole_file_beside_its_arrays(tmp_path: Path) -> None:
    count = 400_000
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size=10 * count, slide=count), sources=[1]))
    source, target = np.arange(count) % 1000, np.arange(count) // 1000
    engine.push(source=source, target=target, label=["a"] * count, timestamp=np.arange(count))
    engine.save(tmp_path / "state")
    from rpq.engine.state.engine_state import read_state

    tracemalloc.start()
    try:
        assert len(read_state(str(tmp_path / "state")).edges) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.7 * (tmp_path / "state").stat().st_size


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="as the tests of checkpoints")
@pytest.mark.parametrize("damage", ["bit", "empty"])
def test_a_damaged_checkpoint_is_refused_and_nothing_is_overwritten(tmp_path: Path, capfd, damage: str) -> None:
    make_stream(tmp_path / "edges.txt", 100, seed=7)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    content = bytearray((tmp_path / "state").read_bytes())
    content[len(content) // 2] ^= 16
    (tmp_path / "state").write_bytes({"bit": content, "truncated": content[:-5], "empty": b""}[damage])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    capfd.readouterr()
    assert call(args) == 1
    message = {"bit": "damaged", "truncated": "truncated", "empty": "not a saved state"}[damage]
    error = capfd.readouterr().err
    assert message in error and "state" in error and "Traceback" not in error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"tuples": -1}, "position.tuples is -1"),
        ({"output": 0.5}, "position.output is 0.5"),
        ({"last": 1}, "position.last is"),
    ],
)
def test_a_checkpoint_with_a_wrong_position_is_refused(tmp_path: Path, position: dict, message: str) -> None:
    from rpq.cli.checkpoint import POSITION
    from rpq.run.checkpoint import Checkpoint, CheckpointError

    whole = {"tuples": 1, "last": None, "output": None, "late_bytes": None, "rejected": 0, "total_seconds": 0.0}
    content = {"version": 1, "identity": {}, "position": {**whole, **position}}
    rpq.Engine().save(tmp_path / "state", extra={"rpq run": json.dumps(content)})
    with pytest.raises(CheckpointError, match="damaged checkpoint: .*") as raised:
        Checkpoint(
            str(tmp_path / "state"), POSITION, identity={}, differences=lambda old, new: [], restore=rpq.Engine.restore
        ).read()
    assert message in str(raised.value)


def test_the_checksum_is_over_everything(saved: Path, tmp_path: Path) -> None:
    whole = (saved / "empty.state").read_bytes()
    for place in [*range(HEADER_BYTES), *range(HEADER_BYTES, len(whole), 5)]:
        for bit in range(8) if place < HEADER_BYTES else (place % 8,):
            (tmp_path / "state").write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(rpq.StateFormatError) as raised:
                rpq.Engine.restore(tmp_path / "state")
            assert raised.value.reason == "damaged", (place, bit)


def test_a_state_that_is_shortened_while_it_is_read_is_refused(tmp_path, monkeypatch):
    """Its checksum was right, and what is missing is not taken from memory that nothing was written to."""
    path, count = tmp_path / "state", 200_000
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=10, slide=1)))
    engine.push(source=range(count), target=range(count), label=["a"] * count, timestamp=[1] * count)
    engine.save(path)

    def shorten(*args: object, **names: object) -> None:
        verify(*args, **names)  # type: ignore[arg-type]
        os.truncate(path, path.stat().st_size - 4096)

    monkeypatch.setattr("rpq.engine.state.state_layout.verify", shorten)
    with pytest.raises(rpq.StateFormatError, match="the file was changed while it was read"):
        rpq.Engine.restore(path)
