"""Saved states of an engine: their content, and their layout in a file. Imports `running` and what is below it."""
