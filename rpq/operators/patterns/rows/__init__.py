"""The rows of the parts of patterns, and the solutions that they make up.

- `delivered_rows`: the rows that kernels wrote for a chunk, as a delta for each part
- `solutions`: the products of the rows of all parts, event by event

Its modules import `rpq.operators.bags`, `rpq.rows` and `rpq.operators.patterns.tables`, and nothing else of
`rpq.operators.patterns`.
"""
