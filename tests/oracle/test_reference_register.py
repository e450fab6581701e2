"""The oracle's registering on examples worked by hand, each derived from the drawing above it.

semantics.md S9
"""

import itertools
import random

from tests.reference import ReferenceEngine, RegistrationRefused
from tests.strategies.drawn import explicit, query


def test_what_was_lost_is_never_missed():
    """A query registered mid-stream has the answers that it would have had from the start."""
    refused_before: list[int] = []
    for seed, late in itertools.product(range(40), (False, True)):
        chance = random.Random(seed)
        engine = ReferenceEngine(explicit("a", 3, 2, "short"), query("a|b/^b", 8, 3, "long"))
        new = explicit("a/b*", chance.choice([3, 6, 12]), chance.choice([1, 4]))
        oracle = ReferenceEngine(new)
        changed_at, asked_from = chance.randrange(5, 20), chance.randrange(5, 15)
        registered, refusals = False, 0
        for time in range(40):
            if time == changed_at:  # perhaps a label that nobody keeps for a while, and again
                engine.unregister(chance.choice(["short", "long"]))
            if time == changed_at + 3:
                engine.register(query("b", 20, 1, "again"), start="empty")
            label, op = chance.choice("aab"), chance.choice("+++-")
            row = (chance.randrange(3), chance.randrange(3), label, time - late * chance.randrange(6), op)
            engine.push(*row)
            oracle.push(*row)
            if not registered and time >= asked_from:
                try:
                    rows = engine.register(new)
                except RegistrationRefused as refusal:
                    assert refusal.available_from > engine.time
                    refusals += 1
                    continue
                registered = True
                refused_before.append(refusals)
                assert {(r.source, r.target) for r in rows} == oracle.answers()
            if registered:
                assert engine.edges("q") == oracle.edges()
                assert engine.answers("q") == oracle.answers()
    assert 0 in refused_before and max(refused_before) > 0  # both ways were taken
