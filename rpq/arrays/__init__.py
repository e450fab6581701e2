"""Data structures in flat arrays, and the kernels over them. The package imports `compiled` only."""
