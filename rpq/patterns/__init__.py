"""Graph patterns: atoms joined by shared variables, kept up to date edge by edge.

`plan` turns a pattern into the order in which each atom's change is joined with the others; `relation` keeps the edges
that atoms read; `join` enumerates the solutions that a new or a leaving edge brings; `drive` applies a stream.
"""
