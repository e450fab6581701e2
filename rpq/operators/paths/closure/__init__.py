"""The index of bits, which stores the roots that reach each product node, but not up to which slide they do.

It replaces the Δ index (`rpq/operators/paths/index`), whose graph, slots and output it uses, where windows contain many
edges and few boundaries at which edges leave.
"""
