"""Generators of streams that resemble published data sets, of RDF streams (`rdf`), and of graph patterns over a stream.

Every tuple is a function of the seed and its position (`sampling`), so a stream of any length needs bounded memory.
This package imports from `workloads.gmark` and the engine's readers and files, never from `workloads.bench`.
"""
