"""Register queries while a stream is running, save the engine, and continue from the file.

Prints:

    registered at 27: starts with ann → cho
    refused: an edge in its window was not stored; complete from 60
    started empty: bob → shop
    saved at 41, restored at 41 with friends, friends of friends, recommended
    the restored engine continues: eve → shop
"""

import tempfile
from pathlib import Path

import rpq

window = rpq.Window(size=30, slide=10)
engine = rpq.Engine(rpq.Query("knows+", name="friends", window=window))
engine.push_rows([("ann", "bob", "knows", 21), ("bob", "cho", "knows", 24), ("bob", "shop", "bought_at", 27)])

# The engine stores the edges that knows+ needs, so this query starts with the answers over the edges in its window.
changes = engine.register(rpq.Query("knows/knows", name="friends of friends", window=window))
for row in changes:
    print(f"registered at {engine.time}: starts with {row.source} → {row.target}")

# No query has read bought_at until now, so the edge with timestamp 27 was not stored.
recommended = rpq.Query("knows/bought_at", name="recommended", window=window)
try:
    engine.register(recommended)
except rpq.RegistrationError as error:
    print(f"refused: an edge in its window was not stored; complete from {error.available_from}")
    engine.register(recommended, start="empty")  # start now, with future edges only

for row in engine.push_rows([("bob", "dan", "knows", 40), ("dan", "shop", "bought_at", 41)]):
    if row.query == "recommended":
        print(f"started empty: {row.source} → {row.target}")

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "engine.state"
    engine.save(file, extra={"read": "5"})  # texts that are restored as `extra`, such as the position in the input
    restored = rpq.Engine.restore(file)  # for example in another process, after a crash, or with more threads
    names = ", ".join(query.name for query in restored.queries)
    print(f"saved at {engine.time}, restored at {restored.time} with {names}")

for row in restored.insert("eve", "dan", "knows", 43):
    if row.query == "recommended":
        print(f"the restored engine continues: {row.source} → {row.target}")
