"""Output files of a run: the formats of rows (`formats`), and the sinks that write them (`sinks`).

The package imports no module of `rpq.cli` outside of it.
"""
