"""The evaluation of a query: a network of operators over bags of solutions, to which only changes are passed.

`planning` builds the network of a question and `evaluation.Network` runs it. `nodes`, `joins`, `groups` are the operators;
those that are compiled are in `rpq.operators.bags`, and `values` holds what they compute with values. Changes are
`rpq.rows.weighted_rows.WeightedRows`: a solution is a row of ids, one for each variable (`UNBOUND` for none; see
`values.term_ids`).

Imports `rpq.language.sparql.algebra`, its text and rewriting, `rpq.language.sparql.values` and `rpq.operators.patterns`, but
not `rpq.language.sparql.syntax`.
"""
