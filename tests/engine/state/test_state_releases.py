"""States that releases have written: this release reads them, and continues as if it had written them.

`python -m tests.engine.state.test_state_releases FILE` writes a state, which a release keeps here as `VERSION.state`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

import rpq

STATES = sorted(Path(__file__).parent.glob("*.state"))
WINDOW = rpq.Window(size=40, slide=5)
QUERIES = (
    rpq.Query("a/b*", window=WINDOW, name="walks", semantics="explicit"),
    rpq.Query("(a|c)+", window=rpq.Window(size=15, slide=5), name="simple", paths="simple"),
    rpq.Query("?x a ?y . ?y ?e:b ?z", window=WINDOW, name="pattern", select=("x", "e.amount"), filter="?e.amount > 3"),
    rpq.Query("c[amount > 5]/a", window=WINDOW, name="conditions", semantics="explicit"),
)
SAVED_AT, END = 200, 400


def tuples() -> list[dict]:
    """Return a stream with deletes, late edges and a property."""
    chance, time, found = random.Random(67), 0, []
    for _ in range(END):
        time += chance.choice((0, 0, 1, 3))
        found.append(
            {
                "source": f"v{chance.randrange(12)}",
                "target": f"v{chance.randrange(12)}",
                "label": chance.choice("aabbcd"),
                "timestamp": time - chance.choice((0, 0, 0, 7, 60)),
                "op": "-" if chance.random() < 0.1 else "+",
                "amount": chance.randrange(10),
            }
        )
    return found


def push(engine: rpq.Engine, part: list[dict]) -> list[rpq.Change]:
    columns = {name: [one[name] for one in part] for name in part[0]}
    return [*engine.push(columns)]


def engine_before() -> rpq.Engine:
    """Return an engine that has read the first half of the stream."""
    engine = rpq.Engine(*QUERIES)
    engine.load_static([("v0", "v1", "a")])
    push(engine, tuples()[:SAVED_AT])
    return engine


@pytest.mark.parametrize("state", STATES, ids=lambda path: path.stem)
def test_a_state_of_a_release_is_restored_and_continued(state):
    engine, restored = engine_before(), rpq.Engine.restore(state)
    assert restored.queries == engine.queries and restored.time == engine.time
    rest = tuples()[SAVED_AT:]
    rows = push(engine, rest)
    assert len(rows) > 300 and sorted(push(restored, rest), key=repr) == sorted(rows, key=repr)
    for query in QUERIES:
        answers = [sorted(map(repr, one.answers(query.name))) for one in (engine, restored)]
        assert answers[0] == answers[1] != []


def test_the_first_release_has_a_state():
    assert STATES[0].stem == "0.1.0"


if __name__ == "__main__":
    engine_before().save(sys.argv[1])
