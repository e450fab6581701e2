"""Batch jobs on Spark: preparing data sets from raw files, and replaying them.

- `prepare`: raw files or a data frame → a prepared data set (`rpq.spark.prepare`)
- `replay`: a prepared data set or a data frame, and queries → answer changes (`rpq.spark.replay`, `rpq.spark.replay_to`)
- `table_function`: replays as a table function of SQL (`rpq.spark.register_functions`)
- `splits`: local inputs, cut into splits that tasks read in Python as staged rows
- `spark_inputs`: inputs that Spark reads, from any location, as the same staged rows

Modules here import the modules of `rpq.spark`, `rpq.spark.jvm` and one another, and nothing of `rpq.spark.stream`.  PySpark
is imported inside functions only, except in `table_function`.
"""
