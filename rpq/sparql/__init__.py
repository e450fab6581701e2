"""SPARQL 1.1 with the window clauses of RSP-QL.

- `query.SparqlQuery` is a query as a user writes it, `running_query.RunningSparql` a registered one
- `explanation` describes what a query means to the engine
- `algebra` defines the operators and what they bind; `algebra_text` formats them, and `rewriting` makes them cheaper
- `syntax` translates a text to the algebra, `values` evaluates terms and formulas, `network` maintains the answer

The algebra imports nothing of this package; `values`, `syntax` and `network` import the algebra; the query is on top.
"""
