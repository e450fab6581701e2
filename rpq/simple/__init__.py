"""Simple path semantics for roots that meet conflicts: see `layer.py`."""
