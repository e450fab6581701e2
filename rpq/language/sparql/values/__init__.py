"""The values of SPARQL terms, and the functions, regular expressions, formulas and aggregates over them.

A term is a text (`rpq.stream.names.terms`) with a typed value (`typed_values`, `moments`). `operators` and `functions` map
terms to terms, `regular_expressions` matches those of XPath, `formula_values` evaluates whole formulas, and `aggregates`
maintains the values of groups under inserts and deletes.

Imports `rpq.language.sparql.algebra`, and nothing else of `rpq.language.sparql`.
"""
