"""The names of blank nodes, which belong to one file each and are the same whenever it is read.

`_:b0` of a file with the scope `f1` is `_:f1.b0`. A node without a label is named by its place among those of its file,
`_:f1-17`, because pyoxigraph generates other names for them each time. The number of a generated name is remembered, in
Turtle and TriG for the statement in which the node can be referred to, otherwise to the end of the file. Files that
pyoxigraph wrote have many labels that look like generated ones; a label is recognised by its presence in the file.
"""

from __future__ import annotations

import re
from collections.abc import Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_GENERATED = re.compile("_:[a-f][0-9a-f]{15,31}")  # 128 bits, without zeros in front
_LABEL = re.compile(rb"_:[a-f][0-9a-f]{15,31}(?![0-9A-Za-z_-])")
_LONGEST_LABEL = 2 + 32
_PLACES = (0, 2, 3)  # of subject, object and graph


class BlankNodes:
    """Names the blank nodes of one file, which is read from its beginning to its end.

    With `are_generated`, nodes without a label have names that the parser generated. They are `are_local` if nothing refers
    to them after the next statement whose subject has a name; then `labels` are those in the file that look generated.
    """

    def __init__(self, scope: str, *, are_generated: bool, are_local: bool, labels: Set[str] = frozenset()) -> None:
        self._labels = labels
        self._scope = scope
        self._are_generated = are_generated
        self._local = are_local
        self._numbers: dict[str, int] = {}
        self._count = 0

    def rename(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Return subjects, predicates, objects and graphs with the final names of their blank nodes."""
        blank = {place: pc.starts_with(columns[place], "_:") for place in _PLACES}
        if not any(pc.any(mask).as_py() for mask in blank.values()):
            return columns
        found = list(columns)
        if self._are_generated and any(self._has_generated(columns[place]) for place in _PLACES):
            return self._number_nodes(found)
        for place, mask in blank.items():
            if mask.true_count:
                labels = pc.utf8_slice_codeunits(columns[place], 2)
                found[place] = pc.if_else(mask, self._of_labels(labels), columns[place])
        return found

    def _has_generated(self, texts: pa.Array) -> bool:
        return bool(pc.any(pc.match_substring_regex(texts, f"^{_GENERATED.pattern}$")).as_py())

    def _of_labels(self, labels: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(f"_:{self._scope}", labels, ".")

    def _number_nodes(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Assign numbers to nodes without a label, by statement and then by subject, object, graph."""
        texts = [columns[place].to_pylist() for place in _PLACES]
        last_rows: dict[str, int] = {}
        for row, terms in enumerate(zip(*texts, strict=True)):
            for term in terms:
                if term is not None and self._is_generated(term):
                    if term not in self._numbers:
                        self._count += 1
                        self._numbers[term] = self._count
                    last_rows[term] = row
        for place, column in zip(_PLACES, texts, strict=True):
            columns[place] = pa.array(list(map(self._name, column)), pa.string())
        if self._local:
            self._forget(texts, last_rows)
        return columns

    def _is_generated(self, term: str) -> bool:
        return term.startswith("_:") and _GENERATED.fullmatch(term) is not None and term not in self._labels

    def _name(self, term: str | None) -> str | None:
        if term is None or not term.startswith("_:"):
            return term
        number = self._numbers.get(term)
        return f"_:{self._scope}.{term[2:]}" if number is None else f"_:{self._scope}-{number}"

    def _forget(self, texts: list[list[str]], last_rows: dict[str, int]) -> None:
        """Forget nodes that were last seen before the last statement whose subject has a name."""
        named = np.array([term not in self._numbers for term in texts[0]])
        if not named.any():
            return
        last = int(np.flatnonzero(named)[-1])
        graph = texts[2][-1]
        kept = {term for term, row in last_rows.items() if row >= last} | ({graph} if graph in self._numbers else set())
        self._numbers = {term: number for term, number in self._numbers.items() if term in kept}


class LabelCollector:
    """Collects the labels in a file that look like generated ones, from its bytes in order."""

    def __init__(self) -> None:
        self.labels: set[str] = set()
        self._end = b""

    def look_at(self, data: bytes) -> None:
        """Look at the next bytes of the file."""
        data = self._end + data
        if b"_:" in data:
            self.labels.update(label.decode() for label in _LABEL.findall(data))
        self._end = data[-_LONGEST_LABEL:]
