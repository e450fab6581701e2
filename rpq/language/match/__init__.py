"""MATCH: texts in a subset of GQL and of openCypher, which become the algebra that SPARQL becomes.

- `match.lark`: the grammar
- `syntax`: from the text to its syntax tree, with places for errors
- `labels`: sets of labels, and the expressions that read edges with them
- `translation`: from the syntax tree to the algebra
- `query`: the query as users create it
"""
