"""The memory of a judge of simple paths and the growth of its arrays: the certificates (`certificates.py`), which persist
between tuples, and the scratch memory of a search (`search.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rpq.compiled.growth import request
from rpq.compiled.views import view
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.judging import JudgedIndex
from rpq.operators.paths.simple import certificates as store
from rpq.operators.paths.simple import judge
from rpq.operators.paths.simple.certificates import BLOCKED, GONE, Certificates, new_certificates, rebuilt
from rpq.operators.paths.simple.search import new_scratch

_GROWTH = 3
"""The largest size of certificates after a growth, as a multiple of that before it."""


class KnownPaths:
    """The certificates of an index. After each growth there is room for at least `room` more pairs."""

    def __init__(self, index: JudgedIndex, *, room: int) -> None:
        self._index = index
        self._room = room
        self.certificates = new_certificates(16, 16, 0, 0)
        self._scratch = new_scratch(0, 1)
        self._scratch_view = view(self._scratch)

    @property
    def certificates(self) -> Certificates:
        """The certificates of the pairs in doubt; assigning them replaces all arrays."""
        return self._certificates

    @certificates.setter
    def certificates(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self.view = view(certificates)

    @property
    def fields(self) -> store.CertificateState:
        """The counters and positions named in `certificates.py`."""
        return self._certificates.fields

    @property
    def capacity(self) -> int:
        """The capacity for entries."""
        return len(self._certificates.key)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in (*self._certificates, *self._scratch))

    def make_room(self, vertices: int, edges: int) -> None:
        """Make room for vertex and edge ids up to these numbers."""
        certificates = self._certificates
        if vertices > len(certificates.root_chain) or edges > len(certificates.edge_chain):
            self.certificates = rebuilt(certificates, vertices, edges, self._room)
        if vertices >= len(self._scratch.is_on_path):
            self._scratch = new_scratch(vertices, self._index.index.program.sizes.states)
            self._scratch_view = view(self._scratch)

    def begin(self) -> None:
        """Begin a tuple, a boundary or a load, in which every root may spend its whole budget."""
        self.fields.stamp += 1
        self.fields.next_row = self.fields.rows_end = self.fields.step_of = 0
        self.fields.stage = store.STAGE_ROWS

    def run(self, kernel: Callable[..., int], *arguments: int) -> None:
        """Call a kernel with the index, the certificates, the scratch memory and further arguments until it is done."""
        while (code := int(kernel(self._index.view, self.view, self._scratch_view, *arguments))) != layout.DONE:
            if code == judge.NEED_ROOM:
                old = self._certificates
                room = max(self._room, int((old.key >= 0).sum()) // 2)
                with self._index.guarded_growth():
                    request(_GROWTH * sum(array.nbytes for array in old))
                    self.certificates = rebuilt(old, len(old.root_chain), len(old.edge_chain), room)
            else:
                self._index.provide(code)

    def run_over_entries(self, kernel: Callable[..., int], *arguments: int) -> None:
        """Call a kernel that processes all entries as `run` does, with the current capacity for entries."""
        self.run(lambda *views: kernel(*views[:3], self.capacity, *views[3:]), *arguments)

    def of_roots(self, roots: list[int]) -> np.ndarray:
        """Return which entries belong to some roots, as a boolean array."""
        key = self._certificates.key
        return (key >= 0) & np.isin(key >> 32, roots)

    def forget(self, entries: np.ndarray) -> None:
        """Remove the entries that a boolean array selects."""
        certificates = self._certificates
        certificates.key[entries] = GONE
        certificates.slide[entries] = BLOCKED
        certificates.length[entries] = 0
