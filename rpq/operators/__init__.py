"""The operators that maintain answers: everything that changes incrementally with the stream.

`paths` maintains the pairs of path expressions, `patterns` the relations of a graph pattern and their joins, and
`relational` the operators over bags of rows that SPARQL needs beyond joins: filters, unions, groups, OPTIONAL, MINUS. Each
builds on those before it. Modules may import from language, rows, stream, compiled, files; no operator knows the engine.
"""
