"""The index of bits, which knows the roots that reach a product node, but not up to which slide.

It replaces the Δ index (`rpq/operators/paths/index`), whose graph, slots and output it uses, where windows contain many
edges that leave at few boundaries.
"""
