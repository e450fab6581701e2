"""The layer between Python and compiled kernels: kernel cache, views of arrays, intrinsics, compile times."""
