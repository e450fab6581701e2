"""The Δ index, which stores for each root the product nodes that it reaches, and the slides up to which it reaches them.

`layout` defines and explains the arrays; `apply`, `insert`, `delete`, `expiry`, `conflicts`, `witness` and `rows` contain
the kernels, and `kernels` and `answers` those that Python calls; `delta_index` and `numbered_index` are the Python side,
`judging` is the protocol between an index and its judge, and `check` contains the invariants. The package imports
`rpq.operators.paths.program` and the packages below `paths`.
"""
