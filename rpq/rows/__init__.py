"""Answers and their changes: rows of ids as running queries report them, and rows of names for users.

`delta` and `weighted_rows` are the two forms of a change, run-length encoded and row by row; the latter nets. `blocks` turns
rows of ids into rows of names, with `column_kernels` and `typed_columns`. Users get `changes` and `answers`; `table_formats`
writes tables of them as CSV, JSON Lines and Parquet.

The package may import `rpq.stream`, `rpq.compiled` and `rpq.errors`.
"""
