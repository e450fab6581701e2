"""Data sets, generators, queries and experiments around the engine."""
