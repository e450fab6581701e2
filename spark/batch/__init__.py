"""Batch jobs on Spark: preparing data sets from raw files, and replaying them.

- `prepare`: raw files or a data frame → a prepared data set (`rpq.spark.prepare`)
- `replay`: a prepared data set or a data frame, and queries → answer changes (`rpq.spark.replay`, `rpq.spark.replay_to`)
- `chunks`: the division of a replay by time, and the evaluation of its chunks in tasks
- `table_function`: replays as a table function of SQL (`rpq.spark.register_functions`)
- `spark_inputs`: inputs that Spark reads, from any location, as staged rows
- `splits`: what tasks make of the lines and rows of a split: staged rows

Modules here import the modules of `rpq.spark`, `rpq.spark.jvm` and one another, and nothing of `rpq.spark.stream`.  PySpark
is imported inside functions only, except in `table_function`.
"""
