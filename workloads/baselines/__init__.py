"""What the engine is compared with: evaluating the query anew over the window, by a SPARQL store and by a search."""
