"""Files that are written: `destinations`, which are replaced as a whole or written in place, `locks`, and `compression`.

The package may import `rpq.errors` and nothing else of this project.
"""
