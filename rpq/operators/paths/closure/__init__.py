"""The index of bits, which stores the roots that reach each product node, but not up to which slide they do.

It replaces the Δ index (`rpq/operators/paths/index`), whose graph, slots and output it uses, where windows contain many
edges and few boundaries at which edges leave.

`layout` defines and explains the arrays; `push`, `loss`, `components` and `witness` contain the kernels, and `kernels` those
that Python calls; `closure_index` is the Python side, `choice` decides between bits and cells, and `check` contains the
invariants. Imports `rpq.operators.paths.index`, `rpq.operators.paths.program` and the packages below `rpq.operators.paths`.
"""
