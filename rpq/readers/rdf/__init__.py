"""RDF as a stream of edges: a triple is an edge from its subject to its object, with its predicate as the label.

    bytes → statements (rdf_syntax, statements) → vertices' texts (canonical_lines, blank_nodes) → times (times)
    → tuples (rdf_format)

pyoxigraph parses the statements, except for lines of N-Triples and N-Quads that are already canonical. `growth` refuses
inputs whose statements, written out, are many times as long.
Imports from `rpq.readers` and `rpq.stream`, not from `rpq.readers.text`.
"""
