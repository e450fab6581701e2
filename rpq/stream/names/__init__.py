"""The dictionaries of names: vertices, edges that are vertices, and labels, with dense ids that are reused.

Imports `rpq.stream.arrays`, and nothing else of `rpq.stream`.
"""
