"""SPARQL 1.1 with the window clauses of RSP-QL.

- `query.SparqlQuery` is a query as a user writes it, `running_query.RunningSparql` a registered query
- `explanation` describes how the engine evaluates a query
- `algebra` defines the operators and the variables that they bind; `algebra_text` formats them, and `rewriting` optimises
  them
- `syntax` translates a text to the algebra, `values` evaluates terms and formulas, `network` maintains the answer

`algebra` imports nothing of this package; `values`, `syntax` and `network` import `algebra`; `query` is at the top.
"""
