"""Tables of papers on streams of RDF beside stores of RDF, which evaluate anew, in the same run on the same stream.

    comparison        one query beside all stores: readings, lines of the table, the plot
    rsp_benchmarks    SRBench and LSBench (Le-Phuoc 2016, table 1)
    graph_events      events that are graphs, and windows over them (Gillani, Picard, Laforest 2016, figure 5)
    stream_operators  joins, aggregates, DISTINCT and negation over windows (Le-Phuoc 2016, figure 13 and table 2)
    pattern_state     what patterns store, beside a store of all edges (Gergatsoulis, Damigos)

This package imports from `bench`, `generate` and `rivals`, not from the other comparisons.
"""
