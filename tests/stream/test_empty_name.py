"""The empty text is the name of no vertex and no label, wherever tuples come from.

semantics.md S12
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import rpq
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.readers import ColumnNames, open_reader
from rpq.serve.requests import ARROW, CSV, JSON_LINES, read_tuple_body
from tests.kafka.messages.test_kafka_messages import Sent

Row = dict[str, Any]
GOOD = {"source": "x", "target": "y", "label": "a", "timestamp": 1}


def engine() -> rpq.Engine:
    return rpq.Engine(rpq.Query("!()", window=rpq.Window(size=10, slide=1)))


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def with_dictionaries(given: pa.Table) -> pa.Table:
    texts = [name for name in given.schema.names if name != "timestamp"]
    return pa.table({name: given[name].dictionary_encode() if name in texts else given[name] for name in given.schema.names})


def lines(*rows: Row, separator: str = ",") -> str:
    return "".join(separator.join(map(str, row.values())) + "\n" for row in (dict(zip(GOOD, GOOD, strict=True)), *rows))


def objects(*rows: Row) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    for batch in open_reader("edges", path):
        engine().push(batch.columns)


def arrow_stream(given: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, given.schema) as stream:
        stream.write_table(given)
    return sink.getvalue().to_pybytes()


def arrow_file(given: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, given.schema) as file:
        file.write_table(given)
    return sink.getvalue().to_pybytes()


def parquet(given: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(given, sink)
    return sink.getvalue().to_pybytes()


def posted(body: bytes, type_: str) -> None:
    engine().push(read_tuple_body(body, type_, stream=None, time_unit=None).columns)


def message(row: Row) -> None:
    found = MessageReader(MessageColumns.from_names(ColumnNames())).read([Sent(objects(row).encode())])
    if found.bad:
        raise rpq.InputError(found.bad[0].reason)


def static(row: Row) -> None:
    engine().load_static([(row["source"], row["target"], row["label"])])


def static_table(row: Row) -> None:
    engine().load_static(table(row).drop_columns(["timestamp"]))


def spark_batch(row: Row) -> None:
    from rpq.spark.envelopes import pack

    batches = table(row).append_column("op", pa.array(["+"])).to_batches()
    list(pack(batches))


DOORS: dict[str, Callable[[Row, Path], Any]] = {
    "insert": lambda row, path: engine().insert(*row.values()),
    "delete": lambda row, path: engine().delete(*list(row.values())[:3], timestamp=1),
    "rows": lambda row, path: engine().push_rows([tuple(GOOD.values()), tuple(row.values())]),
    "lists": lambda row, path: engine().push({name: [GOOD[name], row[name]] for name in GOOD}),
    "a list of one": lambda row, path: engine().push({name: [row[name]] for name in GOOD}),
    "a table": lambda row, path: engine().push(table(GOOD, row)),
    "a slice": lambda row, path: engine().push(table(row, GOOD, row).slice(1)),
    "a table with dictionaries": lambda row, path: engine().push(with_dictionaries(table(GOOD, row))),
    "pandas": lambda row, path: engine().push(pd.DataFrame([GOOD, row])),
    "static rows": lambda row, path: static(row),
    "a static table": lambda row, path: static_table(row),
    "CSV": lambda row, path: read(path, lines(GOOD, row)),
    "tabs": lambda row, path: read(path, lines(GOOD, row, separator="\t")),
    "JSON lines": lambda row, path: read(path, objects(GOOD, row)),
    "Parquet": lambda row, path: read(path, parquet(table(GOOD, row))),
    "Parquet with dictionaries": lambda row, path: read(path, parquet(with_dictionaries(table(GOOD, row)))),
    "an Arrow file": lambda row, path: read(path, arrow_file(table(GOOD, row))),
    "posted CSV": lambda row, path: posted(lines(GOOD, row).encode(), CSV[0]),
    "posted JSON lines": lambda row, path: posted(objects(GOOD, row).encode(), JSON_LINES[0]),
    "posted Arrow": lambda row, path: posted(arrow_stream(table(GOOD, row)), ARROW[0]),
    "Kafka": lambda row, path: message(row),
    "Spark": lambda row, path: spark_batch(row),
}


@pytest.mark.parametrize("column", ["source", "label"])
@pytest.mark.parametrize("door", DOORS)
def test_an_empty_name_is_refused_at_every_door(tmp_path, door, column):
    DOORS[door](GOOD, tmp_path / "good")
    with pytest.raises(rpq.InputError, match=f"column '{column}': is empty; expected a name"):
        DOORS[door]({**GOOD, column: ""}, tmp_path / "edges")


def test_a_dictionary_may_hold_an_empty_text_that_no_label_is():
    labels = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array(["", "a"]))
    assert engine().push({"source": ["x", "y"], "target": ["y", "z"], "label": labels, "timestamp": [1, 2]}).added == 2


def test_an_empty_text_of_rdf_is_a_literal_and_no_empty_name(tmp_path):
    (tmp_path / "edges.nt").write_text('<a:x> <a:p> "" .\n<a:x> <a:p> <urn:rpq:text:> .\n')
    found = [row["target"] for batch in open_reader("rdf", tmp_path / "edges.nt") for row in batch.columns.to_pylist()]
    assert found == ['""', "urn:rpq:text:"]
