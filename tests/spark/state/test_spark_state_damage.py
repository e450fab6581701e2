"""Spark's state that was damaged: a clear error, or, where a checksum was made right again, an engine that goes on.

The campaign runs in a process of its own, under Spark's tester, so that a segmentation fault is seen and names the damage.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="the extra spark is not installed")
pa = pytest.importorskip("pyarrow")

import rpq  # noqa: E402
from rpq.engine.state.sealed import HEADER_BYTES, seal  # noqa: E402
from rpq.spark.envelopes import TUPLES, pack_table, unpack_table  # noqa: E402
from rpq.spark.errors import PipelineError  # noqa: E402
from rpq.spark.stream import processor  # noqa: E402
from rpq.spark.stream.processor import EngineCache, PartitionRecord  # noqa: E402
from tests.engine.state.damaging import ADDRESS_SPACE, EXTREMES, HOSTILE, _struck  # noqa: E402
from tests.spark.state.test_spark_processor import Partitions, query  # noqa: E402

ROOT = Path(__file__).parents[3]


def fed(vertices: list[Any]) -> Partitions:
    """A partition with some micro-batches behind it."""
    chance, time = random.Random(5), 1000
    queries = [query("a/b*", size=60, slide=7), query("(a|b)+", size=25, slide=5, semantics="explicit")]
    parts = Partitions(*queries, query("a/b*/a", size=25, slide=5, paths="simple"))
    for number in range(8):
        batch = []
        for _ in range(chance.randrange(1, 20)):
            time += chance.random() < 0.4
            ends = chance.choice(vertices), chance.choice(vertices)
            batch.append((*ends, chance.choice("abz"), time, chance.choice("+++-")))
        parts.push(batch, "stale" if number < 5 else "other")
    return parts


def token_made_right(record: PartitionRecord) -> PartitionRecord:
    """The record with the token that it would have been given."""
    chosen = "0" * 16
    said = json.dumps(asdict(replace(record, token=chosen)))
    return replace(record, token=chosen + hashlib.blake2b(said.encode(), digest_size=8).hexdigest())


def damage_record(record: PartitionRecord, chance: random.Random, resealed: bool) -> tuple[PartitionRecord, str]:
    """Another value in a field of the record."""
    name = chance.choice([name for name in asdict(record) if name != "format"])
    value: Any = chance.choice(HOSTILE)
    if name in ("history", "parts") and chance.random() < 0.8:
        content = json.loads(getattr(record, name))
        holder: Any = content
        while True:
            key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            if not isinstance(holder[key], (dict, list)) or not holder[key] or chance.random() < 0.2:
                break
            holder = holder[key]
        holder[key] = value
        value = json.dumps(content)
    elif isinstance(getattr(record, name), str) and chance.random() < 0.5:
        value = "".join(chance.choice('0123abc[]{},"') for _ in range(len(getattr(record, name))))
    changed = replace(record, **{name: value})
    return (token_made_right(changed) if resealed else changed), f"{name} is {str(value)[:200]}"


def damage_chunk(data: bytes, chance: random.Random, resealed: bool) -> tuple[bytes, str]:
    """Other bytes in a part of the window, or, under a seal that is right, other values."""
    if not resealed:
        return _struck(data, chance)
    if chance.random() < 0.5:
        content, done = _struck(data[HEADER_BYTES:], chance)
        return seal(TUPLES, [content]) + content, f"{done}, under a right seal"
    table = unpack_table(data, columns=(), name="a part")
    number, row = chance.randrange(table.num_columns), chance.randrange(len(table))
    values = table.column(number).to_pylist()
    texts = pa.types.is_string(table.schema.types[number])
    values[row] = chance.choice((*EXTREMES[:-1], None)) if not texts else chance.choice(("", "a", None, "ü" * 9))
    if pa.types.is_boolean(table.schema.types[number]):
        values[row] = chance.choice((True, False, None))
    try:
        changed = pa.array(values, table.schema.types[number])
    except (pa.ArrowInvalid, OverflowError):
        changed = pa.array(list(map(str, values)))
    name = table.schema.names[number]
    return pack_table(table.set_column(number, name, changed)), f"{name}, row {row}: {values[row]}"


def main(number_path: Path, first: int, count: int) -> Counter[str]:
    """Damage the state and go on from it, again and again; what became of it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    found: Counter[str] = Counter()
    held = {"numbers": fed(list(range(9))), "texts": fed(["x", "y", "ü", " ", "007"])}
    for number in range(first, first + count):
        chance, resealed = random.Random(number), number % 10 == 0
        kind = chance.choice(list(held))
        parts = held[kind]
        (key,) = parts.keys
        handles = parts._handles(parts.testers[key])
        states = [copy.deepcopy(handle.state) for handle in handles]
        workers = copy.copy(parts.workers)
        record = parts.record()
        if chance.random() < 0.5:
            place = chance.choice(list(parts.chunks()))
            before = parts.chunks()[place][0]
            after, done = damage_chunk(before, chance, resealed)
            parts.testers[key].updateMapState("window", key, {**parts.chunks(), place: (after,)})
            unchanged = after == before
        else:
            changed, done = damage_record(record, chance, resealed)
            unchanged = repr(changed) == repr(record)
            parts.testers[key].updateValueState("record", key, tuple(asdict(changed).values()))
        number_path.write_text(ascii(f"{number}: {kind}: {done}"))
        group = "resealed" if resealed else "unchanged" if unchanged else "damaged"
        vertex = 1 if kind == "numbers" else "x"
        try:
            # A worker that has no engine reads everything.
            parts.push([(vertex, vertex, "a", record.time + 1, "+")], f"new {number}")
            found[f"{group}: gone on"] += 1
        except rpq.StateFormatError as error:
            assert "state" in str(error) or "window" in str(error), error
            found[f"{group}: {error.reason}"] += 1
        except PipelineError as error:
            assert resealed and ("the state lacks part" in str(error) or "the checkpoint belongs to" in str(error)), error
            found[f"{group}: of another pipeline"] += 1
        for handle, state in zip(handles, states, strict=True):
            handle.state = state
        parts.workers = workers
    return found


def campaign(tmp_path: Path, first: int, count: int) -> Counter[str]:
    """Run `main` in another process."""
    pytest.importorskip("resource")
    arguments = ["-X", "faulthandler", "-m", "tests.spark.state.test_spark_state_damage"]
    arguments += [str(tmp_path / "number"), str(first), str(count)]
    process = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    number = tmp_path / "number"
    assert process.returncode == 0, f"{number.read_text() if number.exists() else 'none'}\n{process.stderr[-3000:]}"
    found = Counter(json.loads(process.stdout.splitlines()[-1]))
    assert found.total() == count
    assert found["damaged: gone on"] == 0, found
    assert found["damaged: damaged"] and found["resealed: damaged"]
    return found


@pytest.mark.ci
def test_damaged_state_is_refused(tmp_path: Path) -> None:
    campaign(tmp_path, 0, 300)


@pytest.mark.long
def test_ten_thousand_damages(tmp_path: Path) -> None:
    print(dict(campaign(tmp_path, 1000, 10_000)))


def test_a_damaged_envelope_is_refused() -> None:
    from rpq.spark.envelopes import pack, unpack

    columns = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1], "op": ["+"]}
    (batch,) = pack([pa.record_batch(columns)])
    whole = batch["edges"][0].as_py()
    assert len(unpack([whole])) == 1
    for place in range(len(whole)):
        with pytest.raises(rpq.StateFormatError, match="an envelope of edges"):
            unpack([whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]])


def test_parts_that_changed_places_are_refused() -> None:
    parts = fed([1, 2, 3])
    (key,) = parts.keys
    chunks = parts.chunks()
    one, other = sorted(chunks)[:2]
    parts.testers[key].updateMapState("window", key, {**chunks, one: chunks[other], other: chunks[one]})
    processor.cache = EngineCache()
    with pytest.raises(rpq.StateFormatError, match=r"part 0 of bucket \d+ of the window"):
        parts.push([(1, 2, "a", 2000, "+")], "new")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
