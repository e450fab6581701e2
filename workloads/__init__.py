"""Workloads: formats of data sets, generators of streams, named queries, the demo, baselines, and `rpq bench`.

Imports from every layer of the engine except `rpq.spark`; nothing else imports from here but entry points.
"""
