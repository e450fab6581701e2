"""Systems and algorithms that the engine is compared with.

    reevaluation                    evaluation of the query from scratch over the window: a search, a SPARQL store, DuckDB
    rapq                            the paths' published algorithm, RAPQ, in plain Python, to be read beside the paper
    spanning_trees                  the paths' published algorithm, RAPQ, with a tree for each root, compiled
    inverted_index                  TriC's baselines for thousands of patterns at once
    simple_trees                    the same for simple paths, RSPQ
    two_hops                        a join of two edges, as written for a stream processor without path queries
    two_hops_bytewax, two_hops_quix the same from topic to topic, in Bytewax and Quix Streams

Imports the engine and `rpq.workloads.named_queries`, never `rpq.workloads.bench`.
"""
