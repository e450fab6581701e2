"""Queries that join a running stream, and an engine that goes on elsewhere.

Prints:

    registered at 27: starts with ann → cho
    refused: an edge that it needs was not kept; with all of its window from 60
    started empty: bob → shop
    saved at 41, restored at 41 with friends, friends of friends, recommended
    the restored engine goes on: eve → shop
"""

import tempfile
from pathlib import Path

import rpq

window = rpq.Window(size=30, slide=10)
engine = rpq.Engine(rpq.Query("knows+", name="friends", window=window))
engine.push_rows([("ann", "bob", "knows", 21), ("bob", "cho", "knows", 24), ("bob", "shop", "bought_at", 27)])

# What knows+ has kept serves this query too: it starts from what its window holds.
changes = engine.register(rpq.Query("knows/knows", name="friends of friends", window=window))
for row in changes:
    print(f"registered at {engine.time}: starts with {row.source} → {row.target}")

# No query wanted bought_at until now, so the edge of 27 is gone.
recommended = rpq.Query("knows/bought_at", name="recommended", window=window)
try:
    engine.register(recommended)
except rpq.RegistrationError as error:
    print(f"refused: an edge that it needs was not kept; with all of its window from {error.available_from}")
    engine.register(recommended, start="empty")  # or at once, with what comes from now on

for row in engine.push_rows([("bob", "dan", "knows", 40), ("dan", "shop", "bought_at", 41)]):
    if row.query == "recommended":
        print(f"started empty: {row.source} → {row.target}")

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "engine.state"
    engine.save(file, extra={"read": "5"})  # texts that come back as `extra`: how far the input was read, say
    again = rpq.Engine.restore(file)  # in another process, after a crash, with other threads
    names = ", ".join(query.name for query in again.queries)
    print(f"saved at {engine.time}, restored at {again.time} with {names}")

for row in again.insert("eve", "dan", "knows", 43):
    if row.query == "recommended":
        print(f"the restored engine goes on: {row.source} → {row.target}")
