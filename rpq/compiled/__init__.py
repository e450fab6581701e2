"""The layer between Python and compiled kernels.

- `kernel_cache`: the `njit` of all kernels, and the cache of their code; `kernel_sources`: the sources that a kernel depends
  on; `processors`: the processors on which cached code runs
- `kernel_loading`: the loading of kernels without a compiler; `callees`: the compilation of kernels that other kernels call
- `views`: groups of arrays and records as one argument of a kernel; `intrinsics`: single instructions
- `growth`: requests for memory before arrays grow
- `cycle_counter`, `stopwatch`: time in kernels and in an engine
- `arrays`: data structures in flat arrays

The package imports nothing else of `rpq`.
"""
