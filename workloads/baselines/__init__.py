"""Systems and algorithms that the engine is compared with.

    reevaluation                    evaluation of the query from scratch over the window: a search, a SPARQL store, DuckDB
    spanning_trees                  the paths' published algorithm, RAPQ, with a tree for each root
    inverted_index                  TriC's baselines for thousands of patterns at once
    two_hops, two_hops_bytewax, …   a join of two edges in stream processors without path queries
"""
