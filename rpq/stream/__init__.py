"""The tuples of a stream, their names and times, the windows over them, and the snapshot graph of the edges in these.

`columns`, `plain_columns`, `values` and `event_grouping` turn what users push into columns; `stream_time`, `durations` and
`window` hold time; `vertices`, `labels` and `stream_labels` hold names; `chunk`, `edge_store` and `snapshot` hold edges;
`outcomes` judges tuples: whether each is inserted, refreshed, late, irrelevant, deleted or absent in a window.
The package imports `arrays`, `compiled`, `files` and `errors` only.
"""
