"""The tuples of a stream, their names and times, the window over them, and the snapshot graph in it."""
