"""Path queries: automaton tables, the Δ index over them, and the judge of simple paths."""
