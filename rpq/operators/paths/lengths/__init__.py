"""The lengths of shortest walks, on the table of the Δ index.

Imports from the rest of `rpq.operators.paths` only the Δ index, its layout, rows and program.
"""
