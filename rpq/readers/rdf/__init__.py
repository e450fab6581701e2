"""RDF as a stream of edges: a triple is an edge from its subject to its object, with its predicate as the label.

    bytes → statements (rdf_syntax, statements; rdf_lines) → vertices' texts (rdf_terms, rdf_columns, blank_nodes) → times
    (time_terms, triple_times, graph_times) → tuples (rdf_input, rdf_format)

Parsed by pyoxigraph, but for those lines of N-Triples and N-Quads that are canonical as they stand.
"""
