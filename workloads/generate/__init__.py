"""Generators of streams: like the data sets of the papers, of RDF (`rdf`), and sets of graph patterns over a stream.

Every tuple is a function of the seed and its position (`sampling`), so a stream of any length needs bounded memory.
Imports from `workloads.gmark` and the engine's readers and files, never from `workloads.bench`.
"""
