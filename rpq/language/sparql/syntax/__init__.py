"""The parser, which translates the text of a query to its algebra.

`reading.read` is the entry point. `source_text` maps places in the text and lists the refused constructs, `window_clauses`
removes the clauses of RSP-QL, `grammar` parses the rest with rdflib, and `formulas` and `groups` translate the parse tree.

Of `rpq.language.sparql` it imports `algebra`, `empty_paths`, `report_time` and `values`. No other module imports rdflib.
"""
