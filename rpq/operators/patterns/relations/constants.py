"""The vertices of the constants of patterns: names that have an id only while the stream has them.

A name gets an id with its first edge and loses it when its last edge has left; then another name may get the id. So all
constants are looked up when names are new: before any of their edges enters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rpq.stream.names.vertices import FixedNames, VertexDictionary, as_vertex

_FIRST = -2
"""The number of the first constant; -1 is no vertex."""


class ConstantChanges(NamedTuple):
    """The changes of constants when ids were given to new names."""

    queries: set[str]
    """The queries with a constant whose vertex has changed."""
    new_names: set[str]
    """The names that have a new vertex, which has no edges yet."""
    vertices: dict[int, int | None]
    """The constants whose vertex has changed, by their numbers; None for constants without a vertex."""


_UNCHANGED = ConstantChanges(set(), set(), {})


class Constants:
    """The names in patterns, and their ids. Each has a number too, below -1, as long as it is watched."""

    def __init__(self) -> None:
        self._users: dict[str, set[str]] = {}  # name to the queries that have it
        self._ids: dict[str, int] = {}  # name to its id, if it has one
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._users_names: FixedNames | None = None  # those of `_users`, in their order; None after these have changed

    def __len__(self) -> int:
        return len(self._users)

    def acquire(self, query: str, names: Iterable[str]) -> None:
        """Watch the names of a query as well."""
        for name in names:
            self._users.setdefault(name, set()).add(query)
            if name not in self._numbers:
                self._users_names = None
                self._numbers[name] = self._free.pop() if self._free else _FIRST - len(self._numbers)

    def release(self, query: str, names: Iterable[str]) -> list[int]:
        """Stop watching names for a query; return the numbers of those that no query watches any more."""
        unwatched = []
        for name in names:
            self._users[name].discard(query)
            if not self._users[name]:
                del self._users[name]
                self._users_names = None
                self._names.pop(self._ids.pop(name, -1), None)
                unwatched.append(self._numbers.pop(name))
        self._free += unwatched
        return unwatched

    def number_of(self, name: str) -> int:
        """Return the number of a name that is watched."""
        return self._numbers[name]

    def id_of(self, name: str) -> int | None:
        """Return the id of a name, or None while no edge has it."""
        return self._ids.get(name)

    def look_up(self, vertices: VertexDictionary, names: Iterable[str]) -> dict[int, int]:
        """Look up the ids of names that are newly watched; return those found, by the names' numbers. O(names)."""
        found = {}
        for name in names:
            if name not in self._ids and (identity := vertices.id_of(as_vertex(name, vertices.kind))) >= 0:
                self._ids[name] = identity
                self._names[identity] = name
                found[self._numbers[name]] = identity
        return found

    def update(self, vertices: VertexDictionary, new_ids: np.ndarray) -> ConstantChanges:
        """Update the ids of constants after new names have got ids `new_ids`. O(the fewer of both)."""
        if not self._users or not len(new_ids):
            return _UNCHANGED
        if len(new_ids) < len(self._users):
            ids = [int(identity) for identity in new_ids]
            names = [str(vertices.name_of(identity)) for identity in ids]
            ids_of_names = {name: identity for name, identity in zip(names, ids, strict=True) if name in self._users}
            former_names = {self._names[identity] for identity in ids if identity in self._names}
        else:
            if self._users_names is None or self._users_names.kind != vertices.kind:
                self._users_names = FixedNames([*self._users], vertices.kind)
            found = dict(zip(self._users, self._users_names.ids(vertices).tolist(), strict=True))
            ids_of_names = {name: identity for name, identity in found.items() if identity >= 0}
            if ids_of_names == self._ids:
                return _UNCHANGED
            former_names = {*self._users}
        old_ids = {name: self._ids.get(name) for name in former_names | {*ids_of_names}}
        for name in old_ids:
            self._names.pop(self._ids.pop(name, -1), None)
        for name, identity in ids_of_names.items():
            self._ids[name] = identity
            self._names[identity] = name
        changed = {name for name, identity in old_ids.items() if self._ids.get(name) != identity}
        queries = {query for name in changed for query in self._users[name]}
        ids_by_number = {self._numbers[name]: self._ids.get(name) for name in changed}
        return ConstantChanges(queries, changed & {*ids_of_names}, ids_by_number)
