"""gMark (Bagan et al. 2016): schemas of graphs (`schema`), and path queries, from a workload or random (`queries`)."""
