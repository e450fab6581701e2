"""Comparisons of the engine with others: path queries, graph patterns, SPARQL, thousands of queries, Spark.

This package imports from `bench`, `baselines` and `generate`, not from `paper` or `end_to_end`.
"""
