"""Operators over bags of rows of ids, which patterns and SPARQL share: changes of inputs go in, those of the output out.

- `row_bags`: the bags of rows that operators store
- `product`: `Product` of parts, and `Distinct`
- `matching`: `MatchedRows`, the joins, left joins, EXISTS and NOT EXISTS by key
- `value_matching`: `ValueMatches`, the same where a comparison of values decides too which rows meet
- `value_trees`: the values of one side in order

An operator has `change`, which applies changes (`rpq.rows.weighted_rows`) and returns those of the output; `clear`, which
removes everything; `entries` and `nbytes`, which say how much it stores; `ids`, which returns the ids in stored rows; and
`check`, which asserts its invariants. Its modules import `rpq.rows`, `rpq.compiled.arrays` and `rpq.compiled`.
"""
