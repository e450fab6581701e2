"""The Δ index: for each root the product nodes that it reaches, and until which slide.

`layout` has the arrays and explains them; `apply`, `insert`, `delete`, `expiry`, `conflicts`, `witness` and `rows` have the
kernels, `kernels` those that Python calls; `delta_index` and `numbered_index` are the Python side, `judging` the protocol
between an index and its judge, `check` the invariants. The package imports `rpq.operators.paths.program` and what is below
`paths`.
"""
