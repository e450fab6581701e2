"""Sets of patterns over a growing graph for a rival: the files that it reads, and the answers of this engine beside its."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.workloads.generate.pattern_sets import SetPattern
from rpq.workloads.rivals.driver import SlideState, checksums


class PatternSet:
    """Patterns and the edges that are inserted, with numbers for vertices and labels.

    >>> pattern = SetPattern("chain", ("u", "v", "w"), (False, True, False), ((0, "a", 1), (1, "b", 2)), True)
    >>> table = pa.table({"source": ["u", "v"], "label": ["a", "b"], "target": ["v", "w"], "timestamp": [1, 2]})
    >>> known = PatternSet([pattern], table)
    >>> engine = rpq.Engine(rpq.Query(pattern.text, name="chain 0", window=rpq.UnboundedWindow()))
    >>> known.reading(engine.push(table), updates=2).answers
    1
    """

    def __init__(self, drawn: Sequence[SetPattern], table: pa.Table) -> None:
        self._drawn = drawn
        columns = (table[name].cast(pa.string()).to_pylist() for name in ("source", "label", "target"))
        self._edges = list(zip(*columns, strict=True))
        self._vertices: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        for source, label, target in self._edges:
            self._number(label, source, target)
        for one in drawn:
            for source, label, target in one.atoms:
                self._number(label, *(one.vertices[place] for place in (source, target) if one.is_constant[place]))

    def _number(self, label: str, *vertices: str) -> None:
        self._labels.setdefault(label, len(self._labels))
        for vertex in vertices:
            self._vertices.setdefault(vertex, len(self._vertices))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the edges and the patterns; return the two files."""
        edges, patterns = folder / "edges.tsv", folder / "patterns.tsv"
        vertices, labels = self._vertices, self._labels
        with edges.open("w", encoding="ascii") as file:
            for source, label, target in self._edges:
                file.write(f"{vertices[source]}\t{labels[label]}\t{vertices[target]}\n")
        with patterns.open("w", encoding="ascii") as file:
            for one in self._drawn:
                terms, variables = [], 0
                for vertex, is_constant in zip(one.vertices, one.is_constant, strict=True):
                    variables += not is_constant
                    terms.append(vertices[vertex] if is_constant else -variables)
                atoms = (f"{terms[source]},{labels[label]},{terms[target]}" for source, label, target in one.atoms)
                file.write("\t".join(atoms) + "\n")
        return edges, patterns

    def reading(self, changes: rpq.Changes, *, updates: int) -> SlideState:
        """Return the number and the checksum of the solutions of queries named `KIND NUMBER` in the first updates."""
        names = pa.array(self._vertices)
        answers = checksum = 0
        for table in changes.tables():
            variables = sorted(table.column_names[1:-2], key=lambda name: int(name[1:]))
            numbers = [np.array([int(name.rpartition(" ")[2]) for name in table["query"].to_pylist()], np.int64)]
            for name in variables:
                places = pc.index_in(table[name].cast(pa.string()), value_set=names)
                numbers.append(places.to_numpy().astype(np.int64))
            answers += len(table)
            checksum += int(checksums(numbers).sum()) if len(table) else 0
        return SlideState(slide=updates, seconds=0.0, answers=answers, checksum=checksum % 2**64)
