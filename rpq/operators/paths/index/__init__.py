"""The Δ index, which stores for each root the product nodes that it reaches, and the slides up to which it reaches them.

`layout` defines and explains the arrays; `tuples` is the loop over the tuples of a chunk, which all kinds of indexes share;
`apply`, `insert`, `delete`, `expiry`, `conflicts`, `witness` and `rows` contain the kernels, and `kernels` and `answers`
those that Python calls; `delta_index` is the Python side, and `path_delta` its rows; `judging` is the protocol between an
index and its judge, and `check` contains the invariants. The package imports `rpq.operators.paths.program` and the packages
below `paths`.
"""
