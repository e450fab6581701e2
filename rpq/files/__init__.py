"""Files that are written: `destinations`, which are replaced as a whole or written in place, `locks`, and `compression`.

The package may import `rpq.errors` and nothing else of this project.
"""

STATISTICS = "_statistics.json"
"""The file in a folder prepared by `rpq spark prepare` that records the unit of its timestamps."""
