"""SPARQL 1.1 with the window clauses of RSP-QL, as a language: from a text to an algebra of its own, and the values in it.

- `rpq.sparql.reading.read` makes a `SparqlQuestion` of a text, whose body is an operator of `rpq.sparql.algebra`
- `rpq.sparql.rewriting` makes it cheaper, `rpq.sparql.algebra_text` writes it down, `rpq.sparql.scope` tells what it binds
- `rpq.sparql.formula_values` gives formulas their values, `rpq.sparql.aggregates` those of groups, under inserts and deletes

A text is parsed by rdflib, and behind `rpq.sparql.reading` nothing knows of it.
"""
