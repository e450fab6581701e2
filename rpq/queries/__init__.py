"""Queries as users write them, in Python and in files, and the protocol by which an engine runs them.

`query` and `query_file` parse them, `language` tells notations apart, `pattern` reads graph patterns; `kinds` registers the
kinds of queries and writes them as JSON; `protocol` is what a running query implements, `readings` what it reads.
The package imports `results`, `stream` and what is below them.
"""
