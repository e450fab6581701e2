"""SPARQL 1.1 with the window clauses of RSP-QL, as a language: from a text to an algebra of its own, and the values in it.

- `rpq.sparql.reading.read` makes a `SparqlQuestion` of a text, whose body is an operator of `rpq.sparql.algebra`
- `rpq.sparql.formula_values` gives expressions their values, `rpq.sparql.aggregates` keeps those of groups under inserts and
deletes

A text is parsed by rdflib, and behind `rpq.sparql.reading` nothing knows of it.
"""
