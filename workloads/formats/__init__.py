"""Formats of published data sets: Stack Overflow, YAGO and gMark (`edge_lists`) and LDBC (`ldbc`).

`ordering` sorts the lines of several files by time, or numbers them. Imports `rpq.readers` and `rpq.errors`.
"""
