"""Queries as users write them, in Python and in files, and the protocol for running them in an engine.

`query` and `query_file` parse queries, `language` detects the notation, and `pattern` reads graph patterns; `kinds`
registers the kinds of queries and writes them as JSON; `protocol` is the interface of a running query, and `readings` are
the labels that a query reads. The package imports `results`, `stream` and the layers below them.
"""
