"""Workloads: data sets, queries and systems that the engine is measured with.

- `formats`: formats of published data sets; `generate`, `gmark`: generators of streams, schemas and queries
- `named_queries`, `sparql_queries`: queries from publications, by name
- `baselines`, `rivals`: algorithms and other engines that the engine is compared with
- `bench`: experiments (`rpq bench`); `demo`: `rpq demo`

This package imports from every layer of the engine except `rpq.spark`; only entry points import this package.
"""
