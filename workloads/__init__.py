"""Workloads: formats of data sets, generators of streams, named queries, the demo, baselines, and `rpq bench`.

This package imports from every layer of the engine except `rpq.spark`; only entry points import this package.
"""
