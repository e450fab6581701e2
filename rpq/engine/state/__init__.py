"""Saved states of an engine: their content and their file layout. Imports `running` and the layers below it."""
