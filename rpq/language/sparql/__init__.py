"""SPARQL 1.1 with the window clauses of RSP-QL.

- `query.SparqlQuery` is a query as a user writes it
- `algebra` defines the operators and the variables that they bind; `algebra_text` formats them, and `rewriting` optimises
  them
- `empty_paths` and `report_time` express paths without edges, and NOW(), by other operators
- `syntax` translates a text to the algebra, and `values` evaluates terms and formulas

`algebra` imports nothing of this package; the other modules import `algebra`; `query` is at the top. The operators that
maintain an answer are those of `rpq.operators.relational`.
"""
