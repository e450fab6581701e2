"""Generators of streams that resemble published data sets, of RDF streams (`rdf`), and of graph patterns over a stream.

`command` is `rpq generate`, `generators` has the generators by name, and `writing` their files. `interactions`,
`ldbc_updates`, `facts` and `use_cases` are one kind of stream each, `pattern_sets` has patterns over a stream, and `figures`
compares streams.
Every tuple is a function of the seed and its position (`sampling`), so a stream of any length needs bounded memory.
This package imports from `workloads.gmark`, the options of the command, and the engine's readers and files, never from
`workloads.bench`.
"""
