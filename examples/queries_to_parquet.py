"""Run the queries of a file over a stream, write all rows to one Parquet file, and read this file with pyarrow.

Prints the number of rows of each query, and the sources with the most rows:

    20,000 tuples
    experts: 299,465 rows; most from u105 (1,739), u54 (1,709), u20 (1,705)
    in three steps: 138,290 rows; most from u1 (1,793), u3 (1,607), u2 (1,596)
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

import rpq
from rpq.readers import open_reader

QUERIES = """
[defaults]
window = "10d"
slide = "1d"

[[query]]
name = "experts"
query = "a2q/c2a*"

[[query]]
name = "in three steps"
query = "(a2q|c2a|c2q){3}"
window = "2d"
"""

with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary)
    # Any stream of edges works. This one is like that of Stack Overflow: answers and comments between users.
    generate = [sys.executable, "-m", "rpq.cli", "generate", "stackoverflow", "--edges", "20000"]
    subprocess.run([*generate, "--output", folder / "stream.parquet"], check=True, capture_output=True)
    (folder / "queries.toml").write_text(QUERIES)

    engine = rpq.Engine(*rpq.read_queries(folder / "queries.toml", time_unit="s"))
    stream = open_reader("edges", folder / "stream.parquet")
    writer = None
    for changes in engine.run(stream):  # batch by batch: neither the stream nor the rows need to fit in memory
        table = changes.to_arrow()
        writer = writer or pq.ParquetWriter(folder / "rows.parquet", table.schema)
        writer.write_table(table)
    writer.close()

    print(f"{engine.statistics().tuples:,} tuples")
    rows = pq.read_table(folder / "rows.parquet")
    for query in engine.queries:
        own = rows.filter(pc.equal(rows["query"], query.name))
        most = Counter(own["source"].to_pylist()).most_common(3)
        print(f"{query.name}: {len(own):,} rows; most from {', '.join(f'{vertex} ({count:,})' for vertex, count in most)}")
