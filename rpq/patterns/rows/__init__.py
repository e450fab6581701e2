"""The rows of the parts of patterns, and the solutions that they make up.

- `delivered`: the rows that kernels wrote for a chunk; `row_bags`: counted rows
- `products`, `solutions`: the products of the rows of all parts, event by event

Its modules import `rpq.patterns.tables`, and nothing else of `rpq.patterns`.
"""
