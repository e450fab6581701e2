"""Lines of text as columns: a fast path for whole blocks, and an exact path line by line.

    line_layout    the exact rules of a line          quotes      records that span several lines
    parsing        blocks of lines to columns         jsonlines   blocks of JSON objects to columns
    detection      the layout of a file               textfile    a file as an input
    edge_rules     several edges of one record        changes     changes of a table, as Debezium writes them

Imports from `rpq.readers`, `rpq.language` and `rpq.stream`, not from `rpq.readers.rdf`.
"""
