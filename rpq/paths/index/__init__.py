"""The Δ index of a path query: the trees of all roots as one table of cells, and the kernels that keep it."""
