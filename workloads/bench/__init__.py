"""Experiments: `rpq bench NAME` runs one, prints its table and keeps its figures as JSON and PNG.

    command           `rpq bench`, the experiments by name
    experiment        what every experiment has in common: settings, records, columns, tables, result files
    machine           where and how a measurement was made
    streams           the input: files, or a generator's stream
    measure, memory   one query on one stream, in this process and in one of its own
    plots, report     figures, and the README's tables from the JSON
    paper             the tables and figures of the paper, a module for each
    comparisons       the tables beside other engines: paths, patterns, SPARQL, sets of queries, Spark
    end_to_end        latency through the API, pipes, HTTP and Kafka
    versions          this version against another one, whose process is `version_worker`

The last four import from the others, never the other way round.
"""
