"""Data structures in flat arrays, and their kernels. The package imports only `compiled`."""
