"""Run a query over arriving files on Spark, stop it, and start it again from the same checkpoint.

Needs the extra `spark` and Java 17 or newer. Prints:

    first run: ann bob 1 +, ann cho 2 +, bob cho 2 +
    second run: ann dan 3 +, bob dan 3 +, cho dan 3 +, ann dan 4 -, bob dan 4 -, cho dan 4 -
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

import rpq
from rpq.spark import open_session, rpq_changes

query = rpq.Query("knows+", window=rpq.Window(size=60, slide=10))
session = open_session(master="local[2]", partitions=2)  # with the settings for the state store


def run_once(folder: Path) -> DataFrame:
    """Process new files, as a cluster without the trigger would do continuously; return all rows so far."""
    edges = session.readStream.schema("source string, target string, label string, timestamp long, op string").csv(
        str(folder / "incoming")
    )
    rows = rpq_changes(edges, query, partitions=2)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
    return session.read.parquet(str(folder / "rows"))


def sorted_rows(rows: DataFrame) -> list[str]:
    ordered = rows.orderBy("timestamp", "source", "target").collect()
    return [f"{row.source} {row.target} {row.timestamp} {row.op}" for row in ordered]


with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary)
    (folder / "incoming").mkdir()
    (folder / "incoming" / "first.csv").write_text("ann,bob,knows,1,+\nbob,cho,knows,2,+\n")
    first = sorted_rows(run_once(folder))
    print(f"first run: {', '.join(first)}")

    # The window is in the checkpoint: the edges of the first file are still there.
    (folder / "incoming" / "second.csv").write_text("cho,dan,knows,3,+\ncho,dan,knows,4,-\n")
    second = sorted_rows(run_once(folder))[len(first) :]
    print(f"second run: {', '.join(second)}")

session.stop()
