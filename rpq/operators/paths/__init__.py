"""Path queries: automaton tables, the Δ index over them, and the judge of simple paths.

`path_query` is a path query while it runs; `path_trees`, `roots` and `sharing` hold the trees that queries share,
`direction` says from which end paths are followed, `program` has the automaton as tables, `path` the witnesses,
`explanation` says what an expression means. `index` and `simple` have the kernels. `path_query` imports `simple`, which
imports `index`, which imports `program`.
"""
