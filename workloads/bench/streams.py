"""The streams that experiments run on: real files where they are available, generated streams otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq

DAY_SECONDS = 86_400
BATCH_ROWS = 1 << 16
SHUFFLE_SEED = 1


class StreamError(Exception):
    """The files of a data set, or something else that an experiment needs, are missing."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set by name: its files below a directory, their format, and its window in the paper.

    `window` and `slide` are in the unit of the stream, or parts of its length if timestamps are positions. `queries` is the
    name of its binding in `rpq.workloads.named_queries`. A static graph that is written label by label is shuffled, because
    otherwise a window would have a single label.
    """

    name: str
    queries: str
    format: str
    folder: str
    pattern: str
    window: float
    slide: float
    by_position: bool = False
    drop_self_loops: bool = False
    inserts_only: bool = True
    is_shuffled: bool = False
    generator: str = ""


DATA_SETS = {
    one.name: one
    for one in (
        DataSet(
            name="stackoverflow",
            queries="stackoverflow",
            format="stackoverflow",
            folder="stackoverflow",
            pattern="sx-*-[ac]2[aq].txt*",
            window=30 * DAY_SECONDS,
            slide=DAY_SECONDS,
            drop_self_loops=True,
            generator="stackoverflow",
        ),
        DataSet(
            name="ldbc",
            queries="ldbc",
            format="ldbc",
            folder="ldbc",
            pattern="*updates*.tsv*",
            window=10 * DAY_SECONDS * 1000,
            slide=DAY_SECONDS * 1000,
            generator="ldbc",
        ),
        DataSet(
            name="yago",
            queries="yago-facts",
            format="yago",
            folder="yago",
            pattern="yago-facts.tsv*",
            window=0.25,
            slide=0.025,
            by_position=True,
            generator="yago",
        ),
        DataSet(
            name="gmark",
            queries="gmark",
            format="gmark",
            folder="gmark",
            pattern="social-graph.txt*",
            window=0.25,
            slide=0.025,
            by_position=True,
            is_shuffled=True,
            generator="gmark",
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Tuples in memory, and the window of queries over them; `origin` describes their source."""

    name: str
    queries: str
    table: pa.Table
    window: rpq.Window
    origin: str

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Return the tuples in batches of at most `rows` rows."""
        return iter(self.table.to_batches(max_chunksize=rows))

    def first(self, tuples: int) -> Stream:
        """Return the first tuples of the stream."""
        return replace(self, table=self.table.slice(0, tuples))

    def describe(self) -> dict[str, object]:
        """Describe the stream for a result."""
        return {
            "name": self.name,
            "origin": self.origin,
            "tuples": len(self),
            "window": self.window.size,
            "slide": self.window.slide,
        }


def load_files(dataset: DataSet, data: Path, *, scale: float = 1.0) -> Stream:
    """Read the part `scale` from the beginning of a data set's files, in `data` or its subfolder. Raises `StreamError`."""
    from rpq.readers import open_reader

    found = sorted(data.glob(dataset.pattern)) or sorted((data / dataset.folder).glob(dataset.pattern))
    if not found:
        raise StreamError(f"{data}: has no files {dataset.pattern}, and neither has its folder {dataset.folder}/")
    reader = open_reader(dataset.format, found, drop_self_loops=dataset.drop_self_loops)
    table = pa.Table.from_batches([batch.columns for batch in reader])
    origin = ", ".join(path.name for path in found)
    if dataset.inserts_only and "delete" in table.column_names:
        table = table.filter(pc.invert(table["delete"])).drop_columns("delete")
        origin += ", insertions only"
    if dataset.is_shuffled:
        order = np.random.default_rng(SHUFFLE_SEED).permutation(table.num_rows)
        place = table.schema.get_field_index("timestamp")
        table = table.take(pa.array(order)).set_column(place, "timestamp", table["timestamp"])
        origin += f", shuffled, seed {SHUFFLE_SEED}"
    if scale < 1:
        table = table.slice(0, max(1, round(table.num_rows * scale)))
    return _stream(dataset, dataset.queries, table, origin)


def read_stream(files: Sequence[str], window: rpq.Window, *, format: str, time_unit: str | None) -> Stream:
    """Read files of any format as a stream, which has the name of the first file. Raises `InputError`."""
    from rpq.readers import open_reader

    table = pa.Table.from_batches([batch.columns for batch in open_reader(format, files, time_unit=time_unit)])
    names = [Path(file).name for file in files]
    return Stream(name=names[0], queries="", table=table.combine_chunks(), window=window, origin=", ".join(names))


def generate(dataset: DataSet, *, edges: int, seed: int) -> Stream:
    """Generate a stream like the data set."""
    from rpq.workloads.generate.generators import KINDS

    batches = KINDS[dataset.generator](edges=edges, seed=seed)
    table = pa.Table.from_batches([_inserts(batch) if dataset.inserts_only else batch for batch in batches])
    queries = "yago" if dataset.name == "yago" else dataset.queries
    return _stream(dataset, queries, table, f"rpq generate {dataset.generator} --edges {edges} --seed {seed}")


def open_streams(
    names: list[str], *, data: Path | None, scale: float, seed: int, edges: int, say: Callable[[str], None]
) -> Iterator[Stream]:
    """Yield a stream for each data set: its files if they are in `data`, `scale` × `edges` generated tuples otherwise."""
    for name in names:
        dataset = DATA_SETS[name]
        try:
            stream = load_files(dataset, data, scale=scale) if data is not None else None
        except StreamError as error:
            say(f"{error}: using a generated stream")
            stream = None
        yield stream or generate(dataset, edges=max(1000, round(edges * scale)), seed=seed)


def _inserts(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "delete" not in batch.schema.names:
        return batch
    return batch.filter(pc.invert(batch.column("delete"))).select(["source", "target", "label", "timestamp"])


def _stream(dataset: DataSet, queries: str, table: pa.Table, origin: str) -> Stream:
    window, slide = dataset.window, dataset.slide
    if dataset.by_position:
        window, slide = window * table.num_rows, slide * table.num_rows
    size = rpq.Window(size=max(1, round(window)), slide=max(1, round(slide)))
    return Stream(name=dataset.name, queries=queries, table=table.combine_chunks(), window=size, origin=origin)
