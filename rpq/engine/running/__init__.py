"""Queries while they run in one engine.

`evaluation` carries chunks of tuples through the parts: `intake` (names to ids), `running_queries` (which queries run and
what they read), `multigraph` (edges with an identity or properties), `crew` (threads), `output` (deltas to rows), `reports`
(rows that wait) and `collector` (the release of what has left every window). `multigraph` stands on `condition_sets` (the
conditions that tuples satisfy), `derived_edges` (the edges that they become), `edge_vertex_links` (edges that edge variables
bind) and `outcome_counts`; `edge_restrictions` refuses what does not go with it. Beside it are `retention` (what is stored
for queries that come later), `limits` (memory and rows), `handlers` (callbacks, one thread at a time) and `statistics`.
Nothing depends on the kind of a query. The package imports `rpq.language`, `rpq.rows`, `rpq.stream` and what is below them.
"""
