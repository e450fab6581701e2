"""SPARQL 1.1 with the window clauses of RSP-QL.

- `query.SparqlQuery` is a query as a user writes it; `rpq.operators.relational` has the registered query
- `algebra` defines the operators and the variables that they bind; `algebra_text` formats them, and `rewriting` optimises
  them
- `empty_paths` and `report_time` express paths of length zero and NOW() by other operators
- `syntax` translates a text to the algebra, and `values` evaluates terms and formulas

`algebra` imports nothing of this package; `values` imports `algebra`, `syntax` both of them; `query` is at the top. No
module imports `rpq.operators`.
"""
