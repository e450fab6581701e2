"""Readers of the data sets that the experiments use, found by the engine under the entry points `rpq.formats`."""
