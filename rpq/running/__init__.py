"""Queries while they run: names to ids, the snapshot graph, and each query's part; no kind of query is known here."""
