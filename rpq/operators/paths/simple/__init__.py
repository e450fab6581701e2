"""The judge of simple paths: which pairs that conflicts put in doubt have a simple path.

`simple_judge` explains the method and is its Python side, `judge` and `search` have the kernels, `certificates` and
`known_paths` what is remembered of a pair, `aside_roots` the roots that went over their budget. The package imports
`rpq.operators.paths.index`.
"""
