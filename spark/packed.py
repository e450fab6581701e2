"""A table of tuples as bytes: a compressed Arrow stream under a seal, in the state as well as on the way to it."""

from __future__ import annotations

import pyarrow as pa

from rpq.files.sealed import Kind, damaged, seal, unseal

TUPLES = Kind(magic=b"RPQTUPLE", noun="part of a stream", version=1)
_VERTICES = (pa.int64(), pa.string(), pa.large_string())
_LABELS = (pa.string(), pa.large_string())
_TYPES = {
    "source": _VERTICES,
    "target": _VERTICES,
    "label": _LABELS,
    "timestamp": (pa.int64(),),
    "delete": (pa.bool_(),),
    "sequence": (pa.int64(),),
    "order": (pa.int64(),),
}


def packed(tuples: pa.Table) -> bytes:
    """The bytes of a table. O(bytes)."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, tuples.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(tuples.combine_chunks())
    content = memoryview(out.getvalue())
    return seal(TUPLES, [content]) + bytes(content)


def unpacked(data: bytes, *, columns: tuple[str, ...], name: str) -> pa.Table:
    """The table, every value of which was looked at; it has these columns, and perhaps others of those that tuples have.

    Raises `StateFormatError`, which calls the bytes by that name, if they are not what was packed. O(bytes).
    """
    content = unseal(TUPLES, data, name=name)
    try:
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        table.validate(full=True)
        names = table.schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as problem:
        raise damaged(TUPLES, name, str(problem)) from problem
    if len(set(names)) < len(names) or not set(columns) <= set(names):
        raise damaged(TUPLES, name, f"its columns are {', '.join(names)}, not {', '.join(columns)}")
    for column in names:
        if table[column].type not in _TYPES.get(column, ()):
            raise damaged(TUPLES, name, f"it has a column {column!r} of type {table[column].type}")
        if table[column].null_count:
            raise damaged(TUPLES, name, f"column {column!r} has entries without a value")
    return table
