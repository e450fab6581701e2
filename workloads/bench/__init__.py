"""Experiments: `rpq bench NAME` runs an experiment, prints its table and writes its figures as JSON and PNG.

    command           `rpq bench`, the experiments by name
    experiment        the common parts of experiments: settings, records, columns, tables, result files
    machine           the machine and the versions of a measurement
    streams           the input: files, or a generated stream
    measure, memory   one query on one stream, in this process and in a separate process
    plots, report     figures, and the README's tables from the JSON
    queries_of_others queries that other people wrote, and whether they run here
    paper             the tables and figures of the paper, a module for each
    comparisons       comparisons with other engines: paths, patterns, SPARQL, sets of queries, Spark
    rdf_engines       tables of papers on streams of RDF beside stores that evaluate anew
    end_to_end        latency through the API, pipes, HTTP and Kafka
    versions          this version compared with another version, whose process is `version_worker`

The last five import from the others, never the reverse.
"""
