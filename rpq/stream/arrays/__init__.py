"""Columns as users bring them: Arrow arrays, single values, properties of edges and events, as the few types of the engine.

Imports `rpq.stream.durations`, and nothing else of `rpq.stream`.
"""
