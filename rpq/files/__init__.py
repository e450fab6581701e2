"""Files: output destinations (`destinations`) and file contents.

`table_formats` writes tables as CSV, JSON Lines and Parquet, `compression` compressed frames; `json_values` checks JSON
values, `sealed` handles content with checksums, and `record_log` appended records.

The package may import `rpq.errors` and nothing else of this project.
"""
