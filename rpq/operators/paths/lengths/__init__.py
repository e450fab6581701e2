"""The lengths of shortest walks, on the table of the Δ index.

`progress` defines and explains the arrays, `changes` contains the kernels, `kernels` those that Python calls, and
`length_index` is the Python side. Imports `rpq.operators.paths.index`, `rpq.operators.paths.program` and the packages below
`rpq.operators.paths`.
"""
