"""The tables and figures of the paper (Pacaci et al. 2020): one module for each, with an `EXPERIMENT`.

This package imports from `bench`, `baselines` and `gmark`, not from `comparisons` or `end_to_end`.
"""
