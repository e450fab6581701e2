"""gMark (Bagan et al. 2016): schemas of graphs, workloads of path queries, and queries of a given size at random."""
