"""Graph patterns: atoms joined by shared variables, maintained edge by edge.

- `chains`, `meanings`: a pattern in terms of relations and vertices
- `pattern_host`: the relations and plans of all queries; `hosted_query`: the use that a running query makes of them, be it a
  pattern or SPARQL; `pattern_query`: one running pattern
- `read_relations`: the relations that a query reads, and the counts of its tuples
- `explanation`, `witness`: plans and bindings in the form for users
- `tables`: the memory layout of relations, plans and conditions
- `relations`: the edges that atoms read; `joins`: plans, and the kernels that enumerate solutions; `rows`: the rows of the
  parts of a pattern, and their products

The modules here may import the three subpackages. `relations` and `rows` import `tables` alone, `joins` also `relations`.
"""
