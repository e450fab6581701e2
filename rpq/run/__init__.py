"""One run: a source of tuples, an engine, a sink of rows, and a checkpoint with the positions of all three.

`loop` has the main loop with the contracts of a source and a sink; `checkpoint` has the file from which a run is resumed,
and `record_log` the journals of what happened since. `table_output` is the sink of tables in PostgreSQL, whose URLs
`table_names` reads.
`rpq run` over files (`rpq.cli`) and over topics (`rpq.kafka`) are configurations of it.

The package may import everything but `rpq.kafka`, `rpq.cli`, `rpq.serve`, `rpq.workloads` and `rpq.spark`.
"""
