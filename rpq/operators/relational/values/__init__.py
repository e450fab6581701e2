"""Values of terms as operators compute with them: their ids, their order, formulas over them, and sums that are exact.

`term_ids` and `number_ids` give terms and computed numbers their ids, and `formula_columns` evaluates formulas over rows
of ids. `text_order` and `value_order` compare terms as integers, which `compared_values` does with values of formulas;
`group_sums`, `exact_sums` and `group_values` are the kernels of aggregates, `ordered_rows` those of ORDER BY. Imports
nothing else of `rpq.operators.relational`.
"""
