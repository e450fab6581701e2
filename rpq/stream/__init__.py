"""The tuples of a stream, their names and times, the windows over them, and the snapshot graph of the edges in these.

`columns` turns what users push into columns of a `chunk`; `stream_time`, `durations` and `window` hold time, and
`event_clock` numbers events that are evaluated one by one. `arrays` holds columns as users bring them, `names` gives
vertices and labels their ids, and `edges` judges tuples and holds the edges of windows. `sources` has the protocol of
sources that other packages provide; `json_values` checks values that were saved, and `gc_pause` pauses the garbage
collector while many objects are created. The package imports `compiled`, `errors` and the symbols of `automata` only.
"""
