"""Comparisons of the engine with others: path queries, graph patterns, SPARQL, thousands of queries, Spark.

- `path_speed`, `pattern_speed`, `sparql_speed`, `spark_speed`: a table each; `general_engines`: beside general engines;
  `own_algorithm`: beside a class of yours
- `query_sets`: thousands of queries; `spark_commands`: commands on Spark, cold
- `cliffs`: figures with a bound, whose lines are here and in `edge_properties`, `match_texts`, `path_kinds`, `time_order`
  and `input_speed`; `bounds` has the form of a line

This package imports from `bench`, `baselines`, `generate`, `rivals` and the inputs of `bench.end_to_end`, not from
`bench.paper`.
"""
