"""The formats of the data sets that the experiments use, known to the engine by the entry points `rpq.formats`."""
