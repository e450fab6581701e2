"""Queries while they run in one engine.

`evaluation` carries chunks of tuples through the parts: `intake` (names to ids, room for them, and the release of what
has left every window), `running_queries` (which queries run and what they read), `multigraph` (edges with an identity or
properties), `crew` (threads), `output` (deltas to rows), `reports` (rows that wait) and `held` (rows that wait until they
have held). `multigraph` stands on
`edge_readings` (what queries read of such edges), `condition_sets` (the conditions that tuples satisfy), `derived_edges`
(the edges that they become), `edge_vertex_links` (edges that edge variables bind) and `outcome_counts`;
`edge_restrictions` refuses the options that it does not support. Beside it are `retention` (what is stored for later
queries) and `limits` (memory and rows). Nothing depends on the kind of a query. The package imports `rpq.language`,
`rpq.rows`, `rpq.stream` and what is below them.
"""
