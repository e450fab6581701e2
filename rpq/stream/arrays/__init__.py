"""Columns as users bring them: Arrow arrays, single values, properties of edges and events, as the few types of the engine.

- `plain_columns`, `values`: columns and lists of any type as the plain types of the engine; `fields`: fields of text
- `numpy_arrays`, `text_buffers`: Arrow arrays as NumPy arrays, and as arguments of kernels; `arrow_compute`: the functions
  of Arrow, imported with their first use
- `properties`, `event_grouping`: the columns beside those that every tuple has
- `flat_objects`: columns of plain JSON objects

Imports `rpq.stream.durations`, and nothing else of `rpq.stream`.
"""
