"""Records of nodes: what they state, and the table of facts that they leave.

- `node_columns`: records as well-formed columns
- `node_table`: the facts of each vertex, with the times at which they were set
"""
