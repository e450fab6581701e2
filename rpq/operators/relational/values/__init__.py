"""The values of terms in operators: their ids, their order, formulas over them, and exact sums.

`term_ids` and `number_ids` assign ids to terms and to computed numbers, and `formula_columns` evaluates formulas over rows
of ids. `text_order` and `value_order` represent the order of terms by integers, `compared_values` that of the values of
formulas. `group_sums`, `exact_sums` and `group_values` are the kernels of aggregates, `ordered_rows` those of ORDER BY.
Imports nothing else of `rpq.operators.relational`.
"""
