"""Files: where they are written (`destinations`), and what is in them.

`table_formats` has tables as CSV, JSON Lines and Parquet, `compression` compressed frames, `json_values` checked values of
JSON, `sealed` content with checksums, and `record_log` appended records.

The package may import `rpq.errors` and nothing else of this project.
"""
