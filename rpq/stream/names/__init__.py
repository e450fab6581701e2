"""Names: terms (`terms`, `list_terms`) and labels (`stream_labels`), and the dictionaries of vertices (`vertices`), edges
that are vertices (`edge_vertices`), and labels (`labels`), with dense ids that are reused.

Imports `rpq.stream.arrays`, and nothing else of `rpq.stream`.
"""
