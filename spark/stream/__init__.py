"""Structured streaming: queries over a streaming data frame, and their state.

- `plan`: the plan of a stream (`rpq.spark.rpq_changes`, `rpq.spark.stream_to`)
- `processor`: the stateful processor of one root partition, its record in the state, and waiting tuples
- `inspected`: the same for the process in which Spark asks only for its state
- `window_log`: the window as a log in the state, and the state that moves to other shares
- `share_engine`, `engine_host`: the engine of a share, its cache, and the process that contains this cache
- `packed_rows`: the output of the processor
- `stream_identity`: the record of a stream in its checkpoint; `rescale`: a change of shares or queries of an existing stream
- `topics`, `file_edges`: topics of Kafka and files as edges; `run`: the stream of `rpq spark stream`

Modules here import the modules of `rpq.spark`, `rpq.spark.jvm` and one another, and nothing of `rpq.spark.batch`.
"""
