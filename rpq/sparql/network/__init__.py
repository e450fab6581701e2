"""The evaluation of a query: a network of operators over bags of solutions, to which only changes are passed.

`planning` builds the network of a question and `evaluation.Network` runs it. `nodes`, `joins`, `groups` are the operators,
`formula_columns` evaluates formulas over rows of ids, `term_ids` and `quotient_ids` assign the ids, `bags` is the format of
changes, and `conversions` connects the network with the kernels of patterns. `bag_kernels` and `group_sums` are compiled.

Imports `rpq.sparql.algebra`, its text and rewriting, `rpq.sparql.values` and `rpq.patterns`, but not `rpq.sparql.syntax`.
"""
