"""A body of SPARQL while it runs: a network of operators over bags of solutions, each told of changes alone."""
