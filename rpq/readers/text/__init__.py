"""Lines of text as columns: a fast path for whole blocks, and an exact path line by line.

    line_layout    the exact rules of a line          quotes      records that span several lines
    parsing        blocks of lines to columns         jsonlines   blocks of JSON objects to columns
    detection      the layout of a file               textfile    a file as an input

Imports from `rpq.readers`, not from `rpq.readers.rdf`.
"""
