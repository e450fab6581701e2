"""Saved states, and what can happen to them on a disk. As a program: damage files one after the other and load them.

`python -m tests.engine.state.damaging FOLDER FIRST COUNT` does this for the damages numbered from FIRST on; number n is
the same in every process. A line of JSON on standard output counts what became of them. Before a file is loaded, the number
of its damage is in FOLDER/number, so that whoever started the program knows which one killed it.
"""

from __future__ import annotations

import datetime
import json
import random
import signal
import struct
import sys
import zoneinfo
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import rpq
from rpq.engine.state.sealed import HEADER_BYTES, seal
from rpq.engine.state.state_layout import STATE

SECONDS = 60
"""A state that takes longer hangs."""

ADDRESS_SPACE = 6 << 30
"""More memory than this is for a file whose lengths were believed."""

EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**60, 2**63 - 1, -(2**63), -(2**63) + 1, 2**62 + 1)
HOSTILE = (*EXTREMES, 2**64, 0.5, 1e999, -1e999, None, True, False, "", "x", "\ud800", "a/", [], {}, [[]], [1, 2], "9" * 400)


# --- states ------------------------------------------------------------------------------------------------------


def states(folder: Path) -> list[Path]:
    """Saved engines: walks, simple paths with roots set aside, several queries, integers, text, and none of these."""
    made = []
    for name, build in (
        ("walks", _walks),
        ("texts", _texts),
        ("simple", _simple),
        ("several", _several),
        ("share", _share),
        ("times", _times),
        ("windows", _windows),
        ("reports", _reports),
        ("empty", rpq.Engine),
    ):
        made.append(folder / f"{name}.state")
        build().save(made[-1], extra={"run": json.dumps({"ü": [1, 2]})} if name != "empty" else None)
    return made


def _feed(engine: rpq.Engine, seed: int, count: int, names: list[Any], labels: str = "aabbcz") -> rpq.Engine:
    chance, time, there = random.Random(seed), 1000, []
    for _ in range(count):
        time += chance.choice((0, 0, 1, 1, 2))
        if there and chance.random() < 0.15:
            engine.push_rows([(*chance.choice(there), time, "-")])
            continue
        edge = chance.choice(names), chance.choice(names), chance.choice(labels)
        there.append(edge)
        engine.push_rows([(*edge, time - chance.choice((0, 0, 3, 40)))])
    return engine


def _walks() -> rpq.Engine:
    query = rpq.Query("a/b*", window=rpq.Window(size=60, slide=7), semantics="explicit")
    return _feed(rpq.Engine(query), 1, 120, list(range(-3, 15)))


def _texts() -> rpq.Engine:
    names = [f"v{number}" for number in range(9)] + ["ü", " ", "007", "日本", "x" * 40]
    query = rpq.Query("(a|^b)+", window=rpq.Window(size=50, slide=1), sources=names[3:], targets=[*names, 5])
    return _feed(rpq.Engine(query), 2, 120, names)


def _reports() -> rpq.Engine:
    window = rpq.Window(size=40, slide=50)
    slide = rpq.Query("?x a ?y . ?y b ?z", window=window, report="slide", name="slide")
    time = rpq.Query("?x a ?y", window=rpq.Window(size=7, slide=2), report="time", distinct=True, select=["y"], name="time")
    held = rpq.Query("(a|b)+", window=window, select=["source", "target", "length"], hold=25, name="held")
    both = rpq.Query("?x a ?y", window=window, report="slide", hold=60, name="both")
    engine = _feed(rpq.Engine(slide, time, held, both), 5, 120, [f"v{number}" for number in range(7)])
    assert all(engine.statistics(name).rows_waiting for name in ("slide", "held", "both"))
    return engine


def _simple() -> rpq.Engine:
    for seed in range(100):
        query = rpq.Query(
            "a/b*/a", window=rpq.Window(size=30, slide=2), paths="simple", simple_budget=4, on_budget="set_aside"
        )
        engine = _feed(rpq.Engine(query), seed, 60, list(range(6)), "aabb")
        if engine.set_aside():
            return engine
    raise AssertionError("no root was set aside")


def _several() -> rpq.Engine:
    queries = [
        rpq.Query("a/b*", window=rpq.Window(size=30, slide=7), name="one"),
        rpq.Query("(a|b|c)+", window=rpq.Window(size=80, slide=10), name="two", semantics="explicit"),
        rpq.Query("a*/b*", window=rpq.Window(size=40, slide=1), name="three", paths="simple"),
    ]
    engine = _feed(rpq.Engine(*queries), 3, 80, list(range(12)))
    engine.register(rpq.Query("c/!(a)", window=rpq.Window(size=300, slide=3), name="four"), start="empty")
    engine.unregister("one")
    engine.push_rows([(number, number + 1, "c", engine.time + number // 4) for number in range(20)])
    return engine


def _share() -> rpq.Engine:
    query = rpq.Query("a/b*", window=rpq.Window(size=60, slide=7))
    return _feed(rpq.Engine(query, share=(1, 3), time_unit="ms"), 4, 100, [f"v{number}" for number in range(20)])


def _times() -> rpq.Engine:
    engine = rpq.Engine(rpq.Query("(a|b)+", window=rpq.Window(size="90m", slide="10m")))
    chance, time = random.Random(5), datetime.datetime(2024, 2, 29, 23, 0, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    for _ in range(60):
        time += datetime.timedelta(minutes=chance.randrange(5))
        engine.push_rows([(f"v{chance.randrange(9)}", f"v{chance.randrange(9)}", chance.choice("ab"), time)])
    return engine


def _windows() -> rpq.Engine:
    queries = [
        rpq.Query("a/b*", window=rpq.CountWindow(size=20, step=3), name="count", semantics="explicit"),
        rpq.Query("?x a ?y . ?y b _:z", window=rpq.CountWindow(size=20, step=3), name="pattern"),
        rpq.Query("(a|b)+", window=rpq.UnboundedWindow(), name="unbounded"),
        rpq.Query("?x b ?y", window=rpq.UnboundedWindow(), name="edges"),
        rpq.Query("a/b*", window=rpq.Window(size=60, slide=7), name="time", paths="simple"),
    ]
    engine = rpq.Engine(*queries)
    engine.load_static([("v1", "v2", "b"), ("s", "v3", "a"), ("s", "t", "unread")])
    engine = _feed(engine, 6, 80, [f"v{number}" for number in range(9)], "aabbz")
    engine.register(rpq.Query("a", window=rpq.CountWindow(size=5), name="late"), start="empty")
    return _feed(engine, 7, 12, [f"v{number}" for number in range(9)], "aabbz")


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(data: bytes, number: int) -> tuple[bytes, str, bool]:
    """Damage number n: the bytes, what was done to them, and whether the checksum was made right again (every tenth)."""
    chance = random.Random(number)
    if number % 10:
        changed, done = _struck(data, chance)
        return changed, done, False
    content = data[HEADER_BYTES:]
    strike = chance.choice((_struck, _struck, _value_changed, _value_changed, _cell_changed))
    changed, done = strike(content, chance)
    return seal(STATE, [changed]) + changed, f"{done}; checksum made right", True


def _struck(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Bits, bytes, blocks, or the end."""
    damaged = bytearray(data)
    at = chance.randrange(len(damaged))
    kind = chance.choice(("bit", "bit", "byte", "bytes", "block", "swap", "truncation", "growth", "begin"))
    if kind == "bit":
        damaged[at] ^= 1 << chance.randrange(8)
    elif kind == "byte":
        damaged[at] = chance.randrange(256)
    elif kind == "bytes":
        for _ in range(chance.randrange(2, 20)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    elif kind == "block":
        size = chance.choice((4, 8, 16, 64, 512))
        damaged[at : at + size] = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))[: len(damaged) - at]
    elif kind == "swap":
        other, size = chance.randrange(len(damaged)), chance.choice((8, 64))
        damaged[at : at + size] = damaged[other : other + size][: len(damaged) - at]
    elif kind == "truncation":
        del damaged[chance.choice((at, at, chance.randrange(min(64, len(damaged))), len(damaged) - 1)) :]
    elif kind == "growth":
        damaged[at:at] = chance.randbytes(chance.choice((1, 8, 1000)))
    else:
        damaged[chance.randrange(min(64, len(damaged)))] ^= 1 << chance.randrange(8)
    return bytes(damaged), f"{kind} at {at}"


def _value_changed(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Another value somewhere in the description, or one that is missing."""
    described, rest = _opened(content)
    places = list(_places(described))
    holder, key, place = chance.choice(places)
    if isinstance(holder, dict) and chance.random() < 0.1:
        del holder[key]
        return _closed(described, rest), f"{place} left out"
    value = chance.choice(HOSTILE)
    if isinstance(holder[key], int) and chance.random() < 0.5:
        value = holder[key] + chance.choice((-7, -2, -1, 1, 2, 7))
    holder[key] = value
    return _closed(described, rest), f"{place} is {value!r}"


def _cell_changed(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Another number somewhere in the arrays."""
    described, rest = _opened(content)
    filled = [(name, *shape) for name, shape in described["arrays"].items() if shape[1]]
    if not filled:
        return content, "nothing"
    chosen, kind, count = chance.choice(filled)
    at = 0
    for name, (other, entries) in described["arrays"].items():
        if name == chosen:
            break
        at += -(-entries * {"int32": 4, "int64": 8, "bytes": 1}[other] // 8) * 8
    dtype = {"int32": np.int32, "int64": np.int64, "bytes": np.uint8}[kind]
    content = bytearray(rest)
    array = np.frombuffer(content, dtype, count, at)
    row = chance.randrange(count)
    if chance.random() < 0.5:
        value = chance.choice([value for value in EXTREMES if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max])
    else:
        value = int(array[chance.randrange(count)])
    array[row] = value
    return _closed(described, bytes(content)), f"{chosen}[{row}] is {value}"


def _places(value: Any, place: str = "") -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in items:
        yield value, key, f"{place}/{key}"
        if isinstance(inside, (dict, list)):
            yield from _places(inside, f"{place}/{key}")


def _opened(content: bytes) -> tuple[dict, bytes]:
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + length]), content[8 + length + -length % 8 :]


def _closed(described: dict, rest: bytes) -> bytes:
    text = json.dumps(described).encode()
    return struct.pack("<Q", len(text)) + text + bytes(-len(text) % 8) + rest


# --- the program -------------------------------------------------------------------------------------------------


def use(path: Path) -> None:
    """Do with a state what users do; an engine that comes of it is consistent, and goes on."""
    engine = rpq.Engine.restore(path, memory_limit=1 << 28)
    engine._check()
    for query in engine.queries:
        for pair in sorted(engine.answers(query.name), key=repr)[:2] if type(query) is rpq.Query else ():
            assert engine.witness(*pair, query.name) is not None
    engine.statistics()
    engine.save(f"{path}.again")
    again = rpq.Engine.restore(f"{path}.again", memory_limit=1 << 28)
    for query in engine.queries:
        assert sorted(again.answers(query.name)) == sorted(engine.answers(query.name))
    time = 0 if engine.time is None else engine.time

    def later(units: int) -> Any:
        return time + units if isinstance(time, int) else time

    for x, y, z in ((1, 2, 3), ("v1", "v2", "v3")):  # a state has vertices of one of these types
        for rows in (
            [(x, y, "a", time), (y, z, "b", later(1)), (z, x, "c", later(2))],
            [(x, y, "a", later(2), "-")],
        ):
            try:
                engine.push_rows(rows)
            except (rpq.InputError, rpq.ConflictBudgetError):
                pass
            engine._check()
    try:
        engine.advance(later(10_000))
    except rpq.InputError:
        pass
    engine._check()


def main(folder: Path, first: int, count: int) -> None:
    """See above."""
    import resource

    paths = sorted(path for path in folder.iterdir() if path.suffix == ".state")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for path in paths:
        use(path)
    found: Counter[str] = Counter()
    target = folder / f"damaged-{first}"
    for number in range(first, first + count):
        path = paths[number // 10 % len(paths)]
        whole = path.read_bytes()
        data, done, is_resealed = damaged(whole, number)
        (folder / "number").write_text(ascii(f"{number}: {path.name}: {done}"))
        target.write_bytes(data)
        signal.alarm(SECONDS)
        group = "resealed" if is_resealed else "unchanged" if data == whole else "damaged"
        try:
            use(target)
            outcome = "loaded"
        except rpq.StateFormatError as error:
            assert str(target) in str(error)
            outcome = error.reason
        except rpq.MemoryLimitError:
            outcome = "memory limit"
        signal.alarm(0)
        found[f"{group}: {outcome}"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
