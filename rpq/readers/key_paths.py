r"""Names that reach into nested records: `process.parent.entity_id`, `hashes[0].value`, `labels.a\.b`.

If the record has the whole name as a key, the name means this key, as in flat logs, whose keys contain dots.  Otherwise a
dot enters an object, `[0]` selects an element of a list, counted from 0, and a backslash makes the next character a part of
the key.  If any step leads nowhere, the value is missing.  A name that is not a path (`price [EUR]`) can only be a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys of objects and the positions in lists that lead to a value."""

MISSING: Any = object()
"""The value of a name that a record does not have."""

_STEP = re.compile(r"((?:[^.\[\]\\]|\\.)+)((?:\[[0-9]{1,9}\])*)(\.|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"[.\[\]\\]")


@lru_cache(maxsize=4096)
def path_of(name: str) -> KeyPath | None:
    r"""Return the path that a name describes, or None if the name can only be a key.

    >>> path_of("hashes[0].value"), path_of(r"a\.b.c"), path_of("plain"), path_of("price [EUR]")
    (('hashes', 0, 'value'), ('a.b', 'c'), None, None)
    """
    if _SPECIAL.search(name) is None:
        return None
    path: list[str | int] = []
    place, ends_in_dot = 0, True
    while place < len(name):
        step = _STEP.match(name, place)
        if step is None:
            return None
        path.append(_ESCAPE.sub(r"\1", step[1]))
        path += map(int, re.findall("[0-9]+", step[2]))
        place, ends_in_dot = step.end(), step[3] == "."
    return None if ends_in_dot else tuple(path)


def name_of(path: KeyPath) -> str:
    r"""Return the name of a path.

    >>> name_of(("hashes", 0, "a.b"))
    'hashes[0].a\\.b'
    """
    steps = [f"[{step}]" if isinstance(step, int) else "." + _SPECIAL.sub(r"\\\g<0>", step) for step in path]
    return "".join(steps).removeprefix(".")


def value_at(record: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return the value that a name has in a record, or `default`.

    >>> event = {"process": {"pid": 7}, "user.name": "root", "hashes": [{"value": "f0"}]}
    >>> [value_at(event, name) for name in ("process.pid", "user.name", "hashes[0].value", "process.pid.x")]
    [7, 'root', 'f0', None]
    """
    if name in record:
        return record[name]
    path = path_of(name)
    if path is None:
        return default
    value: Any = record
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return default
        elif not isinstance(value, Mapping) or step not in value:
            return default
        value = value[step]
    return value


def objects_on_path(record: Mapping[str, Any], name: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects on the path to the value of a name, each with the key that is read in it."""
    path = path_of(name)
    if name in record or path is None:
        yield record, name
        return
    value: Any = record
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping) and step in value:
            yield value, step
        elif not isinstance(step, int) or not isinstance(value, list) or step >= len(value):
            return
        value = value[step]


def names_in(record: Mapping[str, Any]) -> list[str]:
    """Return the names of all values of a record that are neither objects nor lists of objects.

    >>> names_in({"ts": 1, "user": {"id": 2, "groups": ["a"]}, "a.b": 3, "hashes": [{"value": "f0"}]})
    ['ts', 'user.id', 'user.groups', 'a.b', 'hashes[0].value']
    """
    return [key if len(path) == 1 else name_of(path) for key, path in _leaves(record, ())]


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        yield from _leaves(value[0], (*path, 0))
    else:
        yield str(path[-1]), path


def nested_schema(types: Mapping[str, pa.DataType], names: Iterable[str]) -> pa.Schema | None:
    """Return a schema in which each name has a value of its type, both as a key and as a path.

    Return None if names contradict each other: one names a value, another reaches into it.

    >>> nested_schema({"a.b": pa.string(), "c": pa.int64()}, ["a.b", "c"]).names
    ['a.b', 'a', 'c']
    """
    tree: dict[str | int, Any] = {}
    for name in names:
        type_ = types[name]
        for path in ((name,), path_of(name)):
            if path is None:
                continue
            inside = tree
            for step in path[:-1]:
                inside = inside.setdefault(step, {})
                if not isinstance(inside, dict):
                    return None
            if inside.setdefault(path[-1], type_) is not type_ and inside[path[-1]] != type_:
                return None
    if any(isinstance(step, int) for step in tree):
        return None
    fields = {str(key): _type_of(inner) for key, inner in tree.items()}
    return None if None in fields.values() else pa.schema(list(fields.items()))


def _type_of(tree: Any) -> pa.DataType | None:
    if not isinstance(tree, dict):
        return tree
    inner = {step: _type_of(one) for step, one in tree.items()}
    if None in inner.values():
        return None
    if any(isinstance(step, int) for step in inner):  # all elements have one type
        types = [*inner.values()]
        if not all(isinstance(step, int) for step in inner):
            return None
        merged = _merge_types(types)
        return None if merged is None else pa.list_(merged)
    return pa.struct([(str(step), type_) for step, type_ in inner.items()])


def _merge_types(types: list[pa.DataType]) -> pa.DataType | None:
    """Return a type with the fields of all types, or None if they contradict each other."""
    if all(type_ == types[0] for type_ in types):
        return types[0]
    if not all(pa.types.is_struct(type_) for type_ in types):
        return None
    try:
        return pa.struct(pa.unify_schemas([pa.schema(list(type_)) for type_ in types]))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def type_at(type_: pa.DataType, path: KeyPath) -> pa.DataType | None:
    """Return the type of the values at a path inside of a column, or None if there are none.

    >>> str(type_at(pa.struct([("hashes", pa.list_(pa.struct([("value", pa.string())])))]), ("hashes", 0, "value")))
    'string'
    """
    for step in path:
        if isinstance(step, int):
            if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
                return None
            type_ = type_.value_type
        elif not pa.types.is_struct(type_) or type_.get_field_index(step) < 0:
            return None
        else:
            type_ = type_.field(type_.get_field_index(step)).type
    return type_


def column_at(column: pa.Array, path: KeyPath) -> pa.Array:
    """Return the values at a path inside a column whose type has the path; null where a step is missing.  O(rows)."""
    for step in path:
        if isinstance(step, int):
            lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
            places = column.offsets.to_numpy()[:-1].astype(np.int64) + step
            column = column.values.take(pa.array(places, mask=lengths <= step))
        else:
            column = pc.struct_field(column, step)
    return column


def names_of_schema(schema: pa.Schema) -> list[str]:
    """Return the names of all values in the columns of a file, as `names_in` does for a record.

    >>> user = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    >>> names_of_schema(pa.schema([("user", user), ("ts", pa.int64())]))
    ['user.id', 'user.tags', 'ts']
    """
    paths = ((field.name, *path) for field in schema for path in _paths(field.type))
    return list(dict.fromkeys(str(path[0]) if len(path) == 1 else name_of(path) for path in paths))


def _paths(type_: pa.DataType) -> Iterator[KeyPath]:
    if pa.types.is_struct(type_) and type_.num_fields:
        for place in range(type_.num_fields):
            field = type_.field(place)
            yield from ((field.name, *path) for path in _paths(field.type))
    elif pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        yield from ((0, *path) for path in _paths(type_.value_type))
    else:
        yield ()


def with_nested_fields(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return the schema of a file with a further column for each name that reaches into one of its columns.

    >>> schema = pa.schema([("user", pa.struct([("id", pa.int64())]))])
    >>> with_nested_fields(schema, ["user.id", "user.name"]).names
    ['user', 'user.id']
    """
    for name in dict.fromkeys(names):
        path = path_of(name)
        if name in schema.names or path is None or schema.names.count(str(path[0])) != 1:
            continue
        type_ = type_at(schema.field(str(path[0])).type, path[1:])
        if type_ is not None:
            schema = schema.append(pa.field(name, type_))
    return schema


def top_of(name: str, schema: pa.Schema) -> str:
    """Return the column of a file that has the values of a name."""
    path = path_of(name)
    return name if name in schema.names or path is None else str(path[0])


def leaves_of(name: str, schema: pa.Schema) -> str:
    """Return the part of a Parquet file that has the values of a name: a field of structs, or a whole column.

    >>> schema = pa.schema([("user", pa.struct([("id", pa.int64())]))])
    >>> leaves_of("user.id", schema), leaves_of("user[0]", schema)
    ('user.id', 'user')
    """
    path = path_of(name)
    is_field = path is not None and all(isinstance(step, str) and "." not in step for step in path)
    return ".".join(map(str, path)) if path is not None and is_field else top_of(name, schema)


def with_nested_columns(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """Return a batch with the columns of these names, including names that reach into its columns.  O(rows)."""
    columns = []
    for name in (all_names := list(names)):
        path = (name,) if name in batch.schema.names else path_of(name) or (name,)
        columns.append(column_at(batch.column(str(path[0])), path[1:]))
    return pa.RecordBatch.from_arrays(columns, all_names)


def column_of(columns: Mapping[str, pa.Array], name: str, data: bytes) -> pa.Array | None:
    """Return the column of a name among the columns of `nested_schema`, read from `data`: the key, otherwise the path.

    Returns None if a key that is null cannot be distinguished from a missing one.
    """
    path = path_of(name)
    if path is None:
        return columns[name]
    own, nested = columns[name], column_at(columns[str(path[0])], path[1:])
    if nested.null_count == len(nested) or own.null_count == 0:
        return own
    if own.null_count == len(own):
        return None if _has_null(data, name) else nested
    return None if _has_null(data, name) else pc.coalesce(own, nested)


def _has_null(data: bytes, name: str) -> bool:
    """Return whether JSON may have null for a key.  The whole pattern is searched only if parts of it are found."""
    may_occur = name.encode("utf-8", "surrogatepass") in data or (b"\\" in data and b"\\u" in data) or "\\" in name
    return may_occur and b"null" in data and _null_of(name).search(data) is not None


@lru_cache(maxsize=4096)
def _null_of(name: str) -> re.Pattern[bytes]:
    """Return a pattern for JSON that has null for a key."""
    return re.compile(b'"' + b"".join(map(_spellings, name)) + rb'"[ \t\r]*:[ \t\r]*null')


def _spellings(character: str) -> bytes:
    """Return a pattern for the ways in which JSON may write a character."""
    raw = character.encode("utf-8", "surrogatepass")
    code = "".join(f"(?i:\\\\u{unit:04x})" for unit in _units(character)).encode()
    return b"(?:" + re.escape(raw) + b"|" + code + b"|" + rb"\\" + re.escape(raw) + b")"


def _units(character: str) -> list[int]:
    pairs = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(pairs[place : place + 2]) for place in range(0, len(pairs), 2)]
