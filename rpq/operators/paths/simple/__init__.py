"""The judge of simple paths, which decides whether a pair that conflicts put in doubt has a simple path.

`simple_judge` explains the method and contains its Python side, `judge` and `search` the kernels, `certificates` and
`known_paths` the stored facts about pairs, and `aside_roots` the roots that exceeded their budget. The package imports
`rpq.operators.paths.index`.
"""
