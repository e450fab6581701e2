"""MATCH: texts in a subset of GQL and of openCypher, which become the algebra that SPARQL becomes.

- `match.lark`: the grammar
- `syntax`: from the text to its syntax tree, with places for errors
- `path_expressions`: sets of labels, and the path expressions of edges and quantified paths, with their conditions
- `condition_trees`, `scope`: conditions as trees, and the values that their names stand for
- `block`: the atoms and conditions of clauses, which become one operator
- `any_paths`: paths behind ANY
- `result`: RETURN
- `translation`: from the syntax tree to the algebra, by all of these
- `query`: the query as users create it

Imports `rpq.language.sparql`, but not its parser (`syntax`), and the modules of `rpq.language` below it.
"""
