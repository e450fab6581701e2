"""Access to Spark itself: its session, the file systems of its JVM, and prepared data sets as it reads them.

- `session`: Java, the settings of a session, task slots
- `connect`: sessions of Spark Connect, which have no access to the JVM, and how they read files
- `shipped_files`: shipped files for the Python processes on the driver's machine
- `hadoop_files`: files and folders by URI, through the Hadoop file systems in the JVM
- `data_sets`: the statistics and the tuples of a prepared data set
- `data_source`: prepared data sets by `spark.read.format("rpq")`, the only module here that imports PySpark at its top

Modules here import `rpq.spark.errors`, one another, and nothing else of `rpq.spark`.
"""
