"""Graph patterns: atoms joined by shared variables, kept up to date edge by edge.

- `chains`, `meanings`: a pattern in terms of relations and vertices
- `pattern_host`: the relations and plans of all queries; `hosted_query`: what a running query does with them, whether a
  pattern or SPARQL; `pattern_query`: one running pattern
- `read_relations`: the relations that a query reads, and the counts of its tuples
- `explanation`, `witness`: plans and bindings as users see them
- `tables`: the memory layout of relations, plans and conditions
- `relations`: the edges that atoms read; `joins`: plans, and the kernels that enumerate solutions; `rows`: the rows of the
  parts of a pattern, and their products

The modules here may import the three subpackages. `relations` and `rows` import `tables` alone, `joins` also `relations`.
"""
