"""Saved states of an engine: their content and their file layout; `sealed` protects content with checksums.

Imports `running` and the layers below it.
"""
