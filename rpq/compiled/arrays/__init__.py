"""Data structures in flat arrays, and their kernels.

- `hashing`, `tagged_hashing`: hash tables, the latter for many entries
- `lists`: many short lists in one array; `lanes`, `words`: blocks of cells and of bits, as vector instructions
- `lengthening`, `reserve`: longer copies of arrays, and memory for rows that is used again
- `distinct_values`: the distinct values of an array

Imports `rpq.compiled`, and nothing else of `rpq`.
"""
