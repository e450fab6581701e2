"""Paths whose edges follow one another in time: the index of ordered path queries.

`timeline` contains the edges of the window in the order of their timestamps, `cells` raises cells of the table, which is
that of the Δ index, `scans` searches the timeline backward and forward, `kernels` applies tuples, and `ordered_index` is the
index.
"""
