"""The parser: from the text of a query to its algebra.

`reading.read` is the entry point. `source_text` knows places in the text and which constructs are refused, `window_clauses`
removes the clauses of RSP-QL, `grammar` parses the rest with rdflib, `formulas` and `groups` translate the parse tree.

Imports `rpq.sparql.algebra` and `rpq.sparql.values`. Nothing outside of this package depends on rdflib.
"""
