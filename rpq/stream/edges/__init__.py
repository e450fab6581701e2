"""The edges of windows: `outcomes` judges tuples, `snapshot` holds each edge once, over the memory of `edge_store`.

`edge_times` knows the timestamps that edges had within a chunk. `edge_table` holds the current version of each edge by its
identity, `parallel_edges` edges one by one, and `window_edges` the order in which they leave windows that are decided before
the graph. `static_edges` holds those without a time, and `edge_values` the properties that witnesses show. `edge_filter` and
`edge_ends` say which edges queries accept. Imports `rpq.stream.names`, `rpq.stream.arrays`, chunks and windows.
"""
