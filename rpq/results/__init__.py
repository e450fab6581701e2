"""Answers and answer changes: rows of ids as running queries report them (`delta`), and rows of names for users.

`blocks` turns rows of ids into rows of names, with `column_kernels` and `typed_columns`; `changes` and `answers` are what
users get.

The package may import `rpq.stream`, `rpq.arrays`, `rpq.compiled`, `rpq.files` and `rpq.errors`.
"""
