"""What a path or a URL names: output destinations (`destinations`), inputs of other packages (`sources`), file contents.

`table_formats` writes tables as CSV, JSON Lines and Parquet, `compression` compressed frames; `sealed` handles content with
checksums, and `record_log` appended records.

The package may import `rpq.errors` and nothing else of this project.
"""
