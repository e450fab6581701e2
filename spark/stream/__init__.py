"""Structured streaming: queries over a streaming data frame, their state, and the sinks of their rows.

- `plan`: the plan of a stream (`rpq.spark.rpq_changes`, `rpq.spark.stream_to`)
- `processor`: the stateful processor of one root partition, its record in the state, and tuples that wait
- `window_log`: the window as a log in the state, and the state that moves to other shares
- `share_engine`, `engine_host`: the engine of a share and the cache that keeps it, and the process that holds this cache
- `packed_rows`: the output of the processor; `file_sink`: Parquet files with the guarantees of Spark's file sink
- `stream_identity`: what a checkpoint records of its stream; `rescale`: other shares or queries for a stream that has begun
- `topics`: topics of Kafka as edges; `run`: what `rpq spark stream` does

Modules here import the modules of `rpq.spark`, `rpq.spark.jvm` and one another, and nothing of `rpq.spark.batch`.
"""
