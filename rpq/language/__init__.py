"""Queries as users write them: their texts, options and files, and what they mean before anything runs.

The modules at the top define queries in Python and in files, the protocol of a running query and the registry of kinds;
`sparql` reads SPARQL into its algebra, with the values of its functions. Path expressions are those of `rpq.automata`. There
are no kernels here. Modules may import from rows, stream, files and automata.
"""
