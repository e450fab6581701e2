"""Path queries: automaton tables, the Δ index over them, and the judge of simple paths.

`path_query` is a path query while it runs; `path_trees` and `roots` hold the trees that queries share,
`direction` says from which end paths are followed, `program` has the automaton as tables, `path` the witnesses,
`explanation` says what an expression means. The kernels are in `index` (the Δ index), in `closure`, `lengths` and `ordered`
(the indexes of bits, of lengths and of paths in an order in time, which use its memory), and in `simple` (the judge).
`path_query` and `path_trees` import these; each of the others imports `index`, which imports `program`. Modules may import
from language, rows, stream, compiled and automata.
"""
