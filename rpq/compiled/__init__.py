"""The layer between Python and compiled kernels: their cache, views of arrays, intrinsics, the cost of compiling."""
