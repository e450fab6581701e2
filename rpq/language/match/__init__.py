"""MATCH: texts in a subset of GQL and of openCypher, which become the algebra that SPARQL becomes.

- `match.lark`, `tree`, `syntax`: the grammar, the syntax tree, and the way from a text to its tree, with places for errors
- `parameters`: the values of `$x`, which take their places in the tree
- `expansion`: paths of fixed lengths, for which quantified paths that count and values of paths stand
- `path_expressions`: sets of labels, and the path expressions of edges and quantified paths, with their conditions
- `any_paths`: paths behind ANY
- `condition_trees`, `scope`: values and conditions as trees, and what their names stand for
- `node_facts`: labels and properties of nodes
- `block`, `clauses`: MATCH and OPTIONAL MATCH, whose atoms and conditions become blocks, each of them one operator
- `projection`: WITH, UNWIND, RETURN and UNION
- `computed`, `values`: computed values as columns of the algebra, and their evaluation; `column_types`: the types of columns
- `translation`: from the tree to the algebra, by all of these
- `query`: the query as users create it

Imports `rpq.language.sparql`, but not its parser (`syntax`), and the modules of `rpq.language` below it.
"""
