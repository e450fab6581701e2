"""Experiments: `rpq bench NAME` runs one, prints its table and keeps its figures as JSON and PNG.

    machine, results   where and how it was measured, and the files that say so
    streams            the input: files, or a generator's stream
    measure, memory    one query on one stream, in this process and in one of its own
    experiment         what every experiment has in common: settings, records, columns, the way to table and files
    figures            figures of others, with their source
    one module a table or figure: mathoverflow, ldbc, throughput, index_size, windows, automaton_size, states,
    deletes, reevaluation, simple, patterns (pattern_speed, its pattern_stages and pattern_sketch)
    report             the README's tables from the JSON
"""
