"""The delta join: plans of patterns, and the kernels that enumerate the solutions which a changed edge adds or removes.

- `plan`: the order in which a change of each atom is joined with the other atoms; `plan_tables`: all plans as flat tables
- `conditions`, `condition_graph`: the vertices that can take part in a solution; `seeds`: the lookup of the plans that a
  changed edge may concern
- `condition_choice`: the conditions that are excluded, since they hold nearly everywhere
- `supports`: support lists; `live_patterns`: the choice of queries that get them, and the calls of kernels
- `delta_join`, `updates`: the enumeration of solutions, and the application of a stream
- `binding_search`: one binding for an answer, in plain Python

Its modules import `rpq.operators.patterns.tables` and `rpq.operators.patterns.relations`, and nothing else of
`rpq.operators.patterns`.
"""
