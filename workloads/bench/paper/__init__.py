"""The tables and figures of the paper (Pacaci et al. 2020): one module for each, with an `EXPERIMENT`.

- `throughput` (figure 4), `index_size` (figure 5), `windows` (figure 6), `states` (figure 7), `deletes` (figure 10),
  `reevaluation` (figure 11), `simple_paths` (table 4)

This package imports from `bench`, `baselines`, `gmark` and `bench.comparisons.path_speed`, not from `bench.end_to_end`.
"""
