"""The index of bits: which roots reach a product node, without how long they do.

It serves where windows hold much and lose it at few boundaries, in place of the Δ index (`rpq/operators/paths/index`), from
which it takes graph, slots and output.
"""
