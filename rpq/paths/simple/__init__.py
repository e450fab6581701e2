"""Simple path semantics for pairs that conflicts put in doubt: see `simple_judge.py`."""
