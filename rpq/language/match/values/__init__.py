"""The values that MATCH computes, over terms.

- `computation`: trees compiled to functions from terms to a term, which formulas of the algebra call
- `functions`: the functions of Cypher by their names; `times`: those of dates, times and durations
- `operations`: comparisons, arithmetic, and the order of all values
- `value_types`: the types of the columns that trees give
"""
