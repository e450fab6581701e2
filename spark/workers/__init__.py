"""Spark's Python workers: the check that they have this package (`check`), with `probe` in a worker."""
