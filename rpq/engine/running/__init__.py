"""Queries while they run in one engine.

`evaluation` carries chunks of tuples through the parts: `intake` (names to ids), `running_queries` (which queries run and
what they read), `reports` (rows that wait), `retention` (what is kept for queries that come later), `limits` (memory and
rows), `handlers` (callbacks, one thread at a time) and `statistics`. No kind of query is known here.
The package imports `queries`, `results`, `stream` and what is below them.
"""
