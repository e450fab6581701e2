"""Streams made from a seed, for demonstrations, tests and experiments."""
