"""What lies between Python and compiled kernels: their cache, views of arrays, intrinsics, what compiling costs."""
