"""Where the rows of a run go: files, standard output, one file of several queries, late tuples."""
