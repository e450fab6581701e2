"""Rivals: small programs, each in its own language, that compute the answers of a query with another engine.

    driver            builds a rival on first use, runs it within a time limit, and checks its answers
    questions         path queries and patterns in the notations of the rivals
    rdf_changes       SPARQL over streams of RDF for Jena, RDF4J and pyoxigraph: terms, and the changes of windows
    pattern_sets      sets of patterns over a growing graph for Neo4j: its files, and the answers of this engine
    stores            the rivals in Python: pyoxigraph, DuckDB and ladybug, which evaluate after each slide
    java/             Jena, RDF4J and Neo4j, which evaluate after each slide, and Esper (needs a JDK 17 and Maven)
    differential/     differential-dataflow, which updates the answer (needs cargo)

A rival reads a file of the edges that enter and leave the window, a line each with five cells between tabs:

    slide, "+" or "-", source, label, target

Slides ascend; within a slide edges leave before others enter. Sources, targets and labels are numbers from 0. An edge is in
the window once, however often it came: the window is that of the engine at the end of the slide, and no rival pays for it.
SPARQL names the vertex 7 `<urn:v:7>` and the label 0 `<urn:l:0>`; SQL reads a table `edges(source, label, target)`; Cypher
names the label 0 `L0`. A rival that needs files has them below `$TMPDIR`, which is in memory where the system has such a
folder.

For SPARQL over RDF a second file has the terms that the numbers mean, a line each: an IRI, or the lexical form of a literal
and its type with a tab between them. Changes can then have a sixth cell, the number of a named graph; "=" marks edges that
are in the store before its seconds begin, and "0" in place of the last four cells empties it.

For many patterns at once the first file has the edges that are inserted, a line each with source, label and target between
tabs, and a second one the patterns, a line each with atoms between tabs: source, label and target with commas between them,
where -1 - v is the variable v. "Slides" are then the numbers of edges so far, and answers the solutions of all patterns so
far that an edge completed; in the checksum of one the number of its pattern stands before the values of its variables.

When it has read the file, and warmed up if its code is compiled while it runs, a rival prints the line `ready`, with a tab
and the bytes of the edges that it loaded, without their terms, if there are any. Then it prints after each slide, with tabs
between them, the slide, its CPU seconds since `ready`, the number of answers, and their checksum: the sum of
`driver.checksums` modulo 2⁶⁴ over all rows. Where answers can have numbers, which stand in the checksum as 2⁶⁴ − 2, two
cells more follow: the sum of all numbers, each by the weight of its row (`driver.totals`), and the seconds spent before the
query was evaluated. Seconds are those from the changes of a slide to the list of its answers; the checksum of a list is not
counted. A rival that fails prints the reason on standard error.
"""
