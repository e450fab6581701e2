"""The tables of the engine beside others: path queries, graph patterns, SPARQL, thousands of queries, Spark.

Imports from `bench`, `baselines` and `generate`, not from `paper` or `end_to_end`.
"""
