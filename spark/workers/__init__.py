"""Spark's Python workers: the check that they have this package (`check`, with `probe` in a worker), and their `daemon`.

The modules import `rpq.spark.jvm`, and `daemon` imports what tasks run.
"""
