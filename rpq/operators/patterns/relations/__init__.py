"""The edges that the atoms of patterns read: their arrays, the kernels that change them, and their shared use.

- `adjacency`, `edges`, `wheel`: neighbour lists, the hash table with the records of edges, and the order of expiry
- `relation`: the arrays of all relations of an engine; `consistency`: their invariants, for tests
- `shared_relations`, `path_relations`: the relations of labels and of paths, shared by patterns; `constants`: the vertices
  of names in patterns

Its modules import `rpq.operators.patterns.tables`, and nothing else of `rpq.operators.patterns`.
"""
