"""Lines of text as columns: layouts, quotes, times and JSON, by a fast path over blocks and by an exact one line by line.

    line_layout    the exact rules of a line          quotes      which lines make a record
    parsing        blocks of lines to columns         jsonlines   blocks of JSON objects to columns
    detection      how a file is to be read           textfile    a file as an input

Imports from `rpq.readers`, not from `rpq.readers.rdf`.
"""
