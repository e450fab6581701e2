"""Flat arrays that kernels share: many short lists in one pool, a hash table, blocks of 64 cells."""
