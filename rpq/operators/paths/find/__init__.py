"""Searches for paths in the present graph.

A path expression that is asked once needs no index: `ProductSearch` (`product_search.py`) searches in the product of the
graph and the automaton (`letters.py`). `kernels.py` has the search itself.
"""
