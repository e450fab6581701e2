"""Names: terms and labels, and the dictionaries of vertices, edges that are vertices, and labels, with dense ids that are
reused.

Imports `rpq.stream.arrays`, and nothing else of `rpq.stream`.
"""
