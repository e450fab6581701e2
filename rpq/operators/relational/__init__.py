"""The evaluation of a query: a network of operators over bags of solutions, to which only changes are passed.

`planning` builds the network of a question and `evaluation.Network` runs it. `nodes`, `joins`, `groups` and `slices` are the
operators; those that are compiled are in `rpq.operators.bags`, and `values` holds what they compute with values.
`running_query` is a registered SPARQL query with its `report_clock`, `match_query` a registered MATCH text, `edge_values` a
pattern with edge variables or a filter, and `explanation` describes them. Changes are
`rpq.rows.weighted_rows.WeightedRows`: a solution is a row of ids, one for each variable (`UNBOUND` for none; see
`values.term_ids`).

Imports `rpq.language`, but not `rpq.language.sparql.syntax`, `rpq.operators.patterns`, `rpq.operators.bags` and the packages
below these.
"""
