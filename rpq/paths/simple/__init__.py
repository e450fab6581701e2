"""Simple path semantics for pairs that conflicts put in doubt: see `layer.py`."""
