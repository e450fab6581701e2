"""Formats of published data sets: Stack Overflow, YAGO and gMark (`edge_lists`) and LDBC (`ldbc`).

Imports from `rpq.readers` only.
"""
