"""Paths whose edges follow one another in time: the index of ordered path queries.

`timeline` contains the edges of the window in the order of their timestamps, `cells` raises cells of the table, which is
that of the Δ index, `scans` searches the timeline backward and forward, and `edge_paths` the paths through one edge.
`layers` counts the edges of shortest paths, `kernels` applies tuples, `witness` finds a path of an answer, and
`ordered_index` is the index. Imports
`rpq.operators.paths.index`, `rpq.operators.paths.program` and the packages below `rpq.operators.paths`.
"""
