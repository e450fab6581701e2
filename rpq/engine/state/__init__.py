"""Saved states of an engine.

`engine_state` saves and restores, `state_content` has the content besides the edges of the window, `state_layout` the layout
of the file, and `sealed` protects content with checksums. Imports `rpq.engine.running`, `rpq.language`, `rpq.stream` and
`rpq.files`.
"""
